#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What does one TLB miss cost, and how many of them
# cost a second?  Prints it like the run-calibrator.sh of LWN's "Huge pages part 5", with the
# cost of the page walk instead of the first TLB level's.
set -Eeuo pipefail

here=$(readlink -f -- "${BASH_SOURCE[0]}")
here=${here%/*}
# shellcheck source=scripts/common.bash
source "${here}/common.bash"
# shellcheck source=scripts/walk-cost.bash
source "${here}/walk-cost.bash"

usage() {
	cat <<-END
		Usage: run-calibrator.sh
		Measure what a TLB miss costs that has to walk the page table.

		Each line has the footprint in bytes and its cost; three results in
		a row that agree with the one before (within ${TOLERANCE_CYCLES} cycles or ${TOLERANCE_PERCENT} %) end it. It takes at most
		${BOUND_S} s; if the results do not agree by then, their median is reported, with a warning.

		  --help    print this and stop
	END
}

warn() {
	note "$*"
}

print() { # <as printf>
	# shellcheck disable=SC2059
	printf "$@" || die "cannot write standard output"
}

print_line() { # <bytes> <matches>
	local line="no TLB latency"
	# shellcheck disable=SC2310
	if is_cost; then
		printf -v line '%d cycles %.2f ns' "${cycles}" "${ns}"
		(($2 == 0)) || line+=" matched $2 times"
	fi
	print 'Running calibrator with size %d: %s\n' "$1" "${line}"
}

main() {
	case $#:${1-} in
	0:) ;;
	1:--help | 1:-h)
		usage
		return
		;;
	*)
		printf 'tlbcost: %s: unexpected word\ntlbcost: hint: run-calibrator.sh --help\n' "$1" >&2
		return 2
		;;
	esac
	export LC_ALL=C
	guard
	find_probe "${here}"
	find_walk_cost print_line
	# From the time as printed, so that the two can be checked against each other.  The article
	# divides a nominal clock by whole cycles instead, which is up to half a cycle away.
	local time per_second
	time=$(printf '%.2f' "${ns}")
	per_second=$(misses_per_second "${time}")
	print 'TLB_MISS_LATENCY_TIME=%s\nTLB_MISS_LATENCY_CYCLES=%d\nTLB_MISSES_COST_ONE_SECOND=%d\n' \
		"${time}" "${cycles}" "${per_second}"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
	main "$@"
fi
