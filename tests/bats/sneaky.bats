#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# Is memory that nobody suspects found by tlbcost alone?  A numpy array in a file of /dev/shm is
# slower to index than the same one on the heap: is the file named, with the reason and a remedy that
# puts it onto huge pages?

load common

THP=/sys/kernel/mm/transparent_hugepage

setup_file() {
	export REPORTS=${BATS_FILE_TMPDIR}
}

setup() {
	need_root
	need_built tlbcost libexec/valgrind venv/bin/python
	need_program valgrind
	grep -q ' /dev/shm .* - tmpfs' /proc/self/mountinfo || skip "needs a tmpfs at /dev/shm"
	[[ -e ${THP}/enabled ]] || skip "needs transparent huge pages"
	! tail -n 1 <(grep ' /dev/shm ' /proc/self/mountinfo) | grep -q huge= ||
		skip "/dev/shm has huge pages here"
	cd "${REPORTS}" || return
	INDEX=("$(readlink -f "${BUILD}/venv/bin/python")" "${BUILD}/workloads/numpy-index.py"
		--elements 16000000 --count 2000000 --rounds 4)
	export PYTHONPATH
	PYTHONPATH=$("${BUILD}/venv/bin/python" -c 'import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))')
	FILE=/dev/shm/tlbcost-sneaky
}

teardown() {
	[[ -n ${FILE:-} ]] || return 0
	umount /mnt/tlbcost-tmpfs /mnt/tlbcost-hugetlbfs 2>/dev/null || true
	rmdir /mnt/tlbcost-tmpfs /mnt/tlbcost-hugetlbfs 2>/dev/null || true
	"${BUILD}/tlbcost" pool restore 2>/dev/null || true
	[[ -z ${MODE:-} ]] || echo "${MODE}" >"${THP}/enabled"
	rm -f "${FILE}"
}

# The report on the program with its array in a file of /dev/shm, once for all tests.
estimate() {
	[[ ! -e ${REPORTS}/file.json ]] || return 0
	# All of a run of a third of a second: copies see parts of it.
	estimate_anyhow --engine valgrind --runs 2 --details --output file.txt --json file.json -- \
		"${INDEX[@]}" --memory "file:${FILE}"
}

value() { # <JSON file> <expression of d, the document>
	env -u PYTHONPATH "${BUILD}/venv/bin/python" - "$1" "$2" <<-'PYTHON'
		import json, sys
		d = json.load(open(sys.argv[1]))
		print(eval(sys.argv[2]))
	PYTHON
}

# The part of a remedy for the file, line by line.
remedy() { # <code> <key>
	value file.json "'\n'.join(r for a in d['what_to_do'] if a['regions'][0]['name'] == '${FILE}'
		for each in a['remedies'] if each['code'] == '$1' for r in each['$2'])"
}

# What the advice about the file has. The page faults of other memory may weigh more in a run.
of_file() { # <subscripts>
	value file.json "next(a for a in d['what_to_do'] if a['regions'][0]['name'] == '${FILE}')$1"
}

# Follow it, and look at the program's memory while it runs: kB on huge pages of the file.
follow() { # <code> <where the file is then>
	local steps i best=0 now pid
	steps=$(remedy "$1" steps)
	echo "${steps}"
	[[ ${steps} == *"file:$2"* ]]
	bash -euc "$(head -n -1 <<<"${steps}")" 3>&-
	# The last line is the program itself.
	bash -euc "exec $(tail -n 1 <<<"${steps}")" 3>&- &
	pid=$!
	for ((i = 0; i < 12000; i++)); do
		now=$(awk -v name="$2" '
			/^[0-9a-f]+-[0-9a-f]+ / { wanted = index($0, name) }
			/^(ShmemPmdMapped|Shared_Hugetlb|Private_Hugetlb):/ && wanted { n += $2 }
			END { print n + 0 }' "/proc/${pid}/smaps" 2>/dev/null) || break
		((${now:-0} <= best)) || best=${now}
		sleep 0.005
	done
	wait "${pid}"
	bash -euc "$(remedy "$1" undo)" 3>&-
	echo "${best} kB"
	# 16 million doubles.
	((best >= 122000))
}

@test "the file under /dev/shm is named as what pays" {
	estimate
	cat file.txt
	[[ $(of_file "['regions'][0]") == "{'name': '${FILE}', 'kind': 'tmpfs', 'code': False}" ]]
	[[ $(value file.json "d['expected_fraction'] is not None") == True ]]
	[[ $(<file.txt) == *"page walks by memory"*"${FILE##*/}"*"page walks by code"* ]]
}

@test "it is said to be on 4 KiB pages because its tmpfs is mounted without huge pages" {
	estimate
	[[ $(of_file "['page_bytes']") == 4096 ]]
	[[ $(of_file "['reason']") == tmpfs_never ]]
	[[ $(tr -s ' \n' ' ' <file.txt) == *"on 4 KiB pages: its tmpfs is mounted without huge pages"* ]]
}

@test "the remedy followed puts it on huge pages: a tmpfs with huge=always" {
	estimate
	follow tmpfs-huge /mnt/tlbcost-tmpfs/tlbcost-sneaky
}

@test "the remedy followed puts it on huge pages: a hugetlbfs" {
	estimate
	need_pool
	follow hugetlbfs /mnt/tlbcost-hugetlbfs/tlbcost-sneaky
}

@test "the same array on the heap, where transparent huge pages are always on, is not blamed" {
	MODE=$(sed 's/.*\[\(.*\)\].*/\1/' "${THP}/enabled")
	echo always >"${THP}/enabled"
	estimate_anyhow --runs 3 --output heap.txt --json heap.json -- \
		"${INDEX[@]}" --memory heap
	cat heap.txt
	[[ $(value heap.json "[p for a in d['what_to_do'] for p in a['regions']
		if p['kind'] in ('heap', 'anonymous')]") == "[]" ]]
}
