#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=settings
# One run of each command whose own tests are long: exit code, form and exact facts.

load common

setup() {
	need_built tlbcost libexec/tlbcost-copies libexec/tlbcost-run workloads/hash-lookup venv/bin/python
	in_own_folder
	export XDG_CACHE_HOME=${BATS_TEST_TMPDIR}/cache
	TLBCOST=${BUILD}/tlbcost
	LOOKUP=("${BUILD}/workloads/hash-lookup" --size 16M --count 200000)
	SAID=$("${LOOKUP[@]}")
	settings >before
}

teardown() {
	[[ -z ${STARTED-} ]] || kill "${STARTED}" 2>/dev/null || true
	settings | diff before - && [[ -z $(ls -A tmp) ]]
}

settings() {
	cat /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/mm/hugepages/*/nr_hugepages 2>/dev/null || true
}

# A process that works until the test has ended.
start() {
	"${BUILD}/workloads/hash-lookup" --size 16M --count 100000000000 >/dev/null 2>&1 3>&- &
	STARTED=$!
}

@test "calibrate: a calibration is printed and cached, or said to be poor" {
	answers 0 "calibration" -- "${TLBCOST}" calibrate --quick --json calibration.json
	grep -qF "$(uname -r)" calibration.json
}

@test "trial: pairs, the program's output once, and its exit code" {
	need_madvise
	run -0 --separate-stderr "${TLBCOST}" trial --no-estimate --pairs 3 --with glibc-thp --json trial.json -- "${LOOKUP[@]}"
	[[ ${output} == "${SAID}" ]]
	[[ $(json 'len(report["trials"][0]["pairs"])' trial.json) == 3 ]]
	run -7 "${TLBCOST}" trial --no-estimate --pairs 3 --with glibc-thp -- sh -c 'exit 7'
}

@test "estimate: measured or not, the program's output comes once" {
	need_madvise
	priced_loads >loads.tsv
	TLBCOST_MEASURE=yes run -0 --separate-stderr "${TLBCOST}" estimate --calibration loads.tsv \
		--json estimate.json --output report.txt -- "${LOOKUP[@]}"
	[[ ${output} == "${SAID}" ]]
	[[ $(json '(report["measured"] is None) != (report["not_measured"] is None)' estimate.json) == True ]]
	(($(wc -l <report.txt) <= 24))
}

@test "estimate --pid: a process is answered for, or refused with a reason, and runs on" {
	need_root
	start
	priced_loads >loads.tsv
	run --separate-stderr "${TLBCOST}" estimate --calibration loads.tsv --seconds 1 --pid "${STARTED}"
	((status == 0 || status == 4)) || { printf '%s\n' "${output}" "${stderr}" && return 1; }
	[[ ${output}${stderr} == *"${STARTED}"* ]]
	kill -0 "${STARTED}"
	grep -q $'^TracerPid:\t0$' "/proc/${STARTED}/status"
	[[ -z $(cat "/proc/${STARTED}/task/"*/children) ]]
}

@test "numa --watch: a process on one node" {
	[[ ! -e /sys/devices/system/node/node1 ]] || skip "this machine has several nodes"
	start
	answers --apart 4 "this machine has one NUMA node" -- "${TLBCOST}" numa --watch "${STARTED}"
}

@test "validate and pagesizes: a record is reported without running anything" {
	local sample=${TREE}/data/samples/amd-zen-5-guest/trials.tsv
	run -0 "${TLBCOST}" validate --from "${sample}"
	[[ ${output} == "40 programs, "* ]]
	run -2 "${TLBCOST}" pagesizes --no-such-option
}
