#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long
# Does a pull request with more page walks fail, and name the line, and one without pass?

load common

setup() {
	need_built tlbcost libexec/valgrind
	need_program valgrind cc git
	cd "${BATS_TEST_TMPDIR}" || return
	export TMPDIR=${PWD}/tmp XDG_CACHE_HOME=${PWD}/cache GITHUB_STEP_SUMMARY=${PWD}/summary
	export TLBCOST_COMMAND='./app "an argument"' TLBCOST_BUILD='cc -g -O1 -o app app.c' TLBCOST_BASE=HEAD
	mkdir -p tmp cache repository/src
	cd repository || return
	# A calibration takes longer than all else.
	dear_walks >"${PWD}/../dear.tsv"
	fake_program tlbcost "case \$1 in
		estimate) exec '${BUILD}/tlbcost' estimate --calibration '${PWD}/../dear.tsv' \"\${@:2}\" ;;
		*) exec '${BUILD}/tlbcost' \"\$@\" ;;
	esac"
	cat >app.c <<-'C'
		#include <stdlib.h>
		#define LOOKUPS 50000
		#define SIZE (64ul << 20)
		static char *table;
		static unsigned long state = 1;
		__attribute__((noinline)) static long look_up(long lookups)
		{
			long sum = 0;
			for (long i = 0; i < lookups; i++) {
				state = state * 6364136223846793005ul + 1442695040888963407ul;
				sum += table[(state >> 16) % SIZE];
			}
			return sum;
		}
		int main(int argc, char **argv)
		{
			table = calloc(SIZE, 1);
			for (unsigned long at = 0; at < SIZE; at += 4096)
				table[at] = (char)argc;
			return look_up(LOOKUPS) == 42 || argc != 2 || argv[1][2] != ' ';
		}
	C
	git init -q
	git add app.c
	git -c user.name=a -c user.email=a@b -c commit.gpgsign=false commit -qm first
}

teardown() {
	[[ $(ls -A "${TMPDIR}") == "" && $(git worktree list | wc -l) == 1 ]]
}

@test "the same program has the same walks" {
	run -0 --separate-stderr "${TREE}/scripts/pull-request"
	[[ ${output} == "" ]]
	grep -q 'before, .* now (0 %)' "${GITHUB_STEP_SUMMARY}"
	grep -q '^WORTH TRYING\|^NOT WORTH IT\|^NOT PROVEN' "${GITHUB_STEP_SUMMARY}"
}

@test "more walks are named with their line, and fail beyond what is allowed" {
	sed -i 's/50000/53000/' app.c
	run -3 --separate-stderr "${TREE}/scripts/pull-request"
	[[ ${output} == "::warning file=app.c,line=1"[01]"::look_up: "*" more page walks than before ("*" %25)" ]]
	TLBCOST_MOST=9% run -0 --separate-stderr "${TREE}/scripts/pull-request"
	TLBCOST_MOST=9% TLBCOST_FAIL_IF='bound>0%' run -3 --separate-stderr "${TREE}/scripts/pull-request"
}

@test "a program that does not build, and a commit that there is not" {
	TLBCOST_BUILD='exit 7' run -7 "${TREE}/scripts/pull-request"
	TLBCOST_BUILD="[[ ! -e .git/HEAD ]] || exit 8; ${TLBCOST_BUILD}" run -8 "${TREE}/scripts/pull-request"
	TLBCOST_BASE=0123456 run -128 "${TREE}/scripts/pull-request"
	[[ ${output} == *0123456* ]]
}

@test "GitLab runs the job that the documentation has" {
	local job
	# shellcheck disable=SC2016  # sed's address
	job=$("${BUILD}/venv/bin/python" -c '
import sys, yaml
job = yaml.safe_load(sys.stdin)["walks"]
assert job["variables"]["GIT_DEPTH"] == "0"
assert "TLBCOST_BUILD" in job["variables"] and "TLBCOST_COMMAND" in job["variables"]
print(job["before_script"][0], *job["script"], sep="\n")' \
		< <(sed -n '/^walks:$/,/^```$/{/^```/!p}' "${TREE}/doc/commands.md"))
	fake_program git "case \$1 in
		clone) ln -s '${TREE}' tlbcost ;;
		*) exec $(type -P git) \"\$@\" ;;
	esac"
	# The tree is built.
	fake_program make ':'
	sed -i 's/50000/53000/' app.c
	export CI_MERGE_REQUEST_DIFF_BASE_SHA=HEAD
	unset GITHUB_STEP_SUMMARY TLBCOST_BASE
	run -3 --separate-stderr bash -ec "${job}"
	[[ ${output} == *"file=app.c,line="*"look_up: "*"### Page walks"* ]]
}
