#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Results of tests/run, for made-up tests.

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
	[[ $(last_line) == "4 passed, 0 failed, 1 skipped" ]]
	[[ ${output} == *"test_c: b: no such thing"* ]]
}

@test "a failing test of each kind is reported with exit 1" {
	fake_test build/tests/test_c '1..1\nnot ok 1 broken-c\n' 1
	fake_test tests/lint '1..1\nnot ok 1 broken-lint\n' 1
	printf '@test "broken-bats" { false; }\n' >"${FAKE}/tests/bats/a.bats"
	printf 'def test_broken(): assert 1 == 2\n' >"${FAKE}/tests/python/test_a.py"
	run -1 run_fake
	[[ $(last_line) == "0 passed, 4 failed, 0 skipped" ]]
	local words
	for words in broken-c broken-lint "assert 1 == 2" broken-bats; do
		[[ ${output} == *"${words}"* ]]
	done
}

@test "long tests are those of --long alone" {
	printf '# bats test_tags=long\n@test "slow" { true; }\n' >>"${FAKE}/tests/bats/a.bats"
	printf 'import pytest\n@pytest.mark.long\ndef test_slow(): pass\n' >>"${FAKE}/tests/python/test_a.py"
	run -0 run_fake bats python
	[[ $(last_line) == "2 passed, 0 failed, 0 skipped" ]]
	run -0 run_fake --long bats python guest aarch64
	[[ $(last_line) == "3 passed, 0 failed, 1 skipped" ]]
	[[ ${output} == *"aarch64: all: no aarch64-linux-gnu-gcc"* ]]
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
	answers 1 "exit code 3, though no test failed" -- run_fake c
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
	run -1 run_fake c bats python
	[[ $(last_line) == "0 passed, 3 failed, 0 skipped" ]]
}

@test "a kind of test that there is not is refused" {
	answers 2 "unknown kind of test: arm65" -- run_fake arm65
}
