#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does `tlbcost events` print the counters of this and of any other CPU, and refuse what is none?
# shellcheck disable=SC2154  # run sets output, lines and stderr_lines

setup() {
	load common
	need_built tlbcost
	unset TLBCOST_ROOT
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
	run -0 "${BUILD}/tlbcost" events --pmu zen4
	[[ ${output} == *"stlb_misses.data "*" 0xf045 "* ]]
	[[ ${output} == *"stlb_misses.fetch "*" 0xf85 "* ]]
	[[ ${output} == *"walks      = stlb_misses.data + stlb_misses.fetch"* ]]
	[[ ${output} == *"dTLB-store-misses refused (ENOENT)"* ]]
}

@test "events: without a PMU it says that nothing can be read here" {
	export TLBCOST_ROOT=${BATS_TEST_DIRNAME}/../machines/vm-no-pmu
	run -0 "${BUILD}/tlbcost" events
	[[ ${output} == *"No hardware counter can be read here: "* ]]
}

@test "events: an unknown name exits 2 and tells what comes near" {
	run -2 --separate-stderr "${BUILD}/tlbcost" events --pmu zen44
	[[ ${output} == "" ]]
	[[ ${stderr_lines[0]} == "tlbcost: no event table is called 'zen44'" ]]
	[[ ${stderr_lines[1]} == "tlbcost: hint: did you mean zen4, "* ]]
}

@test "events: a full disk is told" {
	[[ -w /dev/full ]] || skip "no /dev/full"
	run -1 --separate-stderr "${BUILD}/tlbcost" events --pmu zen4 --json /dev/full
	[[ ${stderr_lines[0]} == "tlbcost: cannot write /dev/full: No space left on device" ]]
	run -1 bash -c '"$1" events --list >/dev/full' _ "${BUILD}/tlbcost"
	[[ ${output} == *"No space left on device"* ]]
}

@test "events: each row encodes: libpfm4 knows the string, or the code is used" {
	need_built libexec/tlbcost-count
	run -0 "${BUILD}/venv/bin/python" "${TREE}/bench/check_events.py" --installed
	[[ ${lines[-1]} == *" 0 differ"* ]]
}
