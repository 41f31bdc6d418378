#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does `tlbcost doctor` tell the truth about this machine, and about machines with gaps?

load common

setup() {
	need_built tlbcost libexec/tlbcost-run libexec/tlbcost-calibrate libexec/valgrind
	need_program valgrind
	export XDG_CACHE_HOME=${BATS_TEST_TMPDIR}/cache
}

export JSON_NAMES='checks = {check["name"]: check for check in report["checks"]}'

# bats test_tags=settings
@test "doctor: where estimate works, it says so and exits 0" {
	run -0 "${BUILD}/tlbcost" doctor
	[[ ${lines[0]} == "'tlbcost estimate' works here." ]]
	[[ ${output} == *"ok       "*tlbsim*"(--details)" ]]
	((${#lines[@]} <= 24))
	# No line but a command is longer than 80 columns, and nothing is changed.
	local line
	for line in "${lines[@]}"; do
		[[ ${line} =~ ^\ *-\>\  ]] || ((${#line} <= 80))
	done
	[[ ! -e ${XDG_CACHE_HOME} ]]
	answers 0 "ok       tlbsim " "starts, built against valgrind" -- "${BUILD}/tlbcost" doctor --details
}

# bats test_tags=settings
@test "doctor: agrees with the kernel about THP and paranoia" {
	[[ -r /sys/kernel/mm/transparent_hugepage/enabled ]] || skip "this kernel has no THP"
	"${BUILD}/tlbcost" doctor --json "${BATS_TEST_TMPDIR}/d.json" >/dev/null
	local mode
	mode=$(json 'checks["thp"]["values"]["thp_mode"]' "${BATS_TEST_TMPDIR}/d.json")
	grep -qF "[${mode}]" /sys/kernel/mm/transparent_hugepage/enabled
	run -0 json 'checks["perf_event_paranoid"]["values"]["perf_event_paranoid"]' "${BATS_TEST_TMPDIR}/d.json"
	grep -qx -- "${output}" /proc/sys/kernel/perf_event_paranoid
}

@test "doctor: reads a made-up machine below TLBCOST_ROOT" {
	TLBCOST_ROOT=${TREE}/tests/machines/skylake \
		run -0 "${BUILD}/tlbcost" doctor --details --json "${BATS_TEST_TMPDIR}/d.json"
	[[ ${output} == *"Intel Skylake client"* ]]
	run -0 json 'checks["hugetlb 2 MiB"]["values"]["free_pages"]' "${BATS_TEST_TMPDIR}/d.json"
	[[ ${output} == 60 ]]
}

@test "doctor: without valgrind it is named with the command, and estimates work" {
	# A PATH with what the front door needs, and nothing else.
	local tool path folder=${BATS_TEST_TMPDIR}/few
	mkdir "${folder}"
	for tool in sh bash env readlink dirname python3; do
		path=$(type -P "${tool}")
		ln -s "${path}" "${folder}/${tool}"
	done
	printf '#!/bin/sh\nexit 1\n' >"${folder}/apt-get"
	chmod +x "${folder}/apt-get"
	PATH=${folder} run -0 "${BUILD}/tlbcost" doctor
	[[ ${output} == *"missing  valgrind"* ]]
	[[ ${output} == *"apt-get install -y valgrind"* ]]
	[[ ${lines[0]} == "'tlbcost estimate' works here." ]]
}

@test "doctor: a valgrind of another version than the simulator's is named" {
	fake_program valgrind 'echo valgrind-3.1.4'
	answers 0 "but 3.1.4 is" -- "${BUILD}/tlbcost" doctor
	[[ ${output} == *"-B simulator"* ]]
}
