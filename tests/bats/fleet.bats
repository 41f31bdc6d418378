#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long
# Do a review's tasks reach the workers of a Dask scheduler, whatever happens to one of them?

load common

start_scheduler() { # <name> [<option of dask scheduler>...]; fills address, scheduler
	local file=${PWD}/$1.json
	"${BUILD}/venv/bin/dask" scheduler --host "${protocol:-tcp}://127.0.0.1:0" --no-dashboard \
		--dashboard-address 127.0.0.1:0 --scheduler-file "${file}" "${@:2}" >"$1.log" 2>&1 3>&- &
	scheduler=$!
	started+=("${scheduler}")
	wait_until test -s "${file}"
	address=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["address"])' \
		"${file}")
}

# A worker that has registered.
start_worker() { # <name> [<option>...]; fills worker
	"${TLBCOST}" worker --scheduler "${address}" "${@:2}" >"$1.log" 2>&1 3>&- &
	worker=$!
	started+=("${worker}")
	wait_until grep -q "waits for tasks" "$1.log"
}

start_review() { # <option>...; fills review
	"${TLBCOST}" review --json review.json "$@" plan.toml >review.log 2>&1 3>&- &
	review=$!
	started+=("${review}")
}

# One that SIGINT reaches: it is ignored in a shell's background.
start_interruptible() { # <argument of tlbcost review>...; fills review
	python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
os.execvp(sys.argv[1], sys.argv[1:])' "${TLBCOST}" review "$@" >review.log 2>&1 3>&- &
	review=$!
	started+=("${review}")
}

end_of() { # <pid>; fills code
	wait_until has_ended "$1"
	code=0
	wait "$1" || code=$?
}

kill_all() {
	local pid
	for pid in "${started[@]}"; do
		kill -CONT "${pid}" 2>/dev/null || continue
		kill -TERM "${pid}" 2>/dev/null || true
	done
	for pid in "${started[@]}"; do
		wait "${pid}" 2>/dev/null || true
	done
}

setup_file() {
	need_built tlbcost libexec/tlbcost-run libexec/valgrind workloads/hash-lookup
	"${BUILD}/venv/bin/python" -c 'import distributed' 2>/dev/null || skip "needs Dask"
	cd "${BATS_FILE_TMPDIR}" || return
	started=()
	start_scheduler shared
	export SHARED=${address} SHARED_PID=${scheduler}
	calibration_of 'current_machine()' here.tsv
	calibration_of 'dataclasses.replace(current_machine(), cpu_model="none")' other.tsv
}

teardown_file() {
	[[ -z ${SHARED_PID-} ]] || kill "${SHARED_PID}"
}

setup() {
	TLBCOST=${BUILD}/tlbcost
	in_own_folder
	started=()
	address=${SHARED}
	cp "${BATS_FILE_TMPDIR}/here.tsv" "${BATS_FILE_TMPDIR}/other.tsv" .
	printf '[machines.%s]\ncalibration = "here.tsv"\n' east west >plan.toml
}

teardown() {
	kill_all
}

# A service that ends at once, but for its first run: that is held.
add_held() { # <name> <machine>
	cat >>plan.toml <<-END
		[[services]]
		name = "$1"
		machines = ["$2"]
		runs = 1
		command = ["sh", "-c", "mkdir ${PWD}/once.$1 2>/dev/null && sleep 600; exec seq 1000"]
	END
}

add_lookup() { # <machine>...
	local names
	names=$(printf '"%s", ' "$@")
	cat >>plan.toml <<-END
		[[services]]
		name = "lookup"
		machines = [${names}]
		runs = 1
		command = ["${BUILD}/workloads/hash-lookup", "--size", "64M", "--count", "500000"]
	END
}

is_held() { # <name>
	[[ -d once.$1 ]] && pgrep -f "${PWD}/once.$1 2" >/dev/null
}

nothing_runs() {
	! pgrep -f "${PWD}/once" >/dev/null
}

check_json() { # <Python about `rows`, and `other` if there is embedded.json>
	python3 -c "import json, os
def rows_of(file):
    return {(row['service'], row['machine']): row for row in json.load(open(file))['rows']}
rows = rows_of('review.json')
other = rows_of('embedded.json') if os.path.exists('embedded.json') else None
$1"
}

# The decisions of both reviews depend on the THP mode.
# bats test_tags=settings
@test "a worker is killed, another one stops: the review ends as one without workers does" {
	add_held first east
	add_held second west
	add_lookup east west
	start_worker a --host 127.0.0.1 --machine east
	local killed=${worker}
	start_worker b --host 127.0.0.2 --machine west
	local stopped=${worker}
	start_review --scheduler "${address}" --worker-timeout 10s
	wait_until is_held first
	wait_until is_held second
	start_worker c --host 127.0.0.3 --machine east --machine west
	kill -KILL "${killed}"
	kill -STOP "${stopped}"
	end_of "${review}"
	cat review.log
	((code == 0))
	[[ $(<review.log) == *"first on east lost its worker tcp://127.0.0.1:"*": it went away"* ]]
	[[ $(<review.log) == *"second on west lost its worker tcp://127.0.0.2:"*": silent for 10 s"* ]]
	# What the stopped one still had to do it does not do when it continues.
	kill -CONT "${stopped}"
	wait_until nothing_runs
	run -0 "${TLBCOST}" review --quiet --state embedded --json embedded.json plan.toml
	check_json 'assert len(rows) == 4 and rows.keys() == other.keys(), rows.keys()
for name, row in rows.items():
    ours, theirs = row["gain_fraction"], other[name]["gain_fraction"]
    assert ours and theirs, (name, row["why"])
    assert ours["low"] <= theirs["high"] and theirs["low"] <= ours["high"], (ours, theirs)
    assert row["command"] == other[name]["command"], (row["command"], other[name]["command"])
    assert row["decision"] == other[name]["decision"], row
assert rows["lookup", "east"]["gain_fraction"]["low"] > 0.02'
}

@test "a worker of another version, or of another machine, is refused; without one, that is named" {
	own_tree "${PWD}/old"
	rm old/VERSION
	echo 0.0.1 >old/VERSION
	TLBCOST=${PWD}/old/build/tlbcost start_worker old --machine east
	start_worker here --machine west --machine wrong
	printf '[machines.%s]\ncalibration = "other.tsv"\n' wrong nobody >>plan.toml
	add_lookup east west wrong nobody
	start_review --scheduler "${address}" --worker-timeout 3s
	end_of "${review}"
	cat review.log
	((code == 0))
	[[ $(<old.log) == *"refused a review: it has tlbcost 0.0.1, and the review "* ]]
	[[ $(<review.log) == *"does not fit wrong: it is "*", and the calibration of wrong is of "* ]]
	check_json 'assert rows["lookup", "west"]["gain_fraction"]
for machine, why in (("east", "0.0.1"), ("wrong", "/none/"), ("nobody", "no worker for nobody")):
    row = rows["lookup", machine]
    assert row["decision"] == "failed" and row["gain_fraction"] is None, row
    assert f"no worker for {machine} within 3 s" in row["why"] and why in row["why"], row'
	# Then there is one, and only what failed is done.
	start_worker east --machine east
	run -0 "${TLBCOST}" review --resume --scheduler "${address}" --worker-timeout 3s \
		--json review.json plan.toml
	[[ ${output} == *"1 of 4 were finished before"*"2 of 4: lookup on east"* ]]
	[[ ${output} != *"lookup on west
"* ]]
	check_json 'assert rows["lookup", "east"]["gain_fraction"]'
}

@test "a review that ends, and a worker that ends, leave no estimate running" {
	add_held first east
	start_worker a --machine east
	local signal
	for signal in KILL INT; do
		start_interruptible --quiet --state "${signal}" --scheduler "${address}" plan.toml
		wait_until is_held first
		kill -"${signal}" "${review}"
		end_of "${review}"
		[[ ${signal} == KILL ]] || ((code == 130))
		wait_until nothing_runs
		rmdir once.first
	done
	start_review --scheduler "${address}" --worker-timeout 3s
	wait_until is_held first
	kill -TERM "${worker}"
	end_of "${worker}"
	((code == 143))
	wait_until nothing_runs
	# Ended estimates are not failures of the service: it is missing, and why.
	end_of "${review}"
	((code == 0))
	check_json 'why = rows["first", "east"]["why"]
assert "no worker for east" in why and "lost its worker" in why, why'
}

@test "a scheduler that goes away ends the review and its workers, and is named" {
	start_scheduler own
	add_held first east
	start_worker a --machine east
	start_review --scheduler "${address}"
	wait_until is_held first
	kill -KILL "${scheduler}"
	end_of "${review}"
	((code == 1))
	[[ $(<review.log) == *"tlbcost: lost the scheduler ${address}"*"hint: --resume"* ]]
	end_of "${worker}"
	((code == 1))
	[[ $(<a.log) == *"tlbcost: lost the scheduler ${address}"* ]]
	wait_until nothing_runs
	# Where nobody listens.
	run -1 "${TLBCOST}" review --state other --scheduler "${address}" plan.toml
	[[ ${output} == *"no scheduler at ${address}: Connection refused"*"hint: dask scheduler"* ]]
	run -1 "${TLBCOST}" worker --scheduler "${address}" --machine east
	[[ ${output} == *"no scheduler at ${address}: Connection refused"* ]]
}

@test "a worker that loses its connection ends its estimate, and another one does the task" {
	cat >proxy.py <<-'END'
		import asyncio, sys

		async def copy(reader, writer):
		    while data := await reader.read(65536):
		        writer.write(data)
		        await writer.drain()

		async def connect(reader, writer):
		    there = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
		    await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

		async def main():
		    server = await asyncio.start_server(connect, "127.0.0.1", 0)
		    print(server.sockets[0].getsockname()[1], flush=True)
		    await server.serve_forever()

		asyncio.run(main())
	END
	python3 proxy.py "${address##*:}" >port 2>proxy.log 3>&- &
	local proxy=$! direct=${address}
	started+=("${proxy}")
	wait_until test -s port
	add_held first east
	address=tcp://127.0.0.1:$(<port) start_worker a --host 127.0.0.2 --machine east
	local cut=${worker}
	start_review --scheduler "${direct}"
	wait_until is_held first
	address=${direct} start_worker b --machine east
	kill -KILL "${proxy}"
	end_of "${review}"
	cat review.log
	((code == 0))
	check_json 'assert rows["first", "east"]["gain_fraction"], rows'
	[[ $(<review.log) == *"lost its worker tcp://127.0.0.2:"* ]]
	end_of "${cut}"
	((code == 1))
	wait_until nothing_runs
}

make_certificates() { # <name>
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$1" -keyout "$1-ca.key" \
		-out "$1-ca.pem" 2>/dev/null
	openssl req -newkey rsa:2048 -nodes -subj "/CN=host of $1" -keyout "$1.key" \
		-out "$1.csr" 2>/dev/null
	openssl x509 -req -in "$1.csr" -CA "$1-ca.pem" -CAkey "$1-ca.key" -CAcreateserial -days 2 \
		-out "$1.pem" 2>/dev/null
}

@test "TLS: certificates of one authority are needed on all sides" {
	need_program openssl
	make_certificates ours
	make_certificates theirs
	local tls=(--tls-ca-file ours-ca.pem --tls-cert ours.pem --tls-key ours.key)
	protocol=tls start_scheduler own "${tls[@]}"
	[[ ${address} == tls://* ]]
	start_worker a --machine east "${tls[@]}"
	[[ $(<a.log) == *tls://127.0.0.1:* ]]
	add_lookup east
	run -0 "${TLBCOST}" review --scheduler "${address}" "${tls[@]}" --json review.json plan.toml
	check_json 'assert rows["lookup", "east"]["gain_fraction"], rows'
	# Who signed the scheduler's is not who signs for us, and the other way round.
	run -1 "${TLBCOST}" review --state other --scheduler "${address}" --tls-ca-file theirs-ca.pem \
		--tls-cert ours.pem --tls-key ours.key plan.toml
	[[ ${output} == *"no scheduler at ${address}: "*certificate*"hint: both sides need"* ]]
	run -1 "${TLBCOST}" worker --machine east --scheduler "${address}" --tls-ca-file ours-ca.pem \
		--tls-cert theirs.pem --tls-key theirs.key
	[[ ${output} == *"no scheduler at ${address}: "*"hint: both sides need"* ]]
	run -1 "${TLBCOST}" review --state other --scheduler "${address}" --tls-ca-file ours-ca.pem \
		--tls-cert none.pem plan.toml
	[[ ${output} == *"cannot use the files of --tls-*: "* ]]
}

@test "mistakes are named before anything connects" {
	add_lookup east
	run -2 "${TLBCOST}" review --scheduler tcp://192.0.2.1:1 plan.toml
	[[ ${output} == *"tcp://192.0.2.1:1: without TLS, "*"hint: --scheduler tls://HOST:PORT --tls-ca-file"* ]]
	run -2 "${TLBCOST}" worker --scheduler tcp://192.0.2.1:1 --machine east
	[[ ${output} == *"tcp://192.0.2.1:1: without TLS, "* ]]
	run -2 "${TLBCOST}" review --scheduler udp://host:1 plan.toml
	[[ ${output} == *"not tls://HOST:PORT or tcp://HOST:PORT: udp://host:1"* ]]
	run -2 "${TLBCOST}" review --scheduler tcp://127.0.0.1:1 --tls-cert ours.pem plan.toml
	[[ ${output} == *"--tls-* options need --scheduler tls://HOST:PORT"* ]]
	run -2 "${TLBCOST}" review --scheduler tls://127.0.0.1:1 plan.toml
	[[ ${output} == *"tls:// needs --tls-ca-file and --tls-cert"* ]]
	run -2 "${TLBCOST}" review --scheduler tcp://127.0.0.1:1 --init
	[[ ${output} == *"--scheduler needs a PLAN with services"* ]]
	answers 2 "--machine" -- "${TLBCOST}" worker --scheduler tcp://127.0.0.1:1
	printf '[machines.bare]\n[[services]]\nname = "counted"\nmachines = ["bare"]\n' >>plan.toml
	printf 'counts = "plan.toml"\n' >>plan.toml
	run -2 "${TLBCOST}" review --scheduler tcp://127.0.0.1:1 plan.toml
	[[ ${output} == *"machines.bare: with --scheduler, counts need its calibration"* ]]
}

@test "without Dask, that is said; and nothing else needs it" {
	local bare=("${BUILD}/venv/bin/python" -I -c
		'import sys; sys.modules["dask"] = None; sys.modules["distributed"] = None
sys.path.insert(0, sys.argv.pop(1))
from tlbcost.__main__ import main; sys.exit(main())' "${TREE}/estimate")
	add_lookup east
	run -125 "${bare[@]}" review --scheduler tcp://127.0.0.1:1 plan.toml
	[[ ${output} == *"--scheduler needs Dask: "*"hint: "*"pip install "*"tlbcost[fleet]"* ]]
	run -125 "${bare[@]}" worker --scheduler tcp://127.0.0.1:1 --machine east
	[[ ${output} == *"--scheduler needs Dask: "* ]]
	run -0 "${bare[@]}" review --quiet --json review.json --state embedded plan.toml
	check_json 'assert rows["lookup", "east"]["gain_fraction"], rows'
}
