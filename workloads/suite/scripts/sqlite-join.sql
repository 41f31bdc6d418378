-- SPDX-License-Identifier: GPL-2.0-or-later
-- Join @items items of orders with @customers customers over two indices, and add up what each town has paid:
-- sqlite3 -cmd ".parameter set @customers 20000" -cmd ".parameter set @items 400000" :memory: ".read sqlite-join.sql"
CREATE TABLE customer (id INTEGER PRIMARY KEY, town INTEGER, name TEXT);
CREATE TABLE item (id INTEGER PRIMARY KEY, customer INTEGER, price INTEGER, thing TEXT);

WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < @customers)
INSERT INTO customer SELECT n, n * 48271 % 997, printf('customer-%010d', n) FROM numbers;

-- A multiplication modulo a prime permutes the numbers, so that the customers come out of order.
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < @items)
INSERT INTO item
SELECT n, n * 1103515245 % 2147483647 % @customers + 1, n * 16807 % 2147483647 % 1000, printf('thing-%020d', n % 5000)
FROM numbers;

CREATE INDEX by_customer ON item (customer);
CREATE INDEX by_town ON customer (town);

SELECT printf('checksum %016x', sum(paid * (town + 1) + items + things))
FROM (
	SELECT town, sum(price) AS paid, count(*) AS items, sum(length(thing) + length(name)) AS things
	FROM customer JOIN item ON item.customer = customer.id
	GROUP BY town
);
