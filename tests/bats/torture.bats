#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long
# Is a program that is copied again and again as it would be if nobody were there?

load common

setup() {
	TORTURE=${BUILD}/tests/torture
	need_built tests/torture/copy libexec/tlbcost-injector
	export TORTURE_COPIES=${TORTURE_COPIES-40}
	# These programs spin until they have been copied often enough; at a lower priority than other
	# tests they would spin ten times as long.
	renice -n 0 -p $$ >/dev/null 2>&1 || :
	# Programs below it are this test's own.
	OWN=${BATS_TEST_TMPDIR}/own
	mkdir "${OWN}"
}

# A program of the set, in a folder of this test: a process that is left over is known by it.
program() { # <name>
	cp "${TORTURE}/$1" "${OWN}/"
	PROGRAM=${OWN}/$1
}

# Processes that are left of this test, copies among them.
left_over() {
	local exe
	for exe in /proc/[0-9]*/exe; do
		[[ $(readlink "${exe}" 2>/dev/null) != "${OWN}/"* ]] || printf '%s\n' "${exe}"
	done
}

none_left_over() {
	[[ -z $(left_over) ]]
}

# Run a program with as many copies of its threads as are asked for: its output and exit code.
copied() { # <option of copy>... -- <command>...
	TORTURE_UNTIL=${BATS_TEST_TMPDIR}/until timeout -k 5 90 "${TORTURE}/copy" --until "${BATS_TEST_TMPDIR}/until" \
		--statistics "${BATS_TEST_TMPDIR}/statistics" --copies "${TORTURE_COPIES}" "$@"
}

statistic() { # <name>
	awk -F '\t' -v name="$1" '$1 == name { print $2 }' "${BATS_TEST_TMPDIR}/statistics"
}

# The same output and exit code with copies as without, and none left over.
undisturbed() { # <option of copy>... -- <command>...
	local options=() expected code=0 got=0
	while [[ $1 != -- ]]; do
		options+=("$1")
		shift
	done
	shift
	rm -f "${BATS_TEST_TMPDIR}/until"
	TORTURE_SECONDS=0.1 timeout -k 5 60 "$@" >"${BATS_TEST_TMPDIR}/expected" 2>&1 || code=$?
	copied "${options[@]}" -- "$@" >"${BATS_TEST_TMPDIR}/got" 2>&1 || got=$?
	cat "${BATS_TEST_TMPDIR}/statistics"
	diff -u "${BATS_TEST_TMPDIR}/expected" "${BATS_TEST_TMPDIR}/got"
	((code == got)) || { printf 'exit code %d, without copies %d\n' "${got}" "${code}" && return 1; }
	expected=$(statistic injected)
	((expected == TORTURE_COPIES)) || { printf 'only %d copies\n' "${expected}" && return 1; }
	wait_until none_left_over
}

# A program of another kind, in the folder of this test.
installed() { # <name>
	need_program "$1"
	PROGRAM=$(type -P "$1")
}

# Each row: a program of the set, how it is copied, its argument, and what must have happened.
@test "programs that notice what others do to them" {
	local name options argument statistics each
	while IFS='|' read -r name options argument statistics; do
		program "${name// /}"
		printf '%s%s\n' "${name}" "${argument}"
		# shellcheck disable=SC2086  # words, or none
		undisturbed ${options} -- "${PROGRAM}" ${argument} </dev/null
		for each in ${statistics}; do
			(($(statistic "${each}") > 0))
		done
	done <<-'END'
		timeouts    |                            |            | restarted rewound
		wakes       | --tree                     |            |
		signals     |                            |            |
		children    | --tree                     |            |
		children    |                            | subreaper  |
		children    | --foreign --tree           |            |
		locks       |                            |            | rseq_aborted
		descriptors | --hold-ms 1000 --alive 16  |            |
		memory      | --tree                     |            |
		memory      |                            | alone      | missing
		execs       |                            |            |
		threads     |                            |            |
		threads     | --foreign                  | gone       |
		exceptions  |                            |            |
		debugs      | --tree                     | undumpable | traced
	END
}

@test "a program that is stopped and continues" {
	program threads
	TORTURE_UNTIL=${BATS_TEST_TMPDIR}/until timeout -k 5 60 "${TORTURE}/copy" --until "${BATS_TEST_TMPDIR}/until" \
		--statistics "${BATS_TEST_TMPDIR}/statistics" -- "${PROGRAM}" >"${BATS_TEST_TMPDIR}/got" 3>&- &
	local tool=$! pid
	wait_until pgrep -f "^${PROGRAM}"
	pid=$(pgrep -o -f "^${PROGRAM}")
	kill -STOP "${pid}"
	wait_until grep -q '^State:.T' "/proc/${pid}/status"
	sleep 0.2
	kill -CONT "${pid}"
	ended_with 17 "${tool}"
	[[ $(statistic stopped) -gt 0 && $(statistic injected) -eq 100 ]]
	grep -q '^threads: ok' "${BATS_TEST_TMPDIR}/got"
}

@test "a program that is killed leaves nothing" {
	program threads
	TORTURE_SECONDS=60 "${TORTURE}/copy" --copies 100000 -- "${PROGRAM}" 3>&- &
	local tool=$!
	wait_until pgrep -P "${tool}" -x threads
	sleep 0.3
	# The oldest: copies of it may have lower numbers.
	kill -KILL "$(pgrep -o -P "${tool}" -x threads)"
	ended_with 137 "${tool}"
	wait_until none_left_over
}

@test "a tool that is killed leaves the program alone, and no copy" {
	program threads
	TORTURE_SECONDS=3 "${TORTURE}/copy" --foreign --copies 100000 -- "${PROGRAM}" >"${BATS_TEST_TMPDIR}/got" 3>&- &
	local tool=$!
	wait_until pgrep -P "${tool}" -x threads
	sleep 0.5
	kill -KILL "${tool}"
	wait_until grep -q 'under a lock: ok' "${BATS_TEST_TMPDIR}/got"
	# A copy that nobody had taken yet ends by an alarm, a minute later.
	wait_until none_left_over || wait_until none_left_over
}

@test "a pipeline ends when its program does" {
	local lines
	lines=$(seq 1 200000 | timeout -k 5 60 "${TORTURE}/copy" --hold-ms 3000 --alive 16 -- sed 's/1/one/' | wc -l)
	((lines == 200000))
}

@test "python: threads, commands, pools and signals" {
	installed python3
	undisturbed --tree -- "${PROGRAM}" "${TREE}/tests/torture/processes.py"
}

@test "go: goroutines, timers and commands" {
	need_program go
	(cd "${OWN}" && GOCACHE=${BUILD}/go-cache GOFLAGS=-mod=mod go build -o routines \
		"${TREE}/tests/torture/routines.go") || skip "go cannot build without a network"
	undisturbed --tree -- "${OWN}/routines"
}

@test "java: threads, faults and commands" {
	need_program javac
	installed java
	javac -d "${OWN}" "${TREE}/tests/torture/Threads.java"
	undisturbed --tree -- "${PROGRAM}" -cp "${OWN}" Threads
}

@test "node: timers, workers, servers and commands" {
	installed node
	undisturbed --tree -- "${PROGRAM}" "${TREE}/tests/torture/events.js"
}

@test "redis under load, with a snapshot" {
	need_redis
	local tool socket=${BATS_TEST_TMPDIR}/redis
	"${TORTURE}/copy" --tree --copies 100000 --statistics "${BATS_TEST_TMPDIR}/statistics" -- redis-server --port 0 \
		--unixsocket "${socket}" --save '' --dir "${OWN}" --logfile "${OWN}/log" 3>&- &
	tool=$!
	wait_until redis-cli -s "${socket}" ping
	redis-benchmark -s "${socket}" -q -n 40000 -c 20 -t set,get,incr,lpush,hset >/dev/null
	redis-cli -s "${socket}" bgsave
	redis-benchmark -s "${socket}" -q -n 20000 -c 20 -P 8 -t incr >/dev/null
	[[ $(redis-cli -s "${socket}" get counter:__rand_int__) == 60000 ]]
	[[ $(redis-cli -s "${socket}" llen mylist) == 40000 ]]
	wait_until eval "redis-cli -s '${socket}' info persistence | grep -q rdb_last_bgsave_status:ok"
	redis-cli -s "${socket}" shutdown nosave || true
	ended_with 0 "${tool}"
	[[ $(statistic injected) -ge 50 ]]
	run ! grep -q -i -E 'crash|assert|bug report' "${OWN}/log"
}

@test "postgres under pgbench" {
	need_program postgres initdb pgbench psql setpriv
	getent passwd postgres >/dev/null || skip "needs a user postgres"
	need_root
	local code=0 tool pid sums home=/tmp/torture-postgres-$$
	local as=(setpriv --reuid=postgres --regid=postgres --init-groups)
	install -d -o postgres -m 700 "${home}"
	"${as[@]}" initdb -D "${home}/data" -A trust --no-sync >/dev/null
	"${TORTURE}/copy" --tree --copies 100000 --statistics "${BATS_TEST_TMPDIR}/statistics" -- "${as[@]}" \
		postgres -D "${home}/data" -k "${home}" -c listen_addresses= -c fsync=off 2>"${home}/log" 3>&- &
	tool=$!
	wait_until "${as[@]}" psql -q -h "${home}" -c 'select 1' postgres
	"${as[@]}" pgbench -q -h "${home}" -i -s 1 postgres
	"${as[@]}" pgbench -h "${home}" -c 4 -t 300 postgres
	sums=$("${as[@]}" psql -h "${home}" -A -t -F ' ' -c 'select (select sum(abalance) from pgbench_accounts) =
		(select sum(delta) from pgbench_history), (select count(*) from pgbench_history)' postgres)
	pid=$(head -n 1 "${home}/data/postmaster.pid")
	kill -INT "${pid}"
	wait "${tool}" || code=$?
	cat "${home}/log"
	run ! grep -q -E 'PANIC|was terminated|crash' "${home}/log"
	rm -rf "${home}"
	[[ ${sums} == 't 1200' ]]
	((code == 0))
	[[ $(statistic injected) -ge 50 ]]
}

# Short windows, so that there are many of them.
profiled() { # <command>...
	rm -rf "${BATS_TEST_TMPDIR}/tables"
	mkdir "${BATS_TEST_TMPDIR}/tables"
	TORTURE_SECONDS=2 timeout -k 5 60 "${BUILD}/libexec/tlbcost-copies" --out "${BATS_TEST_TMPDIR}/tables" --copies 100 \
		--expected-cpu-ns 2000000000 --warm 20000 --most-warm 40000 --measure 20000 --window-seconds 1 -- "$@"
}

@test "programs that are profiled, whose copies run" {
	need_built libexec/tlbcost-copies
	local name expected code got followed=0
	for name in timeouts wakes signals children locks descriptors memory exceptions debugs execs; do
		program "${name}"
		code=0 got=0
		expected=$(TORTURE_SECONDS=0.1 "${PROGRAM}") || code=$?
		profiled "${PROGRAM}" >"${BATS_TEST_TMPDIR}/got" || got=$?
		diff -u <(printf '%s\n' "${expected}") "${BATS_TEST_TMPDIR}/got"
		((code == got)) || { printf '%s: exit code %d instead of %d\n' "${name}" "${got}" "${code}" && return 1; }
		followed=$((followed + $(grep -c -w followed "${BATS_TEST_TMPDIR}/tables/copies.tsv" || true)))
	done
	printf '%d copies were followed\n' "${followed}"
	((followed >= 10))
	wait_until none_left_over
}

# Arms of copies run natively, for seconds.
with_arms() { # [--record <calls>] <command>...
	local expected code=0 got=0 record=(--record 0)
	[[ $1 != --record ]] || { record=("$1" "$2") && shift 2; }
	mkdir -p "${BATS_TEST_TMPDIR}/tables"
	expected=$(TORTURE_SECONDS=0.1 timeout -k 5 60 "$@" 2>&1) || code=$?
	TORTURE_SECONDS=2 timeout -k 5 100 "${BUILD}/libexec/tlbcost-copies" --out "${BATS_TEST_TMPDIR}/tables" --arms 2 \
		"${record[@]}" --copies 5 --expected-cpu-ns 500000000 --children -- "$@" >"${BATS_TEST_TMPDIR}/got" 2>&1 || got=$?
	diff -u - "${BATS_TEST_TMPDIR}/got" <<<"${expected}"
	((code == got)) || { printf 'exit code %d, without arms %d\n' "${got}" "${code}" && return 1; }
	wait_until none_left_over
	cut -f 8 "${BATS_TEST_TMPDIR}/tables/copies.tsv" | sort | uniq -c
}

@test "arms: programs of the set are as they would be without" {
	need_built libexec/tlbcost-copies
	local name
	for name in timeouts signals children locks memory; do
		program "${name}"
		with_arms "${PROGRAM}"
	done
}

@test "arms that answer their calls: the other programs of the set, too" {
	need_built libexec/tlbcost-copies
	local name
	for name in wakes signals descriptors threads; do
		program "${name}"
		with_arms --record 2000 "${PROGRAM}"
	done
}

@test "arms that answer their calls: redis under load loses no request" {
	need_built libexec/tlbcost-copies
	need_redis
	local socket=${BATS_TEST_TMPDIR}/redis tables=${BATS_TEST_TMPDIR}/tables load server
	mkdir "${tables}"
	redis-server --port 0 --unixsocket "${socket}" --save "" >/dev/null 3>&- &
	server=$!
	wait_until redis-cli -s "${socket}" ping
	redis-benchmark -s "${socket}" -q -n 600000 -c 20 -t incr >/dev/null 3>&- &
	load=$!
	timeout -k 5 100 "${BUILD}/libexec/tlbcost-copies" --out "${tables}" --arms 1 --record 2000 --copies 20 \
		--expected-cpu-ns 2000000000 --seconds 5 --pid "${server}"
	wait "${load}"
	[[ $(redis-cli -s "${socket}" get counter:__rand_int__) == 600000 ]]
	redis-cli -s "${socket}" shutdown nosave
	wait "${server}"
	cat "${tables}"/slices.*.tsv
	# All of an arm's calls were answered: thousands in one slice.
	[[ $(awk -F '\t' '$5 == "good" && $10 > 500' "${tables}"/slices.*.tsv | wc -l) -ge 3 ]]
}
