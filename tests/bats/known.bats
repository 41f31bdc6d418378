#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Does the real simulator count what is known beforehand?

load common

L1=96 STLB=2048
HUGE=2097152

setup() {
	need_built libexec/valgrind workloads/cold
	# The distribution's command is a script around it.
	need_program valgrind.bin
	COUNTS=${BATS_TEST_TMPDIR}/counts
	# shellcheck disable=SC2034,SC2054  # for simulate
	TOOL=(--base-page=4096 --huge-page="${HUGE}" --l1d="${L1}:6,32:4" --l1i=256:8,32:8
		--stlb="${STLB}:16,2048:16" --log-file=/dev/null)
	cd "${BATS_TEST_TMPDIR}" || return
}

# Sum of a column over all processes, for one page size and the given accesses.
total() { # <column> <page size> <access>...
	local file access sum=0
	for file in "${COUNTS}"/*.tsv; do
		for access in "${@:3}"; do
			((sum += $(cell "${file}" "$1" "$2" "${access}")))
		done
	done
	printf '%d\n' "${sum}"
}

# Walks for data on one page size.
walks() { # <page size>
	total stlb_misses "$1" load store
}

# A header key of each counts file, one a line.
keys() { # <key>
	sed -n "s/^# $1: //p" "${COUNTS}"/*.tsv
}

# What a workload's further work adds to a count: the start of every program is
# the same, so the difference is the workload's alone.
difference() { # <function of the count> <argument>... -- <workload> <less> -- <more>
	local measure=() less=() more=() program
	while [[ $1 != -- ]]; do measure+=("$1") && shift; done
	shift
	program=${BUILD}/workloads/$1
	shift
	while [[ $1 != -- ]]; do less+=("$1") && shift; done
	shift
	more=("$@")
	local before after
	simulate -- "${program}" "${less[@]}" >/dev/null
	before=$("${measure[@]}")
	simulate -- "${program}" "${more[@]}" >/dev/null
	after=$("${measure[@]}")
	printf '%d\n' "$((after - before))"
}

# Is a count within a share of what is expected?
near() { # <count> <expected> <per mille>
	(($1 * 1000 >= $2 * (1000 - $3) && $1 * 1000 <= $2 * (1000 + $3))) || {
		printf '%d is not within %d per mille of %d\n' "$1" "$3" "$2"
		return 1
	}
}

@test "23 more pages, 23 more walks on 4 KiB, whatever there was before" {
	local pages
	for pages in 1 100 3000; do
		run -0 difference walks 4096 -- cold --pages "${pages}" -- --pages $((pages + 23))
		[[ ${output} == 23 ]]
	done
}

@test "2 MiB pages: one cold miss for each 2 MiB begun" {
	# 512 base pages are one huge page: 1 to 512 pages lie in the first, 513 in two.
	run -0 difference walks "${HUGE}" -- cold --pages 1 -- --pages 512
	[[ ${output} == 0 ]]
	run -0 difference walks "${HUGE}" -- cold --pages 512 -- --pages 513
	[[ ${output} == 1 ]]
	run -0 difference walks "${HUGE}" -- cold --pages 1 -- --pages $((512 * 23 + 1))
	[[ ${output} == 23 ]]
}

@test "touched pages are counted once, however often they are touched" {
	run -0 difference keys touched_anonymous_pages -- cyclic --pages 100 --rounds 1 -- \
		--pages 123 --rounds 50
	[[ ${output} == 23 ]]
	run -0 difference keys touched_anonymous_huge_pages -- cold --pages 1 -- \
		--pages $((512 * 23 + 1))
	[[ ${output} == 23 ]]
}

@test "a random chase misses a level of E entries with ratio 1 - E/N" {
	local pages steps=400000
	for pages in $((STLB / 2)) $((2 * STLB)) $((4 * STLB)); do
		run -0 difference walks 4096 -- chase --size $((pages * 4096)) --count 100000 -- \
			--size $((pages * 4096)) --count $((100000 + steps))
		if ((pages <= STLB)); then
			((output <= steps / 1000))
		else
			near "${output}" $((steps * (pages - STLB) / pages)) 20
		fi
		# The ring fits in the 2 MiB model's first level, where nothing is missed.
		((pages * 4096 > 32 * HUGE)) || (($(walks "${HUGE}") < 100))
	done
	# The first level, while the second holds everything.
	pages=384
	run -0 difference total l1_tlb_misses 4096 load store -- chase --size $((pages * 4096)) \
		--count 100000 -- --size $((pages * 4096)) --count $((100000 + steps))
	near "${output}" $((steps * (pages - L1) / pages)) 20
}

@test "arithmetic in registers adds nothing" {
	run -0 difference total l1_tlb_misses 4096 load store fetch -- loop --count 1000 -- \
		--count 1000000
	[[ ${output} == 0 ]]
}

# Run a program with the filter and without: not one count may differ.
same_without_filter() { # <program> [<argument>...]
	simulate -- "$@" </dev/null >output.filtered
	anonymous_counts >filtered
	simulate --filter=no -- "$@" </dev/null >output.unfiltered
	anonymous_counts >unfiltered
	diff -u filtered unfiltered
	cmp output.filtered output.unfiltered
	# An empty file would be equal too.
	grep -q '^4096' filtered
}

@test "the filter changes no count: geometries that are no powers of two, and tiny ones" {
	local geometry
	for geometry in "12:3,4:4 96:6,1536:12" "1:1,1:1 1:1,1:1" "64:64,32:32 1536:12,1024:8"; do
		L1_AND_STLB=${geometry}
		simulate_geometry "${L1_AND_STLB% *}" "${L1_AND_STLB#* }" -- >filtered
		simulate_geometry "${L1_AND_STLB% *}" "${L1_AND_STLB#* }" --filter=no -- >unfiltered
		diff -u filtered unfiltered
		grep -q '^4096' filtered
	done
}

simulate_geometry() { # <l1d> <stlb> [<option>...] --
	simulate --l1d="$1" --stlb="$2" "${@:3}" \
		"${BUILD}/workloads/random-update" --size 4M --count 20000 >/dev/null
	anonymous_counts
}

# bats test_tags=long
@test "the filter changes no count: gzip, sort, python3" {
	need_program gzip sort python3
	local python
	# The program itself: the python3 of PATH may be a script around it.
	python=$(python3 -c 'import sys; print(sys.executable)')
	seq 20000 >numbers
	same_without_filter gzip -6 -c numbers
	same_without_filter sort -rn --parallel=1 numbers
	# Random hashes would change python's references from run to run.
	same_without_filter env PYTHONHASHSEED=0 "${python}" -S -c \
		'd = {str(i): i for i in range(5000)}; print(sum(d.values()))'
}

@test "the filter changes no count: references across pages, and conditional ones" {
	grep -qw avx2 /proc/cpuinfo || skip "this processor has no AVX2"
	cat >gather.c <<-'END'
		#include <immintrin.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>
		int main(void)
		{
			enum { N = 1 << 18 };
			int *from = calloc(N, sizeof(int)), *to = calloc(N, sizeof(int));
			unsigned x = 1;
			long sum = 0;
			for (int i = 0; i < N; i++)
				from[i] = i;
			for (int i = 0; i + 16 <= N; i += 8) {
				__m256i at = _mm256_setr_epi32(x & 0x3ffff, 5, 9999, 31, 77777, 1234, 4321, 99);
				__m256i mask = _mm256_cmpgt_epi32(at, _mm256_set1_epi32(1000));
				x = x * 1664525 + 1013904223;
				at = _mm256_mask_i32gather_epi32(_mm256_setzero_si256(), from, at, mask, 4);
				_mm256_maskstore_epi32(to + i, mask, at);
				/* every 1024th of these lies in two pages */
				memcpy((char *)(to + i) + 2, &x, sizeof(x));
			}
			for (int i = 0; i < N; i++)
				sum += to[i];
			printf("%ld\n", sum);
			return 0;
		}
	END
	gcc -O2 -mavx2 -o gather gather.c
	same_without_filter ./gather
}

@test "the filter changes no count: threads" {
	# How threads interleave is up to the scheduler; with one word each it hardly matters.
	same_without_filter "${BUILD}/workloads/threads" --size 16 --count 1000
}

@test "the program's own output and exit code come through" {
	run -7 simulate -- sh -c 'echo out; exit 7'
	[[ ${output} == out ]]
}

@test "two threads: both halves' walks are counted" {
	# Each half is 16 MiB, 4096 pages: half of the random updates miss 2048 entries.
	local walks
	walks=$(difference walks 4096 -- threads --size 32M --count 1000 -- \
		--size 32M --count 201000)
	near "${walks}" 200000 50
	[[ $(keys threads) == 2 ]]
}

@test "fork and exec are followed: one file for each process image" {
	run -0 simulate -- sh -c "cat ${TREE@Q}/VERSION | cat"
	[[ ${output} == $(<"${TREE}/VERSION") ]]
	# sh, and two children that were copies of it before they became cat.
	[[ $(keys program | grep -c '/cat$') == 2 ]]
	[[ $(keys program | grep -c 'sh$') == 3 ]]
	[[ $(keys state | sort | uniq -c | tr -s ' \n' ' ') == " 2 exec 3 exited " ]]
	# Both cats are children of the shell's process.
	local shell
	shell=$(keys parent_pid | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')
	[[ -e $(find "${COUNTS}" -name "counts.${shell}.*" -print -quit) ]]
}

@test "a child that did not exec is counted as a process of its own" {
	run -0 simulate -- sh -c '(exit 3); echo $?'
	[[ ${output} == 3 ]]
	[[ $(keys state | sort | uniq -c | tr -s ' \n' ' ') == " 2 exited " ]]
}

@test "a program killed from outside leaves evidence of itself, and no counts" {
	kill_simulated counts
	run -1 grep '^4096' "${table}"
}

@test "a program that dies of a signal has its counts" {
	local signal
	for signal in TERM SEGV ABRT; do
		run -$((128 + $(kill -l "${signal}"))) simulate -- sh -c "kill -${signal} \$\$"
		[[ $(keys state) != running ]]
		grep -q '^4096' counts/*.tsv
	done
}
