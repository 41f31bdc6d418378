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

# Tell the user something that is not a failure.
note() { # <text>
	printf 'tlbcost: %s\n' "$1" >&2
}

# Path of a system file; tests point TLBCOST_ROOT at a fake machine.
sys_path() { # <absolute path>
	printf '%s%s\n' "${TLBCOST_ROOT-}" "$1"
}

# The mirror that this system's own release of Debian comes from.  Testing and unstable have one
# codename, and only these two may have another name on a mirror.
debian_mirror() {
	local codename id release uri uris
	release=$(sys_path /etc/os-release)
	# shellcheck source=/dev/null
	id=$(. "${release}" && printf '%s' "${ID-}")
	# shellcheck source=/dev/null
	codename=$(. "${release}" && printf '%s' "${VERSION_CODENAME-}")
	[[ ${id} == debian ]] || die "cannot get Debian's packages: this system's apt is not Debian's (${id})"
	uris=$(apt-get update --print-uris 2>/dev/null) ||
		die "cannot get Debian's packages: apt-get update --print-uris failed"
	while IFS=\' read -r _ uri _; do
		case ${uri} in
		*/dists/"${codename}"/InRelease | */dists/testing/InRelease | \
			*/dists/sid/InRelease | */dists/unstable/InRelease)
			printf '%s\n' "${uri%/dists/*}"
			return 0
			;;
		*) ;;
		esac
	done <<<"${uris}"
	die "cannot get Debian's packages: apt's sources have no mirror of ${codename}"
}
