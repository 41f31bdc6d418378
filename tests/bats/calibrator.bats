#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# Does the calibrator's probe measure what it is asked for, and write it as doc/format.md says?

setup() {
	load common
	need_built libexec/tlbcost-calibrate libexec/tlbcost-run
	PROBE=${BUILD}/libexec/tlbcost-calibrate
	SAMPLES=${BATS_TEST_TMPDIR}/samples.tsv
}

# Take samples before all other tasks, where that is allowed, and again, ten times at most, if some
# were left out because another task had the CPU.
undisturbed() { # <command>...
	local first=()
	chrt -f 1 true 2>/dev/null && first=(chrt -f 1)
	for _ in {1..10}; do
		run -0 "${first[@]}" "$@" --output "${SAMPLES}"
		grep -q '^# interrupted: [1-9]' "${SAMPLES}" || return 0
	done
}

# The different values of columns, one row of them a line, in the rows of one probe.
values() { # <probe> <column>...
	local probe=$1
	shift
	awk -F '\t' -v probe="${probe}" -v columns="$*" '
		/^#/ { next }
		!n { for (i = 1; i <= NF; i++) at[$i] = i; n = split(columns, wanted, " "); next }
		$at["probe"] == probe {
			row = ""
			for (i = 1; i <= n; i++) row = row (i > 1 ? " " : "") $at[wanted[i]]
			if (!seen[row]++) print row
		}' "${SAMPLES}"
}

@test "the header describes the machine, and says where packed chains lay" {
	run -0 "${PROBE}" --measure cycles --sweeps 1 --seed 7 --output "${SAMPLES}"
	grep -q "^# base_page_bytes: $(getconf PAGESIZE)$" "${SAMPLES}"
	grep -q '^# seed: 7$' "${SAMPLES}"
	local key
	for key in cpu huge_page_bytes line_bytes packed_spacing_bytes packed_page_bytes \
		region_bytes memory_limit_bytes duration_s; do
		grep -Eq "^# ${key}: ([0-9.]+|NA)$" "${SAMPLES}"
	done
	if [[ $(uname -m) == x86_64 ]]; then
		grep -Eq '^# cpuid_2_0: [0-9a-f]{8}( [0-9a-f]{8}){3}$' "${SAMPLES}"
	else
		run -1 grep -q '^# cpuid_' "${SAMPLES}"
	fi
}

@test "without --measure it measures what a quick calibration needs" {
	undisturbed "${PROBE}" --lines 8,64 --sweeps 1
	[[ $(values tlb layout | head -n 1) == spread ]]
	[[ $(values fault ns) && $(values unmap ns) && $(values cycles ns) ]]
	[[ $(values load ns) && $(values stream ns) ]]
	[[ -z $(values cache ns) && -z $(values code ns) ]]
}

@test "each group has the layouts and accesses that it is for" {
	local base
	base=$(getconf PAGESIZE)
	measure() {
		undisturbed "${PROBE}" --measure "$1" --lines 8,64 --sweeps 1 --page-size "${base}"
		values tlb page_size_bytes layout access | paste -sd ,
	}
	[[ $(measure near) == "${base} spread serial,${base} spread overlapped" ]]
	[[ $(measure stores) == "${base} spread store" ]]
	[[ $(measure ways) == "${base} strided serial" ]]
	[[ $(measure chains) == \
		"${base} spread chains_2,${base} spread chains_4,${base} spread chains_8" ]]
	[[ -z $(measure large) && -z $(measure dense) ]]
	measure ways
	[[ $(values tlb spacing_bytes | wc -l) == 17 ]]
	measure caches
	[[ $(values cache layout access packed_ns | paste -sd ,) == "each serial NA,third serial NA" ]]
	measure loads
	[[ $(values load layout access packed_ns | paste -sd ,) == \
		"third serial NA,third independent NA" ]]
	measure memory
	if ! grep '^# skipped_.*_memory: the instructions' "${SAMPLES}"; then
		[[ $(values load layout access packed_ns) == "third flushed NA" ]]
	fi
	measure stream
	[[ $(values stream layout access packed_ns) == "each sequential NA" ]]
	if [[ $(uname -m) =~ ^(x86_64|aarch64)$ ]]; then
		measure code
		[[ $(values code layout access lines | paste -sd ,) == \
			"spread serial 8,spread serial 64" ]] || grep '^# skipped_.*code' "${SAMPLES}"
	fi
}

@test "there are as many regions as asked for, and only the pages of the chain are touched" {
	undisturbed "${BUILD}/libexec/tlbcost-run" --output "${BATS_TEST_TMPDIR}/run.tsv" -- \
		"${PROBE}" --measure regions --sweeps 1 --max-memory 256M
	if [[ $(getconf PAGESIZE) -gt 8192 ]]; then
		grep -q '^# .*_regions: ' "${SAMPLES}"
		skip "the base page is too large for this little memory"
	fi
	[[ $(values tlb layout access lines) == "regions serial 8192" ]]
	(($(cell "${BATS_TEST_TMPDIR}/run.tsv" max_rss_bytes) < 256 << 20))
	local region
	region=$(awk '/^# region_bytes:/ { print $3 }' "${SAMPLES}")
	[[ $(values tlb spacing_bytes | awk -v region="${region}" '{ print 8192 * $1 / region }' |
		head -n 2 | paste -sd ,) =~ ^(16,24|16,48|20,28)$ ]] ||
		grep -E '^# (dropped|skipped)_.*regions' "${SAMPLES}" || { cat "${SAMPLES}" && return 1; }
}

@test "loads that do not fit into the memory allowed are left out, and that is said" {
	undisturbed "${PROBE}" --measure loads,stream --sweeps 1 --max-memory 64M
	# Every third line of 4 MiB, but not of 16 MiB; and all of these.
	[[ $(values load lines | sort -n | paste -sd ,) == "256,2048,8192,65536,262144" ]] ||
		[[ $(values load lines | sort -n | paste -sd ,) == "256,2048,8192,65536" ]]
	[[ $(values stream lines) == 262144 ]]
	grep -q '^# limited_.*_loads: up to .* of 4194304 lines: memory or time' "${SAMPLES}"
	grep -q '^# limited_.*_stream: up to 262144 of 4194304 lines' "${SAMPLES}"
}

@test "--lines takes numbers in any order, once each; --sweeps repeats them" {
	undisturbed "${PROBE}" --measure near --lines 64,8,64,23 --sweeps 3
	[[ $(values tlb lines | sort -n | paste -sd ,) == "8,23,64" ]]
	[[ $(values tlb repetition | paste -sd ,) == "0,1,2" ]]
	# Each sweep has a sample of the cycle.
	[[ $(values cycles repetition | paste -sd ,) == "0,1,2" ]]
	# Three footprints, serial and overlapped, three times, and the cycles.
	[[ $(tail -n 1 "${SAMPLES}") == "# end: 21" ]]
}

@test "every sample is a positive number of ns" {
	run -0 "${PROBE}" --measure cycles,faults,near,stores,chains,ways,code,caches,loads,stream,memory,residency \
		--lines 8,64 --sweeps 2 --output "${SAMPLES}"
	run -0 awk -F '\t' '
		/^#/ || /^probe/ { next }
		$8 + 0 <= 0 || ($9 != "NA" && $9 + 0 <= 0) || ($1 == "tlb" && $9 == "NA") { print }
	' "${SAMPLES}"
	[[ -z ${output} ]]
}

@test "a short time limit drops repetitions and says so" {
	run -0 "${PROBE}" --page-size "$(getconf PAGESIZE)" --time-limit 1 --output "${SAMPLES}"
	grep -Eq '^# (dropped|skipped)_.*' "${SAMPLES}"
	grep -q '^# end: [1-9]' "${SAMPLES}"
}

@test "a page size that is not available is skipped with the reason" {
	run -0 "${PROBE}" --measure near,large --page-size 12k --output -
	[[ ${output} == *"# skipped_12288: this page size is not available here"* ]]
	[[ ${lines[-1]} == "# end: 0" ]]
}

@test "little address space limits the chains that lie far apart" {
	run -0 bash -c 'ulimit -v 1000000; "$@"' - "${PROBE}" --measure ways --lines 4,64 \
		--sweeps 3 --max-memory 64M --output "${SAMPLES}"
	[[ $(values tlb repetition | paste -sd ,) == "0,1,2" ]]
	grep -q '^# limited_.*_ways: not enough memory or address space' "${SAMPLES}"
	[[ $(values tlb layout) == strided ]]
}

@test "wrong options are usage errors" {
	local words
	for words in "--page-size x" "--time-limit 0" "--huge-method magic" "word" "--unknown" \
		"--measure nothing" "--measure near," "--measure=" "--lines 1" "--lines 8,,9" \
		"--lines 8," "--lines -8" "--lines 8x" "--lines 99999999999" "--sweeps 0" \
		"--sweeps many" "--seed -1"; do
		# shellcheck disable=SC2086  # one or two words
		run -2 --separate-stderr "${PROBE}" ${words}
		[[ ${stderr} == *"tlbcost: hint: tlbcost-calibrate --help" ]]
	done
}

@test "--help names every group and option" {
	run -0 "${PROBE}" --help
	local word
	for word in cycles faults near middle far dense loads stream memory large stores chains ways \
		regions code caches --lines --sweeps --measure --seed --time-limit; do
		[[ ${output} == *"${word}"* ]]
	done
}

@test "a full device is an error, and stays a device" {
	mknod "${BATS_TEST_TMPDIR}/full" c 1 7 2>/dev/null || skip "cannot make a device"
	run -1 --separate-stderr "${PROBE}" --measure cycles --sweeps 1 \
		--output "${BATS_TEST_TMPDIR}/full"
	[[ ${stderr} == "tlbcost: ${BATS_TEST_TMPDIR}/full: No space left on device" ]]
	[[ -c ${BATS_TEST_TMPDIR}/full ]]
}

@test "--cpu chooses the CPU; one that may not be used is an error" {
	run -0 "${PROBE}" --measure cycles --sweeps 1 --cpu 0 --output "${SAMPLES}"
	grep -q '^# cpu: 0$' "${SAMPLES}"
	run -1 --separate-stderr "${PROBE}" --measure cycles --cpu 99999
	[[ ${stderr} == *"cannot stay on one CPU: Invalid argument"*"tlbcost: hint: "* ]]
}

@test "alongside a task on the same CPU: the time that it waited is known" {
	need_program taskset
	local cpu other
	cpu=$(taskset -cp $$ | sed 's/.*[:,-] *//')
	taskset -c "${cpu}" bash -c 'while :; do :; done' 3>&- &
	other=$!
	run "${PROBE}" --cpu "${cpu}" --measure cycles,near --lines 64,4096 --sweeps 40 --output "${SAMPLES}"
	kill "${other}"
	((status == 0))
	local key waited
	for key in measured_ns ran_ns waited_ns switches stolen_ns timings interrupted; do
		grep -Eq "^# ${key}: ([0-9]+|NA)$" "${SAMPLES}"
	done
	waited=$(awk '/^# waited_ns:/ { print $3 }' "${SAMPLES}")
	[[ ${waited} != NA ]] || skip "this kernel does not report how long a task waited"
	((waited > 0))
}
