#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# Where a program does not get the huge pages that were asked for, is that reported, and why?

load common

setup_file() {
	make_memory backing
}

setup() {
	need_built tlbcost libexec/tlbcost-run
	need_program cc
	[[ -e /sys/kernel/mm/transparent_hugepage/enabled ]] || skip "needs transparent huge pages"
	local version
	version=$(getconf GNU_LIBC_VERSION 2>/dev/null) || skip "needs glibc"
	((${version#*.} >= 35)) || skip "needs glibc 2.35"
}

# What the report says, on one line.
trial() { # <option or word>...
	run --separate-stderr "${BUILD}/tlbcost" trial --no-estimate --pairs 3 "$@"
	report=$(tr -s ' \n' ' ' <<<"${stderr}")
}

need_thp_on_request() {
	[[ $(</sys/kernel/mm/transparent_hugepage/enabled) != *"[never]"* ]] ||
		skip "transparent huge pages are off"
	[[ $(</sys/kernel/mm/transparent_hugepage/enabled) != *"[always]"* ]] ||
		skip "transparent huge pages are on for everything"
}

# No result of huge pages, and this reason.
refused() { # <words>
	echo "${report}"
	((status == 4))
	[[ ${report} == *"huge pages not proven"* ]]
	[[ ${report} == *"$1"* ]]
}

@test "arenas of threads that grow in small steps: glibc-thp does nothing, glibc-hugetlb serves" {
	need_thp_on_request
	trial --with glibc-thp "${MEMORY}" arena
	refused "malloc's arenas for threads"
	need_root
	trial --with glibc-hugetlb "${MEMORY}" arena
	echo "${report}"
	((status == 0))
}

@test "a heap that grows in small steps: THP always does nothing, glibc-hugetlb serves" {
	need_root
	trial --with thp "${MEMORY}" steps
	refused "the heap"
	[[ ${report} == *"it grew in steps smaller than a huge page"* ]]
	trial --with glibc-hugetlb "${MEMORY}" steps
	echo "${report}"
	((status == 0))
}

@test "memory that a program maps by itself is not reached by malloc's tunables" {
	need_thp_on_request
	trial --with glibc-thp "${MEMORY}" mmap
	refused "the program maps it itself, not with malloc"
}

@test "static arrays are not reached by malloc's tunables" {
	need_thp_on_request
	trial --with glibc-thp "${MEMORY}" bss
	refused "most is static arrays (bss)"
}

@test "static arrays of a program that is not linked for it stay where they are" {
	need_root
	need_program hugectl
	trial --with "hugectl:--bss" "${MEMORY}" bss
	refused "not linked so that libhugetlbfs can move it"
}

@test "musl has no such tunable" {
	need_program musl-gcc
	need_thp_on_request
	musl-gcc -D_GNU_SOURCE -O1 -pthread -o "${MEMORY}-musl" "${TREE}/tests/backing/memory.c"
	trial --with glibc-thp "${MEMORY}-musl" malloc
	refused "uses musl"
}

@test "the Go runtime maps memory itself" {
	need_thp_on_request
	go_program "${MEMORY}-go"
	trial --with glibc-thp "${MEMORY}-go"
	refused "is a Go program, whose runtime maps memory itself"
}

@test "the Java runtime maps its heap itself" {
	need_program java javac
	need_thp_on_request
	javac -d "${PROGRAMS}" "${TREE}/tests/backing/Hog.java"
	trial --with glibc-thp java -Xms200m -Xmx200m -cp "${PROGRAMS}" Hog
	refused "the Java runtime maps its heap itself"
}
