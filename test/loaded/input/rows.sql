-- A deterministic sqlite3 script in memory: a table, indices, joins, text, deletes.
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, weight INTEGER, body BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
  INSERT INTO item SELECT i, 'name' || (i * 7919 % 40000), i * 31 % 1000, zeroblob(i % 300) FROM n;
CREATE INDEX by_name ON item(name);
CREATE INDEX by_weight ON item(weight, id);
SELECT count(*), sum(weight), sum(length(body)) FROM item;
SELECT weight, count(*), group_concat(id) FROM item GROUP BY weight ORDER BY count(*) DESC, weight LIMIT 5;
DELETE FROM item WHERE id % 3 = 0;
SELECT count(*), sum(a.weight * b.weight) FROM item a JOIN item b ON a.name = 'name' || b.id;
UPDATE item SET name = name || hex(weight) WHERE weight > 500;
SELECT sum(length(name)), max(name) FROM item;
VACUUM;
SELECT count(*) FROM item;
