#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# Does `tlbcost pagesizes` measure on pages that are what it says, and leave the pools as they were?
# On the real kernel: pools and modes are changed, and put back however a test ends.

load common

POOLS=/sys/kernel/mm/hugepages
THP=/sys/kernel/mm/transparent_hugepage
JOURNAL=/run/tlbcost/journal.json

setup() {
	need_built tlbcost libexec/tlbcost-run venv/bin/python workloads/page-patterns
	PATTERNS=${BUILD}/workloads/page-patterns
	PAGESIZES=("${BUILD}/tlbcost" pagesizes --rounds 3 --accesses 100000)
	in_own_folder
	settings >before
}

# For tests that change pools: what a killed one leaves is put back by a keeper.
need_pool() {
	need_root
	need_program setsid
	[[ -w ${POOLS}/hugepages-2048kB/nr_hugepages ]] || skip "needs a pool of 2 MiB pages that can be written"
	[[ ! -e ${JOURNAL} ]] || skip "tlbcost has changed this system's settings: tlbcost pool restore"
	(($(awk '/^MemAvailable/ { print $2 }' /proc/meminfo) > 2 << 20)) || skip "needs 2 GiB of memory"
	keep "${BUILD}/tlbcost" pool restore
}

teardown() {
	end_keeper
}

settings() {
	cat "${POOLS}"/hugepages-*/nr_hugepages "${THP}/enabled" "${THP}"/hugepages-*/enabled 2>/dev/null || true
	grep hugetlbfs /proc/mounts || true
}

as_before() {
	settings | diff "${BATS_TEST_TMPDIR}/before" - || return 1
	[[ ! -e ${JOURNAL} ]]
	[[ $(ls -A "${TMPDIR}") == "" ]]
}

@test "pagesizes: base and 2 MiB pages in turn, proven, and the pools as they were" {
	need_pool
	run --separate-stderr -0 "${PAGESIZES[@]}" --details --only 2,9 --size 2M --json report.json
	[[ ${output} == *"time over 4 KiB"*" 9 64 MiB + 64 B"* ]]
	[[ ${output} == *"in 24 GiB (the article: 24 GiB)"* ]]
	[[ ${output} =~ " 9 64 MiB + 64 B"\ +[0-9.]+" ("[0-9.]+-[0-9.]+")"\ +0\.34 ]]
	[[ $(json '[s["way"] for s in report["page_sizes"]]') == "['base', 'pool']" ]]
	[[ $(json '[len(s["runs"]) for p in report["patterns"] for s in p["page_sizes"]]') == "[3, 3, 3, 3]" ]]
	# 24 pages of each size; 911 of 4 KiB, and 32 of 2 MiB.
	[[ $(json '[s["runs"][0]["proven_bytes"] for p in report["patterns"] for s in p["page_sizes"]]') == \
		"[$((24 << 12)), $((24 << 21)), $((911 << 12)), $((32 << 21))]" ]]
	[[ $(json 'all(r["proven_bytes"] == r["resident_bytes"] for p in report["patterns"]
		for s in p["page_sizes"] for r in s["runs"])') == True ]]
	as_before
}

@test "pagesizes: 1 GiB pages, where there is one" {
	need_pool
	[[ -w ${POOLS}/hugepages-1048576kB/nr_hugepages ]] || skip "this kernel has no pool of 1 GiB pages"
	run --separate-stderr "${PAGESIZES[@]}" --only 10 --size 1G --json report.json
	[[ ${stderr} != *"memory is fragmented"* ]] || skip "no 1 GiB of memory is in one piece"
	((status == 0))
	[[ $(json '{r["proven_bytes"] for r in report["patterns"][0]["page_sizes"][1]["runs"]}') == "{$((1 << 30))}" ]]
	[[ $(json 'report["patterns"][0]["page_sizes"][1]["ratio"]["value"] > 0') == True ]]
	as_before
}

@test "pagesizes: a pattern without enough pages is NA, the others are measured" {
	need_pool
	local gib=${POOLS}/hugepages-1048576kB/nr_hugepages
	[[ -w ${gib} ]] || skip "this kernel has no pool of 1 GiB pages"
	run --separate-stderr "${PAGESIZES[@]}" --only 2,10 --size 1G --json report.json
	[[ ${stderr} != *"memory is fragmented"* ]] || skip "no 1 GiB of memory is in one piece"
	((status == 0))
	if [[ $(json 'report["scaled_bytes"] >> 30') == 24 ]]; then
		[[ ${output} == *"NA 1 GiB, pattern 2: 5 pages of 1 GiB are needed at least, and there are "* ||
			$(json 'len(report["patterns"][0]["page_sizes"][1]["runs"])') == 3 ]]
	else
		[[ $(json 'report["patterns"][0]["chunks"] == report["scaled_bytes"] >> 30') == True ]]
	fi
	as_before
}

@test "pagesizes: transparent pages of 64 KiB, proven by their frames" {
	need_pool
	[[ -w ${THP}/hugepages-64kB/enabled ]] || skip "this kernel has no transparent pages of 64 KiB"
	run --separate-stderr -0 "${PAGESIZES[@]}" --only 2,9 --size 64K --json report.json
	[[ $(json '[s["way"] for s in report["page_sizes"]]') == "['base', 'transparent']" ]]
	[[ $(json 'report["patterns"][0]["page_sizes"][1]["runs"][0]["proven_bytes"]') == "$((24 << 16))" ]]
	as_before
}

# Many rounds, with the signals that an interactive shell leaves; until pages are reserved.
start() {
	local before
	before=$(<"${POOLS}/hugepages-2048kB/nr_hugepages")
	setsid env --default-signal=INT,TERM "${PAGESIZES[@]}" --rounds 1000 --only 9 --size 2M \
		>said 2>stderr 3>&- &
	pid=$!
	wait_until is_in_round_2 "$((before + 32))"
}

is_in_round_2() { # <pages>
	[[ $(<"${POOLS}/hugepages-2048kB/nr_hugepages") == "$1" ]] && grep -q "round 2" stderr
}

@test "pagesizes: Ctrl-C and SIGTERM put everything back" {
	need_pool
	start
	kill -INT -- "-${pid}"
	ended_with 130
	as_before
	start
	kill -TERM "${pid}"
	ended_with 143
	grep "ended by SIGTERM" stderr
	as_before
	[[ ! -s said ]]
}

@test "pagesizes: after SIGKILL the next one puts everything back first" {
	need_pool
	start
	kill -KILL -- "-${pid}"
	ended_with 137
	[[ -e ${JOURNAL} ]]
	run --separate-stderr -0 "${PAGESIZES[@]}" --only 10 --size 2M
	[[ ${stderr} == *"undoing what process ${pid} changed (tlbcost pagesizes)"* ]]
	as_before
}

@test "pagesizes: a page size that this kernel does not have" {
	run --separate-stderr -4 "${PAGESIZES[@]}" --only 9 --size 4G
	[[ ${stderr} == *"no larger page size to measure: this kernel has no pages of 4 GiB"*"hint: --size with some of 4K,"* ]]
	as_before
}

@test "pagesizes: without root, huge pages by madvise, and what root could do" {
	need_root
	as_nobody
	unprivileged+=(pagesizes --rounds 3)
	# Where he may not look, he can find neither programs nor modules, nor write.
	cd /
	TMPDIR=/tmp
	[[ $(<"${POOLS}/hugepages-2048kB/free_hugepages") == 0 ]] || skip "there are free huge pages"
	run --separate-stderr "${unprivileged[@]}" --only 9 --size 1G
	((status == 4))
	[[ ${stderr} == *"the pool of 1 GiB pages is empty, and only root can fill it"*"hint: "*"tlbcost pagesizes --rounds 3 --only 9 --size 1G"* ||
		${stderr} == *"this kernel has no pages of 1 GiB"* ]]
	grep -q '\[madvise\]\|\[always\]' "${THP}/enabled" || skip "transparent huge pages are off"
	run --separate-stderr "${unprivileged[@]}" --details --only 9 --accesses 100000 --size 2M
	printf '%s\n' "${stderr}"
	# Memory in pieces, or another test that turned them off.
	[[ ${stderr} != *"bytes are on pages of 2097152"* ]] || skip "the kernel gave no huge pages now"
	((status == 0))
	[[ ${output} == *"2 MiB by madvise"* ]]
	TMPDIR=${BATS_TEST_TMPDIR}/tmp
	as_before
}

@test "pagesizes: wrong command lines and files" {
	for words in "--rounds 2" "--size 3M" "--size many" "--only 0" "--only 12" "--only 1,x" "--accesses 0" \
		"--plot figure.txt" "more"; do
		# shellcheck disable=SC2086
		run -2 "${PAGESIZES[@]}" ${words}
	done
	run -1 "${PAGESIZES[@]}" --json /nowhere/report.json
	as_before
}

@test "page-patterns: fails where its memory is not on the pages asked for" {
	run -2 "${PATTERNS}" --pattern 12
	run -2 "${PATTERNS}" --page 3k
	run -2 "${PATTERNS}" --pattern 1 --size 100M
	run -2 "${PATTERNS}" --pattern 9 --size 1M
	[[ ! -e ${POOLS}/hugepages-2048kB/free_hugepages ||
		$(<"${POOLS}/hugepages-2048kB/free_hugepages") != 0 ]] || {
		run -4 "${PATTERNS}" --pattern 9 --page 2M --count 1000
		[[ ${output} == *"the pool has no more huge pages of this size"* ]]
	}
	run -4 "${PATTERNS}" --pattern 9 --page 4G --count 1000
	[[ ${output} == "cannot map "*" bytes on pages of 4294967296: "* ]]
}

@test "page-patterns: only what is read is there, or all of it" {
	run -0 "${PATTERNS}" --pattern 9 --count 5000 --page 4k --table 1
	local first=${lines[-1]}
	printf '%s\n' "${lines[@]}" >table
	[[ $(cell table resident_bytes) == "$((911 << 12))" ]]
	run -0 "${PATTERNS}" --pattern 9 --count 5000 --page 4k --table 1 --fill 1
	[[ ${lines[-1]} == "${first}" ]]
	printf '%s\n' "${lines[@]}" >table
	[[ $(cell table resident_bytes) == "$((64 << 20))" ]]
}

@test "page-patterns: places depend on the seed, and are the same on all pages" {
	run -0 "${PATTERNS}" --pattern 7 --count 5000
	local first=${output}
	run -0 "${PATTERNS}" --pattern 7 --count 5000 --page 4k
	[[ ${output} == "${first}" ]]
	run -0 "${PATTERNS}" --pattern 7 --count 5000 --seed 2
	[[ ${output} != "${first}" ]]
	run -0 "${PATTERNS}" --pattern 7 --count 5001
	[[ ${output} != "${first}" ]]
}
