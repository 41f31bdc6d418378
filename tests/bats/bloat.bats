#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# Does memory grow on transparent huge pages by what the estimate says?  Counts of memory, no times.

load common

THP=/sys/kernel/mm/transparent_hugepage

setup() {
	need_built tlbcost libexec/valgrind libexec/tlbcost-run
	need_program cc valgrind
	[[ $(<"${THP}/enabled") == *"[madvise]"* ]] || skip "needs transparent huge pages on request"
	[[ $(getconf PAGE_SIZE) == 4096 ]] || skip "needs base pages of 4 KiB"
	cd "${BATS_TEST_TMPDIR}" || return
	cat >touch.c <<-'C'
		// Touches one byte in each STEP bytes of 128 MiB that it maps, in a scattered order,
		// ROUNDS times; with HUGE in the environment, of huge pages.
		#include <stdio.h>
		#include <stdlib.h>
		#include <sys/mman.h>

		#define LENGTH ((size_t)128 << 20)
		#define ALIGNED ((size_t)2 << 20)

		int main(int argc, char **argv)
		{
			size_t step = (size_t)atol(argv[1]), n = LENGTH / step, at = 0, sum = 0;
			char *all = mmap(NULL, LENGTH + ALIGNED, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			char *memory = (char *)(((size_t)all + ALIGNED - 1) & ~(ALIGNED - 1)), line[256];
			FILE *status;

			if (argc < 3 || all == MAP_FAILED)
				return 1;
			if (getenv("HUGE") && madvise(memory, LENGTH, MADV_HUGEPAGE))
				return 1;
			for (size_t i = 0; i < n * (size_t)atol(argv[2]); i++) {
				at = (at + 7919) % n;
				sum += (size_t)++memory[at * step];
			}
			status = fopen("/proc/self/status", "r");
			while (status && fgets(line, sizeof(line), status))
				if (sscanf(line, "VmHWM: %zu", &at) == 1)
					printf("%zu\n", at << 10);
			return sum == 1;
		}
	C
	cc -std=c11 -D_GNU_SOURCE -O1 -g -o touch touch.c
}

# Predicted and measured growth in bytes: within 10 % of each other, or of the memory without it.
predicted() { # <step> <rounds>
	local plain huge
	estimate_anyhow --engine valgrind --runs 2 --json report.json --output report.txt -- \
		./touch "$1" "$2" >/dev/null
	plain=$(./touch "$1" "$2")
	huge=$(HUGE=1 ./touch "$1" "$2")
	"${BUILD}/venv/bin/python" - "${plain}" "${huge}" <<-'PYTHON'
		import json, sys
		from pathlib import Path
		plain, huge = map(int, sys.argv[1:])
		report = json.loads(Path("report.json").read_text())
		grown = sorted({
		    remedy["cost"]["growth_bytes"]
		    for advice in report["what_to_do"]
		    for remedy in advice["remedies"]
		    if remedy["pages"] == "transparent" and remedy["cost"]["growth_bytes"] is not None
		})
		print(f"RSS {plain} -> {huge}: grew by {huge - plain}; predicted {grown}")
		assert len(grown) == 1, report["what_to_do"]
		assert abs(grown[0] - (huge - plain)) <= 0.1 * max(huge - plain, 0.1 * plain)
	PYTHON
}

@test "a sparse program: one page in each 64 KiB" {
	predicted 65536 2000
}

@test "a sparse program: one page in each 8 KiB" {
	predicted 8192 250
}

@test "a dense program: every page" {
	predicted 4096 120
}
