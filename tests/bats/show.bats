#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Do `tlbcost show` and `tlbcost compare` print what was saved, and refuse what was not?

load common

setup_file() {
	need_built tlbcost libexec/tlbcost-run libexec/valgrind
	need_program valgrind
	cd "${BATS_FILE_TMPDIR}" || return
	export ESTIMATED=${BATS_FILE_TMPDIR}/saved.json
	"${BUILD}/tlbcost" estimate --engine valgrind --calibration "${TREE}/tests/golden/calibration.tsv" --runs 1 \
		--json saved.json --output printed.txt -- sh -c 'seq 1000 | sort -n | tail -n 1' >/dev/null
}

setup() {
	TLBCOST=${BUILD}/tlbcost
	cd "${BATS_TEST_TMPDIR}" || return
	cp "${ESTIMATED}" saved.json
}

@test "show prints what estimate printed" {
	run -0 --separate-stderr "${TLBCOST}" show saved.json
	[[ ${output} == "$(<"${BATS_FILE_TMPDIR}/printed.txt")" ]]
	[[ -z ${stderr} ]]
}

@test "show reads standard input, and writes files" {
	run -0 bash -c '"$1" show - <saved.json' _ "${TLBCOST}"
	[[ ${output} == "$(<"${BATS_FILE_TMPDIR}/printed.txt")" ]]
	run -0 "${TLBCOST}" show --output text --json copy.json saved.json
	[[ -z ${output} ]]
	diff text "${BATS_FILE_TMPDIR}/printed.txt"
	# A whole number may be written as 1.0 now.
	python3 -c 'import json; assert json.load(open("copy.json")) == json.load(open("saved.json"))'
	run -0 --separate-stderr "${TLBCOST}" show --json - saved.json
	[[ ${output} == "$(<copy.json)" ]]
	answers 2 "same file: saved.json" "hint:" -- "${TLBCOST}" show --json saved.json saved.json
}

@test "show --openmetrics writes gauges that promtool has no objection to" {
	run -0 "${TLBCOST}" show --output text --openmetrics sort.prom saved.json
	grep -qxE 'tlbcost_gain_ratio\{program="sh",end="high"\} -?[0-9.e-]+' sort.prom
	grep -qxE 'tlbcost_estimate_timestamp_seconds\{program="sh"\} [0-9.e+]+' sort.prom
	run -1 "${TLBCOST}" show --openmetrics /nonexistent/file saved.json
	need_program promtool
	run -0 promtool check metrics <sort.prom
	[[ -z ${output} ]]
}

@test "show --details has the sections" {
	run -0 "${TLBCOST}" show --details saved.json
	[[ ${output} == *"--details"*"Shares of the"*"page walks by memory"*"cost in ns"*"Caveats:"* ]]
	[[ ${output} == *"sort"*"tail"* ]]
}

@test "show refuses what is no estimate: 1" {
	local file
	printf 'no JSON\n' >text
	printf '{"schema": "tlbcost-trial-3"}\n' >trial.json
	sed 's/"tlbcost-estimate-[0-9]*"/"tlbcost-estimate-3"/' saved.json >old.json
	head -c 2000 saved.json >cut.json
	: >empty
	for file in text trial.json old.json cut.json empty . /dev/zero no-such-file; do
		run -1 "${TLBCOST}" show "${file}"
		[[ ${output} == "tlbcost: "*"${file}"*"tlbcost: hint: "* ]]
	done
	answers 1 "an estimate of version 3; this tlbcost reads version" -- "${TLBCOST}" show old.json
	run -2 "${TLBCOST}" show
}

@test "compare puts two estimates side by side" {
	run -0 --separate-stderr "${TLBCOST}" compare saved.json saved.json
	((${#lines[@]} <= 24))
	[[ ${lines[0]} == "NO CLEAR DIFFERENCE: "* ]]
	[[ ${output} == *"verdict"*"the same"*"page faults"* ]]
	[[ ${output} != *"Note:"* ]]
	sed 's/"sort -n/"sort -r/; s/seq 1000/seq 2000/' saved.json >other.json
	run -0 "${TLBCOST}" compare --json compared.json saved.json other.json
	[[ ${output} == *"Note: different programs or arguments."* ]]
	grep -q '"schema": "tlbcost-comparison-1"' compared.json
	answers 1 "cannot read no-such-file" "hint:" -- "${TLBCOST}" compare saved.json no-such-file
	run -2 "${TLBCOST}" compare saved.json
}

# The dashboard's own program is not packaged; what it draws are these answers.
# bats test_tags=long
@test "a real Prometheus has an answer to every query of the dashboard" {
	need_program prometheus python3
	need_madvise
	TLBCOST_MEASURE=yes "${TLBCOST}" estimate --quiet --output text --json app.json -- \
		"${BUILD}/workloads/hash-lookup" --size 64M >/dev/null
	mkdir served
	"${TLBCOST}" show --output text --openmetrics served/app app.json
	"${TLBCOST}" top --once --openmetrics served/host >/dev/null
	run -0 python3 - "${TREE}/data/grafana/tlbcost.json" <<'EOF'
import functools, http.server, json, pathlib, subprocess, sys, threading, time, urllib.parse, urllib.request

class Files(http.server.SimpleHTTPRequestHandler):
    def guess_type(self, path):
        return "text/plain; version=0.0.4"
    def log_message(self, *_):
        pass

served = http.server.ThreadingHTTPServer(
    ("127.0.0.1", 0), functools.partial(Files, directory="served"))
threading.Thread(target=served.serve_forever, daemon=True).start()
jobs = "".join(f"""
  - job_name: {name}
    metrics_path: /{name}
    static_configs: [targets: ['127.0.0.1:{served.server_port}']]""" for name in ("app", "host"))
pathlib.Path("prometheus.yml").write_text(f"global: {{scrape_interval: 1s}}\nscrape_configs:{jobs}\n")
with http.server.HTTPServer(("127.0.0.1", 0), None) as free:
    address = f"127.0.0.1:{free.server_port}"
server = subprocess.Popen(["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                           f"--web.listen-address={address}"], stderr=subprocess.DEVNULL)

def answer(query):
    words = urllib.parse.urlencode({"query": query})
    try:
        with urllib.request.urlopen(f"http://{address}/api/v1/query?{words}") as reply:
            return json.load(reply)["data"]["result"]
    except OSError:
        return []

try:
    queries = [target["expr"].replace("$program", ".*")
               for panel in json.load(open(sys.argv[1]))["panels"] for target in panel["targets"]]
    missing = queries
    for _ in range(60):
        missing = [query for query in missing if not answer(query)]
        if not missing:
            break
        time.sleep(1)
    sys.exit(f"no answer: {missing}" if missing else 0)
finally:
    server.terminate()
    server.wait()
EOF
}
