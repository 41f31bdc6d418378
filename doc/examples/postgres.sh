#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Makes a PostgreSQL cluster in a folder for postgres.sql.  Not as root: PostgreSQL refuses that.
set -Eeuo pipefail

main() {
	local folder=${1:?usage: postgres.sh FOLDER [ROWS]} rows=${2:-2000000} bin
	bin=$(pg_config --bindir)
	"${bin}/initdb" --pgdata "${folder}" --no-sync >/dev/null
	"${bin}/postgres" --single -D "${folder}" -c fsync=off postgres >/dev/null <<-SQL
		CREATE TABLE customers AS SELECT (i * 7919::bigint) % ${rows} AS id, i % 50 AS region FROM generate_series(1, ${rows}) i
		CREATE TABLE orders AS SELECT (i * 104729::bigint) % ${rows} AS customer, i AS amount FROM generate_series(1, ${rows}) i
	SQL
}

main "$@"
