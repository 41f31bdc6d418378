#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does the launcher time a program without the program noticing?

load common

setup() {
	need_built libexec/tlbcost-run
	RUN=${BUILD}/libexec/tlbcost-run
	TABLE=${BATS_TEST_TMPDIR}/run.tsv
	cd "${BATS_TEST_TMPDIR}" || return
}

left_over() { # the files that a failed run may not leave
	find "${BATS_TEST_TMPDIR}" -name 'run.tsv*'
}

@test "exits as the program and writes a complete table" {
	run -7 "${RUN}" --output "${TABLE}" -- sh -c 'exit 7'
	[[ ${output} == "" ]]
	[[ $(head -n 1 "${TABLE}") == "# tlbcost run 2" ]]
	[[ $(tail -n 1 "${TABLE}") == "# end: 1" ]]
	[[ $(cell "${TABLE}" exit_code) == 7 ]]
	[[ $(cell "${TABLE}" signal) == NA ]]
	[[ $(cell "${TABLE}" exec_errno) == NA ]]
	[[ $(cell "${TABLE}" wall_ns) -gt 0 ]]
}

@test "the table goes to standard output after what the program printed" {
	run -0 "${RUN}" echo hello
	[[ ${lines[0]} == hello ]]
	[[ ${lines[1]} == "# tlbcost run 2" ]]
}

@test "a killed program has a signal and no exit code" {
	run -137 "${RUN}" --output "${TABLE}" -- sh -c 'kill -KILL $$'
	[[ $(cell "${TABLE}" signal) == 9 ]]
	[[ $(cell "${TABLE}" exit_code) == NA ]]
}

@test "a program that does not exist: 127, ENOENT, and nothing else" {
	run -127 "${RUN}" --output "${TABLE}" -- ./no-such-program
	[[ $(cell "${TABLE}" exec_errno) == 2 ]]
	[[ $(cell "${TABLE}" wall_ns) == NA ]]
	run -127 "${RUN}" --output "${TABLE}" -- no-such-program-in-path
	[[ $(cell "${TABLE}" exec_errno) == 2 ]]
	run -127 "${RUN}" --output "${TABLE}" -- ""
	[[ $(cell "${TABLE}" exec_errno) == 2 ]]
}

@test "a file that is not executable, and a folder: 126, EACCES" {
	echo "echo hello" >script
	run -126 "${RUN}" --output "${TABLE}" -- ./script
	[[ $(cell "${TABLE}" exec_errno) == 13 ]]
	run -126 "${RUN}" --output "${TABLE}" -- /
	[[ $(cell "${TABLE}" exec_errno) == 13 ]]
}

@test "a script without an interpreter line is refused, not given to a shell" {
	echo "echo hello" >script
	chmod +x script
	run -126 "${RUN}" --output "${TABLE}" -- ./script
	[[ ${output} == "" ]]
	[[ $(cell "${TABLE}" exec_errno) == 8 ]]
	PATH=.:${PATH} run -126 "${RUN}" --output "${TABLE}" -- script
	[[ $(cell "${TABLE}" exec_errno) == 8 ]]
}

@test "PATH is searched past a file that may not be executed" {
	mkdir first second
	echo "no" >first/tool
	printf '#!/bin/sh\necho second\n' >second/tool
	chmod +x second/tool
	PATH=${PWD}/first:${PWD}/nowhere:${PWD}/second:${PATH} \
		run -0 "${RUN}" --output "${TABLE}" -- tool
	[[ ${output} == second ]]
	rm second/tool
	PATH=${PWD}/first:${PWD}/second run -126 "${RUN}" --output "${TABLE}" -- tool
	[[ $(cell "${TABLE}" exec_errno) == 13 ]]
}

@test "the environment, the folder, the descriptors and the signals are the caller's" {
	same_surroundings "${RUN}" --output "${TABLE}" --
}

@test "closed descriptors stay closed" {
	run -0 bash -c "exec <&-; ${RUN@Q} --output ${TABLE@Q} -- readlink /proc/self/fd/0 || true"
	[[ ${output} == "" ]]
	# Nothing of ours may have taken the number of standard error before that.
	run -0 bash -c "exec 2>&-; ${RUN@Q} --output ${TABLE@Q} -- \
		test ! -e /proc/self/fd/2"
	[[ $(tail -n 1 "${TABLE}") == "# end: 1" ]]
}

@test "arguments arrive as they are, options of the program too" {
	run -0 "${RUN}" --output "${TABLE}" printf '<%s>' --output "a b" "" '*'
	[[ ${output} == "<--output><a b><><*>" ]]
}

@test "SIGTERM is passed on to the program" {
	local pid
	"${RUN}" --output "${TABLE}" -- sh -c 'trap "exit 42" TERM; : >ready
		while :; do sleep 0.05; done' 3>&- &
	pid=$!
	while [[ ! -e ready ]]; do sleep 0.02; done
	kill -TERM "${pid}"
	ended_with 42
	[[ $(cell "${TABLE}" exit_code) == 42 ]]
}

@test "SIGINT is left to the program" {
	local pid
	# A shell starts background jobs with SIGINT ignored; env restores it.
	env --default-signal=INT "${RUN}" --output "${TABLE}" -- \
		sh -c ': >ready; while [ ! -e stop ]; do sleep 0.05; done; exit 3' 3>&- &
	pid=$!
	while [[ ! -e ready ]]; do sleep 0.02; done
	kill -INT "${pid}"
	: >stop
	ended_with 3
}

@test "the program ends when the launcher's parent dies, or the launcher itself" {
	local victim parent
	for victim in parent launcher; do
		rm -f ready parent launcher
		bash -c '"$@" & echo $! >launcher; echo $$ >parent; wait' - \
			"${RUN}" --output "${TABLE}" -- \
			sh -c 'trap "" TERM; echo $$ >ready; while :; do sleep 0.05; done' 3>&- &
		parent=$!
		# The program may start before the shell has written its own PID.
		while [[ ! -s ready || ! -s parent ]]; do sleep 0.02; done
		kill -KILL "$(<"${victim}")"
		wait "${parent}" || true
		wait_until has_ended "$(<ready)"
	done
}

@test "peak memory is the program's: 64 MiB touched" {
	# On base pages whatever the THP mode is, so that each page faults.
	need_built tests/pages
	run -0 "${RUN}" --output "${TABLE}" -- "${BUILD}/tests/pages" self 16384
	[[ $(cell "${TABLE}" max_rss_bytes) -ge $((64 << 20)) ]]
	[[ $(cell "${TABLE}" max_rss_bytes) -le $((80 << 20)) ]]
	[[ $(cell "${TABLE}" minor_faults) -ge 16384 ]]
}

@test "--discard drops the output and keeps the last 4 KiB of standard error" {
	run -0 "${RUN}" --discard --output "${TABLE}" -- \
		sh -c 'seq 200000; seq 200000 >&2; test ! -t 1; printf end >&2'
	[[ ${output} == "" ]]
	[[ $(stat -c %s "${TABLE}.stderr") == 4096 ]]
	diff "${TABLE}.stderr" <({ seq 200000; printf end; } | tail -c 4096)
}

@test "--discard does not wait for processes that the program left behind" {
	local start=${SECONDS}
	run -0 "${RUN}" --discard --output "${TABLE}" -- \
		sh -c 'sleep 30 & echo $! >left; yes & echo $! >>left; echo last words >&2'
	# The pipe of `yes` closes with the launcher, which ends it.
	kill "$(head -n 1 left)"
	((SECONDS - start < 20))
	[[ $(<"${TABLE}.stderr") == "last words" ]]
}

@test "an output that cannot be made: 125 before the program starts" {
	run -125 "${RUN}" --output nowhere/run.tsv -- touch started
	[[ ${output} == *"nowhere/run.tsv: No such file or directory"* ]]
	answers 125 "/dev/null: " -- "${RUN}" --output /dev/null -- touch started
	[[ -c /dev/null ]]
	[[ ! -e started ]]
	answers 125 "No space left on device" -- bash -c '"$1" true >/dev/full' - "${RUN}"
}

@test "mistakes on the command line: 125 and a hint" {
	answers 125 "tlbcost: hint: " -- "${RUN}"
	answers 125 "tlbcost: hint: " -- "${RUN}" --frobnicate true
	for user in "" root 1 1: :1 a:1 1:a -1:1 1:-1 1:1x "1:1 " " 1:1" 4294967295:1 1:4294967295 \
		99999999999999999999:1; do
		run -125 "${RUN}" --user "${user}" --output "${TABLE}" -- true
		[[ ${output} == "tlbcost: ${user}: Invalid argument" ]]
	done
	[[ $(left_over) == "" ]]
}

@test "--user runs the program as that user, with its home and groups" {
	need_root
	chmod 755 "${BATS_TEST_TMPDIR}"
	run -0 "${RUN}" --user "$(id -u nobody):$(id -g nobody)" --output "${TABLE}" -- \
		sh -c 'id -un; id -G; echo "${HOME} ${USER} ${LOGNAME}"'
	[[ ${lines[0]} == nobody ]]
	[[ ${lines[1]} == $(id -G nobody) ]]
	[[ ${lines[2]} == "$(getent passwd nobody | cut -d : -f 6) nobody nobody" ]]
	run -0 "${RUN}" --user 54321:54321 --output "${TABLE}" -- \
		sh -c 'id -u; id -G; echo "${HOME} ${USER-unset}"'
	[[ ${output} == $'54321\n54321\n/ unset' ]]
}

@test "--user without root: 125, and the program does not start" {
	need_root
	need_program setpriv
	run -125 setpriv --reuid 65534 --regid 65534 --clear-groups \
		"${RUN}" --user 0:0 -- touch started
	[[ ${output} == *"Operation not permitted"* ]]
	[[ ! -e started ]]
}
