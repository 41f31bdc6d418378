-- SPDX-License-Identifier: GPL-2.0-or-later
-- Add up @sales sales of @shops shops, with all rows read in order and groups by texts, which no index knows:
-- sqlite3 -cmd ".parameter set @sales 100000" -cmd ".parameter set @shops 1000" :memory: ".read sqlite-groups.sql"
CREATE TABLE sale (id INTEGER PRIMARY KEY, shop TEXT, day INTEGER, price INTEGER, note TEXT);

-- Multiplications modulo primes, so that neither shops nor days come in order.
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < @sales)
INSERT INTO sale
SELECT n, printf('shop %08x', n * 48271 % 2147483647 % @shops * 1103515245 % 2147483647), n * 69621 % 2147483647 % 365,
	n * 16807 % 2147483647 % 1000, printf('sale number %d', n)
FROM numbers;

-- The shops that sold most; how many shops sold each day, and for how much; the notes that have a text.
CREATE TABLE result (value INTEGER);
INSERT INTO result
SELECT sum(money * place) FROM (
	SELECT sum(price) AS money, row_number() OVER (ORDER BY sum(price) DESC, shop) AS place
	FROM sale GROUP BY shop
) WHERE place <= 100;
INSERT INTO result
SELECT sum((day + 1) * (shops + money))
FROM (SELECT day, count(DISTINCT shop) AS shops, sum(price) AS money FROM sale GROUP BY day);
INSERT INTO result SELECT count(*) FROM sale WHERE note LIKE '%77%';
SELECT printf('checksum %016x', sum(value)) FROM result;
