# SPDX-License-Identifier: GPL-2.0-or-later
# What do the scripts share?  Messages and places; sourced, never run.
# shellcheck shell=bash

# Say what failed and why, then what to type, and end the script.
die() { # <what failed: why> [<hint>]
	printf 'tlbcost: %s\n' "$1" >&2
	if (($# > 1)); then
		printf 'tlbcost: hint: %s\n' "$2" >&2
	fi
	exit 1
}

# Tell the user something that is no failure.
note() { # <text>
	printf 'tlbcost: %s\n' "$1" >&2
}

# Path of a system file; tests point TLBCOST_ROOT at a made-up machine.
sys_path() { # <absolute path>
	printf '%s%s\n' "${TLBCOST_ROOT-}" "$1"
}
