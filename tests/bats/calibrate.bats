#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# Does `tlbcost calibrate` measure, remember, draw, and fail as it should?

setup_file() {
	# One real calibration, shared by the tests that only need one to be there. A busy machine gives
	# a poor one, which is not kept; then a good one that is made up stands in for it.
	export CACHE=${BATS_FILE_TMPDIR}/cache
	local tree=${BATS_TEST_DIRNAME}/../..
	if [[ -e ${tree}/build/tlbcost ]]; then
		XDG_CACHE_HOME=${CACHE} TLBCOST_WAIT_S=0 "${tree}/build/tlbcost" calibrate \
			>"${BATS_FILE_TMPDIR}/first" 2>&1 || true
		has_curve || XDG_CACHE_HOME=${CACHE} PYTHONPATH=${tree}/tests/python \
			"${tree}/build/venv/bin/python" - <<-'END' || true
			from dataclasses import replace
			from builders.calibration import curve, quick
			from builders.tree import TREE
			from tlbcost.calibration.file import save
			from tlbcost.calibration.file import read_calibration
			from tlbcost.system.machine import current_machine
			made = read_calibration(TREE / "data/samples/amd-zen-5-guest/calibration.tsv")
			save(replace(made, machine=current_machine()), curve())
		END
	fi
}

has_curve() {
	grep -qs '^tlb' "${CACHE}"/tlbcost/curve-*.tsv
}

need_curve() {
	has_curve || skip "no calibration could be made or made up"
}

setup() {
	load common
	need_built tlbcost libexec/tlbcost-calibrate
	export XDG_CACHE_HOME=${CACHE}
}

@test "calibrate: the grade first, then entries and costs, in 24 lines of 80 columns" {
	need_curve
	run -0 "${BUILD}/tlbcost" calibrate
	[[ ${lines[0]} == "Good calibration: "* ]]
	[[ ${output} == *"Costs in ns "*"L1 dTLB, entries "*"STLB hit "*"Page walk, "*"Loads, ns"* ]]
	[[ ${output} == *"Source   cached in"* ]]
	((${#lines[@]} <= 24))
	local line
	for line in "${lines[@]}"; do
		((${#line} <= 80))
	done
	run -2 "${BUILD}/tlbcost" calibrate --details --compare a b
}

@test "calibrate: the first time it says that it measures" {
	grep -q "^tlbcost: no calibration of this machine is cached: measuring" \
		"${BATS_FILE_TMPDIR}/first"
	grep -q "^Source   measured now" "${BATS_FILE_TMPDIR}/first"
	grep -Eq "^(Good calibration: |POOR CALIBRATION: repeat it)" "${BATS_FILE_TMPDIR}/first"
}

@test "calibrate: --plot draws a PNG and an SVG" {
	need_program gnuplot
	need_curve
	run -0 "${BUILD}/tlbcost" calibrate --plot "${BATS_TEST_TMPDIR}/c.png"
	[[ $(head -c 4 "${BATS_TEST_TMPDIR}/c.png" | od -An -tx1) == " 89 50 4e 47" ]]
	run -0 "${BUILD}/tlbcost" calibrate --plot "${BATS_TEST_TMPDIR}/c.svg"
	grep -q "<svg" "${BATS_TEST_TMPDIR}/c.svg"
	grep -q "cost of a page walk (ns)" "${BATS_TEST_TMPDIR}/c.svg"
}

@test "calibrate: a gnuplot that fails is an error with a hint, and leaves no picture" {
	need_curve
	fake_program gnuplot 'echo "no such terminal" >&2; exit 1'
	run -1 --separate-stderr "${BUILD}/tlbcost" calibrate --plot "${BATS_TEST_TMPDIR}/c.png"
	[[ ${stderr} == *"tlbcost: cannot draw"*"no such terminal"* ]]
	[[ ${stderr} == *"tlbcost: hint: apt install gnuplot-nox"* ]]
	[[ ! -e ${BATS_TEST_TMPDIR}/c.png ]]
}

@test "calibrate: a gnuplot that is missing, or draws nothing, is an error" {
	need_curve
	fake_program gnuplot 'exit 0'
	answers --apart 1 "no picture" -- "${BUILD}/tlbcost" calibrate --plot "${BATS_TEST_TMPDIR}/c.png"
	mkdir "${BATS_TEST_TMPDIR}/bin"
	ln -s "$(type -P dirname)" "$(type -P readlink)" "${BATS_TEST_TMPDIR}/bin/"
	run -1 --separate-stderr env PATH="${BATS_TEST_TMPDIR}/bin" "${BUILD}/tlbcost" \
		calibrate --plot "${BATS_TEST_TMPDIR}/c.png"
	[[ ${stderr} == *"gnuplot: No such file or directory"* ]]
}

@test "calibrate: an unknown picture format and a missing folder are refused at once" {
	answers --apart 2 "not a .png or .svg file" -- "${BUILD}/tlbcost" calibrate --plot c.pdf
	answers --apart 1 "no such folder: /nonexistent" -- "${BUILD}/tlbcost" calibrate --output /nonexistent/x
}

@test "calibrate: --show prints what is cached, and fails with a hint if nothing is" {
	run -0 --separate-stderr "${BUILD}/tlbcost" calibrate --show
	[[ ${output} == *"Source   cached in"*"L1 dTLB, entries"* ]]
	[[ -z ${stderr} ]]
	XDG_CACHE_HOME=${BATS_TEST_TMPDIR}/cache run -1 --separate-stderr \
		"${BUILD}/tlbcost" calibrate --show
	[[ ${stderr} == "tlbcost: nothing to show: no calibration of this machine is cached"* ]]
	[[ ${stderr} == *"tlbcost: hint: tlbcost calibrate" ]]
	[[ -z ${output} && ! -e ${BATS_TEST_TMPDIR}/cache ]]
}

@test "calibrate: --compare sets two documents side by side" {
	run -0 "${BUILD}/tlbcost" calibrate --json "${BATS_TEST_TMPDIR}/a.json" --output /dev/null
	run -0 "${BUILD}/tlbcost" calibrate --compare "${BATS_TEST_TMPDIR}/"{a,a}.json
	[[ ${output} == *"The same machine with the same settings."* ]]
	[[ $(tr -s " " <<<"${output}") == *" 0 % overlap"* ]]
	[[ ${output} == *" of 0 the 95 % intervals do not overlap"* ]]
}

@test "calibrate: no bar where stderr is no terminal, and one with the time left where it is" {
	need_program script
	run -1 grep -q $'\r' "${BATS_FILE_TMPDIR}/first"
	export XDG_CACHE_HOME=${BATS_TEST_TMPDIR}/cache
	TLBCOST=${BUILD}/tlbcost run -0 script -q -e -c '"${TLBCOST}" calibrate --output /dev/null' \
		/dev/null
	[[ ${output} == *"calibrating [="*">"*"] "*" %, "*" s left"* ]]
}

@test "calibrate: two at once share one calibration" {
	export XDG_CACHE_HOME=${BATS_TEST_TMPDIR}/cache
	local first
	"${BUILD}/tlbcost" calibrate --output /dev/null 2>"${BATS_TEST_TMPDIR}/err1" 3>&- &
	first=$!
	wait_until grep -q "measuring" "${BATS_TEST_TMPDIR}/err1"
	run -0 --separate-stderr "${BUILD}/tlbcost" calibrate --details
	ended_with 0 "${first}"
	[[ ${stderr} == "tlbcost: another tlbcost is calibrating this machine: waiting for it" ]]
	[[ ${output} == *"Source     cached in"* || ${output} == *"Source     measured by another tlbcost just now"* ]]
	# A good one is in the cache, a poor one is not, and no lock is left.
	run find "${XDG_CACHE_HOME}/tlbcost" -name '*.lock'
	[[ -z ${output} ]]
	if grep -q "poor calibration" "${BATS_TEST_TMPDIR}/err1"; then
		[[ -z $(ls -A "${XDG_CACHE_HOME}/tlbcost") ]]
	else
		[[ -n $(ls -A "${XDG_CACHE_HOME}/tlbcost") ]]
	fi
}

@test "calibrate: a busy machine is waited for, and what it gives is poor and not kept" {
	need_program taskset
	export XDG_CACHE_HOME=${BATS_TEST_TMPDIR}/cache TLBCOST_WAIT_S=1
	[[ -r /proc/self/schedstat ]] || skip "this kernel does not say how long a task waits"
	local cpus busy=() i
	cpus=$(nproc)
	# One on each CPU.
	for ((i = 0; i < cpus; i++)); do
		bash -c 'while :; do :; done' 3>&- &
		busy+=($!)
	done
	run --separate-stderr "${BUILD}/tlbcost" calibrate --json "${BATS_TEST_TMPDIR}/c.json" --details
	kill "${busy[@]}"
	((status == 0))
	[[ ${stderr} == *"tlbcost: the machine is busy (load: "*" other runnable tasks on "*"): waiting up to 1 s for quiet"* ]]
	[[ ${stderr} == *": measuring again what was disturbed, 12 s at most"* ]]
	[[ ${stderr} == *"tlbcost: poor calibration: repeat it when the machine is quiet (the calibrator waited for a CPU "* ]]
	[[ ${output} == *"Grade      poor calibration: repeat it when the machine is quiet"* ]]
	grep -q '"grade": "poor"' "${BATS_TEST_TMPDIR}/c.json"
	[[ -z $(ls -A "${XDG_CACHE_HOME}/tlbcost") ]]
}

@test "a calibration that is no file, or has no end, is refused at once" {
	local file tlbcost=("${BUILD}/tlbcost" estimate --calibration)
	mkfifo "${BATS_TEST_TMPDIR}/fifo"
	truncate -s 5G "${BATS_TEST_TMPDIR}/sparse"
	for file in /dev/zero "${BATS_TEST_TMPDIR}" "${BATS_TEST_TMPDIR}/fifo" "${BATS_TEST_TMPDIR}/sparse"; do
		run -125 --separate-stderr timeout 60 "${tlbcost[@]}" "${file}" true
		[[ ${stderr} == "tlbcost: cannot use the calibration: cannot read ${file}: "*"tlbcost: hint: "* ]]
	done
	run -125 --separate-stderr timeout 60 bash -c 'yes | "$@"' - "${tlbcost[@]}" /dev/stdin true
	[[ ${stderr} == *"cannot read /dev/stdin: it does not end within 16,777,216 bytes"* ]]
	# What a shell makes of <(command) is a pipe, and can be read.
	answers --apart 125 "not a tlbcost calibration table" -- timeout 60 "${tlbcost[@]}" <(echo garbage) true
	run -1 --separate-stderr timeout 60 "${BUILD}/tlbcost" calibrate --compare /dev/zero /dev/zero
	[[ ${stderr} == "tlbcost: cannot read /dev/zero: it is a device"*"hint: tlbcost calibrate --json"* ]]
}
