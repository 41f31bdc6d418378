#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long
# Do the programs of doc/examples run, and end with 0, with little to do?

load common

setup() {
	EXAMPLES=${TREE}/doc/examples
	cd "${BATS_TEST_TMPDIR}" || return
}

teardown() {
	[[ -z ${CLUSTER-} ]] || rm -rf -- "${CLUSTER}"
}

@test "examples: redis" {
	need_redis
	answers 0 "requests per second" -- "${EXAMPLES}/redis.sh" 1000 1000
}

@test "examples: postgres" {
	need_root
	need_program pg_config setpriv
	local postgres
	postgres=$(pg_config --bindir)/postgres
	[[ -x ${postgres} ]] || skip "needs ${postgres}"
	id postgres >/dev/null 2>&1 || skip "needs the user postgres"
	# The tests' own folders are root's alone.
	CLUSTER=$(mktemp -d)
	chown postgres "${CLUSTER}"
	local as=(setpriv --reuid=postgres --clear-groups)
	"${as[@]}" test -r "${EXAMPLES}/postgres.sql" -a -w "${CLUSTER}" || skip "postgres may not look into the tree"
	run -0 "${as[@]}" "${EXAMPLES}/postgres.sh" "${CLUSTER}/data" 1000
	run -0 "${as[@]}" "${postgres}" --single -D "${CLUSTER}/data" postgres <"${EXAMPLES}/postgres.sql"
	[[ ${output} == *'region = "2"'* ]]
}

@test "examples: Java" {
	need_program java javac
	javac -d . "${EXAMPLES}/Lookup.java"
	run -0 java -cp . Lookup 1000
	[[ ${output} =~ ^[0-9]+$ ]]
}

@test "examples: numpy" {
	need_built venv/bin/python
	run -0 "${BUILD}/venv/bin/python" "${EXAMPLES}/shared.py" "${PWD}/array" 1000
	[[ ${output} == 40000000 ]]
}

@test "examples: Go" {
	local go
	go=$(type -P go || echo /usr/local/go/bin/go)
	[[ -x ${go} ]] || skip "needs go"
	HOME=${PWD} GOCACHE=${BUILD}/go-cache GOFLAGS=-buildvcs=false "${go}" build -o service "${EXAMPLES}/service.go"
	run -0 ./service -keys 1000 -requests 2
}
