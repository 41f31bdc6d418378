#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=settings
# Who may count what, and does tlbcost say why not and what would help?  The kernel checks
# software events as it checks hardware's, so that this needs no PMU.
#
# kernel.perf_event_paranoid is written, and put back however a test ends.

load common

PARANOID=/proc/sys/kernel/perf_event_paranoid

setup() {
	need_root
	need_program setpriv
	need_built tlbcost libexec/tlbcost-count venv/bin/python
	[[ -w ${PARANOID} ]] || skip "cannot write ${PARANOID}"
	COUNT=("${BUILD}/tlbcost" count -e page_faults)
	cd "${BATS_TEST_TMPDIR}" || return
	BEFORE=$(<"${PARANOID}")
	keep put_back
}

put_back() {
	echo "${BEFORE}" >"${PARANOID}"
}

teardown() {
	end_keeper
}

paranoid() { # <level>
	echo "$1" >"${PARANOID}" || skip "this kernel has no level $1"
}

# Run a command without root's privileges, though its files stay readable: to the kernel it is
# any user.
as_user() { # <command>...
	setpriv --securebits +noroot,+noroot_locked --inh-caps -all --bounding-set -all "$@"
}

# The same, but with CAP_PERFMON.
as_counter() { # <command>...
	setpriv --securebits +noroot,+noroot_locked --inh-caps -all,+perfmon \
		--ambient-caps -all,+perfmon --bounding-set -all,+perfmon "$@"
}

# Kernels differ above 2: Debian's and Ubuntu's let no user count.
strict() {
	! as_user "${BUILD}/libexec/tlbcost-count" --event c=code:software:2 --user-only \
		--output /dev/null -- true 2>/dev/null
}

refused() { # <words of the message> <words of the hint>
	((${#lines[@]} == 2))
	[[ ${lines[0]} == "tlbcost: cannot count: "*"$1"* ]]
	[[ ${lines[1]} == "tlbcost: hint: "*"$2"* ]]
	[[ ! -e started ]]
}

@test "permissions: root counts everything at every level" {
	local level
	for level in -1 0 1 2 3 4; do
		paranoid "${level}"
		run -0 "${COUNT[@]}" -- true
		run -0 "${COUNT[@]}" --kernel -- true
		run -0 "${COUNT[@]}" -a --user --kernel -- true
	done
}

@test "permissions: a user at -1 and 0 counts the whole system, in the kernel too" {
	local level
	for level in -1 0; do
		paranoid "${level}"
		run -0 as_user "${COUNT[@]}" -- true
		run -0 as_user "${COUNT[@]}" -a --kernel -- true
	done
}

@test "permissions: a user at 1 counts his programs, in the kernel too, but no system" {
	paranoid 1
	run -0 as_user "${COUNT[@]}" -- true
	run -0 as_user "${COUNT[@]}" --kernel -- true
	run -4 as_user "${COUNT[@]}" -a -- touch started
	refused "perf_event_paranoid is 1, which lets users count their own programs only" \
		"echo 0 > ${PARANOID}, or setcap cap_perfmon=ep "
}

@test "permissions: so do cgroups" {
	local group
	group=$(findmnt -n -o TARGET -t cgroup -O perf_event || findmnt -n -o TARGET -t cgroup2) ||
		skip "needs a cgroup that counters know"
	group=${group%%$'\n'*}
	paranoid 1
	run "${COUNT[@]}" --cgroup "${group}" -- true
	if ((status == 4)); then
		[[ ${output} == *"is not one that counters know"* ]]
		skip "${group} is not in the hierarchy of perf_event"
	fi
	((status == 0))
	run -4 as_user "${COUNT[@]}" --cgroup "${group}" -- touch started
	refused "perf_event_paranoid is 1" "echo 0"
}

@test "permissions: a user at 2 counts his programs in user mode" {
	paranoid 2
	answers 0 "user mode only" -- as_user "${COUNT[@]}" -- true
	run -4 as_user "${COUNT[@]}" --kernel -- touch started
	refused "perf_event_paranoid is 2, which lets users count in user mode only" \
		"--user, or echo 1 > ${PARANOID}"
	run -4 as_user "${COUNT[@]}" --kernel --user -- touch started
	refused "in user mode only" "--user, or "
	run -4 as_user "${COUNT[@]}" -a -- touch started
	refused "their own programs only" "echo 0"
}

@test "permissions: above 2 it is the kernel that decides" {
	local level
	for level in 3 4; do
		paranoid "${level}"
		if strict; then
			run -4 as_user "${COUNT[@]}" -- touch started
			refused "perf_event_paranoid is ${level}, which lets no user" "echo 2"
			run -0 as_user "${BUILD}/tlbcost" doctor
			[[ ${output} == *"perf_event_paranoid  ${level}: only root may count"* ]]
		else
			run -0 as_user "${COUNT[@]}" -- true
			run -4 as_user "${COUNT[@]}" --kernel -- touch started
			refused "is ${level}, which lets users count in user mode only" "echo 1"
		fi
	done
}

@test "permissions: CAP_PERFMON lifts the setting" {
	as_counter true 2>/dev/null || skip "no CAP_PERFMON here"
	local level
	for level in 2 4; do
		paranoid "${level}"
		run -0 as_counter "${COUNT[@]}" --kernel -- true
		run -0 as_counter "${COUNT[@]}" -a -- true
	done
}

@test "permissions: so does a tlbcost-count that has it, and the program does not get it" {
	need_program setcap
	own_tree home
	cp "${BUILD}/libexec/tlbcost-count" home/build/libexec/
	setcap cap_perfmon=ep home/build/libexec/tlbcost-count 2>/dev/null || skip "cannot set capabilities"
	paranoid 4
	run -0 setpriv --securebits +noroot,+noroot_locked --inh-caps -all \
		--bounding-set -all,+perfmon home/build/tlbcost count -e page_faults --kernel -a -- \
		grep CapEff /proc/self/status
	[[ ${lines[0]} =~ ^CapEff:[[:space:]]0+$ ]]
}

@test "permissions: a process of another user" {
	paranoid 2
	setpriv --reuid 65534 --regid 65534 --clear-groups sleep 30 3>&- &
	local other=$!
	while [[ $(stat -c %u "/proc/${other}") != 65534 ]]; do sleep 0.02; done
	run -4 as_user "${COUNT[@]}" -p "${other}"
	refused "process ${other} belongs to nobody" "tlbcost count -p ${other}"
	kill "${other}"
}

@test "permissions: a real user, at every level, by tlbcost-count itself" {
	local user=(setpriv --reuid 65534 --regid 65534 --clear-groups) level code
	local tool=("${BUILD}/libexec/tlbcost-count" --event c=code:software:2)
	"${user[@]}" test -x "${tool[0]}" || skip "user 65534 cannot reach ${BUILD}"
	for level in -1 0 1 2; do
		paranoid "${level}"
		run -0 "${user[@]}" "${tool[@]}" --user-only -- true
		code=$((level < 2 ? 0 : 4))
		run "-${code}" "${user[@]}" "${tool[@]}" -- true
		code=$((level < 1 ? 0 : 4))
		run "-${code}" "${user[@]}" "${tool[@]}" --user-only --all-cpus -- true
		((code == 0)) || [[ ${output} == *$'\tforbidden\t13\t'* ]]
	done
}
