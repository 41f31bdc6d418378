#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Do `tlbcost show` and `tlbcost compare` print what was saved, and refuse what was not?

load common

setup_file() {
	need_built tlbcost libexec/tlbcost-run libexec/valgrind
	need_program valgrind
	cd "${BATS_FILE_TMPDIR}" || return
	export ESTIMATED=${BATS_FILE_TMPDIR}/saved.json
	unset GLIBC_TUNABLES
	"${BUILD}/tlbcost" estimate --engine valgrind --calibration "${TREE}/tests/golden/calibration.tsv" --runs 1 \
		--json saved.json --output printed.txt -- sh -c 'seq 1000 | sort -n | tail -n 1' >/dev/null
}

setup() {
	TLBCOST=${BUILD}/tlbcost
	cd "${BATS_TEST_TMPDIR}" || return
	cp "${ESTIMATED}" saved.json
}

@test "show prints what estimate printed" {
	run -0 --separate-stderr "${TLBCOST}" show saved.json
	[[ ${output} == "$(<"${BATS_FILE_TMPDIR}/printed.txt")" ]]
	[[ -z ${stderr} ]]
}

@test "show reads standard input, and writes files" {
	run -0 bash -c '"$1" show - <saved.json' _ "${TLBCOST}"
	[[ ${output} == "$(<"${BATS_FILE_TMPDIR}/printed.txt")" ]]
	run -0 "${TLBCOST}" show --output text --json copy.json saved.json
	[[ -z ${output} ]]
	diff text "${BATS_FILE_TMPDIR}/printed.txt"
	# A whole number may be written as 1.0 now.
	python3 -c 'import json; assert json.load(open("copy.json")) == json.load(open("saved.json"))'
	run -0 --separate-stderr "${TLBCOST}" show --json - saved.json
	[[ ${output} == "$(<copy.json)" ]]
	run -2 "${TLBCOST}" show --json saved.json saved.json
	[[ ${output} == *"same file: saved.json"*"hint:"* ]]
}

@test "show --openmetrics writes gauges that promtool has no objection to" {
	run -0 "${TLBCOST}" show --output text --openmetrics sort.prom saved.json
	grep -qxE 'tlbcost_gain_ratio\{program="sh",end="high"\} -?[0-9.e-]+' sort.prom
	grep -qxE 'tlbcost_estimate_timestamp_seconds\{program="sh"\} [0-9.e+]+' sort.prom
	run -1 "${TLBCOST}" show --openmetrics /nonexistent/file saved.json
	need_program promtool
	run -0 promtool check metrics <sort.prom
	[[ -z ${output} ]]
}

@test "show --details has the sections" {
	run -0 "${TLBCOST}" show --details saved.json
	[[ ${output} == *"--details"*"Shares of the"*"page walks by memory"*"cost in ns"*"Caveats:"* ]]
	[[ ${output} == *"sort"*"tail"* ]]
}

@test "show refuses what is no estimate: 1" {
	local file
	printf 'no JSON\n' >text
	printf '{"schema": "tlbcost-trial-3"}\n' >trial.json
	sed 's/"tlbcost-estimate-[0-9]*"/"tlbcost-estimate-3"/' saved.json >old.json
	head -c 2000 saved.json >cut.json
	: >empty
	for file in text trial.json old.json cut.json empty . /dev/zero no-such-file; do
		run -1 "${TLBCOST}" show "${file}"
		[[ ${output} == "tlbcost: "*"${file}"*"tlbcost: hint: "* ]]
	done
	run -1 "${TLBCOST}" show old.json
	[[ ${output} == *"an estimate of version 3; this tlbcost reads version"* ]]
	run -2 "${TLBCOST}" show
}

@test "compare puts two estimates side by side" {
	run -0 --separate-stderr "${TLBCOST}" compare saved.json saved.json
	((${#lines[@]} <= 24))
	[[ ${lines[0]} == "NO CLEAR DIFFERENCE: "* ]]
	[[ ${output} == *"verdict"*"the same"*"page faults"* ]]
	[[ ${output} != *"Note:"* ]]
	sed 's/"sort -n/"sort -r/; s/seq 1000/seq 2000/' saved.json >other.json
	run -0 "${TLBCOST}" compare --json compared.json saved.json other.json
	[[ ${output} == *"Note: different programs or arguments."* ]]
	grep -q '"schema": "tlbcost-comparison-1"' compared.json
	run -1 "${TLBCOST}" compare saved.json no-such-file
	[[ ${output} == *"cannot read no-such-file"*"hint:"* ]]
	run -2 "${TLBCOST}" compare saved.json
}
