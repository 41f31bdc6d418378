#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# Where a program does not get the huge pages that were asked for, is that reported, and why?

load common

setup_file() {
	# The folders of bats are closed to others, who run it, too.
	PROGRAMS=$(mktemp -d /tmp/tlbcost-backing.XXXXXX)
	chmod 0755 "${PROGRAMS}"
	export PROGRAMS MEMORY=${PROGRAMS}/memory
	type -P cc >/dev/null || return 0
	cc -std=c11 -D_GNU_SOURCE -O1 -pthread -o "${MEMORY}" "${BATS_TEST_DIRNAME}/../backing/memory.c"
}

teardown_file() {
	rm -rf "${PROGRAMS}"
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
	# shellcheck disable=SC2154  # of bats
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

@test "a large block of malloc is proven to be on transparent huge pages" {
	need_thp_on_request
	trial --with glibc-thp "${MEMORY}" malloc
	echo "${report}"
	((status == 0))
	[[ ${report} != *"huge pages not proven"* ]]
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

@test "a std::map: THP always does nothing, glibc-hugetlb serves" {
	need_root
	need_built workloads/map-lookup
	trial --with thp "${BUILD}/workloads/map-lookup" --keys 250000 --count 100000
	refused "it grew in steps smaller than a huge page"
	trial --with glibc-hugetlb "${BUILD}/workloads/map-lookup" --keys 250000 --count 100000
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

@test "transparent huge pages that are off: who may not turn them on is reported" {
	need_root
	need_program setpriv
	local setting=/sys/kernel/mm/transparent_hugepage/enabled before
	setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent \
		"${BUILD}/tlbcost" --version >/dev/null 2>&1 || skip "other users cannot run this tree"
	before=$(sed 's/.*\[\(.*\)\].*/\1/' "${setting}")
	echo never >"${setting}"
	run --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups \
		env HOME=/nonexistent "${BUILD}/tlbcost" trial --no-estimate --pairs 3 \
		--with glibc-thp "${MEMORY}" malloc
	echo "${before}" >"${setting}"
	echo "${stderr}"
	((status == 4))
	[[ ${stderr} == *"${setting}"* ]]
}

@test "a setuid program drops tunables" {
	need_root
	need_thp_on_request
	need_program setpriv
	local privileged=${PROGRAMS}/memory-setuid
	cp "${MEMORY}" "${privileged}"
	chmod 4755 "${privileged}"
	local who
	who=$(setpriv --reuid=65534 --clear-groups "${privileged}" who) || skip "setuid has no effect here"
	((who == 0)) || skip "setuid has no effect in /tmp"
	trial --with glibc-thp setpriv --reuid=65534 --regid=65534 --clear-groups \
		"${privileged}" malloc
	refused "gains rights when it starts (setuid)"
}

@test "a static executable of glibc heeds tunables" {
	need_thp_on_request
	cc -std=c11 -D_GNU_SOURCE -O1 -pthread -static -o "${MEMORY}-static" \
		"${TREE}/tests/backing/memory.c" || skip "needs a static C library"
	trial --with glibc-thp "${MEMORY}-static" malloc
	echo "${report}"
	((status == 0))
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
	local go
	go=$(type -P go || echo /usr/local/go/bin/go)
	[[ -x ${go} ]] || skip "needs go"
	GOCACHE=${BUILD}/go-cache GOFLAGS=-mod=mod GO111MODULE=off \
		"${go}" build -o "${MEMORY}-go" "${TREE}/tests/backing/hog.go"
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

@test "memory in pieces, with defrag off" {
	skip "would take all memory of this machine apart; the words have a test with made-up counters"
}
