#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does tlbcost-record find the places that a program is known to hit?
# Page faults are the events: the kernel counts them on any machine.

load common

setup_file() {
	need_program cc
	cc -O1 -g -fPIC -shared -o "${BATS_FILE_TMPDIR}/libplaces.so" \
		"${BATS_TEST_DIRNAME}/../c/places_library.c"
	cc -O1 -g -o "${BATS_FILE_TMPDIR}/places" "${BATS_TEST_DIRNAME}/../c/places.c" \
		"${BATS_FILE_TMPDIR}/libplaces.so" "-Wl,-rpath,${BATS_FILE_TMPDIR}" -lpthread
}

setup() {
	need_built libexec/tlbcost-record tlbcost
	RECORD=${BUILD}/libexec/tlbcost-record
	PLACES=${BATS_FILE_TMPDIR}/places
	TABLE=${BATS_TEST_TMPDIR}/hits.tsv
	FAULTS=(--event "faults=perf::PAGE-FAULTS" --period 1 --user-only --output "${TABLE}")
	cd "${BATS_TEST_TMPDIR}" || return
	"${RECORD}" "${FAULTS[@]}" -- true 2>/dev/null ||
		skip "the kernel lets nobody here sample page faults"
}

teardown() {
	umount "${BATS_TEST_TMPDIR}/full" 2>/dev/null || true
}

key() { # <key>
	awk -v key="# $1:" 'index($0, key) == 1 { print substr($0, length(key) + 2) }' "${TABLE}"
}

# Samples at a symbol or a mapping of data, of the only event.
samples_at() { # <object> <symbol> | <mapping>
	local by=symbol
	(($# == 2)) || by=mapping
	"${BUILD}/tlbcost" annotate --by "${by}" --limit 100000 "${TABLE}" |
		awk -v first="$1" -v second="${2:-}" '
			$3 == first && (second == "" || $4 == second) {
				gsub(",", "", $1); n += $1
			}
			END { print n + 0 }'
}

# A fault can happen twice where the kernel was in the way (it moved the page, or wrote it back), and
# a page be touched before: some of a hundred pages, where half or twice as many would be a mistake.
about() { # <actual> <expected>
	(($1 >= $2 - 2 - $2 / 50 && $1 <= $2 + 5 + $2 / 10)) || {
		printf '%s is not about %s\n' "$1" "$2"
		cat "${TABLE}"
		return 1
	}
}

@test "each touched page is a sample at the function that touched it" {
	run -0 "${RECORD}" "${FAULTS[@]}" -- "${PLACES}" here 500
	[[ ${output} == "" ]]
	about "$(samples_at places touch_here)" 500
	[[ $(key lost) == 0 && $(key throttled) == 0 ]]
	[[ $(key event_0) == "faults counted 0 libpfm4 0x1 0x2 0x0" ]]
}

@test "in a shared library, after exec" {
	"${RECORD}" "${FAULTS[@]}" -- "${PLACES}" library 300
	about "$(samples_at libplaces.so touch_in_library)" 300
	"${RECORD}" "${FAULTS[@]}" -- "${PLACES}" exec 200
	about "$(samples_at libplaces.so touch_in_library)" 200
}

@test "in threads and in a child" {
	"${RECORD}" "${FAULTS[@]}" -- "${PLACES}" threads 100
	about "$(samples_at places touch_here)" 300
	"${RECORD}" "${FAULTS[@]}" -- "${PLACES}" child 150
	about "$(samples_at places touch_in_child)" 150
	# They are another process's, whose mappings are its parent's.
	[[ $(awk -F '\t' '!/^#/ && $1 == "faults" { print $2 }' "${TABLE}" | sort -u | wc -l) == 2 ]]
}

@test "behind a shell that starts several programs" {
	"${RECORD}" "${FAULTS[@]}" -- \
		sh -c "${PLACES@Q} here 100; ${PLACES@Q} library 120 & ${PLACES@Q} child 130; wait"
	about "$(samples_at places touch_here)" 100
	about "$(samples_at libplaces.so touch_in_library)" 120
	about "$(samples_at places touch_in_child)" 130
}

@test "data lies in the heap, the stack, anonymous and shared memory, and a file" {
	"${RECORD}" "${FAULTS[@]}" --addresses -- "${PLACES}" heap 200
	(($(samples_at "[heap]") >= 200))
	"${RECORD}" "${FAULTS[@]}" --addresses -- "${PLACES}" stack 100
	# A frame has four pages, of which it touches one or two.
	(($(samples_at "[stack]") >= 100))
	"${RECORD}" "${FAULTS[@]}" --addresses -- "${PLACES}" here 200
	(($(samples_at "[anonymous]") >= 200))
	"${RECORD}" "${FAULTS[@]}" --addresses -- "${PLACES}" shared 200
	about "$(samples_at "[shared]")" 200
	"${RECORD}" "${FAULTS[@]}" --addresses -- "${PLACES}" file 50 "${PWD}/mapped"
	about "$(samples_at mapped)" 50
	# None of these samples says anything of the TLB.
	[[ $(awk -F '\t' '!/^#/ { print $7 }' "${TABLE}" | sort -u) == $'NA\ndata_tlb' ]]
}

@test "accesses are samples one by one: thread, CPU, address" {
	"${RECORD}" "${FAULTS[@]}" --accesses --output "${TABLE}" -- "${PLACES}" here 600
	head -n 1 "${TABLE}" | grep -qx '# tlbcost accesses 1'
	# Of each page one, at its own address; the kernel's event says nothing of caches.
	places=$(awk -F '\t' '$1 == "faults" && $5 == "NA" && $6 == 1 { print $4 }' "${TABLE}" | sort -u | wc -l)
	((places >= 600))
	threads=$(awk -F '\t' '$1 == "faults" { print $2 }' "${TABLE}" | sort -u | wc -l)
	((threads == 1))
}

@test "static variables without a value are the executable's bss, not anonymous memory" {
	cat >static.c <<-'END'
		static volatile char table[700 * 65536];
		int main(void) { for (int i = 0; i < 700; i++) table[i * 65536] = 1; return 0; }
	END
	cc -O1 -o static static.c
	"${RECORD}" "${FAULTS[@]}" --addresses -- ./static
	(($(samples_at "[bss]") >= 22))
	cc -O1 -no-pie -static -o static static.c
	"${RECORD}" "${FAULTS[@]}" --addresses -- ./static
	(($(samples_at "[bss]") >= 22))
}

@test "samples times the period is what the counter counted, within a period each CPU" {
	local period weight counted cpus
	cpus=$(getconf _NPROCESSORS_ONLN)
	for period in 1 7 100; do
		"${RECORD}" --event "faults=perf::PAGE-FAULTS" --period "${period}" --user-only \
			--output "${TABLE}" -- "${PLACES}" threads 1000
		weight=$(awk -F '\t' '!/^#/ && $1 == "faults" { n += $9 } END { print n }' "${TABLE}")
		counted=$(key count_0)
		((counted >= 3000))
		# Each thread has a counter of its own on each CPU.
		((weight <= counted && weight > counted - 4 * cpus * period))
	done
}

@test "as many as tlbcost-count counts" {
	need_built libexec/tlbcost-count
	"${BUILD}/libexec/tlbcost-count" --event "faults=perf::PAGE-FAULTS" --user-only \
		--output counters.tsv -- "${PLACES}" here 1000
	"${RECORD}" "${FAULTS[@]}" -- "${PLACES}" here 1000
	local counted sampled
	counted=$(awk -F '\t' '$2 == "faults" { print $4 }' counters.tsv)
	sampled=$(awk -F '\t' '!/^#/ && $1 == "faults" { n += $8 } END { print n }' "${TABLE}")
	# Two runs: the files that both load are not mapped in the same number of faults, which depends
	# on what of them is in memory, and in which pieces.
	((sampled >= 1000 && counted >= 1000))
	((sampled - counted <= 100 && counted - sampled <= 100))
}

@test "the time of a task is sampled where it is spent" {
	"${RECORD}" --event "clock=perf::TASK-CLOCK" --period 1000003 --user-only \
		--output "${TABLE}" -- "${BUILD}/workloads/loop" --count 200000000
	[[ $(awk -F '\t' '!/^#/ && $1 == "clock" { n += $8 } END { print n }' "${TABLE}") -gt 20 ]]
	(($(samples_at loop main) + $(samples_at loop loop) + $(samples_at loop run) > 10))
}

@test "a process that runs already is attached to, and its end is noticed" {
	mkfifo orders
	"${PLACES}" asked 400 <orders >said 3>&- &
	local pid=$!
	exec 9>orders
	while [[ ! -s said ]]; do sleep 0.02; done
	"${RECORD}" "${FAULTS[@]}" --pid "${pid}" 3>&- &
	local recorder=$!
	# Its counters are open when it waits, which it does not before.
	wait_until counters_wait "${recorder}"
	echo go >&9
	exec 9>&-
	wait "${pid}"
	wait "${recorder}"
	about "$(samples_at places touch_here)" 400
	[[ $(key scope) == process ]]
}

@test "a process that runs already is recorded for as long as a command runs" {
	mkfifo orders
	"${PLACES}" asked 400 <orders >said 3>&- &
	local pid=$!
	exec 9>orders
	while [[ ! -s said ]]; do sleep 0.02; done
	# The command orders the faults, and ends when they have happened.
	run -7 "${RECORD}" "${FAULTS[@]}" --pid "${pid}" -- \
		sh -c "echo go >&9; while kill -0 ${pid} 2>/dev/null && ! grep -q Z /proc/${pid}/stat
		do sleep 0.05; done; exit 7"
	exec 9>&-
	about "$(samples_at places touch_here)" 400
	[[ $(key scope) == process ]]
	sleep 60 3>&- &
	run -3 --separate-stderr "${BUILD}/tlbcost" record -e page_faults --output samples.tsv -p $! -- \
		sh -c 'echo mine; exit 3'
	kill %%
	[[ ${output} == mine ]]
	[[ $(tail -n 1 samples.tsv) == "# end: "* ]]
	wait %% || true
	for command in "" "touch started"; do
		# shellcheck disable=SC2086  # none, or two words
		run -4 "${BUILD}/tlbcost" record -e page_faults -p $! -- ${command}
		[[ ${output} == *"there is no process $!"* ]]
	done
	[[ ! -e started ]]
}

@test "SIGINT ends a recording of a process; what it has is written" {
	sleep 60 3>&- &
	local pid=$! code=0
	env --default-signal=INT "${RECORD}" "${FAULTS[@]}" --pid "${pid}" 3>&- &
	local recorder=$!
	wait_until counters_wait "${recorder}"
	kill -INT "${recorder}"
	wait "${recorder}" || code=$?
	kill "${pid}"
	[[ ${code} == 0 ]]
	[[ $(tail -n 1 "${TABLE}") == "# end: "* ]]
}

@test "all processes" {
	need_root
	"${RECORD}" "${FAULTS[@]}" --all-cpus -- "${PLACES}" here 500
	about "$(samples_at places touch_here)" 500
	[[ $(key scope) == system ]]
}

@test "the program's exit code and signal are passed on, and its samples are written" {
	run -7 "${RECORD}" "${FAULTS[@]}" --run run.tsv -- sh -c 'exit 7'
	[[ $(cell run.tsv exit_code) == 7 ]]
	run -143 "${RECORD}" "${FAULTS[@]}" -- sh -c "${PLACES@Q} here 100; kill -TERM \$\$"
	about "$(samples_at places touch_here)" 100
}

@test "what the program prints can be dropped, and its exit code stays" {
	run --separate-stderr -3 "${RECORD}" "${FAULTS[@]}" --discard --run run.tsv -- \
		sh -c "${PLACES@Q} here 100; seq 100000; echo why >&2; exit 3"
	# shellcheck disable=SC2154  # set by run
	[[ ${output}${stderr} == "" ]]
	[[ $(<run.tsv.stderr) == why ]]
	about "$(samples_at places touch_here)" 100
}

@test "a program that cannot be started: 126, 127, and no table" {
	rm -f "${TABLE}"
	run -127 "${RECORD}" "${FAULTS[@]}" -- ./no-such-program
	[[ ${output} == *"cannot start ./no-such-program"* ]]
	run -126 "${RECORD}" "${FAULTS[@]}" -- /
	[[ ! -e ${TABLE} ]]
}

@test "an event that is not here: 4, why, and nothing is run" {
	run -4 "${RECORD}" --event "x=code:4711:0x1" --output "${TABLE}" -- touch started
	[[ ${output} == *"cannot sample x: "*"hint: "* ]]
	[[ ! -e started ]]
	[[ $(key event_0) == "x unsupported 2 code 0x1267 0x1 0x0" ]]
	run -4 "${RECORD}" --quiet --event "x=nope::NOPE" --output "${TABLE}" -- touch started
	[[ ${output} == "" ]]
	[[ ! -e started ]]
	run -4 "${RECORD}" --event "x=code:arm_spe_0:0x1" --output "${TABLE}" -- touch started
	[[ $(key event_0) == "x unsupported 95 NA NA NA NA" ]]
}

@test "an event that is missing next to one that is not: the other one is sampled" {
	run -0 "${RECORD}" --event "x=code:4711:0x1" "${FAULTS[@]}" -- "${PLACES}" here 100
	[[ ${output} == *"cannot sample x: "* ]]
	[[ $(key event_0) == "x unsupported "* && $(key count_0) == NA ]]
	[[ $(key event_1) == "faults counted "* ]]
	run -0 "${BUILD}/tlbcost" annotate "${TABLE}"
	[[ ${output} == *"x was not obtained: "* ]]
}

# bats test_tags=settings
@test "what the kernel forbids: 4, and what to type" {
	need_root
	need_program setpriv
	local paranoid
	paranoid=$(</proc/sys/kernel/perf_event_paranoid)
	((paranoid >= 2)) || skip "perf_event_paranoid is ${paranoid}: nothing is forbidden"
	chmod 777 "${BATS_TEST_TMPDIR}" && chmod 755 "${BATS_RUN_TMPDIR}"
	run -4 setpriv --reuid=65534 --regid=65534 --clear-groups \
		"${RECORD}" --event "faults=perf::PAGE-FAULTS" --output "${TABLE}" -- touch started
	[[ ${output} == *"cannot sample faults: Permission denied"*"--user-only"* ]]
	[[ $(key event_0) == "faults forbidden 13 "* ]]
	[[ ! -e started ]]
	run -4 setpriv --reuid=65534 --regid=65534 --clear-groups "${RECORD}" "${FAULTS[@]}" --all-cpus
	[[ ${output} == *"kernel.perf_event_paranoid"* ]]
}

# bats test_tags=settings
@test "a user without privileges records a program of his own" {
	need_root
	need_program setpriv
	local paranoid
	paranoid=$(</proc/sys/kernel/perf_event_paranoid)
	((paranoid <= 2)) || skip "perf_event_paranoid is ${paranoid}: only root may sample"
	chmod 777 "${BATS_TEST_TMPDIR}" && chmod 755 "${BATS_FILE_TMPDIR}" "${BATS_RUN_TMPDIR}"
	rm -f "${TABLE}"
	run -0 setpriv --reuid=65534 --regid=65534 --clear-groups \
		"${RECORD}" "${FAULTS[@]}" -- "${PLACES}" here 300
	about "$(samples_at places touch_here)" 300
}

@test "a process that does not exist: 4; options that make no sense: 125" {
	run -4 "${RECORD}" "${FAULTS[@]}" --pid 4194304
	[[ ${output} == *"No such process"* ]]
	run -125 "${RECORD}" --output "${TABLE}" -- true
	[[ ${output} == *"no --event was given"* ]]
	run -125 "${RECORD}" "${FAULTS[@]}"
	[[ ${output} == *"no COMMAND was given"* ]]
	run -125 "${RECORD}" "${FAULTS[@]}" --period 0 -- true
	[[ ${output} == *"not a period: 0"* ]]
	run -125 "${RECORD}" "${FAULTS[@]}" --kernel-only -- true
}

@test "a full disk: 125, a message, and nothing left behind" {
	need_root
	mkdir full
	mount -t tmpfs -o size=8k tlbcost-test full 2>/dev/null || skip "cannot mount a tmpfs"
	head -c 8k /dev/zero >full/filler || true
	run -125 "${RECORD}" "${FAULTS[@]}" --output full/hits.tsv -- touch started
	[[ ${output} == *"full/hits.tsv: No space left on device"* ]]
	[[ $(ls full) == filler && ! -e started ]]
	# Room for a look beforehand, but not for the table.
	truncate -s 4k full/filler
	run -125 "${RECORD}" "${FAULTS[@]}" --output full/hits.tsv -- \
		sh -c "head -c 4k /dev/zero >>full/filler; ${PLACES@Q} here 100"
	[[ ${output} == *"full/hits.tsv: No space left on device"* ]]
	[[ $(ls full) == filler ]]
	umount full
}

@test "a recorder that is killed leaves nothing, and no program behind" {
	rm -f "${TABLE}"
	"${RECORD}" "${FAULTS[@]}" -- sh -c 'echo $$ >pid; while :; do sleep 0.05; done' 3>&- &
	local recorder=$!
	while [[ ! -s pid ]]; do sleep 0.02; done
	kill -KILL "${recorder}"
	wait "${recorder}" || true
	wait_until has_ended "$(<pid)"
	[[ $(find . -name 'hits.tsv*') == "" ]]
}

@test "SIGTERM is the program's; its samples are written" {
	"${RECORD}" "${FAULTS[@]}" -- sh -c 'trap "exit 42" TERM; : >ready
		while :; do sleep 0.05; done' 3>&- &
	local recorder=$! code=0
	while [[ ! -e ready ]]; do sleep 0.02; done
	kill -TERM "${recorder}"
	wait "${recorder}" || code=$?
	[[ ${code} == 42 ]]
	[[ $(tail -n 1 "${TABLE}") == "# end: "* ]]
}

@test "tlbcost record: a file, a table of objects, and the program's own output" {
	need_built workloads/cold
	run --separate-stderr -3 "${BUILD}/tlbcost" record -e page_faults -- \
		sh -c "${PLACES@Q} here 600; echo said; exit 3"
	[[ ${output} == said ]]
	# shellcheck disable=SC2154  # set by run
	[[ ${stderr} == *"page_faults: "*" samples x 1 = "*"counted: "* ]]
	[[ ${stderr} == *places* && ${stderr} == *tlbcost-hits.tsv* ]]
	mv tlbcost-hits.tsv "${TABLE}"
	about "$(samples_at places touch_here)" 600
	cp "${TABLE}" tlbcost-hits.tsv
	run -0 "${BUILD}/tlbcost" annotate --by object --json profile.json
	[[ ${output} == *places* ]]
	grep -q '"format": "tlbcost profile 1"' profile.json
}

@test "tlbcost record: refusals are the same as those of count" {
	run -2 "${BUILD}/tlbcost" record
	[[ ${output} == *"nothing to record"* ]]
	run -2 "${BUILD}/tlbcost" record -e nonsense -- true
	run -2 "${BUILD}/tlbcost" record -e page_faults --period 3 --frequency 4 -- true
	run -127 "${BUILD}/tlbcost" record -e page_faults -- ./nowhere
	run -125 "${BUILD}/tlbcost" record -e page_faults --output nowhere/x.tsv -- touch started
	[[ ! -e started ]]
	run -1 "${BUILD}/tlbcost" annotate missing.tsv
	[[ ${output} == *"no such file"*"tlbcost record"* ]]
	"${RECORD}" "${FAULTS[@]}" -- true
	run -1 "${BUILD}/tlbcost" annotate --by mapping "${TABLE}"
	[[ ${output} == *"--addresses"* ]]
}

@test "tlbcost record without counters says that it records something else" {
	"${RECORD}" --quiet --event "c=perf::CYCLES" --user-only --output "${TABLE}" -- true &&
		skip "this machine has counters"
	run -0 "${BUILD}/tlbcost" record -- "${PLACES}" here 500
	[[ ${output} == *"no hardware counters here"*"task_clock_ns: "*"page_faults: "* ]]
}
