#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Do names that hold a newline, or a byte that is no UTF-8, work everywhere, and are they shown escaped?

load common

setup() {
	need_built tlbcost libexec/valgrind workloads/cold
	TLBCOST=${BUILD}/tlbcost
	CALIBRATION=${TREE}/tests/golden/calibration.tsv
	ODD=$'od\xffd\nname'
	SHOWN='od\xffd\x0aname'
	cd "${BATS_TEST_TMPDIR}" || return
	mkdir "${ODD}" 2>/dev/null || skip "this file system takes no such name"
	cp "${BUILD}/workloads/cold" "${ODD}/cold"
}

teardown() {
	[[ -z ${pid-} ]] || kill "${pid}" 2>/dev/null || true
}

# Every file is text, and none has the name as it is.
escaped() { # <file>...
	local file
	for file in "$@"; do
		python3 -c 'import sys; open(sys.argv[1], encoding="utf-8").read()' "${file}"
	done
}

@test "estimate, its JSON, its tables, and what reads them again" {
	need_program valgrind
	run -0 "${TLBCOST}" estimate --calibration "${CALIBRATION}" --runs 1 --details \
		--json report.json --output report.txt --code code.tsv --folded folded.txt \
		-- "./${ODD}/cold" --pages 512
	escaped report.json report.txt code.tsv folded.txt
	grep -qF "\$'./${SHOWN}/cold'" report.txt
	python3 -c 'import json; argv = json.load(open("report.json"))["program"]["argv"]
assert argv[0] == "./od\\xffd\nname/cold", argv'
	run -0 "${TLBCOST}" annotate --by line code.tsv
	run -0 "${TLBCOST}" show report.json
}

@test "an argument" {
	need_program valgrind
	run -0 --separate-stderr "${TLBCOST}" estimate --calibration "${CALIBRATION}" --runs 1 \
		--json report.json -- printf '%s' $'a\xffb\nc'
	[[ ${output} == $'a\xffb\nc' ]]
	escaped report.json
	[[ ${stderr} == *'a\xffb\x0ac'* ]]
}

@test "record and annotate" {
	"${TLBCOST}" record -e page_faults --addresses --output hits.tsv -- "./${ODD}/cold" --pages 512 ||
		skip "page faults cannot be sampled here"
	run -0 "${TLBCOST}" annotate --json profile.json hits.tsv
	[[ ${output} == *main* ]]
	escaped profile.json
	run -0 "${TLBCOST}" annotate --by mapping hits.tsv
	mv "${ODD}/cold" "${ODD}"$'/pro\xffg'
	"${TLBCOST}" record -e page_faults --output "${ODD}/hits.tsv" -- "${ODD}"$'/pro\xffg' --pages 512
	run -0 "${TLBCOST}" annotate --by object "${ODD}/hits.tsv"
	[[ ${output} == *'pro\xffg'* ]]
}

@test "count" {
	run -0 "${TLBCOST}" count -e page_faults --json count.json --table count.tsv --output count.txt \
		-- "./${ODD}/cold" --pages 512
	escaped count.json count.tsv count.txt
}

@test "maps of a process and of a command" {
	cp "$(type -P sleep)" "${ODD}/sleep"
	run -0 "${TLBCOST}" maps --json maps.json -- "./${ODD}/sleep" 2
	escaped maps.json
	"${ODD}/sleep" 60 3>&- &
	pid=$!
	run -0 "${TLBCOST}" maps --json maps.json "${pid}"
	escaped maps.json
	[[ ${output} == *"${SHOWN}/sleep"* ]]
}

@test "numa" {
	need_program valgrind
	run -0 "${TLBCOST}" numa --nodes 2 --calibration "${CALIBRATION}" --json numa.json \
		-- "./${ODD}/cold" --pages 512
	escaped numa.json
}

@test "messages" {
	answers 127 "cannot run ./${SHOWN}/nowhere: no such file" -- "${TLBCOST}" estimate "./${ODD}/nowhere"
}
