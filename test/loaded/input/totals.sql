-- What pgbench's transactions add up to, and that the tables agree with each other.
SELECT count(*), sum(delta) FROM pgbench_history;
SELECT sum(abalance), md5(string_agg(aid || ':' || abalance, ',' ORDER BY aid)) FROM pgbench_accounts;
SELECT sum(tbalance), md5(string_agg(tid || ':' || tbalance, ',' ORDER BY tid)) FROM pgbench_tellers;
SELECT sum(bbalance) FROM pgbench_branches;
