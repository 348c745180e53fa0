create table item(id integer primary key, name text, amount real, note blob);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 150000)
insert into item select i, 'name-' || (i * 7919 % 10007), i * 0.25, zeroblob(i % 200) from n;
create index by_name on item(name);
select case when count(*) = 150000 then 'ok' else 'wrong' end from item;
select count(*), sum(total) from (select name, sum(amount) as total from item group by name order by total desc);
update item set name = name || '-x' where id % 3 = 0;
delete from item where id % 5 = 0;
select length(group_concat(name)) from (select name from item order by name limit 20000);
select count(*) from item a join item b on a.name = b.name where a.id < 20000;
