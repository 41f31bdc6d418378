#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does `tlbcost maps` tell on which pages a process's memory is, and leave the process alone?

load common

export JSON_NAMES='a = report["processes"][0]["areas"]'

setup_file() {
	make_memory maps
}

setup() {
	need_built tlbcost libexec/tlbcost-run
	need_program cc
	[[ -r /proc/self/smaps ]] || skip "needs /proc/PID/smaps"
	MAPS=("${BUILD}/tlbcost" maps)
	export XDG_CACHE_HOME=${BATS_TEST_TMPDIR}
	cd "${BATS_TEST_TMPDIR}" || return
}

teardown() {
	[[ -z ${pid:-} ]] || kill "${pid}" 2>/dev/null || true
}

has_resident() { # <pid> <MiB>
	[[ -r /proc/$1/status ]] || return 1
	(($(awk '/^VmRSS/ { kb = $2 } END { print kb + 0 }' "/proc/$1/status") >= $2 << 10))
}

# A process with 96 MiB of one kind, once it has them.
start() { # <kind>
	"${MEMORY}" "$1" 600000 3>&- &
	pid=$!
	wait_until has_resident "${pid}" 96
}

# bats test_tags=settings
@test "what of huge pages is zeros is known to the byte" {
	[[ $(</sys/kernel/mm/transparent_hugepage/enabled) != *"[never]"* ]] || skip "transparent huge pages are off"
	cc -D_GNU_SOURCE -x c -o sparse - <<-'C'
		#include <stdlib.h>
		#include <sys/mman.h>
		#include <unistd.h>
		int main(void)
		{
			char *memory = aligned_alloc(2 << 20, 64 << 20);
			madvise(memory, 64 << 20, MADV_HUGEPAGE);
			for (int at = 0; at < 64 << 20; at += 4 * 4096)
				memory[at] = 1;
			return write(1, "ready", 5) + pause();
		}
	C
	./sparse 3>&- >ready &
	pid=$!
	wait_until test -s ready
	run --separate-stderr "${MAPS[@]}" --waste --json zeros.json "${pid}"
	((status != 4)) || skip "the kernel does not tell: ${stderr}"
	[[ $(json 'sum(x["zero_bytes"] for x in a) * 4 == sum(x["huge_bytes"] for x in a) * 3' zeros.json) == True ]]
	[[ $(json 'sum(x["huge_bytes"] for x in a)' zeros.json) == 0 || ${output} == *" of its huge pages are zeros"* ]]
	[[ ${output//$'\n'/ } == *"Were THP always, khugepaged would add 0 B with 0, "*" with 511 for max_ptes_none."* ]]
	run -2 "${MAPS[@]}" --waste -- true
}

# Until a watcher sleeps, and reads nothing while it sleeps; a kernel that does not report why a process
# sleeps gives it ten seconds.
watches() { # <pid of the watcher>
	local i place
	for ((i = 0; i < 1200; i++)); do
		place=$(cat "/proc/$1/wchan" 2>/dev/null) || place=0
		[[ ${place} != *nanosleep* && (${i} -lt 200 || ${place} != 0) ]] || return 0
		sleep 0.05
	done
	return 1
}

# bats test_tags=settings
@test "a running process: its largest memory, its pages and why" {
	start shared
	run --separate-stderr "${MAPS[@]}" --json report.json "${pid}"
	echo "${output}" "${stderr}"
	((status == 0))
	[[ -z ${stderr} ]]
	[[ ${output} == *"Memory of process ${pid}, ${MEMORY}"* ]]
	[[ ${output} == *"shared memory"* ]]
	[[ ${output} == *"A rough guess from sizes alone"* ]]
	[[ $(json 'a[0]["kind"]') == shared ]]
	[[ $(json 'a[0]["resident_bytes"] == 96 << 20') == True ]]
	[[ $(json 'a[0]["touched_bytes"]') == None ]]
	[[ $(json 'report["processes"][0]["clearing_ns"]') == None ]]
	kill -0 "${pid}"
	if [[ $(</sys/kernel/mm/transparent_hugepage/shmem_enabled) == *"[never]"* ]]; then
		[[ $(json 'a[0]["reason"]') == shmem_never ]]
		[[ $(json 'a[0]["exceeds_reach"]') == True ]]
		[[ $(tr -s ' \n' ' ' <<<"${output}") == *"not on huge pages: shmem_enabled is never"* ]]
	fi
}

@test "memory that is there but not used does not exceed the reach" {
	start shared
	[[ -w /proc/${pid}/clear_refs ]] || skip "needs /proc/PID/clear_refs"
	run --separate-stderr "${MAPS[@]}" --details --touched 0.2 --json report.json "${pid}"
	echo "${output}" "${stderr}"
	((status == 0))
	[[ ${output} == *"No mapping exceeds the TLB's reach"*"by what is touched."* ]]
	[[ $(tr -s ' \n' ' ' <<<"${output}") == *"Marking its pages unused took"* ]]
	[[ $(json '[x for x in a if x["kind"] == "shared"][0]["touched_bytes"]') == 0 ]]
	[[ $(json 'report["processes"][0]["clearing_ns"] > 0') == True ]]
}

@test "memory that is used does, by the pages that are" {
	need_built workloads/random-read
	"${BUILD}/workloads/random-read" --size 64M --count 100G 3>&- &
	pid=$!
	wait_until has_resident "${pid}" 64
	[[ -w /proc/${pid}/clear_refs ]] || skip "needs /proc/PID/clear_refs"
	run --separate-stderr "${MAPS[@]}" --touched 2 --json report.json "${pid}"
	echo "${output}" "${stderr}"
	((status == 0))
	# A page that is in the TLB need not be walked to, and is then not seen.
	[[ $(json 'a[0]["touched_bytes"] > 32 << 20') == True ]]
	[[ $(json 'a[0]["touched_bytes"] <= a[0]["resident_bytes"]') == True ]]
}

@test "a program is looked at when it has most, and keeps its output and its exit code" {
	run --separate-stderr "${MAPS[@]}" --json report.json -- \
		sh -c "'${MEMORY}' shared 1500; echo mine; exit 7"
	echo "${output}" "${stderr}"
	((status == 7))
	[[ ${output} == mine ]]
	[[ ${stderr} == *"shared memory"* ]]
	[[ $(json 'report["argv"][0]') == sh ]]
	[[ $(json 'report["processes"][0]["pid"]') == None ]]
}

# bats test_tags=settings
@test "hugetlb pages are reported, and that their use is not" {
	need_pool
	run --separate-stderr "${BUILD}/tlbcost" pool reserve 64 -- env GLIBC_TUNABLES=glibc.malloc.hugetlb=2 \
		"${BUILD}/tlbcost" maps --json report.json "${MEMORY}" malloc 1500
	echo "${stderr}"
	((status == 0))
	[[ $(json '[x["words"] for x in a if x["kind"] == "hugetlbfs"][0]') == \
		"on 2 MiB pages of the pool already" ]]
}

@test "what cannot be looked at is refused" {
	run --separate-stderr "${MAPS[@]}" 2147483000
	((status == 1))
	[[ ${stderr} == *"there is no process 2147483000"*"hint: ps -e"* ]]
	run --separate-stderr "${MAPS[@]}" 99999999999
	((status == 1))
	run --separate-stderr "${MAPS[@]}"
	((status == 2))
	run --separate-stderr "${MAPS[@]}" --touched 1 true
	((status == 2))
	[[ ${stderr} == *"--touched and --waste are for a running process"* ]]
	run --separate-stderr "${MAPS[@]}" --touched nan 1
	((status == 2))
	run -127 --separate-stderr "${MAPS[@]}" no-such-program
	run --separate-stderr "${MAPS[@]}" --json /nonexistent/file 1
	((status == 1))
	[[ ${stderr} == *"no such folder"* ]]
	run --separate-stderr "${MAPS[@]}" --json /nonexistent/file true
	((status == 125))
}

@test "a thread of the kernel has no memory, nor has a process that ended" {
	local kernel=2
	[[ -r /proc/2/stat && -z $(tr -d '\0' </proc/2/cmdline) ]] || skip "no threads of the kernel here"
	need_root
	run --separate-stderr "${MAPS[@]}" "${kernel}"
	echo "${stderr}"
	((status == 4))
	[[ ${stderr} == *"it is a kernel thread"* ]]
	# Its parent must not reap it, as a shell would: it ends only once its parent has become sleep.
	bash -c '(until grep -qx sleep "/proc/$$/comm"; do sleep 0.02; done) & echo $! >child; exec sleep 600' 3>&- &
	pid=$!
	wait_until test -s child
	wait_until has_ended "$(<child)"
	# It is there, still.
	[[ -e /proc/$(<child)/stat ]]
	run --separate-stderr "${MAPS[@]}" "$(<child)"
	echo "${stderr}"
	((status == 4))
	[[ ${stderr} == *"it has ended"* ]]
}

@test "a process of another user is refused, and how to look at it is reported" {
	need_root
	need_program setpriv
	setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent \
		"${BUILD}/tlbcost" --version >/dev/null 2>&1 || skip "other users cannot run this tree"
	start shared
	run --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups \
		env HOME=/nonexistent "${MAPS[@]}" "${pid}"
	echo "${stderr}"
	((status == 4))
	[[ ${stderr} == *"memory of process ${pid} may not be read"* ]]
	[[ ${stderr} == *"hint: su"* ]]
}

@test "a process that ends while it is watched is reported as gone" {
	local watcher code=0
	start shared
	"${MAPS[@]}" --touched 3 "${pid}" >said 2>stderr 3>&- &
	watcher=$!
	watches "${watcher}"
	kill "${pid}"
	wait "${pid}" || true
	wait "${watcher}" || code=$?
	cat stderr
	((code == 1 || code == 4))
	[[ $(<stderr) == *"there is no process"* || $(<stderr) == *"it has ended"* ]]
}

@test "Ctrl-C and SIGTERM end the watching, and leave the process and its memory as they are" {
	need_program setsid
	start shared
	[[ -w /proc/${pid}/clear_refs ]] || skip "needs /proc/PID/clear_refs"
	local signal how watcher
	mkdir tmp
	for signal in INT TERM; do
		for how in - ""; do
			TMPDIR=${PWD}/tmp setsid env --default-signal=INT,TERM "${MAPS[@]}" --touched 30 "${pid}" \
				>said 2>stderr 3>&- &
			watcher=$!
			watches "${watcher}"
			kill "-${signal}" -- "${how}${watcher}"
			ended_with $((128 + $(kill -l "${signal}"))) "${watcher}"
			[[ $(<stderr) == "tlbcost: ended by SIG${signal}" && ! -s said ]]
			[[ $(ls -A tmp) == "" ]]
			kill -0 "${pid}"
		done
	done
}

@test "root that may not look is not told to become root" {
	need_root
	need_program setpriv
	run --separate-stderr setpriv --bounding-set -sys_ptrace,-perfmon --inh-caps -sys_ptrace \
		bash -c '"$@"' _ "${MAPS[@]}" 1
	((status == 4)) || skip "this root may look without CAP_SYS_PTRACE"
	[[ ${stderr} == *"hint: this root lacks CAP_SYS_PTRACE"* ]]
}
