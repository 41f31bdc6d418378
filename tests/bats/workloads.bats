#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Do the workloads do the same work each time, and refuse what they cannot do?

load common

setup() {
	need_built workloads/loop
}

all_workloads() {
	local source
	for source in "${TREE}"/workloads/*.c; do
		source=${source##*/}
		printf '%s\n' "${BUILD}/workloads/${source%.c}"
	done
}

# Small enough to take milliseconds.
small() { # <workload>
	case ${1##*/} in
	chase | hash-lookup | random-read | random-update | threads) printf -- '--size 1M --count 1000' ;;
	cold) printf -- '--pages 23' ;;
	column-walk) printf -- '--order 100 --rounds 1' ;;
	cyclic) printf -- '--pages 23 --rounds 7' ;;
	loop) printf -- '--count 1000' ;;
	triad) printf -- '--size 1M --rounds 3' ;;
	*) return 1 ;;
	esac
}

@test "each prints one checksum, the same each time" {
	local workload options first
	for workload in $(all_workloads); do
		options=$(small "${workload}")
		# shellcheck disable=SC2086  # several words
		run -0 "${workload}" ${options}
		[[ ${output} =~ ^checksum\ [0-9a-f]{16}$ ]]
		first=${output}
		# shellcheck disable=SC2086
		run -0 "${workload}" ${options}
		[[ ${output} == "${first}" ]]
	done
}

@test "the checksum depends on the amount of work" {
	run -0 "${BUILD}/workloads/random-update" --size 1M --count 1000
	local first=${output}
	run -0 "${BUILD}/workloads/random-update" --size 1M --count 1001
	[[ ${output} != "${first}" ]]
	run -0 "${BUILD}/workloads/random-update" --size 1M --count 1000 --seed 2
	[[ ${output} != "${first}" ]]
}

@test "the ring of chase visits every line: as many steps as lines end where they began" {
	run -0 "${BUILD}/workloads/chase" --size 64k --count 1024
	[[ ${output} == "checksum 0000000000000000" ]]
	run -0 "${BUILD}/workloads/chase" --size 64k --count 1023
	[[ ${output} != "checksum 0000000000000000" ]]
}

@test "each describes its options, and refuses unknown ones and no numbers" {
	local workload bad
	for workload in $(all_workloads); do
		run -0 "${workload}" --help
		[[ ${output} == *"--"*"("*")"* ]]
		run -2 "${workload}" --frobnicate 1
		[[ ${output} == *"unknown option: --frobnicate"* ]]
	done
	for bad in "" -1 1x 1kk 99999999999999999999 99999999999G 0; do
		run -2 "${BUILD}/workloads/cold" --pages "${bad}"
		[[ ${output} == *"--pages needs a number of at least 1"* ]]
	done
	run -2 "${BUILD}/workloads/cold" --pages
}

@test "memory that is not there: exit 1 and a message" {
	run -1 bash -c "ulimit -v 200000; ${BUILD@Q}/workloads/random-update --size 1G"
	[[ ${output} == "cannot allocate 1073741824 bytes: Cannot allocate memory" ]]
}
