-- A database file: write-ahead log, full text, JSON, triggers, savepoints. No random numbers, no dates.
PRAGMA journal_mode = WAL;
PRAGMA cache_size = 300;
CREATE TABLE note(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT, props TEXT);
CREATE TABLE log(note INTEGER REFERENCES note(id), what TEXT);
CREATE VIRTUAL TABLE words USING fts5(body, content='note', content_rowid='id');
CREATE TRIGGER written AFTER INSERT ON note BEGIN
  INSERT INTO words(rowid, body) VALUES (new.id, new.body);
  INSERT INTO log SELECT new.id, 'new' WHERE new.id % 10 = 0;
END;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :rows)
  INSERT INTO note SELECT i, 'kind' || i % 17, printf('word%d of %d and%d %.*c', i * 7919 % 997, i, i % 89, i % 120, 'z'),
    json_object('id', i, 'tags', json_array(i % 3, 'tag' || i % 7)) FROM n;
SELECT count(*), sum(rowid) FROM words WHERE words MATCH 'word17 OR and5* NOT word900';
SELECT kind, count(*), sum(json_extract(props, '$.tags[0]')), max(length(body)) FROM note GROUP BY kind ORDER BY kind;
SELECT count(*), group_concat(value, '') FROM (SELECT DISTINCT value FROM note, json_each(note.props, '$.tags') ORDER BY value);
SAVEPOINT half;
UPDATE note SET body = body || body WHERE id % 4 = 1;
DELETE FROM log;
ROLLBACK TO half;
RELEASE half;
CREATE INDEX by_tag ON note(json_extract(props, '$.tags[1]'), kind);
SELECT count(*), sum(a.id) FROM note a JOIN note b ON json_extract(a.props, '$.tags[1]') = json_extract(b.props, '$.tags[1]') AND b.id < 60;
SELECT id, sum(length(body)) OVER (ORDER BY id ROWS BETWEEN 50 PRECEDING AND CURRENT ROW) FROM note WHERE id % 997 = 0;
INSERT INTO words(words) VALUES ('optimize');
SELECT count(*) FROM log;
