-- SPDX-License-Identifier: GPL-2.0-or-later
-- Read @meters meters each day for @days days, and ask with window functions what each of them used, against its week
-- before, and which used most in a month:
-- sqlite3 -cmd ".parameter set @meters 1000" -cmd ".parameter set @days 100" :memory: ".read sqlite-meters.sql"
CREATE TABLE reading (meter TEXT, day INTEGER, value INTEGER, PRIMARY KEY (meter, day)) WITHOUT ROWID;

-- All meters of a day, then the next day: each row goes to another place of the table. Some readings are missing.
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < @meters * @days)
INSERT INTO reading
SELECT printf('%08x-%d', (n % @meters + 1) * 1103515245 % 2147483647, n % @meters), n / @meters,
	n / @meters * 500 + (n + 1) * 48271 % 2147483647 % 500
FROM numbers
WHERE (n + 1) * 69621 % 2147483647 % 20 <> 0;

CREATE TABLE used (meter TEXT, day INTEGER, amount INTEGER, week INTEGER);
INSERT INTO used
SELECT meter, day, amount, sum(amount) OVER (PARTITION BY meter ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW)
FROM (SELECT meter, day, value - lag(value, 1, 0) OVER (PARTITION BY meter ORDER BY day) AS amount FROM reading);

CREATE TABLE result (value INTEGER);
INSERT INTO result SELECT sum((day % 31 + 1) * week) FROM used;
INSERT INTO result SELECT count(*) FROM used WHERE amount * 7 > week * 2;
INSERT INTO result
SELECT sum(place * (amount + length(meter))) FROM (
	SELECT meter, sum(amount) AS amount, row_number() OVER (PARTITION BY day / 30 ORDER BY sum(amount) DESC, meter) AS place
	FROM used GROUP BY day / 30, meter
) WHERE place <= 10;
SELECT printf('checksum %016x', sum(value)) FROM result;
