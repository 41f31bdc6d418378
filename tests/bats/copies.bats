#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# Does tlbcost-copies copy programs, and does nobody notice?

load common

setup() {
	need_built libexec/tlbcost-copies libexec/tlbcost-injector workloads/hash-lookup
	COPIES=${BUILD}/libexec/tlbcost-copies
	OUT=${BATS_TEST_TMPDIR}/out
	mkdir "${OUT}"
	RUN=${BATS_TEST_TMPDIR}/run.tsv
}

teardown() {
	[[ -z ${PROCESS:-} ]] || kill "${PROCESS}" 2>/dev/null || true
}

key() { # <key>
	awk -v key="# $1:" 'index($0, key) == 1 { print substr($0, length(key) + 2) }' \
		"${OUT}/copies.tsv"
}

rows() { # <result>
	awk -F '\t' -v result="$1" '$8 == result { n++ } END { print n + 0 }' "${OUT}/copies.tsv"
}

# Copies are never more than a wish: a busy machine may have no time for them.
copied() {
	(($(rows followed) + $(rows cut) > 0)) || {
		cat "${OUT}/copies.tsv"
		return 1
	}
}

start() { # <command>...: in the background
	"$@" >"${BATS_TEST_TMPDIR}/output" 2>&1 3>&- &
	PROCESS=$!
}

nothing_left() {
	wait_until eval "! pgrep -g 0 '^tlbcost-[iwc]' >/dev/null" || { pgrep -g 0 -a 'tlbcost-' && return 1; }
}

@test "a program is copied, and its output and exit code are its own" {
	local command=("${BUILD}/workloads/hash-lookup" --size 64M --count 80000000)
	run -0 timeout 120 "${COPIES}" --out "${OUT}" --run "${RUN}" --copies 20 -- "${command[@]}"
	expected=$("${command[@]}")
	[[ ${output} == "${expected}" ]]
	copied
	[[ $(tail -n 1 "${OUT}/copies.tsv") == "# end: "* ]]
	[[ -e ${OUT}/copy_windows.0.tsv && -e ${OUT}/copy_counts.0.tsv ]]
	(($(key cpu_ns) > 0 && $(key pauses) > 0))
	grep -q '^# tlbcost run 2' "${RUN}"
}

@test "the exit code, a signal, and a program that is not there" {
	run -7 timeout 60 "${COPIES}" --out "${OUT}" -- bash -c 'for ((i = 0; i < 100000; i++)); do :; done; exit 7'
	run -143 timeout 60 "${COPIES}" --out "${OUT}" -- bash -c 'kill -TERM $$'
	run -127 timeout 60 "${COPIES}" --out "${OUT}" -- no-such-program
	[[ ${output} == *"tlbcost: no-such-program: not found"* ]]
}

@test "a program sees its own children only" {
	run -0 timeout 120 "${COPIES}" --out "${OUT}" --copies 30 -- python3 -c '
import os, time
end = time.process_time() + 0.5
while time.process_time() < end:
    pass
try:
    os.waitpid(-1, 0)
    print("a child")
except ChildProcessError:
    print("none")
print(len(os.listdir("/proc/self/fd")))'
	[[ ${lines[0]} == none ]]
	[[ ${lines[1]} == "$(python3 -c 'import os; print(len(os.listdir("/proc/self/fd")))')" ]]
}

@test "children are copied with --children, and without it they are not" {
	local program='import subprocess, sys
subprocess.run([sys.executable, "-c", "import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass"])'
	run -0 timeout 120 "${COPIES}" --out "${OUT}" --copies 20 --children -- python3 -c "${program}"
	(($(key processes_seen) >= 2))
	(($(awk -F '\t' -v pid="$(key pid)" '/^[0-9]/ && $2 != pid && $2 != "NA"' "${OUT}/copies.tsv" | wc -l) > 0))
	run -0 timeout 120 "${COPIES}" --out "${OUT}" -- python3 -c "${program}"
	[[ $(key processes_seen) == 1 ]]
}

@test "a running process continues, and has no dead children afterwards" {
	start python3 -c '
import time
end = time.time() + 60
while time.time() < end: pass'
	run -0 timeout 60 "${COPIES}" --out "${OUT}" --pid "${PROCESS}" --seconds 3
	copied
	# Though it makes no more calls once those that end windows are recorded.
	(($(rows refused-busy) == 0))
	kill -0 "${PROCESS}"
	run ps --ppid "${PROCESS}" -o pid=
	[[ ${output} == "" ]]
	nothing_left
}

@test "SIGINT ends the following of a process, with what there is" {
	start bash -c 'while :; do :; done'
	timeout 60 "${COPIES}" --out "${OUT}" --pid "${PROCESS}" 3>&- &
	local copies=$!
	sleep 2
	# timeout passes it on.
	kill -INT "${copies}"
	ended_with 0 "${copies}"
	[[ -e ${OUT}/copies.tsv ]]
	kill -0 "${PROCESS}"
}

@test "a process that ends ends the following of it" {
	start bash -c 'for ((i = 0; i < 300000; i++)); do :; done'
	run -0 timeout 60 "${COPIES}" --out "${OUT}" --pid "${PROCESS}"
	[[ -e ${OUT}/copies.tsv ]]
}

@test "a process that is not there" {
	answers 4 "cannot watch the process" -- timeout 60 "${COPIES}" --out "${OUT}" --pid 2147483646
}

@test "tlbcost-copies is killed: the running process continues, and nothing is left" {
	start bash -c 'while :; do :; done'
	"${COPIES}" --out "${OUT}" --pid "${PROCESS}" --copies 1000 3>&- &
	local copies=$!
	sleep 1.5
	kill -KILL "${copies}"
	ended_with 137 "${copies}"
	sleep 0.5
	kill -0 "${PROCESS}"
	[[ $(ps -o stat= -p "${PROCESS}") == R* ]]
	nothing_left
}

@test "a worker is killed: the program continues, and the table says so" {
	"${COPIES}" --out "${OUT}" -- bash -c 'for ((i = 0; i < 2000000; i++)); do :; done; exit 3' 3>&- &
	local copies=$!
	wait_until pgrep -P "${copies}" -x tlbcost-worker
	sleep 0.3
	pkill -KILL -P "${copies}" -x tlbcost-worker
	ended_with 3 "${copies}"
	(($(key lost_workers) > 0))
}

@test "no budget, no copy" {
	run -0 timeout 60 "${COPIES}" --out "${OUT}" --overhead 0 -- bash -c 'for ((i = 0; i < 100000; i++)); do :; done'
	[[ $(key state) == budget ]]
	[[ $(tail -n 1 "${OUT}/copies.tsv") == "# end: 0" ]]
}

@test "wrong command lines" {
	answers 125 "no --out FOLDER" -- "${COPIES}" -- true
	answers 125 "nothing to run" -- "${COPIES}" --out "${OUT}"
	answers 125 "not a fraction" -- "${COPIES}" --out "${OUT}" --overhead 2 -- true
	answers 125 "--l1d" -- "${COPIES}" --out "${OUT}" --l1d nonsense -- true
	answers 125 "No such file" -- "${COPIES}" --out "${OUT}/nowhere" -- true
	answers 0 "--overhead" -- "${COPIES}" --help
}

@test "copies wait while another one is measured; what there is no time for is given up" {
	local command=("${BUILD}/workloads/hash-lookup" --size 16M --count 40000000)
	# Of what is on huge pages already there are no copies: PR_SET_THP_DISABLE.
	local on_base='import ctypes, os, sys; ctypes.CDLL(None).prctl(41, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])'
	need_built venv/bin/python
	run -0 timeout 160 "${BUILD}/venv/bin/python" -c "${on_base}" \
		"${COPIES}" --out "${OUT}" --run "${RUN}" --arms 1 --record 0 --workers 1 --copies 12 \
		--expected-cpu-ns 1000000000 --until-seconds 1 -- "${command[@]}"
	expected=$("${command[@]}")
	[[ ${output} == "${expected}" ]]
	nothing_left
	cat "${OUT}/copies.tsv"
	(($(rows followed) + $(rows cut) >= 4 && $(rows busy) > 0))
	# The worker has one at a time, and others wait until the program has ended. Four are enough: none
	# of these is begun if four were measured before.
	awk -F '\t' '/^# wall_ns:/ { split($0, part, ": "); over = part[2] }
		$8 == "followed" || $8 == "cut" {
			if (end > $4) waited++
			end = $4 + $17
			if (end < over) before++
		}
		END { exit waited == 0 && before < 4 }' "${OUT}/copies.tsv"
}
