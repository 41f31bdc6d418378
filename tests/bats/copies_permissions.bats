#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# Whose programs can be followed in copies, from where, and what is said where they cannot?

load common

MINE=65534 OTHERS=65533

setup() {
	need_root
	need_program setpriv unshare
	need_built tlbcost libexec/tlbcost-copies libexec/tlbcost-injector workloads/hash-lookup venv/bin/python
	# Memory on huge pages is not copied.
	[[ $(cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null) != *"[always]"* ]] || skip "THP is always"
	as_user_id "${MINE}" true 2>/dev/null || skip "cannot become an ordinary user"
	WORKLOAD=${BUILD}/workloads/hash-lookup
	HOME_OF=$(mktemp -d /tmp/tlbcost-permissions-XXXXXX)
	chown "${MINE}:${MINE}" "${HOME_OF}"
	chmod 755 "${HOME_OF}"
	export HOME=${HOME_OF} XDG_CACHE_HOME=${HOME_OF}/cache TMPDIR=/tmp
	cd "${HOME_OF}" || return
	priced_loads >loads.tsv
	FOLLOW=(timeout -k 5 120 "${BUILD}/tlbcost" estimate --engine copies --calibration "${HOME_OF}/loads.tsv")
}

teardown() {
	[[ -z ${PROCESS:-} ]] || kill -KILL "${PROCESS}" 2>/dev/null || true
	[[ -z ${STARTED:-} ]] || { kill -KILL "${STARTED}" && wait "${STARTED}"; } 2>/dev/null || true
	[[ -z ${HOME_OF:-} ]] || rm -rf "${HOME_OF}"
}

# Start a program that runs for long, and find it below what starts it.
start() { # <name of its process> <command>...
	local name=$1
	shift
	"$@" --size 32M --count 100000000000 >/dev/null 2>&1 3>&- &
	STARTED=$!
	wait_until runs "${name}"
}

# It has touched its table, so that it does what it will do for the rest of its time.
runs() { # <name>
	local pid
	for pid in $(family "${STARTED}"); do
		[[ $(cat "/proc/${pid}/comm" 2>/dev/null) == "$1" ]] || continue
		awk '$1 == "VmRSS:" && $2 > 32768 { found = 1 } END { exit !found }' \
			"/proc/${pid}/status" 2>/dev/null || continue
		PROCESS=${pid}
		return 0
	done
	return 1
}

# A process that is followed: its memory and its function have their names.
followed() { # [<runner> <argument>...]
	run "$@" "${FOLLOW[@]}" --pid "${PROCESS}" --seconds 5 --copies 40 --details
	printf '%s\n' "${output}"
	if ((status == 4)) && [[ ${output} == *"copies could be followed"* || ${output} == *"are needed"* ]]; then
		# The machine is too busy for as many in so short a time.
		run "$@" "${FOLLOW[@]}" --pid "${PROCESS}" --seconds 20 --copies 40 --details
		printf '%s\n' "${output}"
	fi
	((status == 0))
	[[ ${output} == *"copies of the running program"* ]]
	[[ ${output} == *"32 MiB anonymous"* ]]
	[[ ${output} == *"find (hash-lookup.c:"* ]]
	# What it has touched before costs no faults now.
	[[ ${output} != *"ALREADY THERE"* && ${output} != *$'\n'"T22 "* ]]
	kill -0 "${PROCESS}"
}

@test "an ordinary user's program is copied" {
	run -0 as_user_id "${MINE}" "${FOLLOW[@]}" --runs 1 --copies 40 --details -- "${WORKLOAD}" --size 32M --count 100000000
	printf '%s\n' "${output}"
	[[ ${output} == *"copies of the running program"* ]]
	[[ ${output} == *"find (hash-lookup.c:"* ]]
}

@test "so is a process that he has started before" {
	start hash-lookup as_user_id "${MINE}" "${WORKLOAD}"
	followed as_user_id "${MINE}"
}

@test "that of another user is not: 4, and what to type" {
	start hash-lookup as_user_id "${OTHERS}" "${WORKLOAD}"
	run -4 as_user_id "${MINE}" "${FOLLOW[@]}" --pid "${PROCESS}" --seconds 5
	[[ ${output} == *"process ${PROCESS} may not be traced: it belongs to user ${OTHERS}"* ]]
	[[ ${lines[-1]} == "tlbcost: hint: su"*"estimate --engine copies"*"--pid ${PROCESS} --seconds 5"* ]]
	run -4 as_user_id "${MINE}" timeout 60 "${BUILD}/libexec/tlbcost-copies" --out "${HOME_OF}" --pid "${PROCESS}" --seconds 2
	[[ ${output} == *"cannot be copied: refused-permission"*"be root, or its user"* ]]
	kill -0 "${PROCESS}"
}

@test "root follows the process of any user" {
	start hash-lookup as_user_id "${OTHERS}" "${WORKLOAD}"
	followed
}

@test "a process that has a tracer already: 4, and which" {
	need_program strace
	start hash-lookup strace -f -o /dev/null -- "${WORKLOAD}"
	answers 4 "may not be traced: process " " traces it" -- "${FOLLOW[@]}" --pid "${PROCESS}" --seconds 5
}

@test "with sudo, the program runs as who called it, and is copied" {
	run -0 env SUDO_UID="${MINE}" SUDO_GID="${MINE}" "${FOLLOW[@]}" --runs 1 --copies 60 -- python3 -c '
import os, time
print("as", *os.getresuid())
end = time.process_time() + 5
table = list(range(1_000_000))
while time.process_time() < end: sum(table)'
	printf '%s\n' "${output}"
	[[ ${output} == *"as ${MINE} ${MINE} ${MINE}"* ]]
	[[ ${output} == *"copies of the running program"* ]]
}

@test "Yama: doctor and estimate say what it allows, on a made-up machine" {
	mkdir -p made/proc/sys/kernel/yama made/proc/self
	cp -r "${TREE}/tests/machines/skylake/." made/
	printf 'CapEff:\t0000000000000000\n' >made/proc/self/status
	local scope words
	for scope in "1:running processes (--pid) need root" "2:only root may trace" "3:no process may trace"; do
		words=${scope#*:} scope=${scope%%:*}
		echo "${scope}" >made/proc/sys/kernel/yama/ptrace_scope
		TLBCOST_ROOT=${HOME_OF}/made run "${BUILD}/tlbcost" doctor
		[[ $(tr -s ' \n' ' ' <<<"${output}") == *"limited copies "*"${words}"* ]]
		((scope > 1)) || continue
		TLBCOST_ROOT=${HOME_OF}/made run -4 "${FOLLOW[@]}" -- touch ran
		[[ ${output} == *"no estimate by copies: kernel.yama.ptrace_scope is ${scope}"* ]]
		[[ ! -e ran ]]
	done
}

# What a container is made of: a root, mounts and processes of its own.
container_files() { # <folder>
	local library
	mkdir -p "$1/bin" "$1/proc" "$1/old"
	cp "${WORKLOAD}" "$1/bin/app"
	while read -r library; do
		mkdir -p "$1/${library%/*}"
		cp "${library}" "$1/${library}"
	done < <(ldd "${WORKLOAD}" | grep -o "/[^ ]*")
}

# Become the container's first process, in namespaces that are ours already.
enter='
set -e
mount -t tmpfs none "$1"
cp -a "$2/." "$1/"
mount -t proc proc "$1/proc"
cd "$1"
pivot_root . old
cd /
shift 2
exec /bin/app "$@"'

container() { # <option of unshare>...
	mkdir files inside
	container_files files
	unshare --mount --pid --fork --mount-proc "$@" true 2>/dev/null || skip "no such namespaces here"
	start app unshare --mount --pid --fork --mount-proc "$@" bash -c "${enter}" bash "${HOME_OF}/inside" "${HOME_OF}/files"
	# Its files have these names nowhere else.
	[[ $(readlink "/proc/${PROCESS}/exe") == /bin/app && ! -e /bin/app ]]
}

@test "a process of a container, with files and processes of its own" {
	container
	followed
}

@test "a process of a container with users of its own" {
	container --user --map-root-user
	followed
}

@test "a process of another mount namespace, in a chroot" {
	mkdir files
	container_files files
	start app unshare --mount chroot files /bin/app
	followed
}

@test "an ordinary user's process in a user namespace of its own" {
	as_user_id "${MINE}" unshare --user --map-root-user --pid --fork true 2>/dev/null ||
		skip "users may make no namespaces here"
	start hash-lookup as_user_id "${MINE}" unshare --user --map-root-user --mount --pid --fork --mount-proc "${WORKLOAD}"
	followed as_user_id "${MINE}"
}
