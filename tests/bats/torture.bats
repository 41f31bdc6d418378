#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Is a program that is copied again and again as it would be if nobody were there?
# shellcheck disable=SC2154  # run sets output, lines and stderr

bats_require_minimum_version 1.5.0
load common

setup() {
	TORTURE=${BUILD}/tests/torture
	need_built tests/torture/copy libexec/tlbcost-injector
	export TORTURE_COPIES=${TORTURE_COPIES-100}
	# Programs below it are this test's own.
	OWN=${BATS_TEST_TMPDIR}/own
	mkdir "${OWN}"
}

# A program of the set, in a folder of this test: a process that is left over is known by it.
program() { # <name>
	cp "${TORTURE}/$1" "${OWN}/"
	PROGRAM=${OWN}/$1
}

# Processes that are left of this test, copies among them.
left_over() {
	local exe
	for exe in /proc/[0-9]*/exe; do
		[[ $(readlink "${exe}" 2>/dev/null) != "${OWN}/"* ]] || printf '%s\n' "${exe}"
	done
}

none_left_over() {
	[[ -z $(left_over) ]]
}

# Run a program with as many copies of its threads as are asked for: its output and exit code.
copied() { # <option of copy>... -- <command>...
	TORTURE_UNTIL=${BATS_TEST_TMPDIR}/until timeout -k 5 90 "${TORTURE}/copy" --until "${BATS_TEST_TMPDIR}/until" \
		--statistics "${BATS_TEST_TMPDIR}/statistics" --copies "${TORTURE_COPIES}" "$@"
}

statistic() { # <name>
	awk -F '\t' -v name="$1" '$1 == name { print $2 }' "${BATS_TEST_TMPDIR}/statistics"
}

# The same output and exit code with copies as without, and none left over.
undisturbed() { # <option of copy>... -- <command>...
	local options=() expected code=0 got=0
	while [[ $1 != -- ]]; do
		options+=("$1")
		shift
	done
	shift
	rm -f "${BATS_TEST_TMPDIR}/until"
	TORTURE_SECONDS=0.1 timeout -k 5 60 "$@" >"${BATS_TEST_TMPDIR}/expected" 2>&1 || code=$?
	copied "${options[@]}" -- "$@" >"${BATS_TEST_TMPDIR}/got" 2>&1 || got=$?
	cat "${BATS_TEST_TMPDIR}/statistics"
	diff -u "${BATS_TEST_TMPDIR}/expected" "${BATS_TEST_TMPDIR}/got"
	((code == got)) || { printf 'exit code %d, without copies %d\n' "${got}" "${code}" && return 1; }
	expected=$(statistic injected)
	((expected == TORTURE_COPIES)) || { printf 'only %d copies\n' "${expected}" && return 1; }
	wait_until none_left_over
}

# Copies that the program has to reap itself count among its children's resources.
but_resources() {
	sed -i '/^no child.s resources/d' "${BATS_TEST_TMPDIR}"/{expected,got}
}

@test "calls that wait for a time" {
	program timeouts
	undisturbed -- "${PROGRAM}"
	grep -c ': ok' "${BATS_TEST_TMPDIR}/got"
	[[ $(statistic restarted) -gt 0 && $(statistic mended) -gt 0 ]]
}

@test "calls that wait for an event" {
	program wakes
	undisturbed --tree -- "${PROGRAM}"
}

@test "signals and timers" {
	program signals
	undisturbed -- "${PROGRAM}"
}

@test "children" {
	program children
	undisturbed --tree -- "${PROGRAM}"
}

@test "children of a subreaper" {
	program children
	undisturbed -- "${PROGRAM}" subreaper
}

@test "children of a program that reaps its copies" {
	program children
	undisturbed --foreign --tree -- "${PROGRAM}"
}
