#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does tests/run notice what fails?  It is given made-up tests to run.

load common

setup() {
	need_built venv/bin/pytest
	FAKE=${BATS_TEST_TMPDIR}/fake
	mkdir -p "${FAKE}/build/tests" "${FAKE}"/tests/{bats,guest,python}
	fake_test build/tests/test_c '1..2\nok 1 a\nok 2 b # skip no such thing\n' 0
	fake_test tests/lint '1..1\nok 1 a\n' 0
	printf '@test "good" { true; }\n' >"${FAKE}/tests/bats/a.bats"
	printf 'def test_good(): pass\n' >"${FAKE}/tests/python/test_a.py"
	printf 'def test_good(): pass\n' >"${FAKE}/tests/guest/test_b.py"
}

fake_test() { # <file> <what it prints> <exit code>
	printf '#!/bin/sh\nprintf %q\nexit %s\n' "$2" "$3" >"${FAKE}/$1"
	sed -i "s/^printf .*/printf '$2'/" "${FAKE}/$1"
	chmod +x "${FAKE}/$1"
}

run_fake() { # [<kind>...]
	"${TREE}/tests/run" --build "${FAKE}/build" --tests "${FAKE}/tests" "$@"
}

last_line() {
	printf '%s\n' "${lines[-1]}"
}

@test "adds up what all runners say, and nothing fails" {
	run -0 run_fake
	[[ $(last_line) == "5 passed, 0 failed, 2 skipped" ]]
	[[ ${output} == *"test_c: b: no such thing"* ]]
	[[ ${output} == *"aarch64: all: no aarch64-linux-gnu-gcc"* ]]
}

@test "a failing test of each kind is reported with exit 1" {
	fake_test build/tests/test_c '1..1\nnot ok 1 broken-c\n' 1
	fake_test tests/lint '1..1\nnot ok 1 broken-lint\n' 1
	printf '@test "broken-bats" { false; }\n' >"${FAKE}/tests/bats/a.bats"
	printf 'def test_broken(): assert 1 == 2\n' >"${FAKE}/tests/python/test_a.py"
	printf 'def test_broken(): assert 3 == 4\n' >"${FAKE}/tests/guest/test_b.py"
	run -1 run_fake
	[[ $(last_line) == "0 passed, 5 failed, 1 skipped" ]]
	local words
	for words in broken-c broken-lint "assert 3 == 4" "assert 1 == 2" broken-bats; do
		[[ ${output} == *"${words}"* ]]
	done
}

# A test that fails when it runs for the first time.
once() { # <name> <file that it makes>
	printf '@test "%s" {\n[[ -e %s ]] || ! touch %s\n}\n' "$1" "${FAKE}/$2" "${FAKE}/$2"
}

@test "a test that fails next to others and passes alone is listed, and counts as passed" {
	once "now (and) [then]?" bats-once >>"${FAKE}/tests/bats/a.bats"
	cat >"${FAKE}/tests/python/test_a.py" <<-EOF
		from pathlib import Path
		def test_good(): pass
		def test_once():
		    file = Path("${FAKE}/python-once")
		    was_there = file.exists()
		    file.touch()
		    assert was_there
	EOF
	run -0 run_fake bats python
	[[ $(last_line) == "4 passed, 0 failed, 0 skipped" ]]
	[[ ${output} == *"== failed next to other tests, passed alone"*"a.bats: now (and) [then]?"* ]]
	[[ ${output} == *"passed alone"*"pytest: "*"test_a::test_once: "*"assert False"* ]]
	[[ ${output} == *"not ok 2 now"*$'== a.bats, again\n1..1\nok 1 now'* ]]
}

@test "of two tests that run again, one passes: the other has failed" {
	printf '@test "never" { false; }\n' >"${FAKE}/tests/bats/a.bats"
	once once bats-once >>"${FAKE}/tests/bats/a.bats"
	run -1 run_fake bats
	[[ $(last_line) == "1 passed, 1 failed, 0 skipped" ]]
	[[ ${output} == *$'passed alone\na.bats: once\n\n== failed\na.bats: never\n'* ]]
}

@test "many failures are not run again" {
	local number
	for number in 1 2 3 4; do
		once "${number}" "${number}"
	done >"${FAKE}/tests/bats/a.bats"
	run -1 run_fake bats
	[[ $(last_line) == "0 passed, 4 failed, 0 skipped" ]]
}

@test "a C test that dies, or reports fewer tests than planned, is a failure" {
	fake_test build/tests/test_c '1..2\nok 1 a\n' 0
	run -1 run_fake c
	[[ $(last_line) == "1 passed, 1 failed, 0 skipped" ]]
	[[ ${output} == *"planned 2 tests, reported 1"* ]]
	fake_test build/tests/test_c '' 0
	run -1 run_fake c
	[[ $(last_line) == "0 passed, 1 failed, 0 skipped" ]]
	fake_test build/tests/test_c '1..1\nok 1 a\n' 3
	run -1 run_fake c
	[[ ${output} == *"exit code 3, though no test failed"* ]]
}

@test "tests that cannot be collected are a failure" {
	printf 'import no_such_module_at_all\n' >"${FAKE}/tests/python/test_a.py"
	run -1 run_fake python
	[[ $(last_line) == "0 passed, 1 failed, 0 skipped" ]]
	printf '@test "unfinished" {\n' >"${FAKE}/tests/bats/a.bats"
	run -1 run_fake bats
	[[ $(last_line) == *" 1 failed, 0 skipped" ]]
}

@test "nothing to run is a failure" {
	rm -r "${FAKE}/build/tests" "${FAKE}"/tests/{bats,guest,python}
	run -1 run_fake c bats guest python
	[[ $(last_line) == "0 passed, 4 failed, 0 skipped" ]]
}

@test "a kind of test that there is not is refused" {
	run -2 run_fake arm65
	[[ ${output} == *"unknown kind of test: arm65"* ]]
}
