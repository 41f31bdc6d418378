#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does an estimate say which memory, which code and which phase pays?

load common

MEMORY=${BATS_TEST_DIRNAME}/../attribution/memory.c

setup_file() {
	type -P gcc g++ >/dev/null || return 0
	gcc -std=c11 -D_GNU_SOURCE -O1 -g -pthread -o "${BATS_FILE_TMPDIR}/memory" \
		"${BATS_TEST_DIRNAME}/../attribution/memory.c"
	g++ -std=c++17 -O1 -g -o "${BATS_FILE_TMPDIR}/new" "${BATS_TEST_DIRNAME}/../attribution/new.cc"
}

setup() {
	need_built tlbcost libexec/tlbcost-run libexec/valgrind
	need_program valgrind gcc g++
	ESTIMATE=("${BUILD}/tlbcost" estimate --engine valgrind --details --backend sim --runs 1
		--calibration "${TREE}/tests/golden/calibration.tsv" --json report.json
		--output report.txt)
	cd "${BATS_TEST_TMPDIR}" || return
}

# `top`: what has the most walks; `site`: of top.
export JSON_NAMES='memory = report["attribution"]["memory"] if report["attribution"] else []
top = max(memory, key=lambda region: region["misses_fraction"], default=None)
site = top["sites"][0] if top and top["sites"] else None'

# Number of the line of a file that has this text.
line_of() { # <text> <file>
	grep -n -F -m 1 "$1" "$2" | cut -d : -f 1
}

# Do the parts of all memory sum to the whole, with at most 1 % of the walks elsewhere?
whole() {
	[[ $(json 'report["attribution"]["other_fraction"] <= 0.01') == True ]]
	local key
	for key in misses_fraction time_fraction; do
		[[ $(json "abs(sum(p['${key}'] for p in memory) - 1) < 1e-9") == True ]]
	done
	[[ $(json 'abs(sum(p["gain_fraction"]["value"] for p in memory)
		- report["expected_fraction"]["value"]) < 1e-9') == True ]]
	# The walks that are attributed to code are those that were counted.
	[[ $(json 'sum(p["stlb_misses"] for i in report["attribution"]["phases"] for p in i["phases"])
		== sum(c["stlb_misses"] for c in report["simulation"]["counts"]
		if c["page_size_bytes"] == 4096)') == True ]]
}

@test "of three arrays of malloc the random one is blamed, by function and line" {
	run -0 "${ESTIMATE[@]}" "${BATS_FILE_TMPDIR}/memory" malloc
	whole
	[[ $(json 'top["kind"]') == anonymous ]]
	[[ $(json 'top["misses_fraction"] > 0.9') == True ]]
	[[ $(json 'site["function"]') == make_random ]]
	[[ $(json 'site["file"]') == memory.c ]]
	[[ $(json 'site["line"]') == $(line_of "the random array" "${MEMORY}") ]]
	[[ $(json 'site["misses_fraction"] > 0.9') == True ]]
	grep -q "make_random (memory.c:$(line_of "the random array" "${MEMORY}"))" report.txt
}

@test "of static arrays the random one is blamed by its name" {
	run -0 "${ESTIMATE[@]}" "${BATS_FILE_TMPDIR}/memory" static
	whole
	[[ $(json 'top["name"]') == "[bss]" ]]
	[[ $(json 'top["kind"]') == segment ]]
	[[ $(json 'site["variable"]') == busy ]]
	[[ $(json 'site["misses_fraction"] > 0.9') == True ]]
}

@test "of arrays of new[] and a vector the random one is blamed, by function and line" {
	local source=${BATS_TEST_DIRNAME}/../attribution/new.cc
	run -0 "${ESTIMATE[@]}" "${BATS_FILE_TMPDIR}/new"
	whole
	[[ $(json 'site["function"]') == make_random* ]]
	[[ $(json 'site["line"]') == $(line_of "the random array" "${source}") ]]
	run -0 "${ESTIMATE[@]}" "${BATS_FILE_TMPDIR}/new" vector
	[[ $(json 'site["function"]') == make_vector* ]]
	[[ $(json 'site["line"]') == $(line_of "the vector" "${source}") ]]
}

@test "a mapped file is blamed by its path, one on tmpfs as such" {
	local shm=/dev/shm/tlbcost-attribution-$$
	[[ $(stat -f -c %T /dev/shm) == tmpfs ]] || skip "needs a tmpfs on /dev/shm"
	run -0 "${ESTIMATE[@]}" "${BATS_FILE_TMPDIR}/memory" file "${shm}"
	rm -f "${shm}"
	whole
	[[ $(json 'top["name"]') == "${shm}" ]]
	[[ $(json 'top["kind"]') == tmpfs ]]
	grep -q "${shm}" report.txt
}

# bats test_tags=long
@test "memory that was moved, or unmapped before the end, is attributed" {
	run -0 "${ESTIMATE[@]}" "${BATS_FILE_TMPDIR}/memory" mremap
	whole
	[[ $(json 'site["function"]') == move ]]
	[[ $(json 'site["line"]') == $(line_of "moved" "${MEMORY}") ]]
	run -0 "${ESTIMATE[@]}" "${BATS_FILE_TMPDIR}/memory" churn
	whole
	[[ $(json 'site["function"]') == churn ]]
	[[ $(json 'site["misses_fraction"] > 0.8') == True ]]
	# Of 20 mappings at one place, one at a time, no more is touched than one has.
	[[ $(json '(16 << 20) <= top["touched_bytes"] <= (50 << 20)') == True ]]
}

@test "small blocks are the heap's, by who made it grow" {
	run -0 "${ESTIMATE[@]}" "${BATS_FILE_TMPDIR}/memory" heap
	whole
	[[ $(json 'site["function"]') == small ]]
	if [[ $(json 'top["kind"] != "heap" and "[heap]" in [each["name"] for each in report["attribution"]["memory"]]') == True ]]; then
		skip "brk() had no room, and malloc mapped most of the blocks"
	fi
	[[ $(json 'top["kind"]') == heap ]]
	[[ $(json 'top["name"]') == "[heap]" ]]
}

# bats test_tags=long
@test "threads and processes are attributed, each to its own" {
	run -0 "${ESTIMATE[@]}" "${BATS_FILE_TMPDIR}/memory" threads
	whole
	[[ $(json 'site["function"]') == make_random ]]
	run -0 "${ESTIMATE[@]}" "${BATS_FILE_TMPDIR}/memory" start
	whole
	[[ $(json 'site["function"]') == make_random ]]
	[[ $(json 'len(report["attribution"]["phases"])') -ge 2 ]]
}

# bats test_tags=long
@test "a program in Python: its shares sum to the whole, too" {
	"${BUILD}/venv/bin/python" -c 'import numpy' 2>/dev/null || skip "needs numpy"
	run -0 "${ESTIMATE[@]}" "${BUILD}/venv/bin/python" -c '
import numpy
array = numpy.ones(2_000_000)
index = numpy.random.default_rng(1).integers(0, len(array), 500_000)
print(array[index].sum())'
	whole
	[[ $(json 'top["kind"]') == anonymous ]]
	[[ $(json '"numpy" in site["object"]') == True ]]
}

@test "the random loop's line is on top, in report, table and folded stacks" {
	local line
	line=$(line_of "the random line" "${MEMORY}")
	run -0 "${ESTIMATE[@]}" --code code.tsv --folded folded "${BATS_FILE_TMPDIR}/memory" malloc
	[[ $(json 'report["attribution"]["code"][0]["site"]["function"]') == use_at_random ]]
	[[ $(json 'report["attribution"]["code"][0]["site"]["line"]') == "${line}" ]]
	grep -q "use_at_random (memory.c:${line})" report.txt
	run -0 "${BUILD}/tlbcost" annotate code.tsv
	[[ ${lines[1]} == *walks*%*"image name"*"app name"*"symbol name"* ]]
	[[ ${lines[2]} == *memory*memory*use_at_random*"memory.c:${line}" ]]
	run -0 "${BUILD}/tlbcost" annotate code.tsv --by line --limit 1 --json code.json
	[[ $(python3 -c 'import json; print(json.load(open("code.json"))["rows"][0]["line"])') == "${line}" ]]
	# Each line of folded stacks is frames, a blank and a count; the sum is that of all walks.
	run -0 awk '!/^[^;]+(;[^;]+)+ [0-9]+$/ { exit 1 } { sum += $NF } END { print sum }' folded
	[[ ${output} == "$(json 'sum(c["stlb_misses"] for c in report["simulation"]["counts"]
		if c["page_size_bytes"] == 4096)')" ]]
	run -0 sort -t ' ' -k 2nr folded
	[[ ${lines[0]} == "memory;main;use_at_random "* ]]
}

@test "phases show when it walks: first in order, then at random" {
	run -0 "${ESTIMATE[@]}" "${BATS_FILE_TMPDIR}/memory" malloc
	# The last tenth of the phases is random alone, the first half hardly walks.
	[[ $(json '(lambda p: sum(x["stlb_misses"] for x in p[-len(p) // 10:]) / max(1, len(p) // 10)
		> 20 * sum(x["stlb_misses"] for x in p[:len(p) // 2]) / (len(p) // 2))(
		report["attribution"]["phases"][0]["phases"])') == True ]]
	need_program gnuplot
	run -0 "${ESTIMATE[@]}" --plot phases.png "${BATS_FILE_TMPDIR}/memory" malloc
	[[ $(head -c 4 phases.png | tail -c 3) == PNG ]]
}

# Simulate with attribution; tables without what differs from run to run.
tables() { # <folder> [<option>...] -- <program> [<argument>...]
	local folder=$1 kind
	shift
	mkdir "${folder}"
	valgrind_lib
	valgrind.bin --tool=tlbsim --vgdb=no --log-file=/dev/null \
		--counts-dir="${folder}" --attribute=yes "$@" >/dev/null
	for kind in counts mappings code phases; do
		sed -E '/^# (pid|parent_pid):/d' "${folder}/${kind}".*.tsv | sort
	done
}

@test "neither the filter nor attribution changes a count" {
	need_program valgrind.bin
	tables filtered "${BATS_FILE_TMPDIR}/memory" malloc >with
	tables unfiltered --filter=no "${BATS_FILE_TMPDIR}/memory" malloc >without
	diff -u with without
	grep -q '^anonymous' with
	# A stack has one row.
	awk '/^[0-9]/ && seen[$1]++ { exit 1 }' filtered/stacks.*.tsv
	mkdir alone
	valgrind_lib
	valgrind.bin --tool=tlbsim --vgdb=no --log-file=/dev/null \
		--counts-dir=alone "${BATS_FILE_TMPDIR}/memory" malloc >/dev/null
	diff <(grep -h '^[0-9]' alone/counts.*) <(grep -h '^[0-9]' filtered/counts.*)
	[[ $(find alone -type f | wc -l) == 1 ]]
}

@test "options for a simulation are refused where there is none: 2" {
	answers 2 "--code needs a simulation" -- "${BUILD}/tlbcost" estimate --backend pmu --code code.tsv true
	answers 2 "--folded needs a simulation" -- "${BUILD}/tlbcost" estimate --from nothing --folded folded
	answers 2 "not a .png or .svg file" -- "${BUILD}/tlbcost" estimate --plot phases.pdf true
	answers 125 "no such folder" -- "${BUILD}/tlbcost" estimate --code nowhere/code.tsv true
	[[ ! -e code.tsv && ! -e folded ]]
}

# bats test_tags=long
@test "sites: the code that allocated what misses, and a plan that gives this memory huge pages" {
	[[ -x ${BUILD}/libexec/tlbcost-copies ]] || skip "tlbcost-copies is not built"
	[[ ${BUILD} != *[\ :]* ]] || skip "LD_PRELOAD cannot name a file in this folder"
	gcc -std=c11 -D_GNU_SOURCE -O2 -g -o planted "${BATS_TEST_DIRNAME}/../c/planted.c"
	# Copies need base pages, whatever others set.
	"${BUILD}/tlbcost" run --no-thp -- "${BUILD}/tlbcost" estimate --plan plan.json --details \
		--no-measure --json report.json --output report.txt -- ./planted 150000000 2>said
	[[ $(json '[each["site"]["function"] for each in report["attribution"]["sites"]][:2]') == \
		"['dense_hot', 'sparse_hot']" ]]
	[[ $(<report.txt) == *"allocated by"*"dense_hot (planted.c:"* ]]
	[[ $(python3 -c 'import json; print(json.load(open("plan.json"))["sites"][0]["site"]["function"])') == \
		dense_hot ]]
	# With an argument, as before: the compiler makes two paths of main.
	run -0 --separate-stderr "${BUILD}/tlbcost" run --plan plan.json -- ./planted 1000
	[[ ${output} == "dense 1 "*"cold 0 "* ]]
	echo "{}" >garbage
	answers --apart 1 "not a plan" -- "${BUILD}/tlbcost" run --plan garbage -- ./planted
}

# bats test_tags=long
@test "sites: what they say that huge pages add is what pairs of runs add, within 2 %" {
	[[ -x ${BUILD}/libexec/tlbcost-copies ]] || skip "tlbcost-copies is not built"
	[[ ${BUILD} != *[\ :]* ]] || skip "LD_PRELOAD cannot name a file in this folder"
	need_madvise
	gcc -std=c11 -D_GNU_SOURCE -O2 -g -o planted "${BATS_TEST_DIRNAME}/../c/planted.c"
	TLBCOST_MEASURE=yes "${BUILD}/tlbcost" estimate --sites --json report.json --output report.txt -- \
		./planted 150000000 2>said
	local sum='sum(each["growth_bytes"] or 0 for each in report["attribution"]["sites"])'
	printf '%s MiB by sites, %s measured\n' "$(json "${sum} >> 20")" \
		"$(json 'report["measured"]["growth_bytes"]')"
	[[ $(json "abs(${sum} / report['measured']['growth_bytes']['value'] - 1) <= 0.02") == True ]]
}
