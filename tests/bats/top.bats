#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does `tlbcost top` show this host's processes, take keys, and leave the terminal as it was?

load common

export JSON_NAMES='r = {row["pid"]: row for row in report["rows"]}'

setup() {
	need_built tlbcost workloads/random-read
	[[ -r /proc/self/smaps ]] || skip "needs /proc/PID/smaps"
	TOP=("${BUILD}/tlbcost" top)
	export XDG_CACHE_HOME=${BATS_TEST_TMPDIR}
	unset TMUX
	cd "${BATS_TEST_TMPDIR}" || return
	TMUX_TMPDIR=$(mktemp -d /tmp/tlbcost-top.XXXXXX)
	export TMUX_TMPDIR
}

teardown() {
	tmux kill-server 2>/dev/null || true
	rm -rf "${TMUX_TMPDIR}"
	[[ -z ${pid:-} ]] || kill "${pid}" 2>/dev/null || true
}

# A process with 64 MiB, once it has them.
start() {
	"${BUILD}/workloads/random-read" --size 64M --count 100G 3>&- &
	pid=$!
	wait_until has_resident "${pid}"
}

has_resident() { # <pid>
	(($(awk '/^VmRSS/ { kb = $2 } END { print kb + 0 }' "/proc/$1/status") >= 64 << 10))
}

# Run it in a terminal of this size, with a shell that says how it ended and how the terminal is.
on_terminal() { # <columns> <lines> [<option>...]
	need_program tmux
	local columns=$1 lines=$2
	shift 2
	stty_of_shell='stty -a | grep -oE -- "-?(icanon|echo)\b" | xargs'
	printf '%s\n' "$(printf '%q ' "${TOP[@]}" "$@")" 'echo "code $?"' "${stty_of_shell}" \
		'exec sleep 600' >script
	tmux -f /dev/null new-session -d -x "${columns}" -y "${lines}" "exec bash script" 3>&-
}

screen() {
	tmux capture-pane -p
}

shows() { # <text>
	[[ $(screen) == *"$1"* ]]
}

# The terminal is as it was: lines with echo, the cursor seen, and not the alternate screen.
is_restored() { # <exit code>
	wait_until shows "code $1"
	wait_until shows "icanon echo"
	[[ $(screen) != *"-icanon"* && $(screen) != *"-echo"* ]]
	[[ $(tmux display-message -p '#{alternate_on} #{cursor_flag}') == "0 1" ]]
}

pid_of_top() {
	pgrep -f "^\S*python\S* .*top( |$)" -P "$(tmux list-panes -F '#{pane_pid}')"
}

@test "once: a process, its memory and its pages" {
	start
	run --separate-stderr "${TOP[@]}" --once --interval 0.2s --json report.json --output text
	echo "${output}" "${stderr}"
	((status == 0))
	[[ -z ${output}${stderr} ]]
	[[ $(<text) == *"random-read"* && $(<text) != *"q quit"* ]]
	[[ $(json 'report["schema"]') == tlbcost-top-1 ]]
	[[ $(json "r[${pid}]['name']") == random-read ]]
	[[ $(json "r[${pid}]['memory_bytes'] >= 64 << 20") == True ]]
	[[ $(json "r[${pid}]['reach_ratio'] > 0") == True ]]
	[[ $(json "r[${pid}]['fault_rate'] >= 0") == True ]]
	[[ $(json 'all(x["memory_bytes"] >= x["huge_bytes"] + x["eligible_bytes"]
		for x in report["rows"] if x["eligible_bytes"] is not None and x["age_s"] == x["eligible_age_s"])') == True ]]
	[[ $(json '[x["memory_bytes"] for x in report["rows"]] == sorted(
		(x["memory_bytes"] for x in report["rows"]), reverse=True)') == True ]]
	"${BUILD}/venv/bin/python" -c 'import json, jsonschema, sys
jsonschema.validate(*(json.load(open(name)) for name in sys.argv[1:]))' \
		report.json "${TREE}/data/schema/top.schema.json"
}

@test "once, by cgroup: a process is in its group" {
	start
	run --separate-stderr "${TOP[@]}" --cgroup --once --interval 0.2s --json report.json
	echo "${output}" "${stderr}"
	((status == 0))
	[[ ${output} == *cgroup*memory* ]]
	[[ $(json 'sum(row["processes"] for row in report["rows"]) > 1') == True ]]
	[[ $(json '{row["pid"] for row in report["rows"]}') == "{None}" ]]
}

@test "metrics appear whole, and nothing else is printed" {
	start
	mkdir textfile
	cd textfile
	run --separate-stderr "${TOP[@]}" --once --interval 0.2s --openmetrics tlbcost.prom
	((status == 0))
	[[ -z ${output}${stderr} ]]
	[[ $(ls -A) == tlbcost.prom ]]
	[[ $(<tlbcost.prom) == *"tlbcost_process_memory_bytes{pid=\"${pid}\",comm=\"random-read\"} "* ]]
	[[ $(tail -n 1 tlbcost.prom) == "# EOF" ]]
	[[ $(stat -c %a tlbcost.prom) == "$(printf '%o' $((0666 & ~$(umask))))" ]]
}

@test "without a terminal metrics are written until a signal comes" {
	local writer
	"${TOP[@]}" --interval 0.2s --openmetrics tlbcost.prom >said 2>stderr 3>&- &
	writer=$!
	wait_until test -s tlbcost.prom
	cp tlbcost.prom first
	wait_until bash -c '! cmp -s tlbcost.prom first'
	kill -TERM "${writer}"
	ended_with 143 "${writer}"
	[[ $(<stderr) == "tlbcost: ended by SIGTERM" && ! -s said ]]
	[[ -z $(find . -name '.tlbcost*') ]]
	[[ $(tail -n 1 tlbcost.prom) == "# EOF" ]]
}

@test "no terminal, and one that cannot be drawn on: what to type is said" {
	run -1 --separate-stderr "${TOP[@]}"
	[[ ${stderr} == "tlbcost: top needs a terminal: standard output is not one"*"hint: tlbcost top --once" ]]
	need_program script
	run -1 env TERM=dumb script -qec "$(printf '%q ' "${TOP[@]}")" /dev/null
	[[ ${output} == *"TERM does not name one"*"hint: tlbcost top --once"* ]]
	run -2 --separate-stderr "${TOP[@]}" --json report.json
	[[ ${stderr} == *"--json reports once"*"tlbcost top --once --json FILE" ]]
	run -2 --separate-stderr "${TOP[@]}" --once --sort size
	run -2 --separate-stderr "${TOP[@]}" --interval 0
	answers --apart 1 "no such folder" -- "${TOP[@]}" --once --openmetrics /nonexistent/file
}

# bats test_tags=long
@test "a full disk on a terminal: it ends, and the terminal is as it was" {
	[[ -w /dev/full ]] || skip "no /dev/full"
	on_terminal 80 20 --openmetrics /dev/full
	is_restored 1
	shows "cannot write /dev/full: No space left on device"
}

# bats test_tags=long
@test "keys sort, and q quits" {
	start
	on_terminal 100 24 --interval 30s
	wait_until shows "q quit"
	shows "random-read"
	tmux send-keys h
	wait_until shows "by huge"
	tmux send-keys Up p
	wait_until shows "by pid"
	[[ $(screen | sed -n 5p) =~ ^\ *1\  ]]
	tmux send-keys q
	is_restored 0
}

# bats test_tags=long
@test "a terminal of 20 columns, and one that grows" {
	on_terminal 20 8 --interval 30s
	wait_until shows "memory"
	[[ $(screen | sed -n 4p | xargs) == "process memory" ]]
	tmux resize-window -x 100 -y 24
	wait_until shows "faults/s"
	tmux send-keys q
	is_restored 0
}

# Each in a test of its own: a tmux that is ending takes the next one's session with it.
ended_by() { # <signal>
	need_program pgrep
	on_terminal 80 20 --interval 30s
	wait_until shows "q quit"
	if [[ $1 == INT ]]; then
		tmux send-keys C-c
	else
		kill "-$1" "$(pid_of_top)"
	fi
	is_restored $((128 + $(kill -l "$1")))
	shows "tlbcost: ended by SIG$1"
}

# bats test_tags=long
@test "Ctrl-C: the terminal is as it was" {
	ended_by INT
}

# bats test_tags=long
@test "SIGTERM: the terminal is as it was" {
	ended_by TERM
}

# bats test_tags=long
@test "SIGHUP: the terminal is as it was" {
	ended_by HUP
}

# bats test_tags=long
@test "Ctrl-Z gives the terminal back until it is continued" {
	need_program tmux
	tmux -f /dev/null new-session -d -x 100 -y 24 "exec bash --norc -i" 3>&-
	tmux send-keys "PS1='ready> '; $(printf '%q ' "${TOP[@]}") --interval 30s" Enter
	wait_until shows "q quit"
	tmux send-keys C-z
	wait_until shows "Stopped"
	[[ $(tmux display-message -p '#{alternate_on} #{cursor_flag}') == "0 1" ]]
	tmux send-keys "fg" Enter
	wait_until shows "q quit"
	tmux send-keys q
	wait_until bash -c '[[ $(tmux display-message -p "#{alternate_on} #{cursor_flag}") == "0 1" ]]'
}

@test "what may not be read is NA, and counted" {
	need_root
	as_nobody
	start
	run --separate-stderr bash -c 'cd / && "$@"' - "${unprivileged[@]}" top --once --interval 0.1s
	echo "${output}" "${stderr}"
	((status == 0))
	[[ ${output} == *"may not be read (NA)"* ]]
	[[ $(grep " random-read" <<<"${output}") =~ \ [0-9.]+\ MiB\ +NA\ +NA\ +NA\  ]]
}

@test "a /proc that hides other users' processes" {
	need_root
	need_program unshare
	as_nobody
	unshare -m mount -t proc -o hidepid=2,gid=65533 proc /proc 2>/dev/null || skip "cannot mount proc"
	run --separate-stderr unshare -m bash -c 'mount -t proc -o hidepid=2,gid=65533 proc /proc && cd / && "$@"' - \
		"${unprivileged[@]}" top --once --interval 0.1s
	echo "${output}" "${stderr}"
	((status == 0))
	[[ ${output} == *"others are hidden (hidepid)"* ]]
	run --separate-stderr unshare -m bash -c 'mount -t proc -o hidepid=1,gid=65533 proc /proc && cd / && "$@"' - \
		"${unprivileged[@]}" top --once --interval 0.1s
	echo "${output}" "${stderr}"
	((status == 0))
	[[ ${output} == *"may not be read (NA)"* ]]
}
