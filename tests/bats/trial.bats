#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# Does `tlbcost trial` report huge pages where they were, and only there, and leave the system as
# it was?  On the real kernel: settings are changed, and put back however a test ends.

load common

THP=/sys/kernel/mm/transparent_hugepage/enabled
LOCK=/run/tlbcost/private/lock
POOL=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages

export JSON_NAMES='trial = report["trials"][0]'

setup() {
	need_built tlbcost libexec/tlbcost-run venv/bin/python
	need_program cc
	[[ ! -e ${LOCK} ]] || flock -w 60 "${LOCK}" true || skip "another tlbcost changes settings"
	TRIAL=("${BUILD}/tlbcost" trial --no-estimate --pairs 3)
	in_own_folder
	settings >before
	MODE=$(mode)
}

teardown() {
	[[ -e before ]] || return 0
	if ((EUID == 0)) && [[ -n ${MODE} && $(mode) != "${MODE}" ]]; then
		echo "${MODE}" >"${THP}"
	fi
	[[ $(ls -A "${TMPDIR}") == "" ]]
}

mode() {
	[[ ! -e ${THP} ]] || sed 's/.*\[\(.*\)\].*/\1/' "${THP}"
}

# What a trial may change.
settings() {
	cat "${THP}" "${POOL}" 2>/dev/null || true
	cat /sys/kernel/mm/transparent_hugepage/hugepages-*/enabled 2>/dev/null || true
	grep hugetlbfs /proc/mounts || true
}

unchanged() {
	settings | diff before -
}

need_thp() {
	[[ -n ${MODE} && ${MODE} != never ]] || skip "needs transparent huge pages"
}

need_pool() {
	need_root
	[[ -w ${POOL} ]] || skip "needs a pool of 2 MiB pages that can be written"
	(($(awk '/^MemAvailable/ { print $2 }' /proc/meminfo) > 2 << 20)) || skip "needs 2 GiB of memory"
}

# Programs that fill memory of some kind and keep it until they were looked at: a look while it
# grows takes a while, and as long again many times passes until the next one.
memory() { # <name> <how to get a pointer p to n bytes>
	cat >"$1.c" <<-C
		#define _GNU_SOURCE
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>
		#include <sys/mman.h>
		#include <sys/shm.h>
		#include <unistd.h>
		static size_t n = ${MIB:-64}u << 20;
		int main(void)
		{
			$2
			if (p == NULL || p == (void *)-1)
				return 9;
			memset(p, 1, n);
			__asm__ volatile("" : : "r"(p) : "memory");
			usleep(${HOLD_MS:-600} * 1000);
			puts("ready");
			return 0;
		}
	C
	cc -O1 -o "$1" "$1.c"
}

# What was printed, in one line.
words() {
	tr -s ' \n' ' ' <<<"${output}"
}

@test "glibc-thp: proven, with the program's output once, and nothing changed" {
	need_thp
	memory heap 'char *p = malloc(n);'
	run -0 --separate-stderr "${TRIAL[@]}" --with glibc-thp --json report.json \
		--table trials.tsv -- ./heap
	[[ ${output} == ready ]]
	[[ $(tr -s ' \n' ' ' <<<"${stderr}") == *"of malloc's memory was on huge pages"* ]]
	[[ $(json 'trial["proven"]') == True ]]
	[[ $(json 'min(p["covered_fraction"] for p in trial["pairs"]) > 0.5') == True ]]
	[[ $(json 'max(p["base"]["memory"]["anonymous_huge_bytes"] for p in trial["pairs"])') == 0 ]]
	[[ $(json 'report["estimate"], report["no_estimate"]') == "(None, 'not asked for')" ]]
	[[ $(grep -c '^0.glibc-thp' trials.tsv) == 3 ]]
	unchanged
}

@test "THP always: runs on base pages have none, even if the program asks for them" {
	need_root
	[[ -n ${MODE} ]] || skip "needs transparent huge pages"
	echo always >"${THP}"
	memory asks 'char *p = mmap(NULL, n, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); madvise(p, n, MADV_HUGEPAGE);'
	run -0 --separate-stderr "${TRIAL[@]}" --with auto --json report.json -- ./asks
	[[ ${stderr} == *"trying thp: transparent huge pages are always on here"* ]]
	[[ $(json 'max(p["base"]["memory"]["anonymous_huge_bytes"] for p in trial["pairs"])') == 0 ]]
	[[ $(json 'trial["proven"]') == True ]]
}

@test "thp and THP never: the mode is changed for the trial, and put back" {
	need_root
	[[ -n ${MODE} ]] || skip "needs transparent huge pages"
	echo never >"${THP}"
	settings >before
	memory heap 'char *p = malloc(n);'
	run -0 "${TRIAL[@]}" --with thp --with glibc-thp --json report.json -- ./heap
	[[ $(json '[t["proven"] for t in report["trials"]]') == "[True, True]" ]]
	unchanged
}

@test "mthp: a row for each page size of this kernel, and its settings are put back" {
	need_root
	[[ -e /sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled ]] ||
		skip "needs multi-size THP (Linux 6.8)"
	settings >before
	memory heap 'char *p = malloc(n);'
	run -0 "${TRIAL[@]}" --with mthp --json report.json --plot sizes.svg -- ./heap
	grep -q "mthp-64K, " sizes.svg
	[[ $(json '[t["proven"] for t in report["trials"] if t["page_size_bytes"] >= 1 << 16].count(True)') -ge 4 ]]
	[[ $(json '"/".join(t["method"] for t in report["trials"])') == mthp-16K/*/mthp-64K/*/thp ]]
	[[ ${output} == *"saved of the run time"*"95 % interval"*"faults"*"memory"* ]]
	unchanged
}

@test "glibc-hugetlb: root has a pool reserved, and released" {
	need_pool
	local HOLD_MS=900
	memory heap 'char *p = malloc(n);'
	run -0 "${TRIAL[@]}" --with glibc-hugetlb --json report.json -- ./heap
	[[ $(json 'min(p["huge"]["memory"]["hugetlb_bytes"] for p in trial["pairs"]) >> 20') -ge 60 ]]
	unchanged
}

@test "several methods have a row each" {
	need_pool
	need_program hugectl
	need_thp
	memory heap 'char *p = malloc(n);'
	run -0 "${TRIAL[@]}" --with glibc-thp --with 'hugectl --heap' --json report.json -- ./heap
	printf '%s\n' "${output}"
	[[ $(json '[(t["method"], t["proven"]) for t in report["trials"]]') == \
		"[('glibc-thp', True), ('hugectl --heap', True)]" ]]
	[[ $(words) == *"hugectl --heap alone does nothing on glibc"* ]] ||
		[[ $(json 'trial["environment"]') == "{}" ]]
	unchanged
}

@test "hugectl --shm reaches System V shared memory" {
	need_pool
	need_program hugectl
	memory shared 'int id = shmget(IPC_PRIVATE, n, IPC_CREAT | 0600);
		char *p = shmat(id, NULL, 0); shmctl(id, IPC_RMID, NULL);'
	run -0 "${TRIAL[@]}" --with hugectl:--shm --json report.json -- ./shared
	[[ $(json 'trial["reach"], trial["proven"]') == "('shared', True)" ]]
	unchanged
}

@test "an allocator is preloaded" {
	need_thp
	memory heap 'char *p = malloc(n);'
	cc -O1 -shared -fPIC -o huge.so -x c - <<-'C'
		#define _GNU_SOURCE
		#include <sys/mman.h>
		void *__libc_malloc(size_t n);
		void *__libc_memalign(size_t boundary, size_t n);
		void *malloc(size_t n)
		{
			void *p = n < 1 << 21 ? __libc_malloc(n) : __libc_memalign(1 << 21, n);

			if (n >= 1 << 21)
				madvise(p, n, MADV_HUGEPAGE);
			return p;
		}
	C
	run -0 "${TRIAL[@]}" --with "allocator=${PWD}/huge.so" --json report.json -- ./heap
	[[ $(json 'trial["proven"]') == True ]]
	[[ $(words) == *"the other malloc itself is part of what was measured"* ]]
}

@test "multi-size pages" {
	need_root
	local size=/sys/kernel/mm/transparent_hugepage/hugepages-64kB
	[[ -e ${size}/stats/nr_anon ]] || skip "this kernel has or reports no pages of 64 KiB"
	(($(awk '/^MemAvailable/ { print $2 }' /proc/meminfo) > 2 << 20)) || skip "needs 2 GiB of memory"
	# The kernel counts such pages of the whole system: more than other programs free at the
	# same time, in one of three trials.
	local HOLD_MS=1000 MIB=512
	memory heap 'char *p = malloc(n);'
	for _ in 1 2 3; do
		run "${TRIAL[@]}" --with mthp-64k --json report.json -- ./heap
		((status == 4)) || break
	done
	((status == 0))
	[[ $(json 'min(p["huge"]["memory"]["mthp_bytes"]["65536"] for p in trial["pairs"]) >> 20') \
		-ge 256 ]]
	[[ $(json 'trial["page_size_bytes"], trial["verdict"]') == "(65536, None)" ]]
	unchanged
}

@test "a signal ends the program and puts the settings back" {
	need_pool
	local signal
	for signal in INT TERM; do
		rm -f begun
		# Not before the run on huge pages: the first run and a base run come before it.
		# A job of a shell without job control would ignore SIGINT.
		"${BUILD}/venv/bin/python" -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
os.execv(sys.argv[1], sys.argv[1:])' "${TRIAL[@]}" --with glibc-hugetlb -- \
			bash -c '[[ -z ${GLIBC_TUNABLES-} ]] || { : >begun; sleep 300; }' 3>&- 2>said &
		wait_until test -e begun
		! unchanged >/dev/null
		kill -s "${signal}" $!
		ended_with $((128 + $(kill -l "${signal}"))) $!
		grep -q "tlbcost: ended by SIG${signal}" said
		unchanged
	done
}

# A program that is busy for so long with memory that it keeps; what it ran as is its own.
busy() { # <name> <seconds of CPU time>
	cat >"$1.c" <<-C
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>
		#include <time.h>
		int main(void)
		{
			size_t n = 64u << 20;
			char *p = malloc(n);
			if (p == NULL)
				return 9;
			while (clock() < $2 * CLOCKS_PER_SEC)
				memset(p, 1, n);
			__asm__ volatile("" : : "r"(p) : "memory");
			puts("ready");
			return 0;
		}
	C
	cc -O1 -o "$1" "$1.c"
}

@test "the runs of a pair take turns where they may, and it is said" {
	need_thp
	busy spin 0.8
	run -0 --separate-stderr "${TRIAL[@]}" --details --with glibc-thp --json report.json -- ./spin
	[[ ${output} == ready ]]
	[[ $(json 'trial["in_turns"], len(trial["pairs"])') == "(True, 3)" ]]
	[[ $(tr -s ' \n' ' ' <<<"${stderr}") == *"both runs of a pair at the same time, in turns"* ]]
	[[ ${stderr} != *"one after the other"* ]]
	[[ $(json 'max(p["base"]["memory"]["anonymous_huge_bytes"] for p in trial["pairs"])') == 0 ]]
	run -0 --separate-stderr "${TRIAL[@]}" --details --no-turns --with glibc-thp \
		--json report.json -- ./spin
	[[ $(json 'trial["in_turns"]') == False ]]
	[[ ${stderr} != *"in turns"* ]]
	unchanged
}

@test "a program that fails gives its own code, on either kind of pages" {
	need_thp
	answers 3 "sh exited with 3 on base pages" -- "${TRIAL[@]}" --with glibc-thp -- sh -c 'exit 3'
	run -7 "${TRIAL[@]}" --with glibc-thp -- sh -c 'test -z "${GLIBC_TUNABLES-}" || exit 7'
	[[ ${output} == *"sh exited with 7 on huge pages by glibc-thp"* ]]
	run -127 "${TRIAL[@]}" -- ./nothing
	run -126 "${TRIAL[@]}" -- ./tmp
	unchanged
}

@test "every run has the same input and its preparation" {
	need_thp
	printf 'a b c' | "${TRIAL[@]}" --with glibc-thp --prepare 'echo p >>log' -- \
		sh -c 'wc -c >>log; echo out' >out 2>said || (($? == 4))
	[[ $(<out) == out ]]
	[[ $(tr -s '\n ' ' ' <log) == "p 5 p 5 p 5 p 5 p 5 p 5 p 5 " ]]
	grep -q 'before its memory could be looked at\|not proven' said
}

@test "a command line that is wrong is refused before anything runs" {
	run -2 "${TRIAL[@]}" --with nonsense -- touch ran
	[[ ${output} == *"there is no method nonsense"*"hint: --with one of"* ]]
	run -2 "${TRIAL[@]}"
	run -2 "${TRIAL[@]}" --pairs 2 -- touch ran
	run -125 "${TRIAL[@]}" --json /nowhere/report.json -- touch ran
	answers 4 "no pool of 256 KiB pages" -- "${TRIAL[@]}" --with glibc-hugetlb=256K -- touch ran
	[[ ! -e ran ]]
}

@test "without root: glibc-thp works, and what needs root says what to type" {
	need_root
	as_nobody
	need_thp
	NOBODY=(env HOME=/ TMPDIR=/tmp "${unprivileged[@]}" "${TRIAL[@]:1}")
	memory heap 'char *p = malloc(n);'
	cp heap /tmp/tlbcost-heap.$$
	run -0 "${NOBODY[@]}" --with glibc-thp -- "/tmp/tlbcost-heap.$$"
	rm "/tmp/tlbcost-heap.$$"
	[[ $(tr -s ' \n' ' ' <<<"${output}") == *"of malloc's memory was on huge pages"* ]]
	if [[ ${MODE} == madvise ]]; then
		run -4 "${NOBODY[@]}" --with thp -- true
		[[ ${output} == *"which root alone can write"*"hint: "*"trial"*"--with thp"* ]]
	fi
	run -4 "${NOBODY[@]}" --with hugetlb-1g -- true
	[[ ${output} == *"free huge pages of 1 GiB, and there are 0"*"tlbcost pool reserve"* ||
		${output} == *"no pool of 1 GiB pages"* ]]
	unchanged
}

@test "under sudo the program runs as the user who called it" {
	need_pool
	under_sudo true
	memory heap 'char *p = malloc(n); printf("%d\n", (int)getuid());'
	cp heap /tmp/tlbcost-heap.$$
	under_sudo "${TRIAL[@]}" --with glibc-hugetlb -- "/tmp/tlbcost-heap.$$"
	rm "/tmp/tlbcost-heap.$$"
	((status == 0))
	[[ ${lines[0]} == 65534 ]]
	unchanged
}
