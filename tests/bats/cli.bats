#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does every command take its options alike, and say what is wrong with one?

load common

setup() {
	need_built tlbcost
	cd "${BATS_TEST_TMPDIR}" || exit
	export XDG_CACHE_HOME=${PWD}/cache
}

tlbcost() {
	"${BUILD}/tlbcost" "$@"
}

# Its output as on a terminal of this TERM.
on_terminal() { # <TERM> <command> [<argument>...]
	need_program script
	local term=$1
	shift
	TERM=${term} script -qec "$(printf '%q ' "$@")" /dev/null </dev/null
}

@test "help is the same by either name" {
	run -0 --separate-stderr tlbcost help
	local whole=${output}
	run -0 --separate-stderr tlbcost --help
	[[ ${output} == "${whole}" && ${output} == *"commands:"* ]]
	run -0 --separate-stderr tlbcost help maps
	[[ ${output} == "usage: tlbcost maps"* && ${output} == *"exit codes:"*$'\n  4 '* ]]
}

@test "alone on a terminal it says what to type first, in three lines" {
	run -0 on_terminal xterm "${BUILD}/tlbcost"
	((${#lines[@]} == 3))
	[[ ${lines[0]} == "tlbcost estimate ./app"* ]]
}

@test "a misspelt command or option is answered by the nearest one" {
	run -2 --separate-stderr tlbcost estimte ./app
	[[ ${stderr} == $'tlbcost: there is no command estimte\ntlbcost: hint: tlbcost estimate' ]]
	run -2 --separate-stderr tlbcost help zzz
	[[ ${stderr} == *"hint: "*"tlbcost --help" ]]
	run -2 --separate-stderr tlbcost estimate --jsn x true
	[[ ${stderr} == "tlbcost: estimate: unrecognized arguments: --jsn"*"hint: --json"* ]]
	run -2 --separate-stderr tlbcost estimate --backend pum true
	[[ ${stderr} == "tlbcost: estimate: argument --backend: invalid choice"*"hint: --backend pmu, or "* ]]
	run -2 --separate-stderr tlbcost pool stat
	[[ ${stderr} == "tlbcost: pool: argument action: invalid choice"*"hint: status, or "* ]]
	run -2 --separate-stderr tlbcost --pid 1
	[[ ${stderr} == "tlbcost: unrecognized arguments: --pid"*"hint: options follow the command"* ]]
}

@test "two options that write one file are refused before anything runs" {
	ln -s a link
	local options
	for options in "--output a --json a" "--output a --json link" "--json - --output -"; do
		# shellcheck disable=SC2086  # they are words
		answers --apart 2 "are the same file" -- tlbcost estimate ${options} touch ran
	done
	printf 'x\n' >a && ln a hard
	run -2 --separate-stderr tlbcost count --table a --json hard touch ran
	[[ ${stderr} == *"--json and --table are the same file"* ]]
	run -2 --separate-stderr tlbcost estimate --from a --output a
	[[ $(cat a) == x && ! -e ran ]]
}

@test "- is standard output, and JSON there stands in for the text" {
	need_program jq
	local command
	for command in "doctor" "events --pmu skl" "machines zen4"; do
		# shellcheck disable=SC2086  # they are words
		tlbcost ${command} --json - | jq -e type >/dev/null
	done
	run -0 --separate-stderr tlbcost maps --json - "$$"
	jq -e .processes <<<"${output}" >/dev/null
	run -0 --separate-stderr tlbcost maps --output - sleep 0.5
	[[ ${output} == *"page"* && ${stderr} == "" ]]
}

@test "- is standard input for counts taken elsewhere" {
	cat >perf.txt <<-'END'
		 Performance counter stats for './app':

		     4,000,000,000      cycles:u
		       800,000,000      dtlb_load_misses.walk_active:u
		        80,000,000      dtlb_store_misses.walk_active:u
		         8,000,000      itlb_misses.walk_active:u

		       1.000000000 seconds time elapsed
	END
	run -0 --separate-stderr tlbcost estimate --cpu skl --from - --output - <perf.txt
	local from_pipe=${lines[0]}
	run -0 --separate-stderr tlbcost estimate --cpu skl --from perf.txt --output -
	[[ ${lines[0]} == "${from_pipe}" && ${lines[0]} == *" % of the cycles counted"* ]]
}

@test "a report goes to its file with standard error closed" {
	run -0 bash -c '"$1" maps --output report -- sleep 0.5 2>&-' _ "${BUILD}/tlbcost"
	[[ -s report ]]
	# The program finds it closed, too.
	run -0 bash -c '"$1" maps --output report -- sh -c "sleep 0.5; ! test -e /proc/self/fd/2" 2>&-' \
		_ "${BUILD}/tlbcost"
	# A report that could go nowhere is a failure.
	run -125 bash -c '"$1" maps -- sleep 0.5 2>&-' _ "${BUILD}/tlbcost"
}

@test "the time limit ends the program and all that it started, and says what was finished" {
	export TMPDIR=${PWD}/tmp
	mkdir tmp
	printf '#!/bin/sh\necho "$$" >pid\nsleep 600\n' >slow && chmod +x slow
	run -142 --separate-stderr tlbcost numa --time-limit 2s ./slow
	[[ ${stderr} == "tlbcost: the time limit passed during the native run; finished: nothing"* ]]
	[[ ${stderr} == *"hint: "*"--time-limit"* ]]
	has_ended "$(cat pid)"
	[[ -z $(ls "${TMPDIR}") ]]
	answers --apart 2 "not a duration such as 90, 90s or 5m: soon" -- tlbcost numa --time-limit soon ./slow
}

# bats test_tags=settings
@test "a line is rewritten on a terminal that can, and none is on one that cannot" {
	local erase=$'\r\033[K'
	run on_terminal xterm "${BUILD}/tlbcost" estimate --runs 2 \
		--calibration "${TREE}/tests/golden/calibration.tsv" sleep 2
	[[ ${output} == *"${erase}tlbcost: 2 native runs: run 2 of 2, about "*" left"*"${erase}"* ]]
	[[ ${output} == *"${erase}tlbcost: simulating: "*" so far, usually "*"${erase}"* ]]
	run on_terminal xterm "${BUILD}/tlbcost" numa --time-limit 4s --nodes 2 sleep 100
	[[ ${output} != *"${erase}"* ]] # The terminal is the program's during its own run.
	run on_terminal dumb "${BUILD}/tlbcost" calibrate --quick --page-size 2M
	[[ ${output} != *$'\033'* ]]
}

@test "quiet keeps messages back, and no errors" {
	run -0 --separate-stderr tlbcost maps --quiet --output report sleep 0.5
	[[ ${stderr} == "" ]]
	run -127 --separate-stderr tlbcost estimate --quiet ./missing
	[[ ${stderr} == "tlbcost: "*missing* ]]
}
