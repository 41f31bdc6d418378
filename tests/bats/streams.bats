#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long
# Does translated code make the program's references?  Of two copies of one stop one is
# single-stepped, and the other followed: the same, one by one.

load common

INSTRUCTIONS=20000

setup() {
	need_built libexec/tlbcost-injector tests/copies/compare
	cd "${BATS_TEST_TMPDIR}" || return 1
}

# A program that runs for seconds.
same() { # <program> [argument]...
	run -0 timeout 100 "${BUILD}/tests/copies/compare" "${BUILD}/libexec/tlbcost-injector" 3 \
		"${INSTRUCTIONS}" -- "$@"
	echo "${output}"
	[[ ${output} != *DIFFERENT* ]]
	[[ ${lines[-1]} == *" compared, 0 different" ]]
}

@test "gzip" {
	yes "some words to compress" | head -c 100000000 >text
	same gzip -9 -c text
}

@test "xz" {
	yes "some words to compress" | head -c 100000000 >text
	same xz -c -T1 text
}

@test "python3" {
	same python3 -c 'd = {}
for i in range(10**8):
    d[str(i * 7919 % 100003)] = d.get(str(i), 0) + 1'
}

@test "sqlite3" {
	same sqlite3 :memory: 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
		WHERE i < 50000000) SELECT count(*), sum(i * i % 7), max(i || "x") FROM n'
}

@test "vector code: what the compiler makes of loops for this processor, gathers and masks" {
	cat >loops.c <<-'EOF'
		#include <stdint.h>
		static float a[1 << 20], b[1 << 20];
		static uint32_t at[1 << 20];
		int main(void)
		{
			for (uint32_t i = 0; i < 1 << 20; i++)
				at[i] = i * 2654435761u >> 12;
			for (unsigned turn = 0; turn < 20000; turn++) {
				for (uint32_t i = 0; i < 1 << 20; i++)
					a[i] += b[at[i]];
				for (uint32_t i = 0; i < 1 << 20; i++)
					if (a[i] > (float)turn)
						b[i] = a[i] * 0.5f;
			}
			return (int)a[5];
		}
	EOF
	gcc -O3 -march=native -ffast-math -o loops loops.c
	same ./loops
}

@test "java" {
	need_program java javac
	cat >Loop.java <<-'EOF'
		public class Loop {
			public static void main(String[] words) {
				java.util.HashMap<Integer, String> map = new java.util.HashMap<>();
				for (int i = 0; i < 2000000000; i++)
					map.put(i * 7919 % 100003, "x" + i);
			}
		}
	EOF
	javac Loop.java
	same java -Xmx300m Loop
}

@test "node" {
	need_program node
	same node -e 'let m = new Map(); for (let i = 0; i < 1e9; i++) m.set(i * 7919 % 100003, {a: i})'
}
