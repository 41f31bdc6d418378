#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does tlbcost record find the places that a program is known to hit?
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
	need_built libexec/tlbcost-count tlbcost
	need_program perf
	PLACES=${BATS_FILE_TMPDIR}/places
	FILE=${BATS_TEST_TMPDIR}/samples
	RECORD=("${BUILD}/tlbcost" record -e page_faults --period 1 --output "${FILE}")
	cd "${BATS_TEST_TMPDIR}" || return
	"${RECORD[@]}" --quiet -- true 2>/dev/null || skip "the kernel lets nobody here sample page faults"
}

teardown() {
	umount "${BATS_TEST_TMPDIR}/full" 2>/dev/null || true
}

# Samples at a symbol or a mapping of data, of the only event.
samples_at() { # <object> <symbol> | <mapping>
	local by=symbol
	(($# == 2)) || by=mapping
	"${BUILD}/tlbcost" annotate --by "${by}" --limit 100000 "${FILE}" |
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
		"${BUILD}/tlbcost" annotate "${FILE}"
		return 1
	}
}

@test "each touched page is a sample at the function that touched it: here, in a library, after exec" {
	"${RECORD[@]}" -- "${PLACES}" here 500
	about "$(samples_at places touch_here)" 500
	"${RECORD[@]}" -- "${PLACES}" library 300
	about "$(samples_at libplaces.so touch_in_library)" 300
	"${RECORD[@]}" -- "${PLACES}" exec 200
	about "$(samples_at libplaces.so touch_in_library)" 200
}

@test "in threads and in children, behind a shell that starts several programs" {
	"${RECORD[@]}" -- "${PLACES}" threads 100
	about "$(samples_at places touch_here)" 300
	"${RECORD[@]}" -- \
		sh -c "${PLACES@Q} here 100; ${PLACES@Q} library 120 & ${PLACES@Q} child 130; wait"
	about "$(samples_at places touch_here)" 100
	about "$(samples_at libplaces.so touch_in_library)" 120
	about "$(samples_at places touch_in_child)" 130
}

@test "data lies in the heap, anonymous and shared memory, and a file" {
	"${RECORD[@]}" --addresses -- "${PLACES}" heap 200
	(($(samples_at "[heap]") >= 200))
	"${RECORD[@]}" --addresses -- "${PLACES}" here 200
	(($(samples_at "[anonymous]") >= 200))
	"${RECORD[@]}" --addresses -- "${PLACES}" shared 200
	about "$(samples_at "[shared]")" 200
	"${RECORD[@]}" --addresses -- "${PLACES}" file 50 "${PWD}/mapped"
	about "$(samples_at mapped)" 50
}

@test "the program's environment, input, output, exit code and signal are its own" {
	export PATH=/bin:/usr/bin:/sbin X=1
	run -3 --separate-stderr "${RECORD[@]}" -- sh -c 'env >seen; cat; exit 3' <<<said
	[[ ${output} == said ]]
	[[ $(grep -c '^PERF_' seen) == 0 && $(grep '^PATH=' seen) == PATH=/bin:/usr/bin:/sbin ]]
	[[ $(grep '^X=' seen) == X=1 && ! -e ${HOME}/.debug/${PLACES} ]]
	[[ ${stderr} == *"page_faults: "*" samples, which stand for "*"samples are in ${FILE}"* ]]
	run -143 "${RECORD[@]}" -- sh -c "${PLACES@Q} here 100; kill -TERM \$\$"
	about "$(samples_at places touch_here)" 100
}

@test "a process that runs already: until it ends, or as long as a command runs" {
	mkfifo orders
	"${PLACES}" asked 400 <orders >said 3>&- &
	local pid=$!
	exec 9>orders
	while [[ ! -s said ]]; do sleep 0.02; done
	# The command orders the faults, and ends when they have happened.
	run -7 "${RECORD[@]}" --pid "${pid}" -- \
		sh -c "echo go >&9; while kill -0 ${pid} 2>/dev/null && ! grep -q Z /proc/${pid}/stat
		do sleep 0.05; done; exit 7"
	exec 9>&-
	about "$(samples_at places touch_here)" 400
	wait "${pid}"
	for command in "" "touch started"; do
		# shellcheck disable=SC2086  # none, or two words
		answers 4 "there is no process ${pid}" -- "${RECORD[@]}" -p "${pid}" -- ${command}
	done
	[[ ! -e started ]]
}

@test "SIGINT ends a recording of a process; what it has is written" {
	sleep 60 3>&- &
	local pid=$! code=0
	rm -f "${FILE}"
	env --default-signal=INT "${RECORD[@]}" --pid "${pid}" 3>&- &
	local recorder=$!
	wait_until pgrep -P "${recorder}" -x perf
	sleep 0.3
	kill -INT "${recorder}"
	wait "${recorder}" || code=$?
	kill "${pid}"
	[[ ${code} == 0 && -s ${FILE} ]]
}

@test "all processes" {
	need_root
	"${RECORD[@]}" --all-cpus -- "${PLACES}" here 500
	about "$(samples_at places touch_here)" 500
}

@test "an event that is not here: 4, and nothing is run; next to one that is, that one is sampled" {
	run -4 "${BUILD}/tlbcost" record -e r1001008 --output "${FILE}" -- touch started
	[[ ${output} == *"hint: "* && ! -e started ]]
	run -0 "${BUILD}/tlbcost" record -e page_faults -e perf::CGROUP-SWITCHES --period 1 \
		--output "${FILE}" -- "${PLACES}" here 100
	about "$(samples_at places touch_here)" 100
}

# bats test_tags=settings
@test "a user without privileges records a program of his own, or is told what to type" {
	need_root
	need_program setpriv
	chmod 777 "${BATS_TEST_TMPDIR}" && chmod 755 "${BATS_FILE_TMPDIR}" "${BATS_RUN_TMPDIR}"
	rm -f "${FILE}"
	run as_user_id 65534 "${RECORD[@]}" -- "${PLACES}" here 300
	if ((status == 0)); then
		about "$(samples_at places touch_here)" 300
	else
		[[ ${output} == *perf_event_paranoid* || ${output} == *"cannot"* ]]
	fi
}

@test "a full disk: 125, a message, and nothing left behind" {
	need_root
	mkdir full
	mount -t tmpfs -o size=8k tlbcost-test full 2>/dev/null || skip "cannot mount a tmpfs"
	run -125 "${BUILD}/tlbcost" record -e page_faults --output full/samples -- "${PLACES}" here 100
	[[ ${output} == *"full/samples: No space left on device"* ]]
	[[ -z $(ls full) ]]
	umount full
}

@test "a recorder that is killed leaves no program behind" {
	"${RECORD[@]}" -- sh -c 'echo $$ >pid; while :; do sleep 0.05; done' 3>&- &
	local recorder=$!
	while [[ ! -s pid ]]; do sleep 0.02; done
	kill -TERM "${recorder}"
	wait "${recorder}" || true
	wait_until has_ended "$(<pid)"
}

@test "refusals are the same as those of count; annotate reads perf's own files, and names what it cannot" {
	answers 2 "nothing to record" -- "${BUILD}/tlbcost" record
	run -2 "${BUILD}/tlbcost" record -e nonsense -- true
	run -2 "${BUILD}/tlbcost" record -e page_faults --period 3 --frequency 4 -- true
	run -127 "${BUILD}/tlbcost" record -e page_faults -- ./nowhere
	run -125 "${BUILD}/tlbcost" record -e page_faults --output nowhere/x -- touch started
	[[ ! -e started ]]
	answers 1 "no such file" "tlbcost record" -- "${BUILD}/tlbcost" annotate missing
	answers 1 "--addresses" -- "${BUILD}/tlbcost" annotate --by mapping "${FILE}"
	perf record -q -N -o own.data -e page-faults:u -c 1 "${PLACES}" here 200
	run -0 "${BUILD}/tlbcost" annotate --json profile.json own.data
	[[ ${output} == *touch_here* ]]
	grep -q '"format": "tlbcost profile 2"' profile.json
	PATH=${BATS_TEST_TMPDIR} run -4 "${BUILD}/tlbcost" record -e page_faults -- /bin/true
	[[ ${output} == *"perf is not installed"*"linux-perf"* ]]
}

@test "without counters it says that it records something else" {
	"${BUILD}/libexec/tlbcost-count" --quiet --event "c=perf::CYCLES" --user-only --output counted -- true &&
		skip "this machine has counters"
	run -0 "${BUILD}/tlbcost" record -- "${PLACES}" here 500
	[[ ${output} == *"no hardware counters here"*"page_faults: "* && -s tlbcost-perf.data ]]
}
