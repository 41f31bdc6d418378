#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# Does `tlbcost estimate` measure what huge pages give, say so, and leave the program as it was?
# How much is measured depends on the machine: it is looked at what was done, and what is said.

load common

setup() {
	need_built tlbcost libexec/tlbcost-copies libexec/tlbcost-thp workloads/hash-lookup venv/bin/python
	[[ $(uname -m) == x86_64 ]] || skip "programs are put on huge pages on x86-64"
	need_madvise
	in_own_folder
	export TLBCOST_MEASURE=yes
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

measured() { # <expression on what was measured>
	report "measured is not None and $1"
	grep -q "(measured)" <(tr '\n' ' ' <report.txt)
}

@test "a short program runs in pairs by its malloc's switch, and its output is shown once" {
	run -0 --separate-stderr "${ESTIMATE[@]}" -- "${LOOKUP[@]}" --count 4000000
	[[ $(grep -c checksum <<<"${output}") == 1 ]]
	measured 'measured["source"] == "runs in turns" and measured["rounds"] >= 2 and measured["method"] == "glibc-thp"
		and measured["huge_part"] > 0.5
		and report["total_fraction"] == measured["total_fraction"]
		and report["expected_fraction"] == measured["user_fraction"]
		and report["simulation"]["expected_fraction"] != report["expected_fraction"]'
	run ! pgrep -f "hash-lookup --size 64M --count 4000000"
}

@test "what cannot be simulated is measured all the same" {
	cp "${LOOKUP[0]}" lookup
	chmod u+s lookup
	run -0 "${ESTIMATE[@]}" -- ./lookup "${LOOKUP[@]:1}" --count 4000000
	measured 'report["backend"] == "pairs" and "setuid" in report["not_simulated"]
		and report["simulation"] is None and report["attribution"] is None
		and report["total_fraction"] == measured["total_fraction"]'
	grep -q "TLB misses are not known: .*setuid" <(tr '\n' ' ' <report.txt)
	for option in --no-measure --engine=valgrind; do
		run -125 "${ESTIMATE[@]}" "${option}" -- ./lookup "${LOOKUP[@]:1}" --count 4000000
		[[ ${output} == *"setuid"*"hint:"* ]]
	done
}

@test "--no-measure leaves it at the model" {
	run -0 "${ESTIMATE[@]}" --no-measure -- "${LOOKUP[@]}" --count 4000000
	report 'measured is None and report["not_measured"] is None
		and report["expected_fraction"] == report["simulation"]["expected_fraction"]'
	run ! grep -q "(measured)" report.txt
}

@test "what huge pages push over its memory limit is not worth it" {
	need_root
	need_program cc
	cc -O1 -x c -o sparse - <<-'C'
		#include <stdlib.h>
		int main(void)
		{
			volatile char *memory = malloc(1ul << 30);
			for (int round = 0; round < 200000; round++)
				for (unsigned long at = 0; at < 1ul << 30; at += 2ul << 20)
					memory[at]++;
			return 0;
		}
	C
	in_cgroup $((600 << 20)) true
	run -0 in_cgroup $((600 << 20)) "${ESTIMATE[@]}" --no-system -- ./sparse
	report 'measured is None and report["verdict"]["code"] == "not_worth_it"'
	[[ $(tr '\n' ' ' <report.txt) == "NOT WORTH IT: on huge pages by "*"killed at its memory limit (600 MiB, cgroup); on base pages it was not."* ]]
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
	[[ ${output} == *"one after the other: two at the same time would not do: it writes to"*"/result"* ]]
	measured 'measured["source"] == "runs one by one"'
	[[ $(<result) == "all of it" ]]
}

@test "with --prepare, and of a region, runs come one after the other" {
	run -0 "${ESTIMATE[@]}" --prepare true -- "${LOOKUP[@]}" --count 4000000
	measured 'measured["source"] == "runs one by one"'
	[[ ${output} == *"--prepare makes ready for one run at a time"* ]]
}

@test "memory that the program keeps from huge pages, or shares, is said to be so" {
	cat >off.py <<-'PYTHON'
		import ctypes, time
		ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)
		table = bytearray(1 << 26)
		while time.process_time() < 1.0:
		    table[:: 4096] = bytes(1 << 14)
	PYTHON
	run -0 "${ESTIMATE[@]}" -- "${BUILD}/venv/bin/python" off.py
	report 'measured is None and "PR_SET_THP_DISABLE" in report["not_measured"]'
	cat >shares.py <<-'PYTHON'
		import mmap, time
		table = mmap.mmap(-1, 1 << 28)
		while time.process_time() < 1.5:
		    for at in range(0, 1 << 28, 4096): table[at] = 1
	PYTHON
	run -0 "${ESTIMATE[@]}" -- "${BUILD}/venv/bin/python" shares.py
	report 'measured is None and "shared or of files" in report["not_measured"]'
	# Valgrind, where no CPU was free for copies, sees fewer rounds in that time.
	grep -q "MiB shared memory" report.txt || [[ ${output} == *"simulated by Valgrind, not in copies"* ]]
}

@test "a program that has huge pages already runs without them, too" {
	cat >asks.py <<-'PYTHON'
		import mmap, time
		table = mmap.mmap(-1, 1 << 27, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
		table.madvise(mmap.MADV_HUGEPAGE)
		while time.process_time() < 1.5:
		    for at in range(0, 1 << 27, 4096): table[at] = 1
	PYTHON
	run -0 "${ESTIMATE[@]}" -- "${BUILD}/venv/bin/python" asks.py
	measured 'measured["method"] == "as it runs" and report["verdict"]["code"] == "already_huge"'
}

@test "copies of a process do the same work on both, and it continues" {
	"${LOOKUP[@]}" --count 100000000000 >/dev/null 3>&- &
	STARTED=$!
	sleep 1
	run -0 "${ESTIMATE[@]}" --pid "${STARTED}" --seconds 15 --copies 40 --text --shared-memory
	kill -0 "${STARTED}"
	[[ $(awk '$1 == "AnonHugePages:" { n += $2 } END { print n }' "/proc/${STARTED}/smaps") == 0 ]]
	if ! report 'measured is None and "could be measured" in report["not_measured"]'; then
		measured 'measured["source"] == "copies" and measured["rounds"] >= 4
			and measured["huge_part"] > 0.5 and measured["system_fraction"] is None
			and measured["also"] == ["text", "shared memory"]'
	fi
	# Only the process itself is left.
	[[ $(pgrep -cf "hash-lookup --size 64M --count 100000000000") == 1 ]]
}
