#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Which windows does the simulator time, and what does it say of them?

load common

PERIOD=20000 WARM=4000 MEASURED=1000 MOST=64
CORE=width=4,reorder-buffer=256,walkers=2

setup() {
	need_built libexec/valgrind workloads/cold
	# The distribution's command is a script around it.
	need_program valgrind.bin
	COUNTS=${BATS_TEST_TMPDIR}/counts
	# shellcheck disable=SC2034,SC2054  # for simulate
	TOOL=(--base-page=4096 --huge-page=2097152 --l1d=96:6,32:4 --l1i=256:8,32:8
		--stlb=2048:16,2048:16 --log-file=log.%p)
	WINDOWS=--windows=${PERIOD}:${WARM}:${MEASURED}:${MOST}
	cd "${BATS_TEST_TMPDIR}" || return
}

# The one table of windows.
table() {
	local files=("${COUNTS}"/windows.*.tsv)
	((${#files[@]} == 1))
	printf '%s\n' "${files[0]}"
}

# A header key of a table.
key() { # <file> <key>
	sed -n "s/^# $2: //p" "$1"
}

# Sum of a column of the one table.
total() { # <column>
	awk -F '\t' -v column="$1" '
		/^#/ { next }
		!n { for (i = 1; i <= NF; i++) if ($i == column) n = i; next }
		{ sum += $n }
		END { printf "%d\n", sum }' "$(table)"
}

# Does a table keep to its format, with rows in order and within their run?
whole() { # <file>
	awk -F '\t' -v most="${MOST}" '
		function fail(why) { print FILENAME ": line " FNR ": " why; bad = 1; exit }
		FNR == 1 && $0 != "# tlbcost windows 1" { fail("not a table of windows") }
		/^# [a-z]*: / {
			split($0, part, ": ")
			header[substr(part[1], 3)] = part[2]
			next
		}
		/^#/ { next }
		/^thread/ {
			if ($0 != "thread\tstart\treferences\tbase_cycles\thuge_cycles")
				fail("columns")
			titled = 1
			next
		}
		{
			rows++
			if (NF != 5 || !titled) fail("not a row")
			for (i = 1; i <= 5; i++) if ($i !~ /^[0-9]+$/) fail("not a number: " $i)
			if ($1 < 1 || $3 < 1) fail("nothing")
			# Blocks are not cut in two.
			if ($3 > header["window"] + 1000) fail("longer than a window")
			if ($2 < last) fail("windows overlap")
			last = $2 + $3
			if (last > header["references"]) fail("beyond the run")
		}
		END {
			if (bad) exit 1
			split("pid program state references period window core end", keys, " ")
			for (k in keys) if (!(keys[k] in header)) fail("no " keys[k])
			if (header["end"] != rows + 0) fail(rows " rows")
			if (rows + 0 >= most) fail("too many windows")
			exit bad
		}' "$1"
}

@test "a table of windows: header and rows" {
	local file pid
	simulate "${WINDOWS}" --core="${CORE}" -- "${BUILD}/workloads/random-read" \
		--size 16M --count 20000
	file=$(table)
	whole "${file}"
	pid=${file#*/windows.}
	pid=${pid%%.*}
	# It accompanies the counts of the same image.
	[[ -e ${COUNTS}/counts.${pid}.0.tsv ]]
	[[ ${file} == */windows.${pid}.0.tsv ]]
	[[ $(key "${file}" pid) == "${pid}" ]]
	[[ $(key "${file}" program) == "${BUILD}/workloads/random-read" ]]
	[[ $(key "${file}" state) == exited ]]
	[[ $(key "${file}" window) == "${MEASURED}" ]]
	[[ $(key "${file}" core) == "${CORE}" ]]
	(($(key "${file}" references) > 20000))
	(($(key "${file}" end) > 0))
	# All were of the one thread, and took time.
	awk -F '\t' '/^[0-9]/ && ($1 != 1 || !$4 || !$5) { exit 1 }' "${file}"
}

# Run a program with windows and without: not one count may differ.
same_without_windows() { # <program> [<argument>...]
	simulate -- "$@" </dev/null >output.without
	anonymous_counts >without
	simulate "${WINDOWS}" --core="${CORE}" -- "$@" </dev/null >output.with
	anonymous_counts >with
	diff -u without with
	cmp output.without output.with
	# Empty files would be equal too.
	grep -q '^4096' with
	(($(awk '/^# end: / { sum += $3 } END { print sum }' "${COUNTS}"/windows.*) > 0))
}

@test "windows change no count: threads" {
	# How threads interleave is up to the scheduler; with one word each it hardly matters.
	same_without_windows "${BUILD}/workloads/threads" --size 16 --count 50000
}

@test "windows change no count: sort, and a program of many processes" {
	need_program sort
	seq 5000 >numbers
	same_without_windows sort -rn --parallel=1 numbers
	same_without_windows sh -c "sort --parallel=1 -o sorted numbers; tail -1 sorted; (exit 3); echo \$?"
}

@test "windows of nothing but windows: one after the other, and no warming" {
	local file
	simulate --windows=1000:0:1000:64 --core="${CORE}" -- \
		"${BUILD}/workloads/random-read" --size 1M --count 10000
	file=$(table)
	awk -F '\t' -v most=64 '/^[0-9]/ { n++ } END { exit n >= most || n < 10 }' "${file}"
}

@test "fork and exec leave a whole table for each process image" {
	local file
	simulate "${WINDOWS}" --core="${CORE}" -- sh -c "cat ${TREE@Q}/VERSION | cat" >/dev/null
	for file in "${COUNTS}"/windows.*.tsv; do
		whole "${file}"
		[[ -e ${file/windows./counts.} ]]
		[[ $(key "${file}" program) == "$(key "${file/windows./counts.}" program)" ]]
		[[ $(key "${file}" state) == "$(key "${file/windows./counts.}" state)" ]]
	done
	# sh, and two children that were copies of it before they became cat.
	[[ $(cat "${COUNTS}"/windows.* | grep -c '^# tlbcost windows 1$') == 5 ]]
	[[ $(cat "${COUNTS}"/windows.* | grep -c '^# state: exec$') == 2 ]]
}

@test "a child's references are counted from its own start" {
	local file references least=0 most=0
	simulate "${WINDOWS}" --core="${CORE}" -- sh -c \
		"(exit 3); i=0; while [ \$i -lt 3000 ]; do i=\$((i + 1)); done"
	for file in "${COUNTS}"/windows.*.tsv; do
		whole "${file}"
		references=$(key "${file}" references)
		if ((!least || references < least)); then least=${references}; fi
		if ((references > most)); then most=${references}; fi
	done
	# What the shell did before it forked is not the child's.
	((least * 5 < most))
}

@test "threads have windows of their own" {
	local file
	simulate "${WINDOWS}" --core="${CORE}" -- "${BUILD}/workloads/threads" \
		--size 1M --count 200000
	file=$(table)
	whole "${file}"
	# The one that starts them, and the two that work.
	(($(awk -F '\t' '/^[0-9]/ { print $1 }' "${file}" | sort -u | wc -l) >= 2))
}

@test "threads that wait for each other cut windows short, and have no more of them" {
	cat >turns.c <<-'END'
		#include <pthread.h>
		#include <unistd.h>
		static int pipes[2][2];
		static volatile char memory[4096];
		static void *take_turns(void *other)
		{
			char c;
			for (int i = 0; i < 1000; i++) {
				if (read(pipes[other != NULL][0], &c, 1) != 1)
					_exit(1);
				for (int j = 0; j < 1000; j++)
					memory[j]++;
				if (write(pipes[!other][1], &c, 1) != 1)
					_exit(1);
			}
			return NULL;
		}
		int main(void)
		{
			pthread_t other;
			if (pipe(pipes[0]) || pipe(pipes[1]) || write(pipes[0][1], "x", 1) != 1 ||
			    pthread_create(&other, NULL, take_turns, &other))
				return 1;
			take_turns(NULL);
			return pthread_join(other, NULL);
		}
	END
	gcc -O1 -o turns turns.c -lpthread
	for MOST in 64 2; do
		simulate --windows="20000:100:10000:${MOST}" --core="${CORE}" -- ./turns
		whole "$(table)"
		[[ $(key "$(table)" state) == exited ]]
	done
	simulate --windows=20000:100:10000:64 --core="${CORE}" -- ./turns
	(($(key "$(table)" end) > 10))
	[[ $(awk -F '\t' '/^[0-9]/ { print $1 }' "$(table)" | sort -u | xargs) == "1 2" ]]
}

@test "a program without a window leaves a table without rows" {
	local file
	simulate --windows=1000000000000:1000:1000:64 --core="${CORE}" -- \
		"${BUILD}/workloads/loop" --count 1000
	file=$(table)
	whole "${file}"
	[[ $(key "${file}" end) == 0 ]]
	run -1 grep '^[0-9]' "${file}"
	(($(key "${file}" references) > 0))
}

@test "a program killed from outside leaves no table of windows as if it had ended" {
	kill_simulated windows "${WINDOWS}" --core="${CORE}"
	run -1 grep '^[0-9]' "${table}"
}

# Do both page sizes' cycles differ by less than two hundredths?
about_equal() {
	local base huge
	base=$(total base_cycles)
	huge=$(total huge_cycles)
	((base > 0 && base * 102 >= huge * 100 && huge * 102 >= base * 100)) || {
		printf '%d and %d are not about equal\n' "${base}" "${huge}"
		return 1
	}
}

@test "huge pages save cycles where walks are many, and none where there are none" {
	simulate "${WINDOWS}" --core="${CORE}" -- "${BUILD}/workloads/chase" \
		--size 64M --count 300000
	(($(total huge_cycles) < $(total base_cycles)))
	run -1 about_equal
	# Pages that are few.
	simulate "${WINDOWS}" --core="${CORE}" -- "${BUILD}/workloads/cyclic" --pages 40 --rounds 10000
	about_equal
}

@test "the core that is given is the one that is timed" {
	local core cycles=()
	for core in width=4 width=4,memory-cycles=1000 width=4,walkers=1,walk-cycles=500; do
		simulate "${WINDOWS}" --core="${core},l3-bytes=1048576" -- \
			"${BUILD}/workloads/random-read" --size 32M --count 100000
		[[ $(key "$(table)" core) == "${core},l3-bytes=1048576" ]]
		cycles+=("$(total base_cycles)")
	done
	((cycles[1] > cycles[0]))
	((cycles[2] > cycles[0]))
}

# Is an option of the tool refused, with its name, before the program runs?
refused() { # <option>
	run -1 --separate-stderr simulate "$1" --log-fd=2 -- echo ran
	[[ -z ${output} ]]
	[[ ${stderr} == *"$1"* ]] || {
		printf '%s: %s\n' "$1" "${stderr}"
		return 1
	}
}

@test "--windows that cannot be are refused" {
	local value
	for value in "" 1 1000 1000:10 1000:10:10 1000:10:10: a:b:c:d 1000:10:10:64x \
		1000:10:0:64 1000:10:10:1 1000:10:10:65537 1000:500:501:64 0:0:0:64 \
		1000:10:10:64:1 -1000:10:10:64 1000:-10:10:64; do
		refused "--windows=${value}"
	done
	simulate --windows=1001:500:501:2 -- true
	simulate --windows=1001:0:1:65536 -- true
}

@test "a --core that cannot be is refused" {
	local value
	for value in 4 width width= width=x width=0 width=17 width=4x nonsense=1 Width=4 \
		reorder-buffer=1025 store-buffer=257 l1-ways=7 l2-bytes=100000 pairs=2 walkers=0 walkers=65 \
		directories=2049 width=4,,reorder-buffer=8 width=4:reorder-buffer=8 width=-4 \
		fill-buffers=0 host-shift=99 width=99999999999999999999; do
		refused "--core=${value}"
	done
	simulate --core=width=1,reorder-buffer=1,store-buffer=1,walkers=1,fill-buffers=1,directories=0 -- true
	# Sizes are looked at together: either alone could not be.
	simulate --core=l1-bytes=49152,l1-ways=12 -- true
	simulate --core=l1-ways=6,l1-bytes=24576 -- true
}
