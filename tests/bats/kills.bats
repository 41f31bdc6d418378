#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# Does anything stay of a tlbcost that is killed at a random instant?  The quick commands; `make
# soak-kills` has the others, and a thousand instants.

load common

@test "SIGKILL at 20 random instants: settings, folders, processes and mounts are as before" {
	need_pool
	need_built tlbcost libexec/tlbcost-run venv/bin/python workloads/hash-lookup
	[[ ! -e /run/tlbcost/journal.json ]] || skip "tlbcost has changed this system's settings: tlbcost pool restore"
	run "${BUILD}/venv/bin/python" "${TREE}/tests/soak/kills.py" --kills 20 --only trial \
		--only "pool reserve" --only "pool reserve, to stay" --log "${BATS_TEST_TMPDIR}/log"
	printf '%s\n' "${output}"
	((status == 0)) || { tail -n 40 "${BATS_TEST_TMPDIR}/log" && return 1; }
	[[ ${output} == *"20 kills:"* ]]
}
