# SPDX-License-Identifier: GPL-2.0-or-later
# What do all bats files share?  `load common` at the top of each.
# shellcheck shell=bash

bats_require_minimum_version 1.5.0

TREE=$(cd "${BATS_TEST_DIRNAME}/../.." && pwd -P)
# shellcheck disable=SC2034  # for the tests
BUILD=${TREE}/build

# Skip a test that needs what this machine lacks; the reason is in the output.
need_root() {
	((EUID == 0)) || skip "needs root"
}

need_program() { # <name>...
	local name
	for name in "$@"; do
		type -P "${name}" >/dev/null || skip "needs ${name}"
	done
}

need_built() { # <file below build/>...
	local file
	for file in "$@"; do
		[[ -e ${BUILD}/${file} ]] || skip "needs build/${file} (make)"
	done
}

# A program of this name, first on PATH, that runs the given Bash text.
fake_program() { # <name> <text>
	local folder=${BATS_TEST_TMPDIR}/fakes
	mkdir -p "${folder}"
	printf '#!/bin/bash\n%s\n' "$2" >"${folder}/$1"
	chmod +x "${folder}/$1"
	[[ ${PATH} == "${folder}:"* ]] || PATH=${folder}:${PATH}
}

# Cell of a table of doc/format.md: first row, or the row whose first cells are given.
cell() { # <file> <column> [<first cell>...]
	local file=$1 column=$2
	shift 2
	awk -F '\t' -v column="${column}" -v wanted="$*" '
		/^#/ { next }
		!n { for (i = 1; i <= NF; i++) if ($i == column) n = i; next }
		{
			words = split(wanted, want, " ")
			for (i = 1; i <= words; i++) if ($i != want[i]) next
			print $n
			exit
		}' "${file}"
}

# Compare $output with tests/golden/<name>.
assert_golden() { # <name>
	# shellcheck disable=SC2154  # run sets output
	if ! diff -u --label expected --label actual \
		"${TREE}/tests/golden/$1" <(printf '%s\n' "${output}"); then
		printf 'to accept, write the actual output to tests/golden/%s\n' "$1"
		return 1
	fi
}
