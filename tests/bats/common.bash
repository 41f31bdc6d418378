# SPDX-License-Identifier: GPL-2.0-or-later
# What do all bats files share?  `load common` at the top of each.
# shellcheck shell=bash

bats_require_minimum_version 1.5.0

# Tests run alongside others: a calibration does not wait for a quiet machine, unless that is
# asked for.
export TLBCOST_WAIT_S=${TLBCOST_WAIT_S-0}
# An estimate is the model's unless a test asks for more: measuring takes seconds.
export TLBCOST_MEASURE=${TLBCOST_MEASURE-no}
# Nor do the settings count of who runs the tests.
unset GLIBC_TUNABLES SUDO_UID SUDO_GID TLBCOST_ROOT

TREE=$(cd "${BATS_TEST_DIRNAME}/../.." && pwd -P)
# shellcheck disable=SC2034  # for the tests
BUILD=${TREE}/build

# Skip a test that needs what this machine lacks; the reason is in the output.
need_root() {
	((EUID == 0)) || skip "needs root"
}

need_madvise() {
	[[ $(cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || true) == *"[madvise]"* ]] ||
		skip "THP is not madvise"
}

need_program() { # <name>...
	local name
	for name in "$@"; do
		type -P "${name}" >/dev/null || skip "needs ${name}"
	done
}

# A redis-server on PATH, with its tools: that of redis-tools, which goes by the name that it is called.
need_redis() {
	need_program redis-cli redis-benchmark
	type -P redis-server >/dev/null && return
	need_program redis-check-rdb
	local server
	server=$(type -P redis-check-rdb)
	mkdir -p "${BATS_TEST_TMPDIR}/redis-bin"
	ln -s "${server}" "${BATS_TEST_TMPDIR}/redis-bin/redis-server"
	PATH=${PATH}:${BATS_TEST_TMPDIR}/redis-bin
}

# A tlbcost of this tree that user 65534 runs; skips where he can run none, since he may not look
# into the tree.
as_nobody() { # fills unprivileged[]
	need_program setpriv
	unprivileged=(setpriv --reuid=65534 --clear-groups "${BUILD}/venv/bin/python" -I -B -c
		'import sys; sys.path.insert(0, sys.argv.pop(1))
from tlbcost.__main__ import main; sys.exit(main())' "${TREE}/estimate")
	(cd / && "${unprivileged[@]}" --version) >/dev/null 2>&1 ||
		skip "user 65534 can run no Python of tlbcost's"
}

# Run a command as an ordinary user, with no privilege but to read the tree: it may be in a folder
# that is root's alone.
as_user_id() { # <uid> <command>...
	local user=$1
	shift
	setpriv --reuid="${user}" --regid="${user}" --clear-groups --inh-caps=-all,+dac_read_search \
		--ambient-caps=-all,+dac_read_search --bounding-set=-all,+dac_read_search "$@"
}

need_pool() {
	need_root
	[[ -w /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages ]] ||
		skip "needs a pool of 2 MiB pages that can be written"
}

need_built() { # <file below build/>...
	local file
	for file in "$@"; do
		[[ -e ${BUILD}/${file} ]] || skip "needs build/${file} (make)"
	done
}

# A program of this name, first on PATH, that runs the given Bash text.
fake_program() { # <name> <text>
	local folder=${BATS_TEST_TMPDIR}/fakes
	mkdir -p "${folder}"
	printf '#!/bin/bash\n%s\n' "$2" >"${folder}/$1"
	chmod +x "${folder}/$1"
	[[ ${PATH} == "${folder}:"* ]] || PATH=${folder}:${PATH}
}

# What a script that installs releases needs, made up, on a Debian "old"; what chroot does is to be told.
fake_releases() {
	export TLBCOST_ROOT=${BATS_TEST_TMPDIR}/root
	mkdir -p "${TLBCOST_ROOT}/etc" "${BATS_TEST_TMPDIR}/tree"
	cp -r "${TREE}/scripts" "${BATS_TEST_TMPDIR}/tree"
	printf 'ID=debian\nVERSION_CODENAME=old\n' >"${TLBCOST_ROOT}/etc/os-release"
	fake_program id 'echo 0'
	fake_program apt-get "echo \"'mirror:/debian/dists/old/InRelease' old_InRelease 0\""
	fake_program apt-config 'echo "Acquire::http::Proxy \"some proxy\";"'
	# shellcheck disable=SC2016  # for its own shell
	fake_program unshare 'while [[ $1 != -- ]]; do shift; done; shift; exec "$@"'
	fake_program mount ''
}

# Cell of a table of doc/format.md: first row, or the row whose first cells are given.
cell() { # <file> <column> [<first cell>...]
	local file=$1 column=$2
	shift 2
	awk -F '\t' -v column="${column}" -v wanted="$*" '
		/^#/ { next }
		!n { for (i = 1; i <= NF; i++) if ($i == column) n = i; next }
		{
			words = split(wanted, want, " ")
			for (i = 1; i <= words; i++) if ($i != want[i]) next
			print $n
			exit
		}' "${file}"
}

# The value of a Python expression over the report of --json, called `report`, and over the names that
# the statements of JSON_NAMES give to parts of it.
json() { # <expression> [<file>]
	"${BUILD}/venv/bin/python" -c 'import json, sys
report = json.load(open(sys.argv[2]))
exec(sys.argv[3])
print(eval(f"({sys.argv[1]})"))' "$1" "${2:-report.json}" "${JSON_NAMES-}"
}

# Run a command as if sudo had called it for user 65534; skips where he cannot reach our programs.
under_sudo() { # <command>...
	need_root
	setpriv --reuid=65534 --regid=65534 --clear-groups test -x "${BUILD}/libexec/tlbcost-run" ||
		skip "user 65534 cannot reach ${BUILD}"
	local folder
	folder=$(mktemp -d /tmp/tlbcost-sudo.XXXXXX)
	chmod 1777 "${folder}"
	TMPDIR=${folder} SUDO_UID=65534 SUDO_GID=65534 run --separate-stderr "$@"
	rmdir "${folder}"
}

# A command ends with this code, and says these words in this order; --apart: on standard error.
answers() { # [--apart] <exit code> <words>... -- <command>...
	local apart=() code words=() each rest
	if [[ $1 == --apart ]]; then
		apart=(--separate-stderr)
		shift
	fi
	code=$1
	shift
	while [[ $1 != -- ]]; do
		words+=("$1")
		shift
	done
	run "-${code}" "${apart[@]}" "${@:2}"
	# shellcheck disable=SC2154  # run sets them
	rest=${output}
	# shellcheck disable=SC2154
	((${#apart[@]} == 0)) || rest=${stderr}
	for each in "${words[@]}"; do
		[[ ${rest} == *"${each}"* ]] || { printf '"%s" is missing in:\n%s\n' "${each}" "${rest}" && return 1; }
		rest=${rest#*"${each}"}
	done
}

# In the test's own folder, where one for temporary files shows what is left behind.
in_own_folder() {
	cd "${BATS_TEST_TMPDIR}" || return
	export TMPDIR=${BATS_TEST_TMPDIR}/tmp
	mkdir "${TMPDIR}"
}

# Wait until a command succeeds. A minute is for machines that are busy with other things, where
# everything takes its time: a test that waited in vain fails.
wait_until() { # <command> [<argument>...]
	local end=$((SECONDS + 60))
	until "$@"; do
		((SECONDS < end)) || { printf 'in vain: %s\n' "$*" && return 1; }
		sleep 0.02
	done
}

# A program, ${pid} if none is named, has ended with this code; if not, what it said is shown.
ended_with() { # <exit code> [<pid>]
	local code=0
	wait "${2-${pid}}" || code=$?
	((code == $1)) || { printf 'exit code %d\n' "${code}" && cat -- *stderr* && return 1; }
}

# Run a command in a cgroup of its own with this limit; 200 where none can be made.
try_in_cgroup() { # <controller> <limit> <command>...
	local mine group file code=0
	mine=$(awk -F: -v name="$1" '$2 ~ "(^|,)" name "(,|$)" { print $3 }' /proc/self/cgroup)
	if [[ -n ${mine} ]]; then
		group=/sys/fs/cgroup/$1${mine%/}/tlbcost-test-$$
		file=$([[ $1 == memory ]] && printf 'memory.limit_in_bytes' || printf '%s.max' "$1")
	else
		group=/sys/fs/cgroup$(awk -F: '$1 == 0 { print $3 }' /proc/self/cgroup)
		group=${group%/}/tlbcost-test-$$
		file=$1.max
	fi
	mkdir "${group}" 2>/dev/null || return 200
	if ! { echo "$2" >"${group}/${file}"; } 2>/dev/null; then
		rmdir "${group}"
		return 200
	fi
	bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' - "${group}" "${@:3}" || code=$?
	# It is empty soon after its last process has ended.
	wait_until rmdir "${group}" 2>/dev/null
	return "${code}"
}

# With this limit of memory.  Not below run before it has been tried: that would take a skip for success.
in_cgroup() { # <bytes> <command>...
	local code=0
	try_in_cgroup memory "$@" || code=$?
	((code != 200)) || skip "no memory cgroup can be made"
	return "${code}"
}

# What is advised about memory of one kind: advice.json.
advise() { # <kind> <name> <program> <command>...
	PYTHONPATH=${TREE}/tests/python "${BUILD}/venv/bin/python" "${TREE}/tests/backing/advise.py" "$@" \
		>advice.json
}

# A part of a remedy that is advised, line by line, or the names of all of them.
remedy() { # [<code> <key>]
	"${BUILD}/venv/bin/python" - "$@" <<-'PYTHON'
		import json, sys
		[advice] = json.load(open("advice.json"))
		known = {each["code"]: each for each in advice["remedies"]}
		if len(sys.argv) == 1:
		    print(*known)
		else:
		    value = known[sys.argv[1]][sys.argv[2]]
		    print(*(value if isinstance(value, list) else [value]), sep="\n")
	PYTHON
}

# What puts settings back when the test is over: one that is killed cannot do it itself.
keep() { # <command>...
	local test=${BASHPID}
	(
		trap '' INT TERM HUP
		exec 3>&- >/dev/null 2>&1
		while kill -0 "${test}" && [[ ! -e ${BATS_TEST_TMPDIR}/over ]]; do sleep 0.1; done
		"$@"
	) &
	KEEPER=$!
}

end_keeper() {
	[[ -n ${KEEPER:-} ]] || return 0
	: >"${BATS_TEST_TMPDIR}/over"
	wait "${KEEPER}"
}

# tests/backing's program and its like in a folder of their own: those of bats are closed to others,
# who run them, too.
make_memory() { # <name of the folder>
	PROGRAMS=$(mktemp -d "/tmp/tlbcost-$1.XXXXXX")
	chmod 0755 "${PROGRAMS}"
	export PROGRAMS MEMORY=${PROGRAMS}/memory
	type -P cc >/dev/null || return 0
	cc -std=c11 -D_GNU_SOURCE -O1 -pthread -o "${MEMORY}" "${TREE}/tests/backing/memory.c"
}

# The same in Go.
go_program() { # <file>
	local go
	go=$(type -P go || echo /usr/local/go/bin/go)
	[[ -x ${go} ]] || skip "needs go"
	GOCACHE=${BUILD}/go-cache GO111MODULE=off "${go}" build -o "$1" "${TREE}/tests/backing/hog.go"
}

teardown_file() {
	[[ -z ${PROGRAMS-} ]] || rm -rf "${PROGRAMS}"
}

# The folder of Valgrind's tools, by a name without a blank, which would end it in LD_PRELOAD.
valgrind_lib() {
	export VALGRIND_LIB=${BATS_RUN_TMPDIR}/valgrind
	ln -sfn "${BUILD}/libexec/valgrind" "${VALGRIND_LIB}"
}

# Simulate a program by the tool alone, with TOOL's options; its tables are in ${COUNTS}.
simulate() { # [<option of the tool>...] -- <program> [<argument>...]
	local options=()
	while [[ $1 != -- ]]; do
		options+=("$1")
		shift
	done
	shift
	rm -rf "${COUNTS}"
	mkdir "${COUNTS}"
	valgrind_lib
	valgrind.bin --tool=tlbsim --vgdb=no \
		--trace-children=yes --counts-dir="${COUNTS}" "${TOOL[@]}" "${options[@]}" "$@"
}

# Simulate a program that is killed from outside once its table of this kind says that it runs.
kill_simulated() { # <kind of table> [<option of the tool>...]; fills table
	local simulated number
	simulate "${@:2}" -- sleep 60 3>&- &
	simulated=$!
	wait_until eval "grep -qs '^# state: running' ${COUNTS}/$1.*.tsv"
	table=$(find "${COUNTS}" -name "$1.*.tsv")
	number=$(sed -n 's/^# pid: //p' "${table}")
	kill -KILL "${number}"
	ended_with 137 "${simulated}"
	grep -q '^# state: running' "${table}"
}

# The counts as text, without what differs from run to run.
# shellcheck disable=SC2312  # no files are no counts
anonymous_counts() {
	local file
	# In the order of their text: the numbers of processes start again at some time.
	find "${COUNTS}" -name 'counts.*.tsv' -print0 |
		while IFS= read -r -d '' file; do
			sed -E '/^# (pid|parent_pid):/d' "${file}"
			printf '\0'
		done | sort -z | tr -d '\0'
}

# The environment, the folder, the descriptors and the signals of a program are the caller's.
same_surroundings() { # <command that runs a program>...
	local how probe
	probe='env -0 | tr "\0" "\n" | grep -v ^_=; pwd; umask; ls /proc/self/fd
		grep -E "^(Sig(Blk|Ign|Cgt)|NoNewPrivs|Seccomp|Cpus_allowed|Groups|Uid):" \
			/proc/self/status
		cut -d " " -f 5,6 /proc/$$/stat; readlink /proc/self/fd/5'
	for how in "" "trap '' INT PIPE HUP TERM"; do
		(
			eval "${how}"
			exec 5<"${TREE}/VERSION"
			# The launcher replaces one shell, so that both probes have the same depth.
			sh -c "${probe}" >expected
			"$@" sh -c "${probe}" >actual
		)
		diff -u expected actual
	done
}

# Whether a process is stopped, by a signal or its tracer.
is_stopped() { # <pid>
	grep -q '^State:.[tT]' "/proc/$1/status"
}

# Whether a process has ended; one that nobody has waited for yet has.
has_ended() { # <pid>
	local stat
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
	[[ ${stat##*) } == Z* ]]
}

# A process and those below it.
family() { # <pid>
	local child
	printf '%s\n' "$1"
	for child in $(cat "/proc/$1/task/"*/children 2>/dev/null || true); do
		family "${child}"
	done
}

need_children() {
	[[ -e /proc/self/task/${BASHPID}/children || -e /proc/$$/task/$$/children ]] ||
		skip "this kernel lists no children of a process"
}

# Whether our counting or recording program, this process or one below it, has opened its counters
# and waits for what comes: it sleeps for nothing else. Then they count.
counters_wait() { # <pid>
	local pid name files stat
	for pid in $(family "$1"); do
		name=$(cat "/proc/${pid}/comm" 2>/dev/null) || continue
		[[ ${name} == tlbcost-* ]] || continue
		# In this order: it may have slept before it opened them.
		files=$(readlink "/proc/${pid}/fd/"* 2>/dev/null) || true
		[[ ${files} == *perf_event* ]] || continue
		stat=$(cat "/proc/${pid}/stat" 2>/dev/null) || continue
		[[ ${stat##*) } != S* ]] || return 0
	done
	return 1
}

# A calibration that is of this machine by its header, with walks that cost enough for a gain.
calibration_of() { # <Python: the machine>
	"${BUILD}/venv/bin/python" -c "import sys, dataclasses
from pathlib import Path
from tlbcost.calibration.file import read_calibration, write_calibration
from tlbcost.system.machine import current_machine
found = read_calibration(Path(sys.argv[1]))
machine = $1
write_calibration(Path(sys.argv[2]), dataclasses.replace(found, machine=machine))" \
		"${TREE}/tests/golden/calibration.tsv" "$2"
}

# A calibration of walks that cost eight times as much: on a machine that others use too, a program
# takes several times as long, and the walks' share of it is smaller.
dear_walks() {
	awk -F '\t' -v OFS='\t' '
		$1 == "walk_ns" && $2 == 4096 { for (i = 5; i <= 7; i++) $i *= 8 }
		{ print }' "${TREE}/tests/golden/calibration.tsv"
}

# The same, where loads cost something, too: a core can be modelled.
# shellcheck disable=SC2312  # an incomplete table is refused
priced_loads() {
	dear_walks | sed '/^# end:/d'
	printf 'load_ns\tNA\tserial\t%s\t%s\t%s\t%s\t9\n' \
		256 1.25 1.2 1.3 4096 4 3.9 4.1 65536 25 24 26 4194304 90 85 95
	printf 'load_ns\tNA\toverlapped\t65536\t2.5\t2.4\t2.6\t9\n'
	printf 'stream_ns\tNA\tNA\t262144\t2\t1.9\t2.1\t9\n'
	printf 'cycles_per_ns\tNA\tNA\tNA\t3.5\t3.4\t3.6\t9\n'
	printf '# end: 29\n'
}

# An estimate where what a walk costs matters little: a machine that others keep busy may be too busy
# to be calibrated, and then the costs are made up.
estimate_anyhow() { # <argument of tlbcost estimate>...
	local code=0
	"${BUILD}/tlbcost" estimate "$@" || code=$?
	((code == 4)) || return "${code}"
	dear_walks >"${BATS_TEST_TMPDIR}/dear.tsv"
	"${BUILD}/tlbcost" estimate --calibration "${BATS_TEST_TMPDIR}/dear.tsv" "$@"
}

# A source tree with a build in <folder>, whose build/libexec is still empty: the package takes the
# C programs from the tree that it lies in.
own_tree() { # <folder>
	mkdir -p "$1/estimate" "$1/build/libexec"
	# Other tests may write __pycache__ at this moment.
	# shellcheck disable=SC2312  # an incomplete copy shows in the tests
	tar -C "${TREE}/estimate" --exclude=__pycache__ -cf - tlbcost | tar -C "$1/estimate" -xf -
	ln -sfn "${TREE}/data" "$1/data"
	ln -sf "${TREE}/VERSION" "$1/"
	ln -sfn "${BUILD}/venv" "$1/build/venv"
	cp "${BUILD}/tlbcost" "$1/build/"
}
