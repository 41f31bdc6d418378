-- SPDX-License-Identifier: GPL-2.0-or-later
-- Keep @people people with an index of their addresses, which are texts out of order; change and delete some, and read
-- from @count places of the index on:
-- sqlite3 -cmd ".parameter set @people 200000" -cmd ".parameter set @count 50000" :memory: ".read sqlite-mail.sql"
CREATE TABLE person (id INTEGER PRIMARY KEY, mail TEXT, note TEXT);
CREATE UNIQUE INDEX by_mail ON person (mail);

-- A multiplication modulo a prime permutes the numbers, so that each address is inserted anywhere in the index.
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < @people)
INSERT INTO person
SELECT n, printf('%08x.%d@example.org', n * 1103515245 % 2147483647, n), printf('%0*d', n % 80 + 1, n) FROM numbers;

UPDATE person SET mail = printf('%08x.%d@example.com', id * 69621 % 2147483647, id) WHERE id % 5 = 1;
DELETE FROM person WHERE id % 7 = 2;

WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < @count)
SELECT printf('checksum %016x', sum((n & 15) * (
	SELECT coalesce(sum(id + length(note)), 0)
	FROM (
		SELECT id, note FROM person
		WHERE mail >= printf('%08x', n * 16807 % 2147483647) ORDER BY mail LIMIT 4
	)
)))
FROM numbers;
