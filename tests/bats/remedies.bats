#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# Does each remedy, followed to the letter, put the memory that it is for onto huge pages?
# On the real kernel, by what its smaps tells; settings are put back however a test ends.

load common

THP=/sys/kernel/mm/transparent_hugepage
POOL=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
# Of 96 MiB: what may stay on base pages at the ends of mappings, in kB.
LEAST=$((88 << 10))

setup_file() {
	make_memory remedies
}

chosen() { # <file>
	sed 's/.*\[\(.*\)\].*/\1/' "$1"
}

setup() {
	need_built tlbcost libexec/tlbcost-run venv/bin/python
	need_program cc
	[[ -e ${THP}/enabled ]] || skip "needs transparent huge pages"
	export SMAPS=${BATS_TEST_TMPDIR}/smaps
	export TLBCOST=${BUILD}/tlbcost
	cd "${BATS_TEST_TMPDIR}" || return
	MODE=$(chosen "${THP}/enabled")
	SHMEM=$(chosen "${THP}/shmem_enabled")
	MOUNTS=$(mounts)
	PAGES=$(cat "${POOL}" 2>/dev/null || true)
	((EUID == 0)) || return 0
	[[ ! -e /run/tlbcost/journal.json ]] || skip "tlbcost has changed this system's settings"
	keep put_back
}

put_back() {
	[[ ! -e ${BATS_TEST_TMPDIR}/well ]] || exit 0
	local folder
	for folder in tmpfs hugetlbfs code; do umount "/mnt/tlbcost-${folder}"; done
	mount -o remount,huge=never /dev/shm
	"${TLBCOST}" pool restore
	echo "${MODE}" >"${THP}/enabled"
	echo "${SHMEM}" >"${THP}/shmem_enabled"
}

teardown() {
	[[ -n ${KEEPER:-} ]] || return 0
	if [[ ${BATS_TEST_COMPLETED:-} == 1 ]]; then
		: >"${BATS_TEST_TMPDIR}/well"
	fi
	end_keeper
	rmdir /mnt/tlbcost-tmpfs /mnt/tlbcost-hugetlbfs /mnt/tlbcost-code 2>/dev/null || true
}

need_mode() { # <mode>
	[[ ${MODE} == "$1" ]] || skip "transparent huge pages are ${MODE} here, not $1"
}

offered() { # <code>
	[[ " $(remedy) " == *" $1 "* ]] || { echo "offered: $(remedy)" && return 1; }
}

withheld() { # <code>
	[[ " $(remedy) " != *" $1 "* ]] || { echo "offered: $(remedy)" && return 1; }
}

# Type what is advised, and then what puts the system back.
follow() { # <code>
	local steps undo
	steps=$(remedy "$1" steps)
	undo=$(remedy "$1" undo)
	printf '%s\n' "${steps}"
	bash -euc "${steps}" 3>&-
	printf '%s\n' "${undo}"
	bash -euc "${undo}" 3>&-
	as_before
}

# Other tests mount what they need in their own folders.
mounts() {
	grep -v ' /tmp/' /proc/self/mountinfo | sort
}

as_before() {
	[[ $(chosen "${THP}/enabled") == "${MODE}" ]]
	[[ $(chosen "${THP}/shmem_enabled") == "${SHMEM}" ]]
	[[ $(mounts | sed 's/,huge=never//') == "${MOUNTS}" ]]
	[[ $(cat "${POOL}" 2>/dev/null || true) == "${PAGES}" ]]
}

# Memory in kB, of all mappings or those with this name.
kib() { # <field of smaps> [<name>]
	awk -v field="$1:" -v name="${2:-}" '
		/^[0-9a-f]+-[0-9a-f]+ / { wanted = name == "" || index($0, name) }
		$1 == field && wanted { n += $2 }
		END { print n + 0 }' "${SMAPS}"
}

proven() { # <field of smaps> [<name>]
	echo "$1 ${2:-}: $(kib "$@") kB"
	(($(kib "$@") >= LEAST))
}

# Shared memory that one process has mapped counts as private.
pooled() { # [<name>]
	echo "hugetlb ${1:-}: $(kib Private_Hugetlb "$@") + $(kib Shared_Hugetlb "$@") kB"
	(($(kib Private_Hugetlb "$@") + $(kib Shared_Hugetlb "$@") >= LEAST))
}

# The advised line of code, written into a program as what it is for.
compiled() { # <code> <macro> [<option of cc>...]
	local line
	line=$(remedy "$1" steps | grep -v '^#')
	[[ $2 == BEFORE || $2 == AFTER ]] || line=${line%;}
	echo "${line}"
	shift
	cc -std=c11 -D_GNU_SOURCE -Wall -Werror "-D$1=${line}" "${@:2}" -o line \
		"${TREE}/tests/backing/line.c"
}

# A line that takes memory from the pool, after what its comment says.
pooled_by_line() { # <code> <macro>
	compiled "$@"
	bash -euc "$(remedy "$1" steps | sed -n 's/^# //p')" 3>&-
	pooled
	as_before
}

@test "heap: one that grows by brk, where transparent huge pages are always on" {
	need_root
	echo always >"${THP}/enabled"
	MODE=always
	advise heap "[heap]" "${MEMORY}" "${MEMORY}" steps 0
	withheld glibc-thp
	withheld madvise
	[[ $(remedy glibc-top-pad caution) == *"does nothing where"* ]]
	# What is withheld would not have worked.
	env GLIBC_TUNABLES=glibc.malloc.hugetlb=1 "${MEMORY}" steps 0
	(($(kib AnonHugePages "[heap]") < LEAST))
	follow glibc-top-pad
	proven AnonHugePages "[heap]"
	MODE=madvise
	echo madvise >"${THP}/enabled"
}

@test "heap: one that grows by brk, from a pool" {
	need_pool
	advise heap "[heap]" "${MEMORY}" "${MEMORY}" steps 0
	follow glibc-pool
	pooled
}

@test "heap: arenas of threads, from a pool, since no tunable asks for their transparent pages" {
	need_pool
	advise anonymous "malloc's arenas for threads" "${MEMORY}" "${MEMORY}" arena 0
	withheld glibc-thp
	withheld thp-always
	follow glibc-pool
	pooled
}

@test "heap: transparent huge pages that are off are allowed first" {
	need_root
	echo never >"${THP}/enabled"
	MODE=never
	advise heap "[heap]" "${MEMORY}" "${MEMORY}" steps 0
	follow glibc-thp
	proven AnonHugePages "[heap]"
	echo madvise >"${THP}/enabled"
}

@test "anonymous mmap: a line that asks before the memory is touched" {
	need_mode madvise
	advise anonymous "anonymous memory" "${MEMORY}" "${MEMORY}" mmap 0
	compiled madvise BEFORE
	./line
	proven AnonHugePages
}

@test "anonymous mmap: a line that collapses it when it is filled" {
	advise anonymous "anonymous memory" "${MEMORY}" "${MEMORY}" mmap 0
	[[ " $(remedy) " == *" collapse "* ]] || skip "needs Linux 6.1"
	compiled collapse AFTER
	./line
	proven AnonHugePages
}

@test "anonymous mmap: a line that takes it from the pool" {
	need_pool
	advise anonymous "anonymous memory" "${MEMORY}" ./line
	pooled_by_line map-hugetlb MAP
}

@test "file on tmpfs: a tmpfs with huge pages" {
	need_root
	advise tmpfs /dev/shm/tlbcost-file "${MEMORY}" "${MEMORY}" file:/dev/shm/tlbcost-file 0
	follow tmpfs-huge
	proven ShmemPmdMapped /mnt/tlbcost-tmpfs/tlbcost-file
}

@test "file on tmpfs: its tmpfs mounted with huge pages" {
	need_root
	grep -q ' /dev/shm .* - tmpfs' /proc/self/mountinfo || skip "needs a tmpfs at /dev/shm"
	advise tmpfs /dev/shm/tlbcost-file "${MEMORY}" "${MEMORY}" file:/dev/shm/tlbcost-file 0
	offered tmpfs-remount
	follow tmpfs-remount
	proven ShmemPmdMapped /dev/shm/tlbcost-file
}

@test "file on tmpfs: a hugetlbfs" {
	need_pool
	advise tmpfs /dev/shm/tlbcost-file "${MEMORY}" "${MEMORY}" file:/dev/shm/tlbcost-file 0
	follow hugetlbfs
	pooled /mnt/tlbcost-hugetlbfs/tlbcost-file
}

@test "shared memory without a file: by the setting for it, and by a line" {
	need_pool
	[[ ${SHMEM} == never ]] || skip "shared memory gets huge pages here already"
	advise shared "/dev/zero (deleted)" "${MEMORY}" "${MEMORY}" shared 0
	follow shmem-enabled
	proven ShmemPmdMapped
	advise shared "/dev/zero (deleted)" "${MEMORY}" ./line
	pooled_by_line map-hugetlb MAP
}

@test "memfd: by the setting for shared memory, and by a line" {
	need_pool
	[[ ${SHMEM} == never ]] || skip "shared memory gets huge pages here already"
	advise memfd /memfd:memory "${MEMORY}" "${MEMORY}" memfd 0
	follow shmem-enabled
	proven ShmemPmdMapped
	advise memfd /memfd:memory "${MEMORY}" ./line
	pooled_by_line memfd-hugetlb DESCRIPTOR
}

@test "a System V segment: by hugectl, and by a line" {
	need_pool
	need_program hugectl
	advise sysv /SYSV00000000 "${MEMORY}" "${MEMORY}" segment 0
	follow hugectl-shm
	pooled
	advise sysv /SYSV00000000 "${MEMORY}" ./line
	pooled_by_line sysv-hugetlb SEGMENT
}

# A program with 5 MiB of code.
code_program() { # <option of cc>...
	cat >code.c <<-'C'
		#include <stdio.h>
		#include <stdlib.h>

		__asm__(".text\n.globl much\nmuch:\n.rept 5242880\nnop\n.endr\nret\n");
		void much(void);

		int main(void)
		{
			char block[4096];
			size_t n;
			FILE *from, *to = fopen(getenv("SMAPS"), "w");

			much();
			from = fopen("/proc/self/smaps", "r");
			if (!from || !to)
				return 1;
			while ((n = fread(block, 1, sizeof(block), from)) > 0)
				if (fwrite(block, 1, n, to) != n)
					return 1;
			return fclose(to) || fclose(from);
		}
	C
	cc -std=c11 -O1 -o code code.c "$@"
}

@test "code: from a tmpfs with huge pages, once it is aligned to them" {
	need_root
	code_program
	advise code "${PWD}/code" "${PWD}/code" ./code
	[[ $(remedy code-on-tmpfs form) == build ]]
	# The line behind the first comment is what to link with.
	code_program "$(remedy code-on-tmpfs steps | sed -n 2p)"
	advise code "${PWD}/code" "${PWD}/code" ./code
	[[ $(remedy code-on-tmpfs form) == command ]]
	follow code-on-tmpfs
	kib ShmemPmdMapped /mnt/tlbcost-code/code
	(($(kib ShmemPmdMapped /mnt/tlbcost-code/code) >= 2048))
}

@test "code: copied to huge pages as the program starts" {
	[[ $(uname -m) == x86_64 ]] || skip "needs x86-64"
	code_program
	advise code "${PWD}/code" "${PWD}/code" ./code
	PATH=${BUILD}:${PATH} follow run-thp-text
	(($(kib AnonHugePages) >= 2048))
}

@test "code: by libhugetlbfs, once it is linked for it" {
	need_pool
	need_program hugectl ld.hugetlbfs
	code_program
	advise code "${PWD}/code" "${PWD}/code" ./code
	[[ $(remedy hugectl-text form) == build ]]
	eval "$(remedy hugectl-text steps | sed -n 2p)"
	local options
	read -ra options < <(remedy hugectl-text steps | sed -n 3p)
	code_program "${options[@]}" || skip "libhugetlbfs cannot be linked with here"
	advise code "${PWD}/code" "${PWD}/code" ./code
	[[ $(remedy hugectl-text form) == command ]]
	follow hugectl-text
	(($(kib Private_Hugetlb) + $(kib Shared_Hugetlb) >= 2048))
}

@test "static arrays: by a line, by the mode, and by libhugetlbfs" {
	need_pool
	need_mode madvise
	advise segment "[bss]" "${MEMORY}" "${MEMORY}" bss 0
	compiled madvise BEFORE -DARRAY
	./line
	proven AnonHugePages
	follow thp-always
	proven AnonHugePages
	need_program hugectl ld.hugetlbfs
	eval "$(remedy hugectl-data steps | sed -n 2p)"
	local options
	read -ra options < <(remedy hugectl-data steps | sed -n 3p)
	cc -std=c11 -D_GNU_SOURCE -O1 -pthread "${options[@]}" -o moved \
		"${TREE}/tests/backing/memory.c" || skip "libhugetlbfs cannot be linked with here"
	advise segment "[bss]" "${PWD}/moved" ./moved bss 0
	follow hugectl-data
	pooled
}

@test "a file on storage: by a line, where its file system reads huge pages" {
	need_root
	head -c "$((96 << 20))" /dev/zero >"${PROGRAMS}/file"
	advise file "${PROGRAMS}/file" "${MEMORY}" ./line
	[[ " $(remedy) " == *" madvise-file "* ]] ||
		skip "needs ext4 and Linux 6.16, or xfs and Linux 5.18"
	compiled madvise-file BEFORE -DOPENED
	bash -euc "$(remedy madvise-file steps | sed -n 's/^# //p')"
	OPENED=${PROGRAMS}/file ./line
	proven FilePmdMapped "${PROGRAMS}/file"
}

@test "small objects of Python, by switches for the environment" {
	need_mode madvise
	local python
	python=$(readlink -f "${BUILD}/venv/bin/python")
	cat >objects.py <<-'PYTHON'
		import os, shutil
		held = [str(i) * 3 for i in range(1_500_000)]
		with open("/proc/self/smaps") as smaps, open(os.environ["SMAPS"], "w") as copy:
		    shutil.copyfileobj(smaps, copy)
	PYTHON
	advise anonymous "anonymous memory" "${python}" "${python}" objects.py
	offered python-malloc
	"${python}" objects.py
	(($(kib AnonHugePages) < LEAST))
	follow python-malloc
	proven AnonHugePages
}

@test "what this system lacks is not advised" {
	TLBCOST_ROOT=${TREE}/tests/machines/no-thp \
		advise tmpfs /dev/shm/tlbcost-file "${MEMORY}" "${MEMORY}" file:/dev/shm/tlbcost-file 0
	withheld tmpfs-huge
	withheld tmpfs-remount
	TLBCOST_ROOT=${TREE}/tests/machines/no-thp \
		advise file /nonexistent/file "${MEMORY}" "${MEMORY}" malloc 0
	[[ $(remedy) == "" ]]
	[[ $(<advice.json) == *'"no_remedy": "nothing puts it on huge pages here'* ]]
}
