#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Are events counted where they happen, and nowhere else?  The kernel's own
# events go through the same code as those of the hardware.

load common

setup() {
	need_built libexec/tlbcost-count tests/pages
	COUNT=${BUILD}/libexec/tlbcost-count
	PAGES=${BUILD}/tests/pages
	TABLE=${BATS_TEST_TMPDIR}/counters.tsv
	FAULTS=(--event faults=perf::PAGE-FAULTS)
	CLOCK=(--event clock=perf::TASK-CLOCK)
	# What no machine has: a type of counter that nothing registers.
	NOTHING=(--event nothing=code:999999:1)
	cd "${BATS_TEST_TMPDIR}" || return
	"${COUNT}" --event faults=perf::PAGE-FAULTS --output probe.tsv -- true ||
		skip "perf_event_open counts nothing here"
	rm -f probe.tsv
}

teardown() {
	umount "${BATS_TEST_TMPDIR}/full" 2>/dev/null || true
	rmdir "${CGROUP-/nonexistent}" 2>/dev/null || true
	if [[ -n ${PROCESS-} ]]; then
		kill -KILL "${PROCESS}" 2>/dev/null || true
	fi
}

# An event source of the kernel's that counts anywhere, but takes no part in software groups.
need_msr() {
	"${COUNT}" --event tsc=code:msr:0 --output msr.tsv -- true 2>/dev/null ||
		skip "needs the msr event source"
	rm -f msr.tsv
}

count_of() { # <event> [<table>]
	awk -F '\t' -v event="$1" '$2 == event { print $4; exit }' "${2-${TABLE}}"
}

state_of() { # <event>
	awk -F '\t' -v event="$1" '$2 == event { print $7; exit }' "${TABLE}"
}

header() { # <key>
	sed -n "s/^# $1: //p" "${TABLE}"
}

# Faults of 2,000 pages more: all else a program does is the same.
difference() { # <mode of pages> [<option>...]
	local mode=$1 few many
	shift
	"${COUNT}" "${FAULTS[@]}" "$@" --output "${TABLE}" -- "${PAGES}" "${mode}" 1000 >&2
	few=$(count_of faults)
	"${COUNT}" "${FAULTS[@]}" "$@" --output "${TABLE}" -- "${PAGES}" "${mode}" 3000 >&2
	many=$(count_of faults)
	printf '%s\n' "$((many - few))"
}

# Of two runs: the files that a program loads are not mapped in the same number of faults, which
# depends on what of them is in memory, and in which pieces.
about() { # <number> <expected> [<tolerance>]
	(($1 >= $2 - ${3-100} && $1 <= $2 + ${3-100})) || {
		printf '%s is not about %s\n' "$1" "$2"
		return 1
	}
}

# Start a program that touches pages when asked; its number is in PROCESS.
start_process() { # <pages>
	mkfifo in out
	"${PAGES}" request "$1" <in >out 3>&- &
	PROCESS=$!
	exec 8>in 9<out
	read -r -u 9 answer
	[[ ${answer} == ready ]]
}

request() {
	local answer
	echo go >&8
	read -r -u 9 answer
	[[ ${answer} == touched ]]
}

end_process() {
	exec 8>&- 9<&-
	wait "${PROCESS}" || true
}

@test "every page that is touched faults once, wherever in the program" {
	local mode
	for mode in self thread child orphan; do
		about "$(difference "${mode}")" 2000
	done
}

@test "--no-inherit leaves out threads and children" {
	local mode
	for mode in thread child orphan; do
		about "$(difference "${mode}" --no-inherit)" 0
	done
	about "$(difference self --no-inherit)" 2000
}

@test "the table is complete and says how it was counted" {
	run -0 "${COUNT}" "${FAULTS[@]}" "${CLOCK[@]}" "${NOTHING[@]}" --event unknown=nope::X \
		--output "${TABLE}" -- "${PAGES}" self 1000
	[[ ${output} == "" ]]
	[[ $(head -n 1 "${TABLE}") == "# tlbcost counters 1" ]]
	[[ $(tail -n 1 "${TABLE}") == "# end: 4" ]]
	[[ $(header scope) == program && $(header mode) == both && $(header cpus) == NA ]]
	[[ $(header duration_ns) -gt 0 ]]
	[[ $(header refused_1) == "unknown: nope::X: event not found" ]]
	[[ $(state_of faults) == counted && $(state_of clock) == counted ]]
	# A type that nothing registers, and a name that nothing knows: no count, and never 0.
	[[ $(grep -P '\tnothing\t' "${TABLE}") == \
		*$'\tnothing\tNA\tNA\tNA\tNA\tunsupported\t2\tcode\t0xf423f\t0x1\t0x0' ]]
	[[ $(grep -P '\tunknown\t' "${TABLE}") == \
		*$'\tunknown\tNA\tNA\tNA\tNA\tunsupported\t2\tNA\tNA\tNA\tNA' ]]
	# Of one group: the same time, to the ns.
	[[ $(awk -F '\t' '$7 == "counted" { print $3, $5, $6 }' "${TABLE}" | sort -u | wc -l) == 1 ]]
}

@test "the task clock is the time the program ran for" {
	need_built workloads/loop
	run -0 "${COUNT}" "${CLOCK[@]}" --run run.tsv --output "${TABLE}" -- \
		sh -c "${BUILD@Q}/workloads/loop --count 200000000; :"
	local clock used
	clock=$(count_of clock)
	used=$(($(cell run.tsv user_ns) + $(cell run.tsv system_ns)))
	# A processor that the hypervisor took away counts for the clock, not as used; waiting does not
	# count for either.
	((clock >= used - used / 10 - 10000000))
	((clock <= $(cell run.tsv wall_ns) + 10000000))
}

@test "the run table is that of tlbcost-run, and the exit code the program's" {
	run -7 "${COUNT}" "${FAULTS[@]}" --run run.tsv --output "${TABLE}" -- sh -c 'exit 7'
	[[ $(head -n 1 run.tsv) == "# tlbcost run 2" && $(tail -n 1 run.tsv) == "# end: 1" ]]
	[[ $(cell run.tsv exit_code) == 7 && $(cell run.tsv wall_ns) -gt 0 ]]
	"${BUILD}/libexec/tlbcost-run" --output other.tsv -- true
	diff <(grep wall_ns run.tsv) <(grep wall_ns other.tsv)
	run -137 "${COUNT}" "${FAULTS[@]}" --run run.tsv --output "${TABLE}" -- sh -c 'kill -KILL $$'
	[[ $(cell run.tsv signal) == 9 ]]
	run -127 "${COUNT}" "${FAULTS[@]}" --run run.tsv --output "${TABLE}" -- ./no-such-program
	[[ $(cell run.tsv exec_errno) == 2 && $(count_of faults) == NA ]]
	[[ $(state_of faults) == never_ran ]]
	: >script
	run -126 "${COUNT}" "${FAULTS[@]}" --output "${TABLE}" -- ./script
}

@test "no event at all: 4, the table says why, and nothing is run" {
	run -4 "${COUNT}" "${NOTHING[@]}" --event unknown=nope::X --run run.tsv \
		--output "${TABLE}" -- touch started
	[[ ${lines[0]} == "tlbcost: no event can be counted: nothing: unsupported ("* ]]
	[[ ${lines[1]} == "tlbcost: hint: "* ]]
	[[ $(state_of nothing) == unsupported && $(tail -n 1 "${TABLE}") == "# end: 2" ]]
	[[ ! -e started && ! -e run.tsv ]]
	run -4 "${COUNT}" --event unknown=nope::X --output "${TABLE}" -- touch started
	[[ ${lines[0]} == "tlbcost: no event can be counted: unknown: nope::X: event not found" ]]
	[[ ! -e started ]]
}

@test "a filter that refuses perf_event_open: forbidden or failed, 4" {
	need_built tests/without_perf
	run -4 "${BUILD}/tests/without_perf" 1 "${COUNT}" "${FAULTS[@]}" --output "${TABLE}" -- touch started
	[[ $(state_of faults) == forbidden && $(cell "${TABLE}" errno) == 1 ]]
	[[ ${lines[0]} == *"forbidden (Operation not permitted)" ]]
	run -4 "${BUILD}/tests/without_perf" 38 "${COUNT}" "${FAULTS[@]}" --output "${TABLE}" -- touch started
	[[ $(state_of faults) == failed && $(cell "${TABLE}" errno) == 38 ]]
	[[ ! -e started ]]
}

@test "too few descriptors: failed, and no count" {
	local n code failed=0
	# The first few are too few for anything at all, the last are enough.
	for ((n = 6; n < 30; n++)); do
		code=0
		(
			ulimit -n "${n}"
			exec "${COUNT}" "${FAULTS[@]}" "${CLOCK[@]}" --output "${TABLE}" -- true
		) 2>/dev/null || code=$?
		case ${code} in
		0 | 4)
			if [[ $(state_of clock) == failed ]]; then
				failed=$((failed + 1))
				[[ $(count_of clock) == NA ]]
				[[ $(awk -F '\t' '$2 == "clock" { print $8 }' "${TABLE}") == 24 ]]
			fi
			[[ ${code} == 0 || $(state_of faults) == failed ]]
			;;
		125 | 127) ;;
		*) false ;;
		esac
		rm -f "${TABLE}"
	done
	((failed > 0))
}

@test "the program keeps the caller's limit of descriptors" {
	run -0 bash -c "ulimit -Sn 50; ${COUNT@Q} ${FAULTS[*]} --output ${TABLE@Q} -- \
		sh -c 'ulimit -Sn; ulimit -Hn'; ulimit -Hn"
	[[ ${lines[0]} == 50 && ${lines[1]} == "${lines[2]}" ]]
}

@test "the environment, the descriptors and the signals are the caller's" {
	same_surroundings "${COUNT}" "${FAULTS[@]}" --interval 1000 --output "${TABLE}" --
}

@test "one programmable counter: the rest is left over, fixed ones are not" {
	need_msr
	local tsc=(--event a=code:msr:0 --event b=code:msr:0 --event c=code:msr:0)
	"${COUNT}" "${tsc[@]}" "${CLOCK[@]}" --counters 1 --output "${TABLE}" -- true
	[[ $(state_of a) == counted && $(state_of b) == left_over && $(state_of c) == left_over ]]
	[[ $(state_of clock) == counted && $(count_of b) == NA ]]
	"${COUNT}" "${tsc[@]}" --counters 1 --fixed a,b --output "${TABLE}" -- true
	[[ $(state_of a) == counted && $(state_of b) == counted && $(state_of c) == counted ]]
	"${COUNT}" "${tsc[@]}" --counters 2 --output "${TABLE}" -- true
	[[ $(state_of b) == counted && $(state_of c) == left_over ]]
}

@test "--multiplex opens further groups, each with the first event" {
	need_msr
	"${COUNT}" --event a=code:msr:0 --event b=code:msr:0 --event c=code:msr:0 "${CLOCK[@]}" \
		--counters 2 --multiplex --output "${TABLE}" -- true
	[[ $(awk -F '\t' '/^[0-9]/ { printf "%s%s ", $2, $3 }' "${TABLE}") == "a0 b0 c1 clock1 a1 " ]]
	[[ $(tail -n 1 "${TABLE}") == "# end: 5" ]]
	# Enough for both groups here: none had to wait.
	[[ $(awk -F '\t' '/^[0-9]/ { print $7 }' "${TABLE}" | sort -u) == counted ]]
}

@test "an event source that knows no modes is not counted in one" {
	need_msr
	run -4 "${COUNT}" --user-only --event a=code:msr:0 --output "${TABLE}" -- true
	[[ $(state_of a) == unsupported ]]
}

@test "user and kernel are counted apart, and together are both" {
	# Reading into fresh memory faults in the kernel; touching it, in the program.
	local user kernel both
	"${COUNT}" --user-only "${FAULTS[@]}" --output "${TABLE}" -- "${PAGES}" self 2000
	user=$(count_of faults)
	[[ $(header mode) == user ]]
	((user >= 2000))
	"${COUNT}" --kernel-only "${FAULTS[@]}" --output "${TABLE}" -- "${PAGES}" self 2000
	kernel=$(count_of faults)
	[[ $(header mode) == kernel ]]
	((kernel < 200))
	"${COUNT}" "${FAULTS[@]}" --output "${TABLE}" -- "${PAGES}" self 2000
	both=$(count_of faults)
	about "${both}" $((user + kernel))
}

@test "--interval: rows add up to the whole, and come while the program runs" {
	local counter read=0
	local program="for i in 1 2 3 4; do ${PAGES@Q} self 500; sleep 0.1; done; read -r line <go"
	mkfifo rows go
	"${COUNT}" "${FAULTS[@]}" --interval 50 --output rows -- sh -c "${program}" 3>&- &
	counter=$!
	# The program waits for the word that four rows were read.
	while IFS= read -r line; do
		printf '%s\n' "${line}"
		[[ ${line} != [0-9]* ]] || read=$((read + 1))
		if ((read == 4)) && [[ ${line} == [0-9]* ]]; then
			echo go >go 3>&- &
		fi
	done <rows >"${TABLE}"
	wait "${counter}"
	[[ $(tail -n 1 "${TABLE}") == "# end: "* ]]
	local sum
	sum=$(awk -F '\t' '/^[0-9]/ { sum += $4 } END { print sum }' "${TABLE}")
	((sum >= 2000))
	(($(grep -c '^[0-9]' "${TABLE}") >= 4))
	# Ends of intervals ascend, and no row reports nothing as if it were missing.
	awk -F '\t' '/^[0-9]/ { if ($1 <= last || $4 == "NA") exit 1; last = $1 }' "${TABLE}"
	# The sum is what one row over all says.
	echo go >go 3>&- &
	"${COUNT}" "${FAULTS[@]}" --output whole.tsv -- sh -c "${program}"
	about "${sum}" "$(count_of faults whole.tsv)" 500
}

@test "--interval: a reader that goes away does not end the program" {
	local counter
	mkfifo rows
	"${COUNT}" "${FAULTS[@]}" --interval 10 --output rows -- \
		sh -c 'while [ ! -e gone ]; do sleep 0.02; done; sleep 0.2; : >ended; exit 5' 3>&- &
	counter=$!
	head -n 3 rows >/dev/null
	: >gone
	ended_with 125 "${counter}"
	[[ -e ended ]]
	# The program's own end, and a table that could not be written.
}

@test "a running process is counted, with threads that start later, until Ctrl-C" {
	local counter answer
	start_process 3000
	env --default-signal=INT "${COUNT}" "${FAULTS[@]}" --pid "${PROCESS}" --output "${TABLE}" \
		8>&- 9<&- 3>&- &
	counter=$!
	wait_until counters_wait "${counter}"
	request
	request
	kill -INT "${counter}"
	wait "${counter}"
	about "$(count_of faults)" 6000 100
	[[ $(header scope) == process ]]
	end_process
}

@test "a running process is counted while COMMAND runs" {
	local counter
	start_process 1000
	"${COUNT}" "${FAULTS[@]}" --pid "${PROCESS}" --output "${TABLE}" -- \
		sh -c ': >running; while [ ! -e stop ]; do sleep 0.02; done' 8>&- 9<&- 3>&- &
	counter=$!
	while [[ ! -e running ]]; do sleep 0.02; done
	request
	: >stop
	wait "${counter}"
	about "$(count_of faults)" 1000 100
	end_process
}

@test "a process that is not there: 125, and no table" {
	sleep 0 3>&- &
	local pid=$!
	wait "${pid}"
	run -125 "${COUNT}" "${FAULTS[@]}" --pid "${pid}" --output "${TABLE}"
	[[ ${output} == "tlbcost: cannot count the process: No such process" ]]
	[[ $(find . -name 'counters.tsv*') == "" ]]
}

@test "all CPUs: what others do is counted too" {
	run -0 "${COUNT}" "${FAULTS[@]}" --all-cpus --output "${TABLE}" -- \
		"${COUNT}" --no-inherit "${FAULTS[@]}" --output inner.tsv -- "${PAGES}" self 3000
	(($(count_of faults) >= 3000))
	[[ $(header scope) == system && $(header cpus) == "$(nproc --all)" ]] ||
		[[ $(header cpus) -ge 1 ]]
}

@test "a cgroup: its processes are counted, and no others" {
	need_root
	local mount count
	mount=$(awk '$3 == "cgroup" && $4 ~ /(^|,)perf_event(,|$)/ { print $2; exit }' /proc/mounts)
	[[ -n ${mount} ]] || mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	[[ -n ${mount} ]] || skip "needs a cgroup hierarchy"
	CGROUP=${mount}/tlbcost-test-$$
	mkdir "${CGROUP}" 2>/dev/null || skip "cannot make a cgroup"
	run "${COUNT}" "${FAULTS[@]}" --cgroup "${CGROUP}" --output "${TABLE}" -- \
		sh -c 'sh -c "echo \$\$ >\$0/cgroup.procs; exec \"\$1\" self 3000" "$0" "$1"; "$1" self 5000' \
		"${CGROUP}" "${PAGES}"
	((status == 0)) || skip "this kernel counts no cgroups there: ${output}"
	count=$(count_of faults)
	((count >= 3000 && count < 4000))
	[[ $(header scope) == cgroup ]]
	# By its name below the mount.
	run -0 "${COUNT}" "${FAULTS[@]}" --cgroup "${CGROUP##*/}" --output "${TABLE}" -- true
}

@test "a cgroup that is not there, or a folder that is none: 125, and nothing is run" {
	run -125 "${COUNT}" "${FAULTS[@]}" --cgroup /nonexistent --output "${TABLE}" -- touch started
	[[ ${output} == "tlbcost: /nonexistent: No such file or directory" ]]
	run -125 "${COUNT}" "${FAULTS[@]}" --cgroup "${PWD}" --output "${TABLE}" -- touch started
	[[ ${output} == "tlbcost: ${PWD}: "* ]]
	[[ ! -e started && $(find . -name 'counters.tsv*') == "" ]]
}

@test "--probe: what can be opened, without running anything" {
	run -0 "${COUNT}" --probe "${FAULTS[@]}" "${NOTHING[@]}" --output "${TABLE}"
	[[ $(header scope) == probe && $(state_of faults) == counted && $(count_of faults) -gt 0 ]]
	[[ $(state_of nothing) == unsupported ]]
	run -4 "${COUNT}" --probe "${NOTHING[@]}" --output "${TABLE}"
	[[ $(state_of nothing) == unsupported ]]
}

@test "a program that gains rights is not counted by the kernel: no count, and the reason" {
	need_root
	chmod 755 "${BATS_TEST_TMPDIR}"
	cp "${PAGES}" gains
	chmod 4755 gains
	run -0 "${COUNT}" "${FAULTS[@]}" --user 65534:65534 --run run.tsv --output "${TABLE}" -- \
		./gains self 50000
	if [[ $(cell run.tsv minor_faults) -gt 50000 && $(count_of faults) == NA ]]; then
		[[ $(state_of faults) == forbidden && $(header stopped) == *setuid* ]]
	else
		# Where the file system ignores setuid, nothing is gained.
		(($(count_of faults) >= 50000))
	fi
	# The same program for the user that it belongs to gains nothing.
	"${COUNT}" "${FAULTS[@]}" --output "${TABLE}" -- ./gains self 50000
	(($(count_of faults) >= 50000))
}

# bats test_tags=long
@test "a program that gains rights, however short it is" {
	need_root
	chmod 755 "${BATS_TEST_TMPDIR}"
	cp "${PAGES}" gains
	chmod 4755 gains
	# Only rights gained in its first few microseconds are noticed: of a run that had to wait in them,
	# as on a busy machine, the counts are believed.
	for _ in 1 2 3; do
		run -0 "${COUNT}" "${FAULTS[@]}" --user 65534:65534 --output "${TABLE}" -- \
			./gains self 100
		[[ $(count_of faults) != NA ]] && (($(count_of faults) < 100)) || break
	done
	[[ $(count_of faults) == NA ]] || (($(count_of faults) >= 100))
}

@test "many short processes, whose ends are not counted, are no sign of that" {
	run -0 "${COUNT}" "${FAULTS[@]}" --output "${TABLE}" -- \
		sh -c 'i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i + 1)); done'
	[[ $(state_of faults) == counted && $(header stopped) == "" ]]
	# Reported, whatever it is: time that the hypervisor took away is counted, and not used, so that it can
	# make up for what was not counted.
	[[ $(header uncounted_ns) =~ ^[0-9]+$ ]]
}

@test "a full disk: 125 before the program runs, and nothing left behind" {
	need_root
	mkdir full
	mount -t tmpfs -o size=8k tlbcost-test full 2>/dev/null || skip "cannot mount a tmpfs"
	head -c 8k /dev/zero >full/filler || true
	run -125 "${COUNT}" "${FAULTS[@]}" --output full/counters.tsv -- touch started
	[[ ${output} == *"full/counters.tsv: No space left on device"* ]]
	run -125 "${COUNT}" "${FAULTS[@]}" --run full/run.tsv --output "${TABLE}" -- touch started
	[[ ${output} == *"full/run.tsv: No space left on device"* ]]
	[[ $(ls full) == filler && ! -e started && ! -e ${TABLE} ]]
	# The disk fills up while the program runs: no table, though it ended well. It runs until the
	# table has filled the page that is left to it.
	rm full/filler
	run -125 "${COUNT}" "${FAULTS[@]}" --interval 1 --output full/counters.tsv -- sh -c '
		head -c 8k /dev/zero >full/filler
		until [ "$(cat full/counters.tsv* | wc -c)" -ge 4096 ]; do sleep 0.02; done
		sleep 0.1'
	[[ ${output} == *"full/counters.tsv: "* && $(ls full) == filler ]]
	umount full
}

@test "mistakes on the command line: 125 and a hint, and nothing is run" {
	local wrong
	for wrong in "" "--event faults" "--event =perf::PAGE-FAULTS" "--event a=b --counters 0" \
		"--event a=b --interval -1" "--event a=b --pid x" "--frobnicate" "--event" \
		"--event a=b --pid 1 --all-cpus" "--event a=b --user-only --kernel-only" \
		"--event a=b --probe" "--event a=b --run same --output same"; do
		# shellcheck disable=SC2086  # words
		answers 125 "tlbcost: hint: " -- "${COUNT}" ${wrong} -- touch started
	done
	run -125 "${COUNT}" --event "two words=perf::PAGE-FAULTS" -- touch started
	run -125 "${COUNT}" "${FAULTS[@]}"
	run -125 "${COUNT}" "${FAULTS[@]}" --pid 1 --discard
	[[ ! -e started ]]
}
