#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# shellcheck disable=SC2154  # run sets output and status
# shellcheck disable=SC2312  # a comparison fails if its command does
# Does `tlbcost estimate` measure what huge pages give, say so, and leave the program as it was?
# How much is measured depends on the machine: it is looked at what was done, and what is said.

load common

setup() {
	need_built tlbcost libexec/tlbcost-copies libexec/tlbcost-thp workloads/hash-lookup venv/bin/python
	[[ $(uname -m) == x86_64 ]] || skip "programs are put on huge pages on x86-64"
	[[ $(cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null) == *"[madvise]"* ]] || skip "THP is not madvise"
	cd "${BATS_TEST_TMPDIR}" || return
	mkdir tmp
	export TMPDIR=${BATS_TEST_TMPDIR}/tmp TLBCOST_MEASURE=yes
	unset GLIBC_TUNABLES SUDO_UID SUDO_GID
	priced_loads >loads.tsv
	ESTIMATE=(timeout -k 5 170 "${BUILD}/tlbcost" estimate --calibration loads.tsv --json report.json --output report.txt)
	LOOKUP=("${BUILD}/workloads/hash-lookup" --size 64M)
}

teardown() {
	[[ -z ${STARTED:-} ]] || { kill -KILL "${STARTED}" && wait "${STARTED}"; } 2>/dev/null || true
	[[ $(ls -A "${BATS_TEST_TMPDIR}/tmp") == "" ]]
}

# Whether this is so of the report: a Python expression.
report() { # <expression>
	"${BUILD}/venv/bin/python" - "$1" <<-'PYTHON'
		import json, sys
		report = json.load(open("report.json"))
		measured = report["measured"]
		sys.exit(not eval(f"({sys.argv[1]})"))
	PYTHON
}

# On a machine that is too busy, the reason is said instead.
measured_or_busy() { # <expression on what was measured>
	if report 'measured is None'; then
		report '"too busy" in report["not_measured"]'
		grep -q "should save\|would save" report.txt
		return
	fi
	report "$1"
	grep -q "(measured)" <(tr '\n' ' ' <report.txt)
}

@test "a short program runs in rounds, and its output is shown once" {
	run -0 --separate-stderr "${ESTIMATE[@]}" -- "${LOOKUP[@]}" --count 4000000
	[[ $(grep -c checksum <<<"${output}") == 1 ]]
	measured_or_busy 'measured["source"] == "runs in turns" and measured["rounds"] >= 2
		and measured["huge_part"] > 0.5
		and report["total_fraction"] == measured["total_fraction"]
		and report["expected_fraction"] == measured["user_fraction"]
		and report["simulation"]["expected_fraction"] != report["expected_fraction"]'
	run ! pgrep -f "hash-lookup --size 64M --count 4000000"
}

@test "--no-measure leaves it at the model" {
	run -0 "${ESTIMATE[@]}" --no-measure -- "${LOOKUP[@]}" --count 4000000
	report 'measured is None and report["not_measured"] is None
		and report["expected_fraction"] == report["simulation"]["expected_fraction"]'
	run ! grep -q "(measured)" report.txt
}

@test "a program that writes a file runs one after the other" {
	cat >writes.py <<-'PYTHON'
		import time
		with open("result", "w") as file:
		    table = bytearray(1 << 26)
		    while time.process_time() < 1.0:
		        table[:: 4096] = bytes(1 << 14)
		    file.write("all of it")
	PYTHON
	run -0 "${ESTIMATE[@]}" --runs 1 -- "${BUILD}/venv/bin/python" writes.py
	[[ ${output} == *"one after the other: it writes to"*"/result"* ]]
	measured_or_busy 'measured["source"] == "runs one by one"'
	[[ $(<result) == "all of it" ]]
}

@test "what cannot be measured has its reason, and the model answers" {
	run -0 "${ESTIMATE[@]}" --prepare true -- "${LOOKUP[@]}" --count 4000000
	report 'measured is None and "--prepare" in report["not_measured"]'
	[[ ${output} == *"not measured: --prepare"* ]]
}

@test "copies of a process do the same work on both, and it continues" {
	"${LOOKUP[@]}" --count 100000000000 >/dev/null 3>&- &
	STARTED=$!
	sleep 1
	run -0 "${ESTIMATE[@]}" --pid "${STARTED}" --seconds 15 --copies 40 --text --shared-memory
	kill -0 "${STARTED}"
	[[ $(awk '$1 == "AnonHugePages:" { n += $2 } END { print n }' "/proc/${STARTED}/smaps") == 0 ]]
	if ! report 'measured is None and "could be measured" in report["not_measured"]'; then
		measured_or_busy 'measured["source"] == "copies" and measured["rounds"] >= 4
			and measured["huge_part"] > 0.5 and measured["system_fraction"] is None
			and measured["also"] == ["text", "shared memory"]'
	fi
	# Only the process itself is left.
	[[ $(pgrep -cf "hash-lookup --size 64M --count 100000000000") == 1 ]]
}
