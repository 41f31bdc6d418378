#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does an estimate of a region cover that phase alone, and say where there is none?

load common

PAGES=8192

setup_file() {
	type -P gcc strip >/dev/null || return 0
	local build=(gcc -std=gnu11 -O1 -g "-I${BATS_TEST_DIRNAME}/../../profiler/region"
		"${BATS_TEST_DIRNAME}/../region/phases.c")
	"${build[@]}" -o "${BATS_FILE_TMPDIR}/phases"
	"${build[@]}" -DONLY -o "${BATS_FILE_TMPDIR}/only"
	strip -o "${BATS_FILE_TMPDIR}/stripped" "${BATS_FILE_TMPDIR}/phases"
}

setup() {
	[[ $(uname -m) == x86_64 ]] || skip "regions are timed on x86-64 alone"
	need_built tlbcost libexec/tlbcost-region libexec/valgrind
	need_program valgrind gcc strip python3
	ESTIMATE=("${BUILD}/tlbcost" estimate --runs 1 --calibration
		"${TREE}/tests/golden/calibration.tsv" --json report.json --output report.txt)
	cp "${BATS_FILE_TMPDIR}"/{phases,only,stripped} "${BATS_TEST_TMPDIR}"
	cd "${BATS_TEST_TMPDIR}" || return
}

export JSON_NAMES='def walks(size, access):
    return sum(c["stlb_misses"] for c in report["simulation"]["counts"]
               if c["page_size_bytes"] == size and c["access"] == access)'

# bats test_tags=long
@test "region: walks are the reads' alone, as of a program that only reads" {
	run -0 --separate-stderr "${ESTIMATE[@]}" --region reads:done -- ./phases 4 1
	[[ ${stderr_lines[0]} == "tlbcost: simulated by Valgrind, not in copies: "* ]]
	local found alone
	found=$(json 'walks(4096, "load")')
	((found >= 4 * PAGES && found < 4 * PAGES + 40))
	[[ $(json 'walks(4096, "store")') == 0 ]]
	[[ $(json 'report["region"], report["fractions_of"]') == "('reads:done', \"region's time\")" ]]
	# What was filled before has no page faults in the region.
	[[ $(json 'report["program"]["runs"][0]["minor_faults"] < 10') == True ]]
	grep -q '^Region  from reads to done$' report.txt
	run -0 "${ESTIMATE[@]}" --region reads:done -- ./only 4 1
	alone=$(json 'walks(4096, "load")')
	((alone == found))
	run -0 "${ESTIMATE[@]}" --engine valgrind -- ./phases 4 1
	[[ $(json "walks(4096, 'store') >= ${PAGES} and report['region'] is None") == True ]]
}

@test "region: markers of a stripped program, several times; children are left out" {
	run -0 "${ESTIMATE[@]}" --region @reading:@read -- ./stripped 1 3 fork
	local found
	found=$(json 'walks(4096, "load")')
	((found >= 3 * PAGES && found < 3 * PAGES + 100))
	[[ $(json 'len(report["simulation"]["processes"])') == 1 ]]
}

@test "region: --from-function lasts to the end; --machine counts it on other machines" {
	run -0 "${BUILD}/tlbcost" estimate --json report.json --output report.txt --machine snb \
		--from-function reads -- ./phases 2 1
	grep -q '^Region  from reads on$' report.txt
	run -0 json '[report["region"], *(sum(side["page_walks"] for side in size["misses"].values())
		for size in report["machines"][0]["page_sizes"])]'
	# A library's few pages at the end, besides; 16 huge pages.
	[[ ${output} =~ ^\[\'reads:\',\ ([0-9]+),\ ([0-9]+)\]$ ]]
	((BASH_REMATCH[1] >= 2 * PAGES && BASH_REMATCH[1] < 2 * PAGES + 100))
	((BASH_REMATCH[2] >= 16 && BASH_REMATCH[2] < 100))
}

@test "region: never begun, never ended, too often: exit 4 and what to do" {
	run -4 --separate-stderr "${ESTIMATE[@]}" --from-function never -- ./phases 1 1
	[[ ${stderr} == *"tlbcost: the region never began: the program did not reach never"* ]]
	run -4 --separate-stderr "${ESTIMATE[@]}" --region reads:never -- ./phases 1 1
	[[ ${stderr} == *"the region never ended: after reads the program did not reach never"* ]]
	[[ ${stderr} == *"tlbcost: hint: leave the end out"* ]]
	run -4 --separate-stderr "${ESTIMATE[@]}" --region reads:done -- ./phases 0 1001
	[[ ${stderr} == *"the region begins more than 1,000 times"* ]]
	[[ ! -e report.json ]]
}

@test "region: without symbols, or for no function, exit 2 before anything runs" {
	run -2 --separate-stderr "${ESTIMATE[@]}" --from-function rreads -- ./phases 1 1
	[[ ${stderr_lines[0]} == "tlbcost: ${PWD}/phases has no function rreads" ]]
	[[ ${stderr_lines[1]} == "tlbcost: hint: did you mean reads?" ]]
	run -2 --separate-stderr "${ESTIMATE[@]}" --region reads:done -- ./stripped 1 1
	[[ ${stderr_lines[0]} == *"it has no symbols (it was stripped)" ]]
	run -2 --separate-stderr "${ESTIMATE[@]}" --region reads:done --pid $$
	[[ ${stderr_lines[0]} == *"which --pid excludes" ]]
	run -2 --separate-stderr "${ESTIMATE[@]}" --region @rread: -- ./phases 1 1
	[[ ${stderr_lines[1]} == "tlbcost: hint: it has @read, @reading" ]]
}

@test "region: the program runs as without us, its exit code and its children's too" {
	local region=("${BUILD}/libexec/tlbcost-region" --region region.tsv)
	local start end
	# nm gives addresses; these programs begin at the offset that they are at.
	start=$((16#$(nm phases | awk '$3 == "reads" { print $1 }')))
	end=$((16#$(nm phases | awk '$3 == "done" { print $1 }')))
	run -7 "${region[@]}" "--start=${start}:${PWD}/phases" "--end=${end}:${PWD}/phases" \
		./phases 1 5 fork 7
	[[ ${output} == "$(./phases 1 5 fork 0)" ]]
	[[ $(cell region.tsv begins) == 5 && $(cell region.tsv ends) == 5 ]]
	run -0 "${region[@]}" "--start=${start}:${PWD}/phases" sh -c "exec ./phases 1 1"
	[[ $(cell region.tsv begins) == 1 && $(cell region.tsv ends) == 1 ]]
	(($(cell region.tsv user_ns) + $(cell region.tsv system_ns) > 0))
	run -0 "${region[@]}" "--start=${start}:/nowhere" ./phases 1 1
	[[ $(cell region.tsv begins) == 0 && $(cell region.tsv user_ns) == NA ]]
	run -143 "${region[@]}" "--start=${start}:${PWD}/phases" sh -c 'kill -TERM $$'
	run -127 "${region[@]}" "--start=1:/nowhere" ./no-such-program
}

# bats test_tags=settings,long
@test "region: a trial times the region of both runs" {
	[[ $(cat /sys/kernel/mm/transparent_hugepage/enabled) != *"[never]"* ]] ||
		skip "there are no transparent huge pages here"
	run -0 --separate-stderr "${BUILD}/tlbcost" trial --no-estimate --pairs 3 --with glibc-thp \
		--json report.json --output report.txt --region reads:done -- ./phases 5000 1
	[[ ${stderr} == *"a region is timed in one run at a time"* ]]
	[[ $(json 'report["region"]') == reads:done ]]
	[[ $(json 'max(half["minor_faults"] for trial in report["trials"] for pair in trial["pairs"]
		for half in (pair["base"], pair["huge"])) < 100') == True ]]
	grep -q "region's time" report.txt
	run -4 --separate-stderr "${BUILD}/tlbcost" trial --with run-thp --region reads: -- ./phases 1 1
	[[ ${stderr_lines[0]} == *"run-thp, which traces the program itself" ]]
}
