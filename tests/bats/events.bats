#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does `tlbcost events` print the counters of this and of any other CPU, and refuse what is none?

setup() {
	load common
	need_built tlbcost
}

@test "events: a CPU is found by its marketing name" {
	local name key
	while read -r name key; do
		run -0 "${BUILD}/tlbcost" events --pmu "${name}"
		[[ ${lines[0]} == *"(${key})" ]]
	done <<-'END'
		zen4 amd64_fam19h_zen4
		skylake skl
		power9 power9
		neoverse-n1 arm_n1
		z14 cpum_cf_z14
	END
}

@test "events: zen4 has its events, its formulas and what generic events count there" {
	answers 0 "stlb_misses.data " " 0xf045 " -- "${BUILD}/tlbcost" events --pmu zen4
	[[ ${output} == *"stlb_misses.fetch "*" 0xf85 "* ]]
	[[ ${output} == *"walks      = stlb_misses.data + stlb_misses.fetch"* ]]
	[[ ${output} == *"dTLB-store-misses refused (ENOENT)"* ]]
}

@test "events: without a PMU it says that nothing can be read here" {
	export TLBCOST_ROOT=${BATS_TEST_DIRNAME}/../machines/vm-no-pmu
	answers 0 "No hardware counter can be read here: " -- "${BUILD}/tlbcost" events
}

@test "events: an unknown name exits 2 and names what comes near" {
	run -2 --separate-stderr "${BUILD}/tlbcost" events --pmu zen44
	[[ ${output} == "" ]]
	[[ ${stderr_lines[0]} == "tlbcost: no event table is called 'zen44'" ]]
	[[ ${stderr_lines[1]} == "tlbcost: hint: did you mean zen4, "* ]]
}

@test "events: --perf-stat prints one command to paste, whose counts an estimate takes" {
	run -0 --separate-stderr "${BUILD}/tlbcost" events --perf-stat --pmu skylake
	[[ ${output} == "perf stat -o counts.txt -e cycles:u,instructions:u,r1001008:u,r1001049:u,r1001085:u -- COMMAND" ]]
	[[ ${stderr} == "tlbcost: then: tlbcost estimate --from counts.txt --cpu skylake" ]]
	# As a perf would that has this CPU.
	cd "${BATS_TEST_TMPDIR}"
	fake_program perf 'while [[ $1 != -e ]]; do shift; done
		{
			printf "\n Performance counter stats for '"'$(printf %s "true")'"':\n\n"
			i=9
			for event in ${2//,/ }; do printf "  %d,000,000,000      %s\n" "$((i--))" "${event}"; done
			printf "\n  2.0 seconds time elapsed\n\n  1.9 seconds user\n  0.1 seconds sys\n"
		} >counts.txt'
	eval "${output/COMMAND/true}"
	eval "${BUILD@Q}/${stderr#tlbcost: then: } --json report.json"
	run -0 python3 -c '
import json
counters = json.load(open("report.json"))["counters"]
print(counters["way"], counters["missing_events"], counters["translation_fraction"]["value"])'
	[[ ${output} == "walk_cycles [] 1.0" ]]
}

@test "events: --perf-metrics names perf's own metrics, where there are any" {
	run -0 "${BUILD}/tlbcost" events --perf-metrics --pmu skylake
	[[ ${output} == "perf stat -M tma_dtlb_load,tma_dtlb_store,tma_itlb_misses -- COMMAND" ]]
	answers 0 "perf stat -M" "data_walks " "= l2_dtlb_misses" -- "${BUILD}/tlbcost" events --pmu zen4
	run -4 "${BUILD}/tlbcost" events --perf-metrics --pmu neoverse-n1
	run -2 "${BUILD}/tlbcost" events --perf-metrics --list
	run -2 "${BUILD}/tlbcost" events --perf-metrics --perf-stat
}

@test "events: --perf-stat is of this CPU, and refused where nothing can be counted or with other options" {
	TLBCOST_ROOT=${TREE}/tests/machines/skylake run -0 "${BUILD}/tlbcost" events --perf-stat
	[[ ${output} == *"r1001008:u"*"--cpu skylake"* || ${output} == *"--cpu skylake"*"r1001008:u"* ]]
	run -4 "${BUILD}/tlbcost" events --perf-stat --pmu cortex-a53
	[[ ${output} == *"Cortex-A53"*"counts neither page walks nor the cycles in them"*"hint: "* ]]
	run -2 "${BUILD}/tlbcost" events --perf-stat --role cycles
	run -2 "${BUILD}/tlbcost" events --perf-stat --list
}

@test "events: each row encodes: libpfm4 knows the string, or the code is used" {
	need_built libexec/tlbcost-count
	run -0 "${BUILD}/venv/bin/python" "${TREE}/bench/check_events.py" --installed
	[[ ${lines[-1]} == *" 0 differ"* ]]
}
