#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does `tlbcost count` say what was counted, and why something was not?
# Software events take the same way through the kernel as hardware's; what a PMU alone does is
# played by tests/fakes/tlbcost-count.

load common

setup() {
	need_built tlbcost libexec/tlbcost-count venv/bin/python tests/pages
	COUNT=("${BUILD}/tlbcost" count)
	PAGES=${BUILD}/tests/pages
	in_own_folder
}

# A tlbcost whose tlbcost-count is the fake, which prints what the JSON says.
made_up() { # <JSON>
	own_tree home
	ln -sf "${BUILD}/libexec/tlbcost-run" home/build/libexec/
	ln -sf "${TREE}/tests/fakes/tlbcost-count" home/build/libexec/
	export FAKE_COUNTERS=${PWD}/fake.json PYTHONPATH=${TREE}/estimate
	PATH=${BUILD}/venv/bin:${PATH}
	printf '%s\n' "$1" >fake.json
	rm -f fake.json.calls
	COUNT=("${PWD}/home/build/tlbcost" count --pmu skl)
}

nothing_left() {
	[[ $(find "${TMPDIR}" -mindepth 1) == "" ]]
}

number_of() { # <event>: its count in $output
	awk -v name="$1" '$1 == name { gsub(",", "", $2); print $2; exit }' <<<"${output}"
}

@test "count: what the kernel counts, with the program's own output and exit code" {
	run --separate-stderr -7 "${COUNT[@]}" -e page_faults,task_clock_ns -- \
		sh -c '"$1" self 1000; cat; echo error >&2; exit 7' sh "${PAGES}" <<<"from the caller"
	[[ ${output} == "from the caller" ]]
	[[ ${stderr} == error* ]]
	output=${stderr}
	(($(number_of page_faults) >= 1000 && $(number_of page_faults) < 2000))
	(($(number_of task_clock_ns) > 0))
	nothing_left
}

@test "count: without hardware counters the reason, and what works instead" {
	run "${COUNT[@]}" -- touch started
	((status != 0)) || skip "this machine has hardware counters"
	((status == 4))
	[[ ${lines[0]} == "tlbcost: cannot count: there are no hardware counters here"* ]]
	[[ ${lines[1]} == "tlbcost: hint: 'tlbcost estimate' simulates instead"*"-e page_faults"* ]]
	((${#lines[@]} == 2))
	[[ ! -e started ]]
	nothing_left
}

@test "count: an event that is missing next to one that is not: NA, never 0" {
	run -0 "${COUNT[@]}" --json report.json -e cycles,page_faults -- true
	[[ ${output} != *"cycles was not obtained"* ]] && skip "this machine counts cycles"
	[[ $(number_of cycles) == NA ]]
	[[ ${output} == *"note: cycles was not obtained: "*"ENOENT"* ]]
	[[ $(json 'report["counts"][0]["count"], report["counts"][0]["running_fraction"]') == \
		"(None, None)" ]]
	[[ $(json 'report["counts"][0]["state"]') == unsupported ]]
}

@test "count: a program that is killed: its counts, and 128 + the signal" {
	run -137 "${COUNT[@]}" -e page_faults -- sh -c 'kill -KILL $$'
	(($(number_of page_faults) > 0))
	nothing_left
}

@test "count: every run reads the same input, and only the first one is seen" {
	run --separate-stderr -0 "${COUNT[@]}" --runs 3 --prepare 'echo prepared >>prepared' \
		-e page_faults -- sh -c 'tee -a seen' < <(echo line)
	[[ ${output} == line ]]
	[[ $(<seen) == $'line\nline\nline' ]]
	[[ $(wc -l <prepared) == 3 ]]
	output=${stderr}
	[[ ${output} == *"page_faults"*" 0-2 "* ]]
}

@test "count: JSON as its schema says, and the table of doc/format.md" {
	run -0 "${COUNT[@]}" --json report.json --table counts.tsv -e page_faults,page_faults \
		-- sh -c 'exit 0'
	"${BUILD}/venv/bin/python" - "${TREE}/data/schema/count.schema.json" report.json <<-'PYTHON'
		import json, sys
		from pathlib import Path
		from jsonschema import Draft202012Validator
		schema, report = (json.loads(Path(path).read_text()) for path in sys.argv[1:])
		Draft202012Validator.check_schema(schema)
		Draft202012Validator(schema).validate(report)
	PYTHON
	[[ $(head -n 1 counts.tsv) == "# tlbcost counted 1" ]]
	[[ $(tail -n 1 counts.tsv) == "# end: 1" ]]
	[[ $(cell counts.tsv count page_faults) == $(json 'report["counts"][0]["count"]') ]]
	[[ $(cell counts.tsv state page_faults) == counted ]]
	grep -qx "# command: sh -c 'exit 0'" counts.tsv
}

@test "count: intervals come as rows, and add up to the whole" {
	run -0 "${COUNT[@]}" -I 50 --output report.txt --json report.json -e page_faults -- \
		sh -c 'for i in 1 2 3 4 5 6; do "$1" self 500; sleep 0.05; done' sh "${PAGES}"
	[[ ${output} == "" ]]
	output=$(<report.txt)
	local sum
	sum=$(awk '$2 == "s" && NF == 6 { gsub(",", "", $3); sum += $3; n++ }
		END { if (n > 2) print sum }' report.txt)
	[[ ${sum} == $(json 'report["counts"][0]["count"]') ]]
	((sum > 3000))
	nothing_left
}

two_lines() { # <file>
	[[ -e $1 && $(wc -l <"$1") -ge 2 ]]
}

@test "count: an interval is there while the program still runs" {
	"${COUNT[@]}" -I 20 -e page_faults -- sh -c 'while [ ! -e stop ]; do sleep 0.02; done' \
		2>report.txt 3>&- &
	local pid=$!
	wait_until two_lines report.txt
	kill -0 "${pid}"
	: >stop
	wait "${pid}"
	[[ $(wc -l <report.txt) -ge 2 ]]
}

@test "count: a running process until it ends" {
	need_children
	mkfifo in
	"${PAGES}" request 1000 <in >out 3>&- &
	local program=$! counter
	exec 8>in
	"${COUNT[@]}" -e page_faults --json report.json -p "${program}" 2>report.txt 3>&- 8>&- &
	counter=$!
	wait_until counters_wait "${counter}"
	echo go >&8
	exec 8>&-
	wait "${program}"
	wait "${counter}"
	output=$(<report.txt)
	[[ ${output} == *"process ${program}"* ]]
	(($(number_of page_faults) >= 1000 && $(number_of page_faults) < 1100))
	[[ $(json 'report["wall_ns"]') == None ]]
	nothing_left
}

@test "count: Ctrl-C ends the counting of a process, which runs on" {
	need_children
	sleep 60 3>&- &
	local program=$! counter
	env --default-signal=INT "${COUNT[@]}" -e page_faults -p "${program}" 2>report.txt 3>&- &
	counter=$!
	wait_until counters_wait "${counter}"
	kill -INT "${counter}"
	ended_with 0 "${counter}"
	kill "${program}"
	[[ $(<report.txt) == *"page_faults"* ]]
	nothing_left
}

@test "count: the whole system while a program runs" {
	need_root
	run -3 "${COUNT[@]}" -a --kernel --user -e page_faults -- sh -c 'sleep 0.2; exit 3'
	[[ ${output} == *"the whole system, while this ran: sh -c "* ]]
	[[ ${output} == *"user and kernel mode"* ]]
	(($(number_of page_faults) > 0))
}

@test "count: Ctrl-C is the program's, and its counts are reported" {
	# Everything in the terminal's process group gets it.
	run -130 setsid --wait env --default-signal=INT "${COUNT[@]}" -e page_faults -- \
		sh -c 'kill -INT 0; sleep 20'
	[[ ${output} == *"page_faults"* ]]
	run -5 setsid --wait env --default-signal=INT "${COUNT[@]}" --runs 3 -e page_faults -- \
		sh -c 'trap "exit 5" INT; echo run >>runs; kill -INT 0; sleep 20'
	[[ ${output} == *"the runs were ended early"* ]]
	[[ $(<runs) == run ]]
	nothing_left
}

@test "count: SIGTERM ends the program and us, and nothing is left" {
	local pid
	"${COUNT[@]}" -e page_faults -- sh -c 'echo $$ >program; sleep 60' 2>report.txt 3>&- &
	pid=$!
	while [[ ! -s program ]]; do sleep 0.02; done
	kill -TERM "${pid}"
	ended_with 143
	[[ $(<report.txt) == *"tlbcost: ended by SIGTERM"* ]]
	# Whoever has it now may not have waited for it yet.
	has_ended "$(<program)"
	nothing_left
}

@test "count: files that cannot be written are refused before the program runs" {
	local option
	for option in --json --table --output; do
		run -125 "${COUNT[@]}" "${option}" nowhere/file -e page_faults -- touch started
		[[ ${output} == *"cannot write nowhere/file: no such folder"* ]]
	done
	[[ ! -e started ]]
}

@test "count: mistakes on the command line" {
	local options
	answers 2 "nothing to count" "hint: " -- "${COUNT[@]}"
	answers 2 "exclude each other" -- "${COUNT[@]}" -a -p 1
	run -2 "${COUNT[@]}" -p 1 --runs 2
	answers 2 "no event of " " is called 'no_such_event'" -- "${COUNT[@]}" -e no_such_event -- true
	run -2 "${COUNT[@]}" --pmu no-such-cpu -- true
	for options in '-p 0' '-p x' '-I 0' '-I 1s' '--runs 0'; do
		# shellcheck disable=SC2086  # two words
		run -2 "${COUNT[@]}" ${options} -- true
	done
	answers 4 "there is no process 4194303" -- "${COUNT[@]}" -p 4194303
}

@test "count: what does not fit into the counters is counted in another run" {
	made_up '{"counters": 4, "counts": {"cycles": [1000000, 1010000],
		"walk_active_cycles.load": 150000, "walk_active_cycles.store": 20000,
		"walk_active_cycles.fetch": 4000}}'
	run -0 "${COUNT[@]}" --details -e cycles,walk_active_cycles,walks_completed -- sh -c 'echo run >>runs'
	[[ $(wc -l <runs) == 2 ]]
	[[ ${output} =~ share\ +17\ %.*"of the cycles had a page walk in progress" ]]
	[[ ${output} =~ cycles\ +1,005,000\ +1.0\ %\ +0-1\ +100\ % ]]
	[[ ${output} == *"skl::DTLB_LOAD_MISSES:WALK_ACTIVE"* ]]
	nothing_left
}

@test "count: a program that cannot be repeated needs --multiplex" {
	made_up '{"counters": 4, "running": {"walk_active_cycles.load": 0.5},
		"counts": {"walk_active_cycles.load": 400}}'
	local program='test ! -e flag; code=$?; : >flag; exit $code'
	run -1 "${COUNT[@]}" -e cycles,walk_active_cycles,walks_completed -- sh -c "${program}"
	[[ ${output} == *"cannot be repeated: run 1 exited with 0, run 2 exited with 1"* ]]
	[[ ${output} == *"hint: --multiplex"* ]]
	rm flag
	run -0 "${COUNT[@]}" --multiplex -e cycles,walk_active_cycles,walks_completed -- \
		sh -c "${program}"
	[[ $(number_of walk_active_cycles.load) == 800 ]]
	[[ ${output} == *"had a counter for a part of the time"*"scaled up"* ]]
}

# bats test_tags=settings
@test "count: under sudo the program runs as the user who called it" {
	under_sudo "${COUNT[@]}" -e page_faults --kernel --user sh -c 'id -u'
	((status == 0))
	[[ ${output} == 65534 ]]
}
