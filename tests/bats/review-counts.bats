#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does `tlbcost review --counts` review a fleet by its counts, and make rows of perf's logs?

load common

setup() {
	need_built tlbcost
	"${BUILD}/venv/bin/python" -c 'import dask.dataframe, pyarrow.parquet' 2>/dev/null ||
		skip "needs Dask's dataframes and pyarrow (make build/venv/.check)"
	TLBCOST=${BUILD}/tlbcost
	cd "${BATS_TEST_TMPDIR}" || return
}

# What perf stat -j -I writes in two seconds of a service on Skylake-X.
perf_log() {
	local end event value
	for end in 1.000100000 2.000200000; do
		for event in cycles:u=2000000000 dtlb_load_misses.walk_active:u=400000000 \
			dtlb_store_misses.walk_active:u=50000000 itlb_misses.walk_active:u=10000000; do
			value=${event#*=}
			printf '{"interval" : %s, "counter-value" : "%s.000000", "unit" : "", "event" : "%s", ' \
				"${end}" "${value}" "${event%=*}"
			printf '"event-runtime" : 1000000000, "pcnt-running" : 100.00}\n'
		done
	done
}

check_json() { # <Python about `found`>
	python3 -c "import json; found = json.load(open('fleet.json'))
$1"
}

# bats test_tags=long
@test "logs of perf become rows, and rows a review with the numbers of one estimate" {
	local host
	perf_log >perf.json
	mkdir stats
	for host in a b c; do
		run -0 --separate-stderr "${TLBCOST}" review --convert perf.json --host "${host}" \
			--service web --cpu skx --output "stats/${host}.parquet"
		[[ -z ${output} && ${stderr} == "tlbcost: 8 rows" ]]
	done
	# Standard output is a table, too.
	"${TLBCOST}" review --quiet --convert perf.json --host d --service web --cpu skx >stats/d.csv
	run -0 --separate-stderr "${TLBCOST}" review --counts 'stats/*.parquet' --counts 'stats/*.csv' \
		--json fleet.json --csv fleet.csv --markdown fleet.md --hosts hosts.csv
	[[ -z ${stderr} ]]
	[[ ${output} == *"32 rows of 4 hosts in 4 files; 32 rows used."* ]]
	[[ $(<fleet.md) == "## Huge pages: a fleet's counts"*"| web | skx | 4 | 4 |"* ]]
	[[ $(<fleet.csv) == service,machine,cpu,*$'\n'web,skx,skx,walk_cycles,* ]]
	[[ $(wc -l <hosts.csv) == 5 ]]
	"${TLBCOST}" estimate --from perf.json --cpu skx --json one.json --output one.txt
	check_json 'one = json.load(open("one.json"))
(row,) = found["rows"]
def same(ours, theirs): return abs(ours - theirs) < 1e-9
assert row["hosts"] == 4 and found["left_out"] == []
assert same(row["gain_fraction"]["p50"], one["expected_fraction"]["value"])
assert same(row["gain_low_fraction"]["p10"], one["expected_fraction"]["low"])
assert same(row["gain_high_fraction"]["p90"], one["expected_fraction"]["high"])
assert same(row["bound_fraction"]["p50"], one["bound_fraction"]["value"])'
}

@test "lines that say their host are read as they are; the plan has the policy" {
	perf_log | sed 's/^{/{"host": "a", "service": "db", "cpu_model": "icx", /' >perf.json
	printf '[policy]\nleast_gain = "50 %%"\n[machines.big]\ncore = "icl"\n' >plan.toml
	run -0 "${TLBCOST}" review --quiet --counts perf.json --json fleet.json plan.toml
	[[ ${output} == *"hosts that gain 50 %"* ]]
	check_json '(row,) = found["rows"]
assert (row["service"], row["hosts"], row["hosts_gaining"]) == ("db", 1, 0), row'
}

@test "where no host has an estimate, what was left out is shown, and it fails" {
	printf 'host,service,cpu_model,event,value,seconds\n' >stats.csv
	printf 'a,web,no-such,cycles:u,5,1\na,web,no-such,cycles:u,-1,1\n' >>stats.csv
	run -1 "${TLBCOST}" review --counts stats.csv
	[[ ${output} == *"left out: 1 row of 1 host (web; no-such): no event table is called"* ]]
	[[ ${output} == *"that no counter can show"* ]]
	[[ ${output} == *"tlbcost: no host has an estimate"* ]]
}

@test "wrong files and options have their messages" {
	answers 2 "no file matches stats/*.parquet" "hint: " -- "${TLBCOST}" review --counts 'stats/*.parquet'
	: >empty.csv
	answers 1 "cannot read empty.csv: it is empty" -- "${TLBCOST}" review --counts empty.csv
	printf 'host,event\na,b\n' >stats.csv
	run -1 "${TLBCOST}" review --counts stats.csv
	[[ ${output} == *"cannot read stats.csv: there is no column 'service'"*"hint: the columns are"* ]]
	printf 'PAR1' >stats.parquet
	answers 1 "cannot read stats.parquet: " -- "${TLBCOST}" review --counts stats.parquet
	run -2 "${TLBCOST}" review --counts stats.csv --csv stats.csv
	[[ ${output} == *"--counts and --csv are the same file"* ]]
	run -2 "${TLBCOST}" review --counts stats.csv stats.parquet
	[[ ${output} == *"stats.parquet is no plan but counts"*"in quotes"* ]]
	answers 2 "--counts and --gate exclude each other" -- "${TLBCOST}" review --counts stats.csv --gate
	answers 2 "--hosts needs --counts" -- "${TLBCOST}" review --hosts hosts.csv plan.toml
	answers 2 "--host needs --convert" -- "${TLBCOST}" review --host a plan.toml
	perf_log >perf.json
	run -1 "${TLBCOST}" review --counts perf.json
	[[ ${output} == *"perf.json:1: no 'host' in it"*"--convert perf.json --host NAME"* ]]
	run -1 "${TLBCOST}" review --convert perf.json --host a --cpu skx --output out.csv
	[[ ${output} == *"perf.json:1: no 'service' in it"* && ! -e out.csv ]]
}

@test "--counts loads its packages itself: others start without" {
	run -0 "${BUILD}/venv/bin/python" -X importtime "${TREE}/estimate/tlbcost" review --help
	[[ ${output} == *--counts* && ${output} != *dask* && ${output} != *pyarrow* ]]
}
