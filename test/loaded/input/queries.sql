-- Queries that allocate: sorts, hashes, aggregates, JSON, arrays, regular expressions, plpgsql, parallel plans.
CREATE TABLE item AS SELECT i AS id, md5(i::text) AS name, i * 7919 % 1009 AS kind, repeat('x', i % 200) AS body FROM generate_series(1, 60000) i;
CREATE INDEX item_name ON item(name);
CREATE INDEX item_kind ON item USING hash(kind);
ANALYZE item;
SELECT kind, count(*), sum(length(body)), min(name) FROM item GROUP BY kind ORDER BY 2 DESC, 1 LIMIT 40;
SELECT count(*), sum(a.id * b.kind) FROM item a JOIN item b ON a.kind = b.kind AND a.id < b.id AND b.id < 20000;
SELECT md5(string_agg(name, '' ORDER BY body, name)) FROM item;
SELECT md5(json_agg(json_build_object('id', id, 'name', name, 'tags', ARRAY[kind, id % 7]) ORDER BY id)::text) FROM item WHERE id % 5 = 0;
SELECT count(*), md5(string_agg(key || value, '' ORDER BY key, value)) FROM item, jsonb_each_text(jsonb_build_object(name, kind, body, id)) WHERE id < 9000;
SELECT count(*) FROM item WHERE name ~ '^[0-9]+[a-f]{2,4}.*(dead|beef|cafe)' OR regexp_replace(name, '([a-f])([0-9])', '\2\1', 'g') LIKE '00%';
WITH RECURSIVE walk(n, path) AS (SELECT 1, ARRAY[1] UNION ALL SELECT n + 1, path || n FROM walk WHERE n < 900) SELECT max(cardinality(path)), sum(n) FROM walk;
CREATE FUNCTION churn(rounds int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE words text[] := '{}'; r record; t text := '';
BEGIN
  FOR i IN 1..rounds LOOP
    words := words || md5(i::text);
    IF i % 50 = 0 THEN words := words[20:]; t := md5(t || array_to_string(words, ',')); END IF;
    BEGIN
      IF i % 97 = 0 THEN RAISE EXCEPTION 'round %', i; END IF;
    EXCEPTION WHEN raise_exception THEN t := md5(t || SQLERRM);
    END;
  END LOOP;
  FOR r IN SELECT name, kind FROM item WHERE kind < 40 ORDER BY name LOOP t := md5(t || r.name || r.kind); END LOOP;
  RETURN t;
END $$;
SELECT churn(4000), churn(777);
SELECT id, rank() OVER (PARTITION BY kind % 9 ORDER BY name), lag(name) OVER (ORDER BY id) FROM item WHERE id % 400 = 0 ORDER BY id;
UPDATE item SET body = body || name WHERE id % 3 = 0;
DELETE FROM item WHERE id % 4 = 0;
VACUUM (FULL, ANALYZE) item;
REINDEX TABLE item;
SELECT count(*), sum(length(body)), md5(string_agg(id::text, ',' ORDER BY name)) FROM item;
SELECT xmlelement(name row, xmlagg(xmlelement(name cell, name))) IS NOT NULL, count(*) FROM item WHERE id < 5000;
