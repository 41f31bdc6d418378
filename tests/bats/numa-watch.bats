#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long
# Does `tlbcost numa --watch` refuse what it cannot do, say what N nodes would do, and leave a process
# as it was?  What it does on a machine with several nodes: make check-numa.

load common

setup() {
	need_built tlbcost libexec/tlbcost-copies workloads/numa-vector
	cd "${BATS_TEST_TMPDIR}" || return
	export XDG_CACHE_HOME=${BATS_TEST_TMPDIR}
	WATCH=("${BUILD}/tlbcost" numa --cache "256K,256K" --watch)
}

teardown() {
	[[ -z ${pid:-} ]] || kill "${pid}" 2>/dev/null || true
}

start() {
	"${BUILD}/workloads/numa-vector" --rounds 1G --size 16M --threads 2 3>&- &
	pid=$!
}

one_node() {
	[[ $(find /sys/devices/system/node -maxdepth 1 -name 'node[0-9]*' | wc -l) -lt 2 ]] ||
		skip "this machine has several nodes"
}

@test "on a machine with one node, it says what several would allow" {
	one_node
	start
	run -4 --separate-stderr "${WATCH[@]}" "${pid}"
	[[ ${stderr} == *"this machine has one NUMA node"*"hint: tlbcost numa --nodes 4 --watch ${pid} shows"* ]]
	[[ -z ${output} ]]
}

@test "mistakes are refused before anything is watched" {
	answers 2 "give either a process to watch, or a program to run" -- "${WATCH[@]}" 1 -- true
	answers 2 "nothing can be applied to nodes that do not exist" -- "${WATCH[@]}" 1 --nodes 4 --apply
	answers 2 "--samples needs --watch" -- "${BUILD}/tlbcost" numa --samples copies -- true
	answers 2 "--apply needs --watch" -- "${BUILD}/tlbcost" numa --apply -- true
	answers 2 "no threshold is called warm: there are act_maptu, " -- "${WATCH[@]}" 1 --threshold warm=3
	answers 2 "not a value of hot: -3" -- "${WATCH[@]}" 1 --threshold hot=-3
	answers 2 "two are the least that has a spread" -- "${WATCH[@]}" 1 --threshold windows=1
}

@test "a PMU that samples no memory accesses is refused by name; without one copies are sampled" {
	"${BUILD}/libexec/tlbcost-count" --quiet --event "c=perf::CYCLES" --user-only --output c.tsv -- true &&
		skip "this machine has counters"
	start
	run -4 "${WATCH[@]}" "${pid}" --nodes 2 --samples pmu
	[[ ${output} == *"does not sample memory accesses"*"hint: --samples copies "* ]]
	run -0 --separate-stderr "${WATCH[@]}" "${pid}" --nodes 2 --seconds 1 --json watch.json
	grep -q '"source": "copies"' watch.json
	grep -q 'windows of copies, not samples of the PMU: the PMU' watch.json
}

@test "a process that is not there is named" {
	answers 1 "there is no process 4194303" -- "${WATCH[@]}" 4194303 --nodes 4
}

@test "without root nothing is applied, and the line that would is named" {
	need_root
	start
	command -v setpriv >/dev/null || skip "no setpriv"
	[[ $(find /sys/devices/system/node -maxdepth 1 -name 'node[0-9]*' | wc -l) -ge 2 ]] ||
		skip "this machine has one node"
	run -4 setpriv --reuid 65534 --clear-groups "${WATCH[@]}" "${pid}" --apply
	[[ ${output} == *"that needs root"*"hint: sudo "* ]]
}

@test "assumed nodes: figures, nothing changed, and a document of the schema" {
	need_root
	start
	run -0 --separate-stderr "${WATCH[@]}" "${pid}" --nodes 2 --seconds 6 --threshold overhead=5 --json watch.json
	[[ ${stderr} == *"process ${pid}, 2 assumed nodes, nothing is changed, "*"the time is over."* ]]
	[[ $(awk '/^THP_enabled/ { print $2 }' "/proc/${pid}/status") == 1 ]]
	kill -0 "${pid}"
	"${BUILD}/venv/bin/python" - "${TREE}/data/schema/numa-watch.schema.json" <<-'PYTHON'
		import json, sys, jsonschema
		document = json.load(open("watch.json"))
		jsonschema.validate(document, json.load(open(sys.argv[1])))
		assert document["assumed"] and not document["applied"]
		assert document["cost"]["windows"] >= 1, document["cost"]
		assert document["intervals"][-1]["samples"] > 0
		assert all(each["would"] for each in document["actions"])
	PYTHON
}

@test "a process that ends ends its watch" {
	need_root
	start
	(wait_until pgrep -f "tlbcost-copies .*--pid ${pid} " >/dev/null && kill "${pid}") 3>&- &
	answers --apart 0 "the process has ended." -- "${WATCH[@]}" "${pid}" --nodes 2 --seconds 60
}

@test "Ctrl-C still has the summary" {
	need_root
	start
	run -130 --separate-stderr timeout --preserve-status -s INT 20 "${WATCH[@]}" "${pid}" --nodes 2
	[[ ${stderr} == *"a signal ended it."*"tlbcost: ended by SIGINT"* ]]
	kill -0 "${pid}"
}
