#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long
# shellcheck disable=SC2317,SC2329  # conditions are called by their names
# What does tlbcost say where the system refuses what it needs?  Each row of a table has a condition, a
# command, its exit code and what is said; no traceback, and nothing stays.  UNDER_FIRE=all tries all
# commands under all conditions (make under-fire).

load common

setup_file() {
	export FIRE=${BATS_FILE_TMPDIR}
	need_built tlbcost libexec/tlbcost-run
	mkdir "${FIRE}"/{full,readonly,home,work}
	priced_loads >"${FIRE}/costs.tsv"
	# What it says is of another program than its name says: ASCII alone would not do.
	cp "$(type -P true)" "${FIRE}/work/größe"
	TLBCOST_MEASURE=no "${BUILD}/tlbcost" estimate --calibration "${FIRE}/costs.tsv" --runs 1 \
		--json "${FIRE}/estimate.json" --quiet -- true 2>/dev/null
	((EUID == 0)) || return 0
	if mount -t tmpfs -o size=16k tlbcost-test "${FIRE}/full" 2>/dev/null; then
		head -c 16k /dev/zero >"${FIRE}/full/filler" 2>/dev/null || true
	fi
	mount -t tmpfs -o ro,size=16k tlbcost-test "${FIRE}/readonly" 2>/dev/null || true
}

teardown_file() {
	umount "${FIRE}/full" "${FIRE}/readonly" 2>/dev/null || true
}

setup() {
	cd "${FIRE}/work" || return
	unset XDG_STATE_HOME XDG_CACHE_HOME COLUMNS
	export TMPDIR=${BATS_TEST_TMPDIR}/tmp HOME=${FIRE}/home
	mkdir "${TMPDIR}"
	chmod 1777 "${TMPDIR}"
}

# --- The commands, by a short name.

command_of() { # <name>; fills words[]
	local estimate=(estimate --calibration "${FIRE}/costs.tsv" --runs 1)
	case $1 in
	estimate) words=("${estimate[@]}" -- true) ;;
	estimate-json) words=("${estimate[@]}" --json report.json -- true) ;;
	estimate-output) words=("${estimate[@]}" --output report.txt -- true) ;;
	estimate-name) words=("${estimate[@]}" -- ./größe) ;;
	numa) words=(numa --calibration "${FIRE}/costs.tsv" true) ;;
	missing) words=(estimate -- ./größe-fehlt) ;;
	maps) words=(maps $$) ;;
	pool) words=(pool status) ;;
	events) words=(events --list) ;;
	run) words=(run --thp -- true) ;;
	show) words=(show "${FIRE}/estimate.json") ;;
	show-missing) words=(show größe-fehlt.json) ;;
	compare) words=(compare "${FIRE}/estimate.json" "${FIRE}/estimate.json") ;;
	top) words=(top --once --json -) ;;
	init) words=(review --init) ;;
	count) words=(count -e page_faults -- true) ;;
	review) words=(review plan.toml) ;;
	restore) words=(pool restore) ;;
	*) words=("$1") ;;
	esac
}

EVERY=(--version --help estimate estimate-json estimate-output estimate-name numa missing maps doctor
	machines pool events run show show-missing compare top init count review nonsense)

# --- The conditions: each runs a command.

plain() { "$@"; }
need_mount() { mountpoint -q "${FIRE}/$1" || skip "cannot mount a tmpfs"; }
full_disk() { (cd "${FIRE}/full" && HOME=${FIRE}/full "$@"); }
full_tmpdir() { TMPDIR=${FIRE}/full "$@"; }
readonly_home() { (cd "${FIRE}/readonly" && HOME=${FIRE}/readonly "$@"); }
files_13() { (ulimit -n 13 && exec "$@"); }
files_16() { (ulimit -n 16 && exec "$@"); }
memory_50m() { (ulimit -v 50000 && exec "$@"); }
# Root has no such limit.
processes() {
	local place code=0
	# bats' own folders are closed to others.
	place=$(mktemp -d /tmp/tlbcost-fire.XXXXXX)
	chmod 1777 "${place}"
	(cd / && TMPDIR=${place} as_user_id 61234 prlimit --nproc=2 "$@") || code=$?
	rmdir "${place}" || return 99
	return "${code}"
}
cgroup_memory() { try_in_cgroup memory "$((256 << 20))" "$@"; }
cgroup_pids() { try_in_cgroup pids 20 "$@"; }
# Its own clock for intervals is the kernel's: nobody can set that one.
at_time() { # <libfaketime's time> <command>...
	local code=0 file folder=/dev/shm before
	before=" $(echo "${folder}"/*faketime_s*) "
	LD_PRELOAD=${LIBFAKETIME} FAKETIME=$1 FAKETIME_DONT_FAKE_MONOTONIC=1 "${@:2}" || code=$?
	# The library's own files, which a process that executes another program leaves.
	for file in "${folder}"/*faketime_s*; do
		[[ ${before} == *" ${file} "* ]] || rm -f -- "${file}"
	done
	return "${code}"
}
clock_back() { at_time -400d "$@"; }
clock_races() { at_time "+0 x1000" "$@"; }
ascii() { LANG=C LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 "$@"; }
deleted() { (mkdir "${BATS_TEST_TMPDIR}/gone" && cd "${BATS_TEST_TMPDIR}/gone" && rmdir ../gone && exec "$@"); }
closed_0() { "$@" <&-; }
closed_1() { "$@" >&-; }
closed_2() { "$@" 2>&-; }
closed_01() { "$@" <&- >&-; }
closed_02() { "$@" <&- 2>&-; }
closed_12() { "$@" >&- 2>&-; }
closed_012() { "$@" <&- >&- 2>&-; }
early_pipe() {
	"$@" | true
	return "${PIPESTATUS[0]}"
}
narrow() {
	"${BUILD}/venv/bin/python" -c 'import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 24, 20, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
text = b""
try:
    while part := os.read(terminal, 65536):
        text += part
except OSError:
    pass
sys.stdout.write(text.decode().replace("\r", ""))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))' "$@"
}
two_at_once() {
	local first code=0
	"$@" >"${BATS_TEST_TMPDIR}/other" 2>&1 3>&- &
	first=$!
	"$@" || code=$?
	wait "${first}"
	(($? == code)) || { printf 'the other: %s\n' "$(<"${BATS_TEST_TMPDIR}/other")" && return 99; }
	return "${code}"
}

CONDITIONS=(plain full_disk full_tmpdir readonly_home files_13 files_16 memory_50m processes cgroup_memory
	cgroup_pids clock_back clock_races ascii deleted closed_0 closed_1 closed_2 closed_01 closed_02 closed_12
	closed_012 early_pipe narrow two_at_once)

# Skips where this machine cannot make the condition.
possible() { # <condition>
	case $1 in
	full_*) need_mount full ;;
	readonly_home) need_mount readonly ;;
	processes)
		need_root
		need_program setpriv prlimit
		;;
	cgroup_*)
		need_root
		local code=0
		"$1" true || code=$?
		((code == 0)) || skip "cannot make such a cgroup"
		;;
	clock_*)
		LIBFAKETIME=$(find /usr/lib -name libfaketimeMT.so.1 2>/dev/null | head -n 1)
		[[ -n ${LIBFAKETIME} ]] || skip "needs libfaketime"
		;;
	*) ;;
	esac
}

# --- What must hold after each.

survives() { # <condition> <command's name>
	local words code=0 mark=fire-${BATS_TEST_NUMBER}-${RANDOM} file left=""
	command_of "$2"
	output=$(export UNDER_FIRE_MARK=${mark} && "$1" "${BUILD}/tlbcost" "${words[@]}" 2>&1 </dev/null) || code=$?
	status=${code}
	printf '%s\n%s %s: exit code %d\n' "${output}" "$1" "$2" "${status}"
	[[ ${output} != *Traceback* && ${output} != *"Exception ignored"* && ${output} != *"Fatal Python error"* ]] || return 1
	[[ ${output} != *"internal error"* ]] || return 1
	case ${status} in
	0 | 1 | 2 | 3 | 4 | 125 | 126 | 127 | 137 | 141) ;;
	*) return 1 ;;
	esac
	[[ $(ls -A "${TMPDIR}") == "" ]] || { ls -lA "${TMPDIR}" && return 1; }
	for file in /proc/[0-9]*/environ; do
		if [[ ${file} != "/proc/${BASHPID}/"* ]] && grep -qsz "^UNDER_FIRE_MARK=${mark}\$" "${file}"; then
			left+=" ${file}: $(tr '\0' ' ' <"${file%environ}cmdline" 2>/dev/null)"
		fi
	done
	[[ -z ${left} ]] || { printf 'left: %s\n' "${left}" && return 1; }
}

# Each row: a condition, a command, its exit code, what is said (a pattern of Bash).
rows() { # reads the table from standard input
	local condition name code pattern
	while IFS='|' read -r condition name code pattern; do
		[[ -n ${condition} ]] || continue
		condition=${condition// /} name=${name// /} code=${code// /} pattern=${pattern# }
		possible "${condition}"
		survives "${condition}" "${name}" || return 1
		((status == code)) || { printf 'expected %d\n' "${code}" && return 1; }
		# shellcheck disable=SC2053  # a pattern
		[[ ${output} == ${pattern} ]] || { printf 'expected: %s\n' "${pattern}" && return 1; }
	done
}

@test "everything under everything" {
	[[ ${UNDER_FIRE-} == all ]] || skip "UNDER_FIRE is not 'all' (make under-fire)"
	local condition name failed=0
	for condition in "${CONDITIONS[@]}"; do
		for name in "${EVERY[@]}"; do
			(possible "${condition}" && survives "${condition}" "${name}") >"${BATS_TEST_TMPDIR}/said" 2>&1 ||
				{ failed=1 && printf '=== FAILED\n%s\n' "$(<"${BATS_TEST_TMPDIR}/said")"; }
			[[ ${UNDER_FIRE_LOG-} == "" ]] || cat "${BATS_TEST_TMPDIR}/said" >>"${UNDER_FIRE_LOG}"
		done
	done
	((failed == 0))
}

@test "a disk and a folder for temporary files that are full, a home that is read-only" {
	rows <<-'END'
		full_disk     | estimate        | 0   | *
		full_disk     | estimate-json   | 125 | *cannot write report.json: No space left on device*hint: df *
		full_disk     | estimate-output | 125 | *cannot write report.txt: No space left on device*hint: df *
		full_tmpdir   | estimate        | 125 | *No space left on device*hint: df * shows what is full
		full_tmpdir   | run             | 125 | *No space left on device*
		full_tmpdir   | maps            | 0   | *
		readonly_home | estimate        | 0   | *
		readonly_home | estimate-json   | 125 | *cannot write report.json: permission denied*hint: choose a directory that you can write to
		readonly_home | doctor          | 0   | *
		readonly_home | pool            | 0   | *
	END
}

@test "limits of files, memory and processes" {
	rows <<-'END'
		files_13   | estimate | 125 | *oo many *
		files_16   | doctor   | 0   | *
		files_16   | run      | 0   | *
		memory_50m | estimate | 125 | *not enough memory*hint: ulimit -v unlimited: the limit of memory is 50000 KiB
		memory_50m | numa     | 125 | *not enough memory*hint: ulimit -v unlimited: the limit of memory is 50000 KiB
		memory_50m | doctor   | 0   | *
		memory_50m | top      | 0   | *
		processes  | estimate | 125 | *Resource temporarily unavailable*hint: ulimit -u shows how many processes this user may have
		processes  | run      | 125 | *Resource temporarily unavailable*
		processes  | machines | 0   | *
	END
}

@test "a cgroup of 256 MiB, and one of 20 processes" {
	rows <<-'END'
		cgroup_memory | estimate | 0 | *
		cgroup_memory | doctor   | 0 | *
		cgroup_pids   | estimate | 0 | *
		cgroup_pids   | doctor   | 0 | *
	END
}

@test "a clock that was set back, and one that races" {
	rows <<-'END'
		clock_back  | estimate | 0 | *
		clock_back  | show     | 0 | *
		clock_races | estimate | 0 | *
		clock_races | count    | 0 | *
	END
}

@test "names that are not ASCII where only ASCII is known; a working directory that was deleted" {
	rows <<-'END'
		ascii   | estimate-name | 0   | *
		ascii   | missing       | 127 | *cannot run ./gr*: no such file*
		ascii   | show-missing  | 1   | *cannot read gr*.json: No such file or directory*
		deleted | estimate      | 0   | *
		deleted | estimate-json | 125 | *cannot write report.json: No such file or directory*
		deleted | show          | 0   | *
		deleted | maps          | 0   | *
		deleted | run           | 0   | *
		deleted | missing       | 127 | *no such file*
		deleted | review        | 2   | *cannot read plan.toml: No such file or directory*
	END
}

@test "standard streams that are closed, each way" {
	rows <<-'END'
		plain      | machines | 0   | *
		closed_0   | machines | 0   | *
		closed_1   | machines | 1   | *cannot write standard output: *
		closed_2   | machines | 0   | *
		closed_01  | machines | 1   | *cannot write standard output: *
		closed_02  | machines | 0   | *
		closed_12  | machines | 1   |
		closed_012 | machines | 1   |
		closed_0   | estimate | 0   | *
		closed_1   | estimate | 0   | *
		closed_2   | estimate | 125 |
		closed_012 | estimate | 125 |
		closed_2   | missing  | 127 |
		closed_012 | missing  | 127 |
	END
}

@test "a reader that goes away, and a terminal of 20 columns" {
	rows <<-'END'
		early_pipe | events   | 1   |
		early_pipe | init     | 1   |
		narrow     | estimate | 0   | *
		narrow     | machines | 0   | *
		narrow     | maps     | 0   | *
		narrow     | doctor   | 0   | *
		narrow     | nonsense | 2   | *there is no command nonsense*
	END
}

@test "two at once" {
	rows <<-'END'
		two_at_once | estimate      | 0 | *
		two_at_once | estimate-json | 0 | *
		two_at_once | run           | 0 | *
		two_at_once | maps          | 0 | *
		two_at_once | doctor        | 0 | *
		two_at_once | pool          | 0 | *
	END
}
