#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# How many cycles does one TLB miss cost?  Replaces
# libhugetlbfs' script of this name: the same options and output; the cost is the page walk's.
set -Eeuo pipefail

here=$(readlink -f -- "${BASH_SOURCE[0]}")
here=${here%/*}
# shellcheck source=scripts/common.bash
source "${here}/common.bash"
# shellcheck source=scripts/walk-cost.bash
source "${here}/walk-cost.bash"

# Each -v adds one and each -q subtracts one.
verbosity=2

usage() {
	cat <<-END
		Usage: tlbmiss_cost.sh [OPTION...]
		Print what a TLB miss costs that has to walk the page table, as TLB_MISS_COST=CYCLES.
		It takes at most ${BOUND_S} s; if the results do not agree by then, their median is reported,
		with a warning.

		  -h, --help     print this and stop
		  -q, --quiet    no warnings
		  -v, --verbose  show each step on standard error

		Accepted for what called the script of libhugetlbfs, without effect:
		  -c, --calibrator PATH, --fetch-calibrator    the probe is tlbcost's own
		  -s, --stream PATH, --fetch-stream, --vmlinux PATH    STREAM and OProfile are not used
		  -f, --ignore-cache    nothing is cached: each run measures
	END
}

warn() {
	((verbosity < 2)) || note "$*"
}

trace() {
	((verbosity < 3)) || printf 'TRACE: %s\n' "$*" >&2
}

trace_result() { # <bytes> <matches>
	# shellcheck disable=SC2310
	if ! is_cost; then
		trace "No TLB latency with WSS $1 bytes. Matched 0/${MATCHES}"
	elif (($2 > 0)); then
		trace "Measured TLB Latency ${cycles} cycles within tolerance. Matched $2/${MATCHES}"
	else
		trace "Measured TLB Latency ${cycles} cycles with WSS $1 bytes. Matched 0/${MATCHES}"
	fi
}

trace_start() {
	((verbosity >= 3)) || return 0
	trace "Beginning TLB measurement using calibrator"
	run_probe --measure cycles --time-limit 1
	local result page_bytes
	result=$(conclude 0 <<<"${samples}")
	trace "Measured CPU Speed: ${result##* } MHz"
	page_bytes=$(getconf PAGESIZE)
	trace "Starting Working Set Size (WSS): $((FIRST_PAGES * page_bytes)) bytes"
	trace "Required tolerance for match: ${TOLERANCE_CYCLES} cycles or ${TOLERANCE_PERCENT} %"
}

# Sets $verbosity; warns about what has no meaning here only once it is known whether warnings are wanted.
parse_options() {
	local words idle=()
	words=$(getopt -n tlbcost -o c:fhqs:v \
		-l calibrator:,fetch-calibrator,fetch-stream,help,ignore-cache,quiet,stream:,verbose,vmlinux: \
		-- "$@") || {
		printf 'tlbcost: hint: tlbmiss_cost.sh --help\n' >&2
		exit 2
	}
	eval "set -- ${words}"
	while [[ $1 != -- ]]; do
		case $1 in
		-h | --help)
			usage
			exit 0
			;;
		-q | --quiet) verbosity=$((verbosity - 1)) ;;
		-v | --verbose) verbosity=$((verbosity + 1)) ;;
		-f | --ignore-cache) ;;
		-c | --calibrator)
			idle+=("$1 $2: not used: the probe is tlbcost's own")
			shift
			;;
		-s | --stream | --vmlinux)
			idle+=("$1 $2: not used: neither STREAM nor OProfile is needed")
			shift
			;;
		*) idle+=("$1: nothing is fetched: the probe is tlbcost's own") ;;
		esac
		shift
	done
	shift
	if (($# > 0)); then
		printf 'tlbcost: %s: unexpected word\ntlbcost: hint: tlbmiss_cost.sh --help\n' "$1" >&2
		exit 2
	fi
	local word
	for word in "${idle[@]}"; do
		warn "${word}"
	done
}

main() {
	export LC_ALL=C
	parse_options "$@"
	find_probe "${here}"
	guard
	trace_start
	find_walk_cost trace_result
	printf 'TLB_MISS_COST=%d\n' "${cycles}" || die "cannot write standard output"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
	main "$@"
fi
