#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Is what cannot be copied left alone, with the reason?

load common

setup() {
	TORTURE=${BUILD}/tests/torture
	need_built tests/torture/copy libexec/tlbcost-injector
	STATISTICS=${BATS_TEST_TMPDIR}/statistics
	READY=${BATS_TEST_TMPDIR}/ready
	program="" pool=""
}

teardown() {
	[[ -z ${program} ]] || kill -KILL "${program}" 2>/dev/null || true
	[[ -z ${pool} ]] || printf '%s\n' "${pool}" >/proc/sys/vm/nr_hugepages
}

statistic() { # <name>
	awk -F '\t' -v name="$1" '$1 == name { print $2 }' "${STATISTICS}"
}

# Start a program that has a reason not to be copied; skips if it cannot have it here.
start() { # <reason>
	TORTURE_SECONDS=${SECONDS_LONG-2} timeout -k 5 60 "${TORTURE}/refuses" "$1" "${READY}" \
		>"${BATS_TEST_TMPDIR}/output" 3>&- &
	started=$!
	wait_until test -e "${READY}" -o -s "${BATS_TEST_TMPDIR}/output"
	[[ -e ${READY} ]] || skip "this machine has no $1: $(cat "${BATS_TEST_TMPDIR}/output")"
	program=$(pgrep -o -P "${started}")
}

# No copy was made, for this reason, and the program did not notice.
refused() { # <reason> [<command>...]
	local reason=$1
	shift
	run -0 timeout -k 5 30 "$@" "${TORTURE}/copy" --copies 5 --limit-ms 500 --statistics "${STATISTICS}" --attach "${program}"
	cat "${STATISTICS}"
	(($(statistic injected) == 0))
	(($(statistic "${reason}") > 0))
	ended_with 11 "${started}"
	[[ $(<"${BATS_TEST_TMPDIR}/output") == unharmed ]]
}

@test "what has no reason is copied" {
	SECONDS_LONG=60 start none
	run -0 timeout -k 5 30 "${TORTURE}/copy" --copies 5 --statistics "${STATISTICS}" --attach "${program}"
	(($(statistic injected) == 5))
	(($(statistic unreaped) == 0))
}

@test "a seccomp filter" {
	start seccomp
	refused seccomp
}

# bats test_tags=settings
@test "hugetlb pages" {
	need_root
	[[ -w /proc/sys/vm/nr_hugepages ]] || skip "needs a pool of huge pages"
	pool=$(</proc/sys/vm/nr_hugepages)
	printf '%d\n' "$((pool + 2))" >/proc/sys/vm/nr_hugepages
	start hugetlb
	refused hugetlb
}

@test "a debugger" {
	start traced
	refused traced
}

@test "a stopped program" {
	start none
	kill -STOP "${program}"
	wait_until is_stopped "${program}"
	run -0 timeout -k 5 30 "${TORTURE}/copy" --copies 5 --limit-ms 300 --statistics "${STATISTICS}" --attach "${program}"
	(($(statistic injected) == 0))
	(($(statistic stopped) > 0))
	# It stays so.
	is_stopped "${program}"
	kill -CONT "${program}"
}

@test "a program of 32 bits" {
	gcc -m32 -nostdlib -static -o "${BATS_TEST_TMPDIR}/narrow" "${TREE}/tests/torture/narrow.S" ||
		skip "the compiler makes no programs of 32 bits"
	run timeout -k 5 30 "${TORTURE}/copy" --copies 5 --limit-ms 300 --statistics "${STATISTICS}" -- \
		"${BATS_TEST_TMPDIR}/narrow"
	[[ ${status} != 12[67] ]] || skip "this kernel runs no programs of 32 bits"
	((status == 11))
	(($(statistic injected) == 0))
	(($(statistic 32-bit) > 0))
}

# User 65534 needs to reach the programs.
as_other() {
	need_root
	need_program setpriv
	local folder
	folder=$(mktemp -d /tmp/torture-XXXXXX)
	mkdir -p "${folder}/tests/torture" "${folder}/libexec"
	cp "${TORTURE}"/{copy,refuses} "${folder}/tests/torture/"
	cp "${BUILD}/libexec/tlbcost-injector" "${folder}/libexec/"
	chmod -R a+rX "${folder}"
	TORTURE=${folder}/tests/torture
	STATISTICS=${folder}/out/statistics
	install -d -m 777 "${folder}/out"
	OTHER=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	FOLDER=${folder}
}

@test "somebody else's program" {
	as_other
	start none
	refused permission "${OTHER[@]}"
	rm -rf "${FOLDER}"
}

@test "an ordinary user's program that hides, and one that does not" {
	as_other
	for reason in undumpable none; do
		run timeout -k 5 30 env TORTURE_SECONDS=3 "${OTHER[@]}" "${TORTURE}/copy" --copies 5 --gap-us 50000 --limit-ms 2500 \
			--statistics "${STATISTICS}" -- "${TORTURE}/refuses" "${reason}" "${FOLDER}/out/ready"
		((status == 11))
		[[ ${output} == unharmed ]]
		cat "${STATISTICS}"
		if [[ ${reason} == none ]]; then
			(($(statistic injected) > 0))
		else
			(($(statistic permission) > 0))
		fi
	done
	rm -rf "${FOLDER}"
}

@test "no more processes are allowed" {
	as_other
	need_program prlimit
	# Room for the tools and the program, not for a copy: a user of its own.
	OTHER=(setpriv --reuid=65432 --regid=65432 --clear-groups)
	run timeout -k 5 30 env TORTURE_SECONDS=1 "${OTHER[@]}" prlimit --nproc=3 "${TORTURE}/copy" --copies 5 --limit-ms 500 \
		--statistics "${STATISTICS}" -- "${TORTURE}/refuses" none
	cat "${STATISTICS}"
	((status == 11))
	[[ ${output} == unharmed ]]
	(($(statistic injected) == 0))
	(($(statistic clone) > 0))
	[[ $(statistic error) == EAGAIN ]]
	rm -rf "${FOLDER}"
}
