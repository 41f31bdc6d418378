#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Do the article's two scripts find the walk's cost, print it as the article does, and end?

load common

setup() {
	HOME_FOLDER=${BATS_TEST_TMPDIR}/home
	mkdir -p "${HOME_FOLDER}/scripts" "${HOME_FOLDER}/libexec"
	cp "${TREE}"/scripts/{common,walk-cost}.bash "${TREE}"/scripts/{run-calibrator,tlbmiss_cost}.sh \
		"${HOME_FOLDER}/scripts/"
	RUN=${HOME_FOLDER}/scripts/run-calibrator.sh
	COST=${HOME_FOLDER}/scripts/tlbmiss_cost.sh
}

# Put the scripts next to a calibrator that gives these costs in ns, one footprint after the
# other (the last again and again); a cycle takes half a nanosecond.
fake_probe() { # <ns>...
	printf '%s\n' "$@" >"${BATS_TEST_TMPDIR}/costs"
	fake_code "
		calls=${BATS_TEST_TMPDIR@Q}/calls costs=${BATS_TEST_TMPDIR@Q}/costs"'
		echo "$*" >>"${calls}"
		lines=0
		while (($#)); do
			[[ $1 != --lines ]] || lines=$2
			shift
		done
		((lines)) && n=$(grep -c -e --lines "${calls}") || n=1
		most=$(wc -l <"${costs}")
		cost=$(sed -n "$((n < most ? n : most))p" "${costs}")
		printf "# tlbcost samples 2\n# base_page_bytes: 4096\n"
		printf "probe\tpage_size_bytes\tlayout\tspacing_bytes\taccess\tlines\trepetition\tns\tpacked_ns\n"
		for i in 0 1 2; do
			printf "cycles\tNA\tNA\tNA\tNA\tNA\t$i\t0.5\tNA\n"
			# The middle one counts: one is an outlier.  Other rows of the table do not.
			case $i in 0) ns=900 ;; 1) ns=1.5 ;; 2) ns=3 ;; esac
			[[ ${cost} == NA ]] || awk -v c="${cost}" -v l="${lines}" -v i="$i" -v packed="${ns}" "BEGIN {
				print \"tlb\t4096\tspread\t4096\tserial\t\" l \"\t\" i \"\t\" c + packed \"\t\" packed
				print \"tlb\t4096\tspread\t4096\toverlapped\t\" l \"\t\" i \"\t77\t1\"
				print \"tlb\t4096\tspread\t4096\tserial\t\" l + 1 \"\t\" i \"\t88\t1\" }"
		done
		printf "# end: 12\n"'
}

fake_code() { # <Bash text of the probe>
	printf '#!/bin/bash\n%s\n' "$1" >"${HOME_FOLDER}/libexec/tlbcost-calibrate"
	chmod +x "${HOME_FOLDER}/libexec/tlbcost-calibrate"
}

page_bytes() {
	getconf PAGESIZE
}

@test "run-calibrator.sh: prints what the article prints, and ends after three matches" {
	fake_probe 8.80
	run -0 --separate-stderr "${RUN}"
	local page
	page=$(page_bytes)
	[[ ${lines[0]} == "Running calibrator with size $((3328 * page)): 18 cycles 8.80 ns" ]]
	[[ ${lines[1]} == "Running calibrator with size $((4288 * page)): 18 cycles 8.80 ns matched 1 times" ]]
	[[ ${lines[3]} == *": 18 cycles 8.80 ns matched 3 times" ]]
	[[ ${lines[4]} == "TLB_MISS_LATENCY_TIME=8.80" ]]
	[[ ${lines[5]} == "TLB_MISS_LATENCY_CYCLES=18" ]]
	[[ ${lines[6]} == "TLB_MISSES_COST_ONE_SECOND=113636363" ]]
	((${#lines[@]} == 7))
	[[ ${stderr} == "" ]]
	grep -q -e "--measure cycles,near --lines 3328 " "${BATS_TEST_TMPDIR}/calls"
}

@test "misses in a second: the article's, from its clocks and cycles" {
	# shellcheck source=scripts/walk-cost.bash
	source "${TREE}/scripts/walk-cost.bash"
	# Core Duo T2600: 19 cycles at 2167 MHz; Athlon 64 3000+: 37 at 2009 MHz.
	[[ $(misses_per_second "$(awk 'BEGIN { printf "%.12g", 19 / 2.167 }')") == 114052631 ]]
	[[ $(misses_per_second "$(awk 'BEGIN { printf "%.12g", 37 / 2.009 }')") == 54297297 ]]
}

@test "run-calibrator.sh: a result that does not agree starts the counting anew" {
	# 4 and 5 cycles agree within 2 cycles, 36 and 39 within 10 %, 39 and 44 do not.
	fake_probe 2 2.5 18 19.5 22 22 22 22
	run -0 "${RUN}"
	[[ ${lines[1]} == *" 5 cycles 2.50 ns matched 1 times" ]]
	[[ ${lines[2]} == *" 36 cycles 18.00 ns" ]]
	[[ ${lines[3]} == *" 39 cycles 19.50 ns matched 1 times" ]]
	[[ ${lines[4]} == *" 44 cycles 22.00 ns" ]]
	[[ ${lines[7]} == *" matched 3 times" ]]
	[[ ${lines[8]} == "TLB_MISS_LATENCY_TIME=22.00" ]]
}

@test "run-calibrator.sh: results that never agree: the median of twelve, with a warning" {
	fake_probe 10 50 11 51 12 52 13 53 14 54 15 55
	run -0 --separate-stderr "${RUN}"
	((${#lines[@]} == 15))
	[[ ${lines[12]} == "TLB_MISS_LATENCY_TIME=15.00" ]]
	[[ ${lines[13]} == "TLB_MISS_LATENCY_CYCLES=30" ]]
	[[ ${stderr} == "tlbcost: no 4 results in a row agree: this is the median of 12, of 10 to 55 ns; is the machine busy?" ]]
}

@test "run-calibrator.sh: a footprint without a cost is said to have none, and is not counted" {
	fake_probe -1 NA 20 20 20 20
	run -0 "${RUN}"
	[[ ${lines[0]} == *": no TLB latency" && ${lines[1]} == *": no TLB latency" ]]
	[[ ${lines[2]} == *" 40 cycles 20.00 ns" ]]
	[[ ${lines[6]} == "TLB_MISS_LATENCY_TIME=20.00" ]]
}

@test "run-calibrator.sh: no cost at any footprint: exit 4, and no figure" {
	fake_code 'printf "# tlbcost samples 2\n# skipped_4096_near: not enough memory\nprobe\tns\n# end: 0\n"'
	run -4 --separate-stderr "${RUN}"
	[[ ${output} != *TLB_MISS* ]]
	[[ ${stderr} == "tlbcost: cannot measure the cost of a page walk here: not enough memory"* ]]
	[[ ${stderr} == *"tlbcost: hint: "* ]]
}

@test "run-calibrator.sh: a probe that fails, writes garbage, or is missing" {
	fake_code 'echo "tlbcost: not enough memory to calibrate: 2 MiB" >&2; exit 4'
	run -4 --separate-stderr "${RUN}"
	[[ ${output} == "" && ${stderr} == "tlbcost: not enough memory to calibrate: 2 MiB" ]]
	fake_code 'printf "# tlbcost samples 2\nprobe\tns\n"'
	run -1 --separate-stderr "${RUN}"
	[[ ${stderr} == "tlbcost: cannot measure: ${HOME_FOLDER}/"*" wrote no complete samples table"* ]]
	fake_code 'kill -SEGV $$'
	run -139 "${RUN}"
	rm "${HOME_FOLDER}/libexec/tlbcost-calibrate"
	run -1 --separate-stderr "${RUN}"
	[[ ${stderr} == "tlbcost: cannot measure: no tlbcost-calibrate in "*"tlbcost: hint: make" ]]
}

@test "run-calibrator.sh: unexpected words are usage errors; --help tells the bound" {
	run -2 "${RUN}" word
	[[ ${output} == *"unexpected word"*"hint: run-calibrator.sh --help" ]]
	run -2 "${RUN}" --help more
	answers 0 "at most" "30 s" -- "${RUN}" --help
}

@test "tlbmiss_cost.sh: one line, and nothing else" {
	fake_probe 18.5
	run -0 --separate-stderr "${COST}"
	[[ ${output} == "TLB_MISS_COST=37" ]]
	[[ ${stderr} == "" ]]
	# Nothing is kept: the next run measures again.
	fake_probe 30
	run -0 --separate-stderr "${COST}"
	[[ ${output} == "TLB_MISS_COST=60" ]]
}

@test "tlbmiss_cost.sh -v: the article's TRACE lines, on standard error" {
	fake_probe 3 18 18 18 18
	run -0 --separate-stderr "${COST}" -v
	[[ ${output} == "TLB_MISS_COST=36" ]]
	[[ ${stderr_lines[0]} == "TRACE: Beginning TLB measurement using calibrator" ]]
	[[ ${stderr_lines[1]} == "TRACE: Measured CPU Speed: 2000 MHz" ]]
	[[ ${stderr_lines[2]} == "TRACE: Starting Working Set Size (WSS): $((3328 * $(page_bytes))) bytes" ]]
	[[ ${stderr_lines[3]} == "TRACE: Required tolerance for match: 2 cycles or 10 %" ]]
	[[ ${stderr_lines[4]} == "TRACE: Measured TLB Latency 6 cycles with WSS "*"Matched 0/3" ]]
	[[ ${stderr_lines[6]} == "TRACE: Measured TLB Latency 36 cycles within tolerance. Matched 1/3" ]]
	[[ ${stderr_lines[8]} == "TRACE: Measured TLB Latency 36 cycles within tolerance. Matched 3/3" ]]
}

@test "tlbmiss_cost.sh: takes the options of libhugetlbfs' script, and says what has no effect" {
	fake_probe 18
	run -0 --separate-stderr "${COST}" -f -c /opt/calibrator --stream=/opt/stream --vmlinux vm \
		--fetch-calibrator --fetch-stream --ignore-cache
	[[ ${output} == "TLB_MISS_COST=36" ]]
	((${#stderr_lines[@]} == 5))
	[[ ${stderr_lines[0]} == "tlbcost: -c /opt/calibrator: not used: "* ]]
	[[ ${stderr_lines[4]} == "tlbcost: --fetch-stream: nothing is fetched: "* ]]
	# One -q takes the warnings away, a -v brings them back.
	run -0 --separate-stderr "${COST}" -q --fetch-stream
	[[ ${stderr} == "" ]]
	run -0 --separate-stderr "${COST}" -qv --fetch-stream
	((${#stderr_lines[@]} == 1))
	run -2 "${COST}" --time-servicing
	[[ ${output} == *"hint: tlbmiss_cost.sh --help" ]]
	run -2 "${COST}" -c
	run -2 "${COST}" word
	answers 0 "at most 30 s" -- "${COST}" -h
}

# End a script by a signal to it alone, while its probe is at work; prints the code and who is left.
signalled() { # <signal> <script>
	fake_code "echo \$\$ >${BATS_TEST_TMPDIR@Q}/pid; exec sleep 1000"
	run bash -c '
		set -m
		TMPDIR=$3 "$1" >/dev/null 2>"$3/../err" &
		for ((i = 0; i < 1200; i++)); do [[ -s $3/../pid ]] && break || sleep 0.05; done
		kill "-$2" "$!"
		code=0
		wait "$!" || code=$?
		echo "code ${code}"
		for ((i = 0; i < 1200; i++)); do
			kill -0 "$(<"$3/../pid")" 2>/dev/null || { echo "no probe"; exit; }
			sleep 0.05
		done' - "$2" "$1" "${BATS_TEST_TMPDIR}/tmp"
}

@test "SIGINT and SIGTERM end both scripts at once, with their probe, and leave no file" {
	mkdir "${BATS_TEST_TMPDIR}/tmp"
	signalled INT "${COST}"
	[[ ${output} == *"code 130"*"no probe" ]]
	[[ $(<"${BATS_TEST_TMPDIR}/err") == "tlbcost: interrupted" ]]
	rm "${BATS_TEST_TMPDIR}/pid"
	signalled TERM "${RUN}"
	[[ ${output} == *"code 143"*"no probe" ]]
	[[ -z $(ls -A "${BATS_TEST_TMPDIR}/tmp") ]]
}

@test "a probe that does not end is ended, and its footprint has no figure" {
	# The bounds are shortened: what counts is that they hold.
	sed -i -e 's/^readonly BEGIN_S=.*/readonly BEGIN_S=3 PROBE_S=1 KILL_S=1/' \
		"${HOME_FOLDER}/scripts/walk-cost.bash"
	fake_code 'exec sleep 1000'
	run -4 timeout 100 "${RUN}"
	[[ ${lines[0]} == *": no TLB latency" ]]
	[[ ${output} == *"cannot measure the cost of a page walk here"* ]]
	((${#lines[@]} <= 6))
}

# bats test_tags=long
@test "run-calibrator.sh and tlbmiss_cost.sh: from the tree, with the real probe" {
	need_built libexec/tlbcost-calibrate
	run -0 --separate-stderr "${TREE}/scripts/run-calibrator.sh"
	local size='Running calibrator with size [0-9]+: ([0-9]+ cycles [0-9]+\.[0-9]{2} ns( matched [1-3] times)?|no TLB latency)'
	local line
	for line in "${lines[@]:0:${#lines[@]}-3}"; do
		[[ ${line} =~ ^${size}$ ]]
	done
	[[ ${lines[-3]} =~ ^TLB_MISS_LATENCY_TIME=[0-9]+\.[0-9]{2}$ ]]
	[[ ${lines[-2]} =~ ^TLB_MISS_LATENCY_CYCLES=[1-9][0-9]*$ ]]
	[[ ${lines[-1]} =~ ^TLB_MISSES_COST_ONE_SECOND=[1-9][0-9]*$ ]]
	# Through a link, as installed.
	ln -s "${TREE}/scripts/tlbmiss_cost.sh" "${BATS_TEST_TMPDIR}/link"
	run -0 --separate-stderr "${BATS_TEST_TMPDIR}/link" -v
	[[ ${output} =~ ^TLB_MISS_COST=[1-9][0-9]*$ ]]
	[[ ${stderr} == *"TRACE: Measured TLB Latency "* ]]
}

@test "the man pages have the options of --help, and groff has no complaint" {
	need_program groff
	local name
	for name in run-calibrator.sh tlbmiss_cost.sh; do
		run -0 "${TREE}/scripts/${name}" --help
		diff <(grep -Eo -e '--[a-z][a-z-]*' <<<"${output}" | sort -u) \
			<(sed -n '/^\.SH OPTIONS/,/^\.SH EXIT/p' "${TREE}/doc/man/${name}.1" | grep -A 1 '^\.TP' |
				sed 's/\\-/-/g' | grep -Eo -e '--[a-z][a-z-]*' | sort -u)
		run -0 groff -man -ww -z "${TREE}/doc/man/${name}.1"
		[[ ${output} == "" ]]
	done
}
