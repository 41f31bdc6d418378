#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does tlbcost say what is wrong where streams are closed, limits are low, or its own files are gone?

load common

setup() {
	need_built tlbcost libexec/tlbcost-run
	TLBCOST=${BUILD}/tlbcost
	CALIBRATION=${TREE}/tests/golden/calibration.tsv
	cd "${BATS_TEST_TMPDIR}" || return
}

teardown() {
	chmod -R u+rwx "${BATS_TEST_TMPDIR}" 2>/dev/null || true
}

# One line that says what is wrong; no Python, no shell.
a_message() {
	[[ ${output} == "tlbcost: "* ]] || { printf 'said: %s\n' "${output}" && return 1; }
	[[ ${output} != *Traceback* && ${output} != *"Exception ignored"* ]]
}

# Commands that answer on standard output.
ANSWERS=("--help" "--version" "events --list" "machines" "doctor" "pool status" "maps $$" "estimate --help")

@test "a closed standard output is reported: 1" {
	local words
	for words in "${ANSWERS[@]}"; do
		# shellcheck disable=SC2086  # words
		run -1 bash -c '"$@" >&-' - "${TLBCOST}" ${words}
		a_message
		[[ ${output} == *"cannot write standard output: "* ]]
	done
	run -125 bash -c '"$@" >&-' - "${TLBCOST}" estimate --json - --runs 1 \
		--calibration "${CALIBRATION}" -- touch started
	a_message
	[[ ! -e started ]]
}

@test "a reader of standard output that goes away is no error to talk of" {
	local words
	for words in "${ANSWERS[@]}"; do
		# shellcheck disable=SC2086  # words
		run bash -c '"$@" | true' - "${TLBCOST}" ${words}
		[[ ${output} == "" ]]
	done
}

@test "a limit of stacks that Python overruns is named: 125" {
	run -125 bash -c 'ulimit -s 64; "$@"' - "${TLBCOST}" estimate true
	a_message
	[[ ${output} == *"the limit of stacks is 64 KiB"*"hint: ulimit -s 8192" ]]
	run -0 bash -c 'ulimit -s 64; "$@"' - "${BUILD}/libexec/tlbcost-run" --discard --output run.tsv \
		echo hello
}

@test "a limit of open files is named, and not the disk" {
	run -125 bash -c 'ulimit -n 12; "$@"' - "${TLBCOST}" estimate --runs 1 \
		--calibration "${CALIBRATION}" true
	[[ ${output} == *"ulimit -n "* ]]
	[[ ${output} != *"df -"* && ${output} != *Traceback* ]]
}

@test "PATH is empty: tlbcost runs, and says that the program was not found" {
	PATH='' run -0 "${TLBCOST}" --version
	PATH='' run -127 "${TLBCOST}" estimate true
	a_message
	[[ ${output} == *"no such program on PATH"* ]]
}

# A tree of which only the command is left.
a_tree() { # makes tree/build/tlbcost
	mkdir -p tree/build tree/estimate/tlbcost
	cp "${TLBCOST}" tree/build/tlbcost
	touch tree/estimate/tlbcost/__main__.py
}

@test "Python's environment, or the package, is gone: 125, and what makes it" {
	a_tree
	run -125 tree/build/tlbcost --version
	a_message
	[[ ${output} == *"venv/bin/python: no such file"*"hint: make -C "*" all" ]]
	mkdir -p tree/build/venv/bin
	ln -s python3 tree/build/venv/bin/python
	ln -s "$(python3 -c 'import sys; print(sys.executable)')" tree/build/venv/bin/python3
	rm tree/estimate/tlbcost/__main__.py
	run -125 tree/build/tlbcost --version
	a_message
	[[ ${output} == *"__main__.py: no such file"* ]]
}

@test "Python's environment may not be read: 125, and who can change that" {
	need_root
	need_program setpriv
	a_tree
	chmod 755 . ..
	mkdir -p tree/build/venv/bin tree/closed
	ln -s ../../../closed/python tree/build/venv/bin/python
	cp "$(type -P true)" tree/closed/python
	chmod 700 tree/closed
	(cd / && setpriv --reuid=65534 --clear-groups test -r "${BATS_TEST_TMPDIR}/tree/build/tlbcost") ||
		skip "user 65534 may not look into ${BATS_TEST_TMPDIR}"
	run -125 setpriv --reuid=65534 --clear-groups tree/build/tlbcost --version
	a_message
	[[ ${output} == *"this user may not enter "*/closed*"hint: its owner can allow it: chmod a+rx "* ]]
	chmod 755 tree/closed
	chmod 644 tree/closed/python
	answers 125 "permission denied" -- setpriv --reuid=65534 --clear-groups tree/build/tlbcost --version
}

@test "a package that Python cannot load is named: 125" {
	run -125 "${BUILD}/venv/bin/python" -I -c 'import sys
sys.path.insert(0, sys.argv.pop(1)); sys.modules["msgspec"] = None
from tlbcost.__main__ import main; sys.exit(main())' "${TREE}/estimate" estimate true
	a_message
	[[ ${output} == *"cannot load a part of tlbcost: "*msgspec*"hint: "* ]]
}
