#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Do `tlbcost machines` and `tlbcost estimate --machine` tell of other cores what one run of each would?

setup() {
	load common
	need_built tlbcost
	cd "${BATS_TEST_TMPDIR}" || return 1
}

need_simulator() {
	need_program valgrind
	need_built workloads/map-lookup libexec/valgrind
	valgrind_lib
}

# Counts of a short program that misses now and then, and often in between.
simulated() { # <folder> <option of the tool>...
	local folder=$1
	shift
	mkdir "${folder}"
	setarch -R valgrind --tool=tlbsim --vgdb=no --log-file="${folder}/log" --counts-dir="${folder}" \
		"$@" "${BUILD}/workloads/map-lookup" --keys 20000 --count 30000 >/dev/null
}

# The five columns without the header, which has names of processes.
rows() { # <file>
	grep -v '^#' "$1" | cut -f 3-
}

SNB=page=4096,l1d=64:4,l1i=128:4,stlb=512:4
ZEN4=page=2097152,l1d=72:72,l1i=64:64,stlb=3072:24,code-stlb=512:8
ICX=page=4096,l1d=64:4,l1i=128:8,stlb=2048:16,folded=1
GIB=page=1073741824,l1d=4:4,l1i=4:4,stlb=16:4

@test "machines: the list has every core, and NAME shows its sources" {
	run -0 "${BUILD}/tlbcost" machines
	[[ ${output} == *"amd64_fam19h_zen4"* && ${output} == *"snb"* ]]
	run -0 "${BUILD}/tlbcost" machines zen4
	[[ ${lines[0]} == "machine amd64_fam19h_zen4: AMD Zen 4" ]]
	[[ ${output} == *"ilx_zen4: InstLatX64, CPUID dump of an EPYC 9654"* ]]
	[[ ${output} =~ walk_cycles\ +15\ +assumed_walker\ +"no: 8 to 22" ]]
	[[ ${output} == *"assumed_walker: 7-cpu.com"* ]]
}

@test "machines --compare: two cores figure by figure, and what matters that is not known" {
	run -0 "${BUILD}/tlbcost" machines --compare skx tiger-lake
	[[ ${output} == *"Intel Tiger Lake"* && ${output} =~ "stlb 2 MiB"\ +1536:12\ +1024:8\ +differs ]]
	run -2 --separate-stderr "${BUILD}/tlbcost" machines --compare skx tiger-lake zen4
	[[ ${stderr} == *"--compare exclude each other"* ]]
	answers --apart 2 "no machine is called 'nothing'" -- "${BUILD}/tlbcost" machines --compare skx nothing
	run -0 "${BUILD}/tlbcost" machines tiger-lake
	[[ ${output} =~ "not checked"\ +value\ +plausible && ${output} == *"4 KiB, 1 GiB"* ]]
}

@test "machines: an unknown name exits 2 and names what comes near" {
	run -2 --separate-stderr "${BUILD}/tlbcost" machines zen9
	[[ ${stderr_lines[0]} == "tlbcost: no machine is called 'zen9'" ]]
	[[ ${stderr_lines[1]} == "tlbcost: hint: did you mean "*"zen4"* ]]
}

@test "machines: a file that cannot be written is reported, and nothing is printed" {
	run -1 --separate-stderr "${BUILD}/tlbcost" machines --json none/there.json
	[[ -z ${output} ]]
	[[ ${stderr_lines[0]} == "tlbcost: cannot write none/there.json: no such folder: "* ]]
}

@test "estimate --machine: what cannot be done is refused before the program runs" {
	local program=${BUILD}/workloads/map-lookup
	need_built workloads/map-lookup
	run -2 --separate-stderr "${BUILD}/tlbcost" estimate --machine zen9 -- "${program}"
	[[ -z ${output} ]]
	[[ ${stderr_lines[0]} == "tlbcost: no machine is called 'zen9'" ]]
	run -2 --separate-stderr "${BUILD}/tlbcost" estimate --machine snb,snb -- "${program}"
	[[ ${stderr_lines[0]} == "tlbcost: not a list of different machines: snb,snb" ]]
	run -4 --separate-stderr "${BUILD}/tlbcost" estimate --machine nhm --page-size 1G -- "${program}"
	[[ ${stderr_lines[0]} == "tlbcost: no estimate: the TLBs of Intel Nehalem for 1 GiB pages are not on file" ]]
	run -2 --separate-stderr "${BUILD}/tlbcost" estimate --page-size 3K -- "${program}"
	[[ ${stderr} == *"not a page size as 4K, 64K, 2M or 1G: 3K"* ]]
	run -2 --separate-stderr "${BUILD}/tlbcost" estimate --machine snb --backend pmu -- "${program}"
	[[ ${stderr_lines[0]} == "tlbcost: --machine applies only to a simulation"* ]]
	[[ -z ${output} ]]
}

@test "estimate --machine: a calibration of another machine is refused" {
	need_built workloads/map-lookup
	run -2 --separate-stderr "${BUILD}/tlbcost" estimate --machine snb \
		--calibration "${TREE}/tests/golden/calibration.tsv" -- "${BUILD}/workloads/map-lookup"
	[[ ${stderr_lines[0]} == "tlbcost: the calibration is of "*", not of Intel Sandy Bridge" ]]
}

@test "estimate --machine: one run covers several machines, and the program is its own" {
	need_simulator
	run -0 --separate-stderr "${BUILD}/tlbcost" estimate --details --machine snb,zen4,arm_v3 --json out.json -- \
		"${BUILD}/workloads/map-lookup" --keys 20000 --count 100000
	[[ ${output} == "checksum "* && ${#lines[@]} -eq 1 ]]
	[[ ${stderr} == *"machine Intel Sandy Bridge (snb)"* ]]
	[[ ${stderr} == *"machine AMD Zen 4 (zen4)"* ]]
	[[ ${stderr} == *"No times: not published"* ]]
	[[ $(grep -c '"verdict"' out.json) -eq 6 ]]
}

# bats test_tags=long
@test "estimate --page-size: a size whose TLBs are not known is NA, and the others are answered" {
	need_simulator
	run -0 --separate-stderr "${BUILD}/tlbcost" estimate --details --machine nhm,snb --page-size 4K,64K,2M,1G \
		--json out.json -- "${BUILD}/workloads/map-lookup" --keys 20000 --count 100000
	[[ ${stderr} =~ "1 GiB"\ +NA\ +NA\ +NA\ +NA\ +NA\ +NA ]]
	run -0 python3 -c '
import json
for machine in json.load(open("out.json"))["machines"]:
    print(machine["name"], *(size["misses"] is not None for size in machine["page_sizes"]))'
	[[ ${output} == "nhm True True True False"$'\n'"snb True True True True" ]]
	# The same of the machine at hand, which a calibration says is one of these.
	sed 's/^# cpu_vendor: .*/# cpu_vendor: GenuineIntel/; s/^# cpu_family: .*/# cpu_family: 6/
		s/^# cpu_model: .*/# cpu_model: 26/' "${TREE}/tests/golden/calibration.tsv" >nhm.tsv
	run -0 --separate-stderr "${BUILD}/tlbcost" estimate --details --calibration nhm.tsv \
		--page-size 4K,64K,2M,1G -- "${BUILD}/workloads/map-lookup" --keys 20000 --count 100000
	[[ ${stderr} =~ "1 GiB"\ +NA\ +NA\ +NA\ +NA\ +NA\ +NA ]]
	[[ ${stderr} == *"the TLBs of Intel Nehalem for 1 GiB pages are not on file."* ]]
}

@test "views: each counts what it counts alone, with the filter and without" {
	need_simulator
	need_program setarch
	setarch -R true 2>/dev/null || skip "addresses cannot be kept from changing here"
	simulated all "--view=${SNB}" "--view=${ZEN4}" "--view=${ICX}" "--view=${GIB}" "--view=${SNB}"
	simulated plain --filter=no "--view=${SNB}" "--view=${ZEN4}" "--view=${ICX}" "--view=${GIB}" \
		"--view=${SNB}"
	[[ $(rows all/views.*) == "$(rows plain/views.*)" ]]
	local view number=0
	for view in "${SNB}" "${ZEN4}" "${ICX}" "${GIB}" "${SNB}"; do
		simulated "alone${number}" "--view=${view}"
		[[ $(rows "alone${number}"/views.*) == "$(grep "^${number}	" all/views.* | cut -f 3- |
			cat <(printf 'l1_tlb_misses\tstlb_hits\tstlb_misses\n') -)" ]]
		number=$((number + 1))
	done
	# The machine at hand does not notice.
	simulated none
	[[ $(rows none/counts.*) == "$(rows all/counts.*)" ]]
}

@test "views: what is no view is refused" {
	need_simulator
	local wrong
	for wrong in page=4096 page=3000,l1d=64:4,l1i=64:4 "${SNB},x=1" "${SNB},rest=3" "${SNB},folded=2" \
		page=4096,l1d=64:5,l1i=64:4 page=4096,l1d=0:0,l1i=64:4 ""; do
		run valgrind --tool=tlbsim "--view=${wrong}" true
		((status != 0))
	done
	run valgrind --tool=tlbsim --view-core=width=4 true
	((status != 0))
}
