-- Rows, indexes, sorting and grouping in memory. A failed check ends the shell with an error (-bail).
PRAGMA journal_mode = OFF;
CREATE TABLE checks(name TEXT, ok INTEGER CHECK (ok = 1));
CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT NOT NULL, city INTEGER NOT NULL, note TEXT);
CREATE TABLE visit(person INTEGER NOT NULL, page TEXT NOT NULL, spent INTEGER NOT NULL);

BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
INSERT INTO person SELECT i, 'name-' || (i * 7919 % 50021), i * 31 % 97, substr(hex(i * 2654435761), 1, 4 + i % 9) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 160000)
INSERT INTO visit SELECT 1 + i * 7919 % 50000, '/page/' || (i % 613) || '/' || hex(i), i * 37 % 1000 FROM n;
COMMIT;

CREATE INDEX person_name ON person(name);
CREATE INDEX visit_person ON visit(person, spent);
INSERT INTO checks SELECT 'persons', count(*) = 50000 AND count(DISTINCT name) = 50000 FROM person;
INSERT INTO checks SELECT 'visits', count(*) = 160000 FROM visit;

-- Joins, groups and a sort that needs memory for every row.
CREATE TABLE busy AS
  SELECT city, count(*) AS visits, sum(spent) AS spent, group_concat(substr(page, 1, 12)) AS pages
  FROM visit JOIN person ON person.id = visit.person GROUP BY city;
INSERT INTO checks SELECT 'groups', count(*) = 97 AND sum(visits) = 160000 FROM busy;
INSERT INTO checks SELECT 'sums', (SELECT sum(spent) FROM busy) = (SELECT sum(spent) FROM visit);
CREATE TABLE sorted AS SELECT page || '-' || spent AS label FROM visit ORDER BY label DESC;
INSERT INTO checks SELECT 'sorted', count(*) = 160000 AND min(length(label)) > 8 FROM sorted;

-- Text that is rebuilt again and again, and rows that come and go.
UPDATE person SET note = upper(note) || ' of ' || name || ' in city ' || city;
DELETE FROM visit WHERE spent % 3 = 0;
INSERT INTO checks SELECT 'deleted', count(*) = 0 FROM visit WHERE spent % 3 = 0;
INSERT INTO checks SELECT 'notes', count(*) = 50000 FROM person WHERE note LIKE '% in city %';
INSERT INTO checks
  SELECT 'json', sum(length(json_object('id', id, 'name', name, 'note', note))) > 50000 * 30 FROM person;
INSERT INTO checks SELECT 'windows', max(place) = 50000
  FROM (SELECT row_number() OVER (ORDER BY name, note) AS place FROM person);
SELECT 'sqlite ok: ' || sum(ok) || ' checks' FROM checks;
