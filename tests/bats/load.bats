#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long
# Is an estimate true of a program that sleeps, or waits for a CPU that others use?

load common

setup() {
	need_built tlbcost libexec/tlbcost-run libexec/valgrind workloads/random-update workloads/loop
	need_program valgrind taskset
	RUN=${BUILD}/libexec/tlbcost-run
	cd "${BATS_TEST_TMPDIR}" || return
	# A CPU that we may use.
	CPU=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
	"${RUN}" --output probe.tsv true
	[[ -r /proc/self/schedstat ]] || skip "this kernel does not say how long a thread waits for a CPU"
}

teardown() {
	[[ -z ${busy-} ]] || kill "${busy}"
}

occupy() { # the CPU
	taskset -c "${CPU}" bash -c 'while :; do :; done' 3>&- &
	busy=$!
}

estimate() { # <command>...
	dear_walks >dear.tsv
	run -0 --separate-stderr taskset -c "${CPU}" "${BUILD}/tlbcost" estimate --calibration dear.tsv \
		--runs 2 --json report.json --output report.txt -- "$@"
}

worth_trying_or_load() {
	local code
	code=$(json 'report["verdict"]["code"]')
	[[ ${code} == worth_trying || $(json 'report["verdict"]["sentence"]') == *"waited for a CPU"* ]] ||
		{ cat report.txt && return 1; }
}

@test "the time that a program waits for a CPU is known" {
	occupy
	taskset -c "${CPU}" "${RUN}" --output run.tsv "${BUILD}/workloads/loop" --count 200000000
	cpu=$(($(cell run.tsv user_ns) + $(cell run.tsv system_ns)))
	waited=$(cell run.tsv waited_ns)
	((waited > cpu / 4))
	# The rest of the elapsed time: the program itself never sleeps.
	((cpu + waited <= $(cell run.tsv wall_ns)))
}

@test "... that of its threads and children too" {
	occupy
	taskset -c "${CPU}" "${RUN}" --output run.tsv sh -c \
		"${BUILD@Q}/workloads/loop --count 900000000 & ${BUILD@Q}/workloads/loop --count 900000000; wait"
	cat run.tsv
	cpu=$(($(cell run.tsv user_ns) + $(cell run.tsv system_ns)))
	(($(cell run.tsv waited_ns) > cpu / 2))
}

@test "what came and went between two samples is not known" {
	"${RUN}" --output run.tsv sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do env true; done; :'
	[[ $(cell run.tsv waited_ns) == NA ]]
}

# bats test_tags=settings
@test "alongside a busy loop on its CPU the verdict is the same, or names the load" {
	occupy
	estimate "${BUILD}/workloads/random-update" --size 64M --count 3M
	worth_trying_or_load
	[[ $(json 'report["program"]["waited_fraction"] > 0.2') == True ]]
	tr -s ' \n' ' ' <report.txt | grep -q 'waited for a CPU [0-9]* % of the time'
	[[ $(json '[c["code"] for c in report["caveats"] if c["code"] == "T40"]') == "['T40']" ]]
}

# bats test_tags=settings
@test "a program that sleeps has the shares of its CPU time, and is reported as idle" {
	estimate sh -c "${BUILD@Q}/workloads/random-update --size 64M --count 3M; sleep 3"
	worth_trying_or_load
	awake=$(json 'sum(run["user_ns"] + run["system_ns"] for run in report["program"]["runs"])')
	elapsed=$(json 'sum(run["wall_ns"] for run in report["program"]["runs"])')
	((elapsed > awake + 6000000000))
	saved=$(json 'int(report["expected_saved_ns"]["value"])')
	((saved <= awake))
	# However the lines are broken.
	tr -s ' \n' ' ' <report.txt | grep -Eq 'idle [0-9]+ %|idle or waiting' || { cat report.txt && return 1; }
	grep -q 'CPU time' report.txt
}
