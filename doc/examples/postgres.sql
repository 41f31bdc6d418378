SELECT region, sum(amount) FROM orders JOIN customers ON customer = id GROUP BY region ORDER BY region LIMIT 3
