-- SPDX-License-Identifier: GPL-2.0-or-later
-- Fill a table of @rows rows, index it, and look up @count of its keys out of order:
-- sqlite3 -cmd ".parameter set @rows 400000" -cmd ".parameter set @count 200000" :memory: ".read sqlite.sql"
CREATE TABLE data (id INTEGER PRIMARY KEY, key INTEGER, text TEXT);

-- A multiplication modulo a prime permutes the numbers, so that keys are distinct and out of order.
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < @rows)
INSERT INTO data SELECT n, n * 1103515245 % 2147483647, printf('%0100d', n) FROM numbers;

CREATE INDEX by_key ON data (key);

WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < @count)
SELECT printf('checksum %016x', sum(data.id * (numbers.n & 15) + length(data.text)))
FROM numbers JOIN data ON data.key = (numbers.n * 7919 % @rows + 1) * 1103515245 % 2147483647;
