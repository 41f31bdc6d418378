#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# Are predictions compared with runs on huge pages that are proven, and is the system left as it was?

load common

SIZE=/sys/kernel/mm/hugepages/hugepages-2048kB
JOURNAL=/run/tlbcost/journal.json

setup() {
	need_built tlbcost venv/bin/python
	VALIDATE=("${BUILD}/tlbcost" validate)
	in_own_folder
}

teardown() {
	[[ -n ${BEFORE:-} ]] || return 0
	if [[ -n ${pid:-} ]] && kill -0 "${pid}" 2>/dev/null; then
		kill -KILL -- "-${pid}" || true
	fi
	"${BUILD}/tlbcost" pool restore >/dev/null 2>&1 || true
	printf '%s\n' "${BEFORE}" >"${SIZE}/nr_hugepages"
}

# For tests that reserve huge pages: notes the settings, which teardown puts back.
on_huge_pages() {
	need_pool
	need_program hugectl valgrind setsid pgrep
	need_built workloads/stream libexec/tlbcost-run
	[[ ! -e ${JOURNAL} ]] || skip "tlbcost has changed this system's settings: tlbcost pool restore"
	BEFORE=$(<"${SIZE}/nr_hugepages")
	state >before
}

state() {
	cat "${SIZE}/nr_hugepages" "${SIZE}/nr_overcommit_hugepages"
	cat /sys/kernel/mm/transparent_hugepage/{enabled,defrag}
	grep hugetlbfs /proc/mounts || true
}

as_before() {
	diff before <(state)
	[[ ! -e ${JOURNAL} ]]
	[[ $(ls -A "${TMPDIR}") == "" ]]
}

# STREAM small enough for a test; with more rounds, long enough for a signal.
start_stream() {
	setsid env --default-signal=INT,TERM "${VALIDATE[@]}" --stream --size 64M --pairs 50 -- \
		--rounds 40 >out 2>stderr 3>&- &
	pid=$!
	wait_until pages_are_reserved
}

pages_are_reserved() {
	[[ $(<"${SIZE}/nr_hugepages") != "${BEFORE}" ]]
}

record() {
	"${BUILD}/venv/bin/python" - "${TREE}" >record.tsv <<-'END'
		import sys
		sys.path.insert(0, f"{sys.argv[1]}/tests/python")
		from accuracy.test_errors import TWO
		from tlbcost.accuracy.record import format_record
		print(format_record(TWO), end="")
	END
}

@test "STREAM runs under hugectl on proven huge pages, and the settings are as before" {
	on_huge_pages
	run -0 --separate-stderr "${VALIDATE[@]}" --details --stream --size 96M --pairs 3 --table trials.tsv -- --rounds 30
	[[ ${stderr} == *"static arrays have a fixed size"* ]]
	[[ ${output} == *"arrays from malloc, hugectl --heap: 3 pairs of runs"* ]]
	local word
	for word in Copy Scale Add Triad; do
		[[ ${output} =~ ${word}\ \(MB/s\)\ +[0-9,]+\ +[0-9,]+\ +[+-] ]]
	done
	for word in elapsed user system "minor faults" "bound" "expected" "page faults" "both"; do
		[[ ${output} == *"${word}"* ]]
	done
	[[ ${output} != *"checksum"* ]]
	(($(cell trials.tsv huge_bytes 0) > 90 << 20))
	(($(cell trials.tsv huge_minor_faults 0) < $(cell trials.tsv base_minor_faults 0) / 5))
	as_before
}

@test "Ctrl-C in the middle of the runs puts everything back" {
	on_huge_pages
	start_stream
	kill -INT -- "-${pid}"
	ended_with 130
	grep -q "ended by SIGINT" stderr
	as_before
}

@test "after SIGKILL, pool restore puts everything back" {
	on_huge_pages
	start_stream
	kill -KILL -- "-${pid}"
	ended_with 137
	[[ -e ${JOURNAL} ]]
	run -0 "${BUILD}/tlbcost" pool restore
	as_before
}

# One may end between the look and the signal.
kill_a_stream() {
	pgrep -s "${pid}" -x stream >stream.pid && kill -KILL "$(head -n 1 stream.pid)" 2>/dev/null
}

@test "a STREAM that dies on the way is reported with its exit code, and everything is put back" {
	on_huge_pages
	start_stream
	wait_until kill_a_stream
	ended_with 137
	grep -q "stream was killed by SIGKILL" stderr
	as_before
}

@test "a STREAM that fails at once gives its exit code, and nothing is changed" {
	on_huge_pages
	answers 3 "stream exited with 3" -- "${VALIDATE[@]}" --stream --size 96M -- --fail 3
	as_before
}

@test "a program of the suite is predicted and tried" {
	on_huge_pages
	need_built workloads/loop
	export XDG_CACHE_HOME=${BATS_TEST_TMPDIR}/cache
	mkdir -p cache/tlbcost
	cp "${HOME}"/.cache/tlbcost/*.tsv cache/tlbcost/ 2>/dev/null || true
	rm -f cache/tlbcost/trials.tsv
	run --separate-stderr "${VALIDATE[@]}" --only loop --pairs 3 --table trials.tsv
	[[ ${output} == *"loop"* ]]
	grep -q '^# name_0: loop$' trials.tsv
	grep -Eq '^# bound_fraction_0: [0-9]' trials.tsv
	grep -Eq '^# expected_simple_value_0: -?[0-9]' trials.tsv
	# A part of the suite is no record of this machine.
	[[ ! -e cache/tlbcost/trials.tsv ]]
	as_before
}

@test "without root, what to type is said before anything is run" {
	need_program unshare hugectl
	need_built workloads/stream
	[[ $(<"${SIZE}/free_hugepages") == 0 ]] || skip "a pool has free pages: no root is needed"
	# Nobody in there, who still owns the files.
	unshare --user true 2>/dev/null || skip "no user namespace can be made"
	run -4 unshare --user "${VALIDATE[@]}" --stream
	[[ ${lines[0]} == "tlbcost: hugectl --heap needs reserved huge pages"*"which only root can change" ]]
	[[ ${lines[1]} == "tlbcost: hint: "*"tlbcost validate --stream"* ]]
	((${#lines[@]} == 2))
}

@test "a record is reported and drawn without running anything" {
	record
	run -0 "${VALIDATE[@]}" --from record.tsv
	[[ ${output} == *"expected gain against user time: mean 7.5, largest 10.0 (sort)"* ]]
	need_program gnuplot
	run -0 "${VALIDATE[@]}" --from record.tsv --plot picture.svg --output report
	[[ ${output} == "" ]]
	grep -q "2 programs" report
	grep -q "chase" picture.svg
}

@test "options without a meaning are refused" {
	local options
	while read -r -a options; do
		run -2 "${VALIDATE[@]}" "${options[@]}"
	done <<-'END'
		--size 1G
		--stream --size 0
		--stream --only loop
		--stream --plot picture.png
		--from record.tsv --table other.tsv
		--from record.tsv --stream
		--pairs 2
		--pairs many
		--plot picture.gif
		--only nothing
		-- --rounds 3
	END
}
