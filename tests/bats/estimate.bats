#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does `tlbcost estimate` answer, and when it cannot, say why and leave nothing behind?

load common

setup() {
	need_built tlbcost libexec/tlbcost-run libexec/valgrind
	need_program valgrind
	ESTIMATE=("${BUILD}/tlbcost" estimate --engine valgrind --calibration "${TREE}/tests/golden/calibration.tsv")
	in_own_folder
}

teardown() {
	local left
	left=$(ls -A "${BATS_TEST_TMPDIR}/tmp")
	[[ -z ${left} ]] || { printf 'left behind: %s\n' "${left}" && return 1; }
}

# Whether the output says so, wherever its lines end.
says() { # <words>
	[[ $(tr -s ' \n' ' ' <<<"${output}") == *"$1"* ]]
}

# A C program from standard input.
build() { # <name> [<option>...]
	local name=$1
	shift
	gcc -O1 -x c -o "${name}" "$@" -
}

simulated='[[ ${LD_PRELOAD-} == *vgpreload* ]]'

@test "a program is estimated, and its output and exit code are its own" {
	run -0 --separate-stderr "${ESTIMATE[@]}" --json report.json --output report.txt -- \
		sh -c 'echo out; echo err >&2'
	[[ ${output} == out ]]
	[[ ${stderr} == err ]]
	grep -q '^NOT WORTH IT: ' report.txt
	(($(wc -l <report.txt) <= 15))
	run ! grep -E '.{81}' report.txt
	[[ $(json 'report["verdict"]["code"]') == not_worth_it ]]
	[[ $(json 'len(report["program"]["runs"])') == 3 ]]
	[[ $(json 'report["simulation"]["exit_code"]') == 0 ]]
}

@test "the report goes to stderr without --output" {
	run -0 --separate-stderr "${ESTIMATE[@]}" --runs 1 true
	[[ ${output} == "" ]]
	[[ ${stderr} == *"NOT WORTH IT:"*"page walks"* ]]
}

@test "--fail-if: 3 if it holds, 4 if it cannot be decided, 2 before anything runs if it is wrong" {
	run -3 "${ESTIMATE[@]}" --runs 1 --fail-if 'verdict==not_worth_it' true
	run -0 "${ESTIMATE[@]}" --runs 1 --fail-if 'gain>50%' true
	run -4 "${ESTIMATE[@]}" --runs 1 --fail-if 'counters.translation_fraction>1%' true
	[[ ${output} == *"cannot be decided: a value was not obtained (NA)"*"hint:"* ]]
	run -2 "${ESTIMATE[@]}" --fail-if 'gainn>5%' touch made
	[[ ${output} == *"there is no key gainn; the nearest are gain"*"hint:"* ]]
	run -2 "${ESTIMATE[@]}" --machine zen4 --fail-if 'gain>5%' touch made
	[[ ! -e made ]]
}

@test "options after COMMAND are the program's" {
	run -0 --separate-stderr "${ESTIMATE[@]}" --runs 1 echo --runs 7 -- --json
	[[ ${output} == "--runs 7 -- --json" ]]
}

# bats test_tags=settings,long
@test "a program with a large random table is worth trying" {
	need_built workloads/random-update
	dear_walks >dear.tsv
	run -0 "${BUILD}/tlbcost" estimate --engine valgrind --calibration dear.tsv --runs 1 --json report.json -- \
		"${BUILD}/workloads/random-update" --size 128M --count 3M
	[[ $(json 'report["verdict"]["code"]') == worth_trying ]]
	[[ $(json 'report["simulation"]["counts"][1]["stlb_misses"] > 2_000_000') == True ]]
	[[ $(json 'report["expected_fraction"]["low"] > 0.02') == True ]]
}

# bats test_tags=long
@test "the overlap model times the program's code: with and without walks to save" {
	need_built workloads/chase
	priced_loads >loads.tsv
	run -0 "${BUILD}/tlbcost" estimate --engine valgrind --details --backend sim --calibration loads.tsv --runs 1 \
		--json report.json "${BUILD}/workloads/chase" --size 64M --count 2000000
	[[ ${output} == *"simulation, overlap model"* ]]
	[[ $(json 'report["simulation"]["model"]') == overlap ]]
	[[ $(json 'report["expected_fraction"]["value"] > 0.05') == True ]]
	run -0 "${BUILD}/tlbcost" estimate --engine valgrind --backend sim --calibration loads.tsv --runs 1 \
		--json report.json "${BUILD}/workloads/cyclic" --pages 40 --rounds 1000000
	[[ $(json 'abs(report["expected_fraction"]["value"]) < 0.01') == True ]]
}

# bats test_tags=settings
@test "a program that asks for huge pages itself is reported to have them" {
	grep -q '\[never\]' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null &&
		skip "transparent huge pages are off"
	build asks <<-'END'
		#include <stdlib.h>
		#include <sys/mman.h>
		int main(void)
		{
			enum { SIZE = 64 << 20 };
			char *memory = aligned_alloc(2 << 20, SIZE);
			unsigned x = 1;
			if (madvise(memory, SIZE, MADV_HUGEPAGE) != 0)
				return 1;
			for (int i = 0; i < 5000000; i++) {
				x = x * 1664525 + 1013904223;
				memory[x >> 6]++;
			}
			return memory[0] == 99 && memory[1] == 99;
		}
	END
	dear_walks >dear.tsv
	run -0 "${BUILD}/tlbcost" estimate --engine valgrind --calibration dear.tsv --runs 1 --json report.json -- ./asks
	[[ $(json 'report["verdict"]["code"]') == already_huge ]]
	says "ALREADY THERE: the program was timed with most of its memory on 2 MiB pages"
	says "T22 The program took only"
}

@test "each process of a pipeline has its counts" {
	run -0 --separate-stderr "${ESTIMATE[@]}" --runs 1 --json report.json -- \
		sh -c 'seq 1000 | sort | tail -n 1'
	[[ ${output} == 999 ]]
	for name in seq sort tail; do
		[[ $(json "[p['counts'] is not None for p in report['simulation']['processes']
			if p['program'].endswith('/${name}')]") == "[True]" ]]
	done
}

@test "a static program is estimated" {
	echo 'int main(void) { return 0; }' | build static -static || skip "needs a static libc"
	run -0 "${ESTIMATE[@]}" --runs 1 ./static
}

@test "threads are counted and their serialisation is reported" {
	need_built workloads/threads
	run -0 "${ESTIMATE[@]}" --details --runs 1 -- "${BUILD}/workloads/threads" --size 16M --count 100k
	[[ ${output} == *"T05  3 threads"* || ${output} == *"T05  2 threads"* ]]
}

@test "standard input from a pipe is given to every run" {
	run -0 --separate-stderr bash -c 'seq 5000 | "$@"' _ "${ESTIMATE[@]}" --json report.json \
		-- sh -c 'test "$(wc -l)" = 5000'
	[[ $(json 'report["simulation"]["exit_code"]') == 0 ]]
}

@test "no such program: 127" {
	answers 127 "no such program on PATH" "hint:" -- "${ESTIMATE[@]}" no-such-program
	answers 127 "no such file" "hint:" -- "${ESTIMATE[@]}" ./no-such-program
}

@test "not executable, a folder: 126" {
	echo hello >text
	answers 126 "not executable" "chmod +x" -- "${ESTIMATE[@]}" ./text
	answers 126 "is a directory" "hint:" -- "${ESTIMATE[@]}" /
}

@test "a setuid program is refused before it runs" {
	cp "$(type -P touch)" privileged
	chmod u+s privileged
	answers 125 "setuid" "hint:" -- "${ESTIMATE[@]}" ./privileged made
	[[ ! -e made ]]
}

@test "a program with file capabilities is refused before it runs" {
	need_root
	need_program setcap
	cp "$(type -P touch)" privileged
	setcap cap_net_raw+ep privileged || skip "this file system has no capabilities"
	answers 125 "capabilities" "hint:" -- "${ESTIMATE[@]}" ./privileged made
	[[ ! -e made ]]
}

@test "a program that fails refuses the estimate, with its own exit code" {
	answers 3 "sh exited with 3" "--ignore-failure" -- "${ESTIMATE[@]}" --json report.json sh -c 'exit 3'
	[[ ! -e report.json ]]
	answers 139 "killed by SIGSEGV" -- "${ESTIMATE[@]}" sh -c 'kill -SEGV $$'
}

@test "a process that was killed is reported as missing" {
	# Not before its own program is at work: until then it is the shell's copy.
	mkfifo never
	run -0 "${ESTIMATE[@]}" --details --runs 1 --json report.json sh -c 'rm -f works
		sh -c ": >works; read -r line <never" &
		until [ -e works ]; do sleep 0.1; done
		kill -9 $!'
	says "T04 1 process ended without reporting any counts"
	[[ $(json '[p["counts"] for p in report["simulation"]["processes"]].count(None)') == 1 ]]
}

@test "AVX-512 code is named with its function" {
	build avx512 -g <<-'C' || skip "needs an x86-64 compiler"
		__attribute__((noinline)) void add_all(void)
		{
			__asm__ volatile("vpaddd %zmm0, %zmm0, %zmm0");
		}

		int main(void)
		{
			add_all();
			return 0;
		}
	C
	./avx512 || skip "this CPU has no AVX-512"
	run -125 "${ESTIMATE[@]}" --runs 1 ./avx512
	[[ ${output} == *"AVX-512 instruction"*"add_all"*"hint:"*"-march=x86-64-v3"* ]]
}

@test "a report that cannot be written is refused before anything runs" {
	run -125 "${ESTIMATE[@]}" --json no/such/folder/report touch made
	[[ ${output} == *"cannot write no/such/folder/report: no such folder"*"hint:"* ]]
	answers 125 "is a directory" -- "${ESTIMATE[@]}" --output . touch made
	[[ ! -e made ]]
}

@test "a full disk is reported, and leaves no part of a report" {
	need_root
	mkdir disk
	mount -t tmpfs -o size=4k tmpfs disk || skip "cannot mount a file system"
	run "${ESTIMATE[@]}" --runs 1 --json disk/report.json true
	local found
	found=$(ls -A disk)
	umount disk
	((status == 125))
	[[ ${output} == *"NOT WORTH IT:"*"No space left on device"* ]]
	[[ -z ${found} ]]
}

# bats test_tags=long
@test "a full disk behind the files about attribution: 125, and a picture stays as it was" {
	[[ -w /dev/full ]] || skip "no /dev/full"
	local option
	for option in --folded --code; do
		run -125 --separate-stderr "${ESTIMATE[@]}" --runs 1 "${option}" /dev/full true
		[[ ${stderr} == *"NOT WORTH IT:"*"cannot write /dev/full: No space left on device"*"hint: "* ]]
	done
	run -125 bash -c '"$@" 2>/dev/full' - "${ESTIMATE[@]}" --runs 1 true
	need_program gnuplot
	ln -s /dev/full full.png
	run -125 --separate-stderr "${ESTIMATE[@]}" --runs 1 --plot full.png true
	[[ ${stderr} == *"NOT WORTH IT:"*"cannot write full.png: No space left on device"*"hint: "* ]]
	[[ -L full.png && -c /dev/full ]]
	need_root
	mkdir disk
	mount -t tmpfs -o size=4k tlbcost-test disk 2>/dev/null || skip "cannot mount a tmpfs"
	echo "an older picture" >disk/phases.svg
	run "${ESTIMATE[@]}" --runs 1 --plot disk/phases.svg true
	local left
	left=$(ls -A disk)$(<disk/phases.svg)
	umount disk
	((status == 125))
	[[ ${left} == "phases.svgan older picture" ]]
}

# Start an estimate in the background, with the signals that an interactive shell would leave.
start() { # <argument>...
	setsid env --default-signal=INT,TERM "${ESTIMATE[@]}" "$@" 2>stderr 3>&- &
	pid=$!
}

# Nothing of the started session runs any more; a dead one whom init has not buried yet may be there.
none_left() {
	# Who got the signal from the terminal as we did ends as soon as it can.
	if ! wait_until is_alone; then
		ps -e -o pgid=,stat=,args= | awk -v group="${pid}" '$1 == group'
		return 1
	fi
}

is_alone() {
	[[ -z $(ps -e -o pgid=,stat= | awk -v group="${pid}" '$1 == group && $2 !~ /^Z/') ]]
}

@test "Ctrl-C and SIGTERM during a native run end it and its children" {
	for signal in INT:130 TERM:143; do
		rm -f pids
		start sh -c 'sleep 98765 | { echo $$ >pids; sleep 98765; }'
		wait_until test -e pids
		kill "-${signal%:*}" "${pid}"
		ended_with "${signal#*:}"
		none_left
		[[ -z $(ls -A tmp) ]]
		[[ $(cat stderr) == *"SIG${signal%:*}"* ]]
	done
}

@test "Ctrl-C and SIGTERM during the simulation end it and its children" {
	for signal in INT:130 TERM:143; do
		rm -f simulating
		start --runs 1 bash -c "if ${simulated}; then touch simulating; sleep 98765; fi"
		wait_until test -e simulating
		kill "-${signal%:*}" "${pid}"
		ended_with "${signal#*:}"
		none_left
		[[ -z $(ls -A tmp) ]]
	done
}

@test "Ctrl-C at the terminal, which all processes get, is the same" {
	start --runs 1 bash -c "if ${simulated}; then touch simulating; sleep 98765; fi"
	wait_until test -e simulating
	kill -INT -- "-${pid}"
	ended_with 130
	none_left
}

@test "500 MiB in a cgroup of 400 MiB: the limit is named" {
	need_root
	in_cgroup $((400 << 20)) true
	run -137 in_cgroup $((400 << 20)) "${ESTIMATE[@]}" python3 -c 'bytearray(b"x") * (500 << 20)'
	[[ ${output} == *"killed at its memory limit (400 MiB, cgroup)"*"hint: raise the limit"* ]]
}

@test "under sudo the program runs as the user who called it" {
	under_sudo "${ESTIMATE[@]}" --runs 1 --json report.json sh -c 'id -u'
	((status == 0))
	[[ ${output} == 65534 ]]
	[[ $(json 'report["simulation"]["exit_code"]') == 0 ]]
}

# bats test_tags=long
@test "what the program leaves behind lives on; its copy in the simulator ends, and nothing stays" {
	local left
	run -0 "${ESTIMATE[@]}" --runs 2 --json report.json --output report.txt -- \
		sh -c 'sleep 1000 >/dev/null 2>&1 3>&- & echo $! >>left; sleep 1'
	# Two native runs and the simulated one: the processes of the first two live.
	mapfile -t left <left
	[[ ${#left[@]} == 3 ]]
	[[ $(<"/proc/${left[0]}/comm") == sleep && $(<"/proc/${left[1]}/comm") == sleep ]]
	kill "${left[0]}" "${left[1]}"
	has_ended "${left[2]}"
	[[ $(json '"T42" in [caveat["code"] for caveat in report["caveats"]]') == True ]]
	# Asked to end, the copy is counted up to that point: it is not one of those without
	# counts.
	[[ $(json '"T04" in [caveat["code"] for caveat in report["caveats"]]') == False ]]
	# One that does not end when asked to is ended all the same.
	run -0 "${ESTIMATE[@]}" --runs 1 --json report.json --output report.txt -- \
		sh -c 'sh -c "trap : TERM; while :; do sleep 0.2; done" >/dev/null 2>&1 3>&- & echo $! >>stubborn; sleep 1'
	mapfile -t left <stubborn
	kill -KILL "${left[0]}"
	has_ended "${left[1]}"
}
