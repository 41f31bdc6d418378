#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long
# Does the probe work on another CPU?  Built for aarch64 and emulated, so that no time is looked at.

setup() {
	load common
	need_built aarch64/emulate aarch64/libexec/tlbcost-calibrate
	EMULATE=${BUILD}/aarch64/emulate
	PROBE=${BUILD}/aarch64/libexec/tlbcost-calibrate
	SAMPLES=${BATS_TEST_TMPDIR}/samples.tsv
}

@test "aarch64: what was built is for aarch64" {
	# The ELF header's machine, 183.
	[[ $(od -An -tu2 -j18 -N2 "${PROBE}" | tr -d ' ') == 183 ]]
}

@test "aarch64: the probe writes a well-formed table of what was asked for" {
	run -0 "${EMULATE}" "${PROBE}" --measure near --lines 8,64 --sweeps 3 --output "${SAMPLES}"
	grep -q "^# tlbcost samples 2$" "${SAMPLES}"
	grep -q "^# base_page_bytes: $(getconf PAGESIZE)$" "${SAMPLES}"
	# No CPUID but x86's.
	run ! grep -q "^# cpuid_" "${SAMPLES}"
	run -0 awk -F '\t' '
		/^# end: / { end = $0; sub(/.*: /, "", end) }
		/^#/ { next }
		!columns { columns = NF; for (i = 1; i <= NF; i++) at[$i] = i; next }
		{ rows++ }
		NF != columns { print "cells:", $0 }
		$at["ns"] !~ /^[0-9.e+-]+$/ || $at["ns"] <= 0 { print "ns:", $0 }
		$at["probe"] == "tlb" { n[$at["lines"] " " $at["access"]]++ }
		END {
			if (rows != end || !rows) print "rows:", rows, end
			if (n["8 serial"] != 3 || n["64 serial"] != 3) print "sweeps"
			for (key in n) if (key !~ /^(8|64) /) print "lines:", key
		}' "${SAMPLES}"
	[[ ${output} == "" ]]
}

@test "aarch64: a jump per page of code runs" {
	run -0 "${EMULATE}" "${PROBE}" --measure code --lines 8,64 --sweeps 2 --output "${SAMPLES}"
	[[ $(cell "${SAMPLES}" lines code) == 8 ]]
	[[ $(cell "${SAMPLES}" ns code) =~ ^[0-9.]+$ ]]
}

@test "aarch64: pages that are not of the size that the system tells are not measured" {
	# The emulator tells 64 KiB; the kernel below it has other pages.
	(($(getconf PAGESIZE) != 65536)) || skip "the base pages here have 64 KiB"
	# QEMU 10 says that it has no pages of its own, and QEMU 11 has no such option.
	run "${EMULATE}" -p 65536 "${PROBE}" --measure near --lines 8,64 --sweeps 3 \
		--output "${SAMPLES}"
	[[ ${output} != *"cannot change host page size"* && ${output} != *"unknown option"* ]] ||
		skip "this emulator has no pages but the kernel's below it"
	((status == 0))
	grep -q "^# base_page_bytes: 65536$" "${SAMPLES}"
	grep -q "^# skipped_65536.*the kernel did not provide pages of this size" "${SAMPLES}"
	[[ -z $(cell "${SAMPLES}" ns tlb) ]]
}
