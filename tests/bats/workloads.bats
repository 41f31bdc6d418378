#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long
# Do the workloads do the same work each time, and refuse what they cannot do?

load common

setup() {
	need_built workloads/loop
}

all_workloads() {
	local sources source
	mapfile -t sources < <(find "${TREE}/workloads" -name '*.c' -o -name '*.cc')
	((${#sources[@]} > 0))
	for source in "${sources[@]##*/}"; do
		printf '%s\n' "${BUILD}/workloads/${source%.*}"
	done
	if [[ -x ${BUILD}/workloads/stream-static ]]; then
		printf '%s\n' "${BUILD}/workloads/stream-static"
	fi
}

# Small enough to take milliseconds.
small() { # <workload>
	case ${1##*/} in
	bfs) printf -- '--nodes 1000' ;;
	binary-search | chase | hash-lookup | random-read | random-update | threads)
		printf -- '--size 1M --count 1000'
		;;
	unfilled-reads) printf -- '--size 1M --count 1000' ;;
	btree) printf -- '--keys 10000 --count 1000' ;;
	cold) printf -- '--pages 23' ;;
	column-walk) printf -- '--order 100 --rounds 1' ;;
	cyclic) printf -- '--pages 23 --rounds 7' ;;
	event-queue) printf -- '--customers 1000 --stations 100 --count 1000' ;;
	hash-join) printf -- '--rows 1000 --count 1000' ;;
	loop) printf -- '--count 1000' ;;
	lru-cache) printf -- '--entries 100 --keys 1000 --count 1000' ;;
	map-lookup) printf -- '--keys 1000 --count 1000' ;;
	merge-sort) printf -- '--records 1000' ;;
	numa-blocks) printf -- '--block 8k --blocks 9 --count 1000' ;;
	numa-graph | numa-local) printf -- '--size 8M --count 1000' ;;
	numa-vector) printf -- '--size 1M --vector 64k --rounds 2' ;;
	page-patterns) printf -- '--pattern 3 --count 1000' ;;
	pagerank) printf -- '--nodes 1000 --rounds 3' ;;
	sort) printf -- '--size 1M' ;;
	spmv) printf -- '--rows 1000' ;;
	stencil) printf -- '--order 20 --rounds 3' ;;
	stream | stream-static | triad) printf -- '--size 1M --rounds 3' ;;
	*) return 1 ;;
	esac
}

numpy_index() { # <option>...
	"${BUILD}/venv/bin/python" "${BUILD}/workloads/numpy-index.py" --elements 1000 --count 777 "$@"
}

python() { # <script> <option>...
	"${BUILD}/venv/bin/python" "${BUILD}/workloads/$1" "${@:2}"
}

sqlite() { # <rows> <lookups>
	sqlite3 -cmd ".parameter set @rows $1" -cmd ".parameter set @count $2" :memory: \
		".read ${BUILD}/workloads/sqlite.sql"
}

@test "each prints one checksum, the same each time" {
	local workload options first
	for workload in $(all_workloads); do
		options=$(small "${workload}")
		# shellcheck disable=SC2086  # several words
		run -0 --separate-stderr "${workload}" ${options}
		first=${lines[-1]}
		[[ ${first} =~ ^checksum\ [0-9a-f]{16}$ ]]
		# STREAM alone prints rates, which are never the same.
		[[ ${#lines[@]} -eq 1 || ${workload} == */stream* ]]
		# shellcheck disable=SC2086
		run -0 --separate-stderr "${workload}" ${options}
		[[ ${lines[-1]} == "${first}" ]]
	done
}

@test "the checksum depends on the amount of work" {
	run -0 "${BUILD}/workloads/random-update" --size 1M --count 1000
	local first=${output}
	run -0 "${BUILD}/workloads/random-update" --size 1M --count 1001
	[[ ${output} != "${first}" ]]
	run -0 "${BUILD}/workloads/random-update" --size 1M --count 1000 --seed 2
	[[ ${output} != "${first}" ]]
}

@test "the ring of chase visits every line: as many steps as lines end where they began" {
	run -0 "${BUILD}/workloads/chase" --size 64k --count 1024
	[[ ${output} == "checksum 0000000000000000" ]]
	run -0 "${BUILD}/workloads/chase" --size 64k --count 1023
	[[ ${output} != "checksum 0000000000000000" ]]
}

@test "each describes its options, and refuses unknown ones and no numbers" {
	local workload bad
	for workload in $(all_workloads); do
		answers 0 " --" "(" ")" -- "${workload}" --help
		answers 2 "unknown option: --frobnicate" -- "${workload}" --frobnicate 1
	done
	for bad in "" -1 1x 1kk 99999999999999999999 99999999999G 0; do
		answers 2 "--pages needs a number of at least 1" -- "${BUILD}/workloads/cold" --pages "${bad}"
	done
	run -2 "${BUILD}/workloads/cold" --pages
}

@test "memory that is not there: exit 1 and a message" {
	run -1 bash -c "ulimit -v 200000; ${BUILD@Q}/workloads/random-update --size 1G"
	[[ ${output} == "cannot allocate 1073741824 bytes: Cannot allocate memory" ]]
}

@test "stream prints the rates of its four functions, consistent with its times" {
	run -0 --separate-stderr "${BUILD}/workloads/stream" --size 24M --rounds 4
	[[ ${lines[0]} =~ ^Function\ +Rate\ \(MB/s\)\ +Avg\ time\ +Min\ time\ +Max\ time$ ]]
	# 24 MiB are three arrays of 2^20 doubles; MB are 10^6 bytes, and times have six digits.
	awk 'BEGIN { bytes["Copy:"] = bytes["Scale:"] = 16; bytes["Add:"] = bytes["Triad:"] = 24 }
		$1 in bytes {
			seen++
			rate = bytes[$1] * 2 ^ 20 / 1e6
			if (rate / ($4 + 1e-6) > $2 || rate / ($4 - 1e-6) < $2) exit 1
			if ($4 > $3 || $3 > $5) exit 1
		}
		END { if (seen != 4) exit 1 }' <<<"${output}"
}

@test "stream says when its arrays are too small for its rules" {
	local cache
	cache=$(getconf LEVEL3_CACHE_SIZE)
	[[ ${cache:-0} -gt 0 ]] || skip "the size of the last-level cache is not known here"
	run -0 --separate-stderr "${BUILD}/workloads/stream" --size 1M --rounds 2
	[[ ${stderr} == "note: an array of 349520 bytes is less than four times the last-level cache"* ]]
}

@test "stream fails when asked to, and needs two repetitions" {
	run -7 --separate-stderr "${BUILD}/workloads/stream" --size 1M --fail 7
	[[ -z ${output} ]]
	run -2 "${BUILD}/workloads/stream" --size 1M --rounds 1
	[[ ${output} == *"--rounds needs a number of at least 2" ]]
	run -2 "${BUILD}/workloads/stream" --size 1M --rounds 201
}

@test "static arrays have an end, and are linked at fixed addresses on boundaries of huge pages" {
	[[ -x ${BUILD}/workloads/stream-static ]] || skip "no ld.hugetlbfs and libhugetlbfs here"
	run -2 "${BUILD}/workloads/stream-static" --size 2G
	[[ ${output} == *"--size must be at most 107374"*": the arrays are static" ]]
	need_program readelf
	readelf -hlW "${BUILD}/workloads/stream-static" >"${BATS_TEST_TMPDIR}/headers"
	grep -q 'Type: *EXEC' "${BATS_TEST_TMPDIR}/headers"
	local boundary
	while read -r boundary; do
		[[ $((boundary % 2097152)) -eq 0 ]]
	done < <(awk '$1 == "LOAD" { print $NF }' "${BATS_TEST_TMPDIR}/headers")
	# libhugetlbfs refuses to move the segments of a program that has more.
	[[ $(grep -c '^ *LOAD' "${BATS_TEST_TMPDIR}/headers") -le 3 ]]
	readelf -dW "${BUILD}/workloads/stream-static" | grep -q 'NEEDED.*libhugetlbfs'
}

@test "both streams compute the same" {
	[[ -x ${BUILD}/workloads/stream-static ]] || skip "no ld.hugetlbfs and libhugetlbfs here"
	run -0 --separate-stderr "${BUILD}/workloads/stream" --size 1M
	local first=${lines[-1]}
	run -0 --separate-stderr "${BUILD}/workloads/stream-static" --size 1M
	[[ ${lines[-1]} == "${first}" ]]
}

@test "each key of a sorted array is found at its place" {
	# Of one element, each search finds place 0.
	run -0 "${BUILD}/workloads/binary-search" --size 8 --count 100
	[[ ${output} == "checksum 0000000000000000" ]]
}

@test "small work whose answer is known" {
	local line
	while read -r line; do
		# shellcheck disable=SC2086  # several words
		run -0 "${BUILD}/workloads/"${line#* }
		[[ ${output} == "checksum ${line%% *}" ]]
	done <<-'END'
		0000000000000000 btree --keys 1 --count 100
		0000000000000000 hash-join --rows 1000 --count 0
		0000000000000000 merge-sort --records 1
		000000000000000a event-queue --customers 1 --stations 1 --count 10
		3ff0000000000000 pagerank --nodes 1 --degree 1 --rounds 3
	END
}

@test "a cache that holds all objects forgets none, a smaller one does" {
	run -0 "${BUILD}/workloads/lru-cache" --keys 1000 --count 10000 --entries 1000
	local first=${output}
	run -0 "${BUILD}/workloads/lru-cache" --keys 1000 --count 10000 --entries 5000
	[[ ${output} == "${first}" ]]
	run -0 "${BUILD}/workloads/lru-cache" --keys 1000 --count 10000 --entries 500
	[[ ${output} != "${first}" ]]
}

@test "the border of a stencil stays as it is" {
	run -0 "${BUILD}/workloads/stencil" --order 2 --rounds 0
	local first=${output}
	run -0 "${BUILD}/workloads/stencil" --order 2 --rounds 3
	[[ ${output} == "${first}" ]]
}

@test "numbers are sorted, whatever the digits" {
	local bits first=""
	for bits in 1 7 8 16; do
		run -0 "${BUILD}/workloads/sort" --size 80000 --bits "${bits}"
		[[ ${output} == "${first:=${output}}" ]]
	done
	run -2 "${BUILD}/workloads/sort" --bits 17
}

@test "numpy-index gathers the same from the heap, a file and a segment" {
	[[ -x ${BUILD}/venv/bin/python ]] || skip "no build/venv"
	local memory first=""
	for memory in heap file segment; do
		run -0 numpy_index --memory "${memory}"
		[[ ${output} =~ ^checksum\ [0-9a-f]{16}$ ]]
		[[ ${output} == "${first:=${output}}" ]]
	done
	run -0 numpy_index --memory "file:${BATS_TEST_TMPDIR}/named"
	[[ ${output} == "${first}" && ! -e ${BATS_TEST_TMPDIR}/named ]]
	run -1 numpy_index --memory file:/nonexistent/named
	run -2 numpy_index --memory nowhere
	run -2 numpy_index --count 0
	run -1 numpy_index --elements 1000000000000000
	[[ ${output} == "cannot allocate 8000000000000000 bytes: "* ]]
}

@test "a segment of shared memory goes with its process" {
	need_program ipcs
	[[ -x ${BUILD}/venv/bin/python ]] || skip "no build/venv"
	run -0 numpy_index --memory segment
	# Of those that other tests have, each has its process still.
	gone=$(ipcs -m -p | awk '$1 ~ /^[0-9]+$/ { print $3 }' | sort -u)
	for creator in ${gone}; do
		[[ -e /proc/${creator} ]] || { ipcs -m -p && return 1; }
	done
}

@test "the script for sqlite3 looks up each key once" {
	need_program sqlite3
	run -0 sqlite 1000 1000
	# 1,000 lookups of rows that each have a text of 100 characters: more than that, and not more
	# than with ids of 1,000 and factors of 15.
	[[ ${output} =~ ^checksum\ [0-9a-f]{16}$ ]]
	((16#${output#checksum } > 100000 && 16#${output#checksum } < 15100000))
	local first=${output}
	run -0 sqlite 1000 1000
	[[ ${output} == "${first}" ]]
	run -0 sqlite 1000 999
	[[ ${output} != "${first}" ]]
}

@test "what sort makes of the log is all of it, by page and time" {
	need_program sort
	need_built workloads/visits.log
	[[ $(awk 'NF == 4 && ($3 == 200 || $3 == 404)' "${BUILD}/workloads/visits.log" | wc -l) -eq \
		$(wc -l <"${BUILD}/workloads/visits.log") ]]
	head -n 1000 "${BUILD}/workloads/visits.log" >"${BATS_TEST_TMPDIR}/log"
	LC_ALL=C sort --parallel=1 --buffer-size=1M --key=2,2 --key=4,4n \
		--output="${BATS_TEST_TMPDIR}/sorted" "${BATS_TEST_TMPDIR}/log"
	LC_ALL=C awk '(NR > 1 && ($2 "" < page || ($2 "" == page && $4 + 0 < took))) { exit 1 }
		{ page = $2 ""; took = $4 + 0 }' "${BATS_TEST_TMPDIR}/sorted"
	cmp <(LC_ALL=C sort "${BATS_TEST_TMPDIR}/sorted") <(LC_ALL=C sort "${BATS_TEST_TMPDIR}/log")
}

@test "the log for packaged programs is whole, and what xz makes of it is all of it" {
	need_program xz
	need_built workloads/requests.log
	# Each line has four words, the third a status.
	[[ $(awk 'NF == 4 && ($3 == 200 || $3 == 404)' "${BUILD}/workloads/requests.log" | wc -l) -eq \
		$(wc -l <"${BUILD}/workloads/requests.log") ]]
	head -n 1000 "${BUILD}/workloads/requests.log" >"${BATS_TEST_TMPDIR}/log"
	xz --threads=1 --stdout "${BATS_TEST_TMPDIR}/log" | xz --decompress | cmp - "${BATS_TEST_TMPDIR}/log"
	[[ -x ${BUILD}/venv/bin/python ]] || skip "no build/venv"
	python log-report.py --lines 1000 --print | cmp - "${BATS_TEST_TMPDIR}/log"
}

@test "the suite names programs that are there, each once, and takes their options" {
	local python=${BUILD}/venv/bin/python line key command word
	[[ -x ${python} ]] || skip "no build/venv"
	[[ $(grep -c '^# command_' "${TREE}/data/suite.tsv") -ge 16 ]]
	cut -f 2 "${TREE}/data/suite.tsv" | grep -v '^#' | sort | uniq -d >"${BATS_TEST_TMPDIR}/twice"
	[[ ! -s ${BATS_TEST_TMPDIR}/twice ]]
	while IFS= read -r line; do
		key=${line%%: *}
		command=${line#"${key}: "}
		command=${command//\{workloads\}/${BUILD}/workloads}
		command=${command//\{python\}/${python}}
		if [[ ${command} == */stream-static* && ! -x ${BUILD}/workloads/stream-static ]]; then
			continue
		fi
		for word in ${command}; do
			word=${word%\'}
			[[ ${word} != "${BUILD}"/* || -e ${word} ]]
		done
		# What others wrote need not be there, and has other rules.
		type -P "${command%% *}" >/dev/null || continue
		# With --help at its end, a program checks the options before and does nothing.
		[[ ${command} == sqlite3* ]] || eval "${command} --help" >/dev/null
	done < <(grep '^# command_' "${TREE}/data/suite.tsv")
}
