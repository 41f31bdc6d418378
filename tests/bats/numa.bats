#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does `tlbcost numa` leave the program as it was, refuse what it cannot do, and do the simulator's
# tables of placement hold what is known beforehand?

load common

setup() {
	need_built tlbcost libexec/tlbcost-run libexec/valgrind workloads/numa-local
	need_program valgrind
	in_own_folder
	export XDG_CACHE_HOME=${BATS_TEST_TMPDIR}/cache
	NUMA=("${BUILD}/tlbcost" numa --cache 64K)
	# shellcheck disable=SC2034,SC2054  # for simulate
	COUNTS=${BATS_TEST_TMPDIR}/counts TOOL=(--log-file=/dev/null)
}

teardown() {
	[[ ! -d ${TMPDIR} || $(ls -A "${TMPDIR}") == "" ]]
}

ALL=(--placement=1:0:1 "--placement-caches=65536:16,0:0")

# DRAM accesses of all rows.
accesses() {
	awk -F '\t' '/^#/ || /^page/ { next } { for (i = 4; i <= NF; i++) n += $i } END { print n + 0 }' \
		"${COUNTS}"/placement.*.tsv
}

touches() { # <kind>
	grep -c -P "\t$1\$" "${COUNTS}"/touches.*.tsv || true
}

@test "nodes and caches that are none are refused" {
	answers --apart 2 "not a number of nodes from 2 to 64: 1" -- "${NUMA[@]}" --nodes 1 -- true
	answers --apart 2 "not sizes of caches" -- "${BUILD}/tlbcost" numa --cache 1,2,3 -- true
	run -2 --separate-stderr "${NUMA[@]}" --spread sideways -- true
	answers --apart 2 "--from excludes --nodes" -- "${BUILD}/tlbcost" estimate --nodes 4 --from counts.txt
}

@test "a program that fails gives its own code, or its signal's" {
	answers --apart 3 "sh exited with 3" -- "${NUMA[@]}" -- sh -c 'exit 3'
	run -143 --separate-stderr "${NUMA[@]}" -- sh -c 'kill -TERM $$'
}

@test "the program keeps its standard input, output and error" {
	run -0 --separate-stderr "${NUMA[@]}" --output report.txt -- \
		sh -c 'read -r line; echo "out ${line}"; echo "err ${line}" >&2' <<<"said"
	[[ ${output} == "out said" ]]
	[[ ${stderr} == "err said" ]]
	grep -q '^program sh -c ' report.txt
	(($(wc -l <report.txt) <= 24))
}

@test "the report names its nodes, threads, caches, and what is NA" {
	run -0 "${NUMA[@]}" --details --nodes 2 --spread blocks -- \
		"${BUILD}/workloads/numa-local" --size 8M --count 2k
	[[ ${output} == *"nodes    2 (as asked for)"* ]]
	[[ ${output} == *"threads  4, blocks over the nodes"* ]]
	[[ ${output} == *"64 KiB of L2 for each thread (as asked for)"* ]]
	# No calibration is cached: page faults have no price.
	[[ ${output} == *"costs: no calibration of this machine is cached"* ]]
	[[ ${output} =~ page-fault\ time\ +NA\ +NA ]]
	[[ ${output} == *"Carrefour-LP would leave the huge pages as they are."* ]]
}

@test "nodes of the machine are taken where it has several; real placement is NA with its reason" {
	TLBCOST_ROOT=${TREE}/tests/machines/four-nodes run -0 "${NUMA[@]}" --details -- \
		"${BUILD}/workloads/numa-local" --size 8M --count 2k
	[[ ${output} == *"nodes    4 (of this machine)"* ]]
	[[ ${output} == *"NA: the program's memory could not be sampled"* ]]
}

@test "a program of several processes is one study" {
	run -0 "${NUMA[@]}" --json study.json -- sh -c "
		'${BUILD}/workloads/numa-local' --size 8M --count 2k --threads 2 &
		'${BUILD}/workloads/numa-local' --size 8M --count 2k --threads 2; wait"
	# Both teams of two, the shell, and the shell's child before it became a team.
	run -0 "${BUILD}/venv/bin/python" -c \
		'import json; print(json.load(open("study.json"))["threads"])'
	((output >= 5))
}

# Signals as an interactive shell leaves them, in a session of its own; until a file is there.
start() { # <name of the file> <program> [<argument>...]
	local name=$1
	shift
	find . -name "${name}" -delete
	setsid env --default-signal=INT,TERM "${NUMA[@]}" -- "$@" >/dev/null 2>said 3>&- &
	pid=$!
	wait_until is_written "${name}"
}

is_written() { # <name of the file>
	[[ -n $(find . -name "$1" -size +0c) ]]
}

# Our folder is gone at once; who got the signal from the terminal as we did, ends as soon as we do.
nobody_is_left() {
	[[ $(ls -A "${TMPDIR}") == "" ]] || return 1
	wait_until session_has_ended || { ps -s "${pid}" -o pid=,stat=,args= && return 1; }
}

# What nobody has waited for yet has ended, too.
session_has_ended() {
	ps -o stat= -s "${pid}" | awk '!/^Z/ { n++ } END { exit n > 0 }'
}

@test "Ctrl-C and SIGTERM end the simulation" {
	need_program setsid ps
	local signal
	for signal in INT TERM; do
		start "touches.*.tsv" sh -c \
			'if [ -e once ]; then rm once; sleep 60; else : >once; fi'
		kill "-${signal}" -- "-${pid}"
		ended_with $((128 + $(kill -l "${signal}")))
		grep -q "tlbcost: ended by SIG${signal}" said
		nobody_is_left
		rm -f once
	done
}

@test "simulator: options that make no sense are refused" {
	local option
	for option in --placement=1 --placement=0:0:0 --placement=10:5:6 --placement=x:0:1 \
		--placement-caches=100:16,0:0 --placement-caches=65536,0 --placement-caches=0:0,0:0; do
		run -1 simulate "${option}" -- true
	done
}

@test "simulator: 23 more pages are 23 more first touches, and 23 more lines from memory" {
	local before after lines
	simulate "${ALL[@]}" -- "${BUILD}/workloads/cold" --pages 1000 >/dev/null
	before=$(touches huge)
	lines=$(accesses)
	simulate "${ALL[@]}" -- "${BUILD}/workloads/cold" --pages 1023 >/dev/null
	after=$(touches huge)
	((after - before == 23))
	((lines = $(accesses) - lines))
	printf '%d lines\n' "${lines}"
	((lines >= 23 && lines <= 25))
}

@test "simulator: the counts of the TLBs are the same with placement, all or sampled" {
	local option
	simulate -- "${BUILD}/workloads/random-read" --size 32M --count 100k >/dev/null
	grep -v '^#' "${COUNTS}"/counts.*.tsv >plain
	for option in "${ALL[0]}" --placement=10000:1000:2000; do
		simulate "${option}" -- "${BUILD}/workloads/random-read" --size 32M --count 100k >/dev/null
		grep -v '^#' "${COUNTS}"/counts.*.tsv | diff plain -
	done
}

@test "simulator: a sample stands for the whole" {
	local all sampled
	simulate "${ALL[@]}" -- "${BUILD}/workloads/random-read" --size 64M --count 500k >/dev/null
	all=$(accesses)
	simulate --placement=20000:1000:4000 "${ALL[1]}" -- \
		"${BUILD}/workloads/random-read" --size 64M --count 500k >/dev/null
	sampled=$(accesses)
	printf '%d in all, %d in a fifth\n' "${all}" "${sampled}"
	((sampled * 5 > all * 9 / 10 && sampled * 5 < all * 11 / 10))
}

@test "simulator: each process image has tables of its own" {
	simulate "${ALL[@]}" -- sh -c 'true & wait; exec true'
	run -0 ls "${COUNTS}"
	[[ $(grep -c '^placement\.' <<<"${output}") == $(grep -c '^counts\.' <<<"${output}") ]]
	[[ $(grep -c '^touches\.' <<<"${output}") == $(grep -c '^counts\.' <<<"${output}") ]]
	run -0 grep -h '^# state:' "${COUNTS}"/placement.*.tsv
	[[ ${output} != *running* && ${output} != *failed* ]]
}

@test "simulator: a process killed from outside leaves no rows" {
	kill_simulated placement "${ALL[@]}"
	run -0 cat "${table}" "${COUNTS}"/touches.*.tsv
	[[ ${output} != *"# end:"* ]]
}
