#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does `tlbcost review` decide by a plan, keep what is finished, and name what fails?

load common

setup_file() {
	need_built tlbcost libexec/tlbcost-run libexec/valgrind
	cd "${BATS_FILE_TMPDIR}" || return
	export TLBCOST_MEASURE=no
	"${BUILD}/tlbcost" estimate --calibration "${TREE}/tests/golden/calibration.tsv" --runs 1 \
		--json saved.json --output printed.txt -- sh -c 'seq 1000 | sort -n | tail -n 1' >/dev/null
}

setup() {
	TLBCOST=${BUILD}/tlbcost
	export TLBCOST_MEASURE=no
	cd "${BATS_TEST_TMPDIR}" || return
	cp "${BATS_FILE_TMPDIR}/saved.json" .
	cp "${TREE}/tests/golden/documents/perf-stat.txt" counts.txt
	cat >plan.toml <<-'END'
		[policy]
		least_gain = "2 %"
		[machines.here]
		hosts = 10
		[[services]]
		name = "saved"
		machines = ["here"]
		estimate = "saved.json"
		[[services]]
		name = "missing"
		command = ["./no-such-program"]
	END
}

check_json() { # <Python about `found`>
	python3 -c "import json; found = json.load(open('review.json'))
$1"
}

# More services, that each take a while and say that they ran. Where it is busy, this machine might
# have no calibration: costs are made up.
add_slow() { # <number>
	local i
	calibration_of 'current_machine()' here.tsv
	sed -i '/^hosts/a calibration = "here.tsv"' plan.toml
	for ((i = 1; i <= $1; i++)); do
		printf '[[services]]\nname = "slow %d"\nruns = 1\n' "${i}"
		printf 'command = ["sh", "-c", "echo %d >>../ran; sleep 0.2"]\nfolder = "work"\n' "${i}"
	done >>plan.toml
	mkdir -p work
}

@test "a service that fails has its reason, and the others their result" {
	run -0 --separate-stderr "${TLBCOST}" review --json review.json plan.toml
	[[ ${output} == *"failed: missing on here: "*no-such-program* ]]
	[[ ${stderr} == *"1 of 2: saved on here"*"2 of 2: missing on here"* ]]
	check_json 'rows = {row["service"]: row for row in found["rows"]}
assert rows["missing"]["decision"] == "failed" and rows["missing"]["gain_fraction"] is None
assert rows["saved"]["decision"] != "failed" and rows["saved"]["gain_fraction"]["value"] <= 1'
}

@test "everything is written, and quiet is quiet" {
	run -0 --separate-stderr "${TLBCOST}" review --quiet --json review.json --csv review.csv \
		--markdown review.md --junit review.xml --html review.html --output review.txt plan.toml
	[[ -z ${output} && -z ${stderr} ]]
	local lines
	mapfile -t lines <review.csv
	[[ ${lines[0]} == service,machine,decision,why,gain_fraction,* && ${#lines[@]} == 3 ]]
	[[ $(<review.md) == "## Huge pages: capacity review"* ]]
	[[ $(<review.xml) == *'tests="2"'*'errors="1"'* ]]
	[[ $(<review.txt) == service* ]]
	[[ $(<review.html) == "<!doctype html>"*"</html>" ]]
	[[ $(<"${TREE}/data/schema/review.schema.json") == *tlbcost-review-1* ]]
}

@test "the gate fails with 3, and only then" {
	answers 3 "GATE failures: missing on here" -- "${TLBCOST}" review --quiet --gate plan.toml
	sed -i 's/^\[machines.here\]/[policy.gate]\nfailures = false\n&/' plan.toml
	run -0 "${TLBCOST}" review --quiet --gate --resume plan.toml
	[[ ${output} != *GATE* ]]
}

@test "a review is compared with an earlier one, and with a baseline" {
	sed -i 's/^\[machines.here\]/[policy.gate]\nfailures = false\n&/' plan.toml
	"${TLBCOST}" review --quiet --json old.json --output old.txt plan.toml
	run -0 "${TLBCOST}" review --compare old.json old.json
	[[ ${output} == *saved*within* && ${output} == *missing*unknown* ]]
	python3 -c 'import json; found = json.load(open("old.json"))
for row in found["rows"]:
    if row["gain_fraction"]: row["gain_fraction"] = {"value": -9.9, "low": -9.95, "high": -9.85}
json.dump(found, open("old.json", "w"))'
	run -3 "${TLBCOST}" review --quiet --resume --gate --baseline old.json plan.toml
	[[ ${output} == *"GATE baseline: saved on here: "* ]]
	run -2 "${TLBCOST}" review --baseline old.json plan.toml
	answers 1 "plan.toml: not a review of this version" -- "${TLBCOST}" review --compare old.json plan.toml
}

# bats test_tags=long
@test "counts of another machine, and a process that runs" {
	sleep 60 3>&- &
	local pid=$!
	cat >>plan.toml <<-END
		[[services]]
		name = "counted"
		counts = "count*.txt"
		cpu = "skl"
		[[services]]
		name = "running"
		pid = ${pid}
		seconds = "1 s"
	END
	run -0 --separate-stderr "${TLBCOST}" review --json review.json plan.toml
	kill "${pid}"
	check_json 'rows = {row["service"]: row for row in found["rows"]}
assert rows["counted"]["basis"] == "counters", rows["counted"]
# It sleeps: there is nothing to copy, and that is said.
assert rows["running"]["decision"] == "failed" and rows["running"]["why"], rows["running"]'
}

# bats test_tags=long
@test "a killed review resumes: nothing finished is repeated, nothing is lost" {
	add_slow 6
	local review round finished
	for round in 1 2 3; do
		"${TLBCOST}" review --quiet --resume --output first.txt plan.toml 3>&- &
		review=$!
		sleep "$((round + 1)).$((RANDOM % 10))"
		kill -KILL "${review}" 2>/dev/null || true
		wait "${review}" 2>/dev/null || true
		# What it had started dies of its own: its tests run in the next round.
		for _ in {1..100}; do
			pgrep -f "${BATS_TEST_TMPDIR}" >/dev/null || break
			sleep 0.1
		done
		mapfile -t finished < <(grep -l '"failure": null' plan.review/*.task.json || true)
		((${#finished[@]} == 0)) || sha256sum -- "${finished[@]}" >"sums.${round}"
	done
	run -0 "${TLBCOST}" review --quiet --resume --json review.json plan.toml
	for round in 1 2 3; do
		[[ ! -e sums.${round} ]] || sha256sum --quiet --check "sums.${round}"
	done
	check_json 'rows = {row["service"]: row["decision"] for row in found["rows"]}
assert len(rows) == 8 and [name for name in rows if rows[name] == "failed"] == ["missing"], rows'
}

@test "an interrupted review ends with its signal's code, and keeps what it has" {
	add_slow 3
	"${TLBCOST}" review --quiet plan.toml 3>&- &
	local review=$!
	wait_until compgen -G 'plan.review/*.task.json' >/dev/null
	kill -TERM "${review}"
	ended_with 143 "${review}"
	compgen -G 'plan.review/*.task.json'
	# Results of before are not overwritten in silence.
	run -2 "${TLBCOST}" review plan.toml
	[[ ${output} == *"plan.review has results of an earlier review"*"hint: --resume"* ]]
}

@test "mistakes in a plan are named before anything runs" {
	add_slow 1
	printf 'cpus = 3\n' >>plan.toml
	answers 2 "plan: services[2].cpus: there is no such key" "hint: " -- "${TLBCOST}" review plan.toml
	[[ ! -e ran && ! -e plan.review ]]
	answers 2 "cannot read no.toml" -- "${TLBCOST}" review no.toml
	answers 2 "one of PLAN, --compare, --counts, --convert and --init is needed" -- "${TLBCOST}" review
}

@test "results that cannot be kept end it" {
	answers 125 "cannot save results in /proc/no" -- "${TLBCOST}" review --state /proc/no plan.toml
}

# bats test_tags=long
@test "the example of --init is a plan that runs" {
	"${TLBCOST}" review --init >example.toml
	answers 0 "sorting on here: " -- "${TLBCOST}" review --quiet example.toml
}
