# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the interpreter and the garbage collector get it right? Checked against plain Python."""

from __future__ import annotations

from itertools import accumulate

from builders.workloads import below, checksum_of, hashed, random_numbers


def test_mark_sweep_loses_nothing_that_is_needed() -> None:
    numbers = random_numbers(1)
    pick = below(numbers)

    def tree(objects: int) -> int:
        """What reading it sums up to."""
        random = next(numbers)
        total = 2 * (random & 0xFFFF) + 2
        objects -= 1
        for i in range(3):
            part = objects // (3 - i)
            if part:
                total += (i + 1) * tree(part)
            elif i == 0:
                total += 2 * ((random >> 32) * 50 >> 32) + 2
            objects -= part
        return total

    documents = [tree(1 + pick(20)) for _ in range(100)]
    sums = []
    for _ in range(2000):
        which = pick(100)
        sums.append(documents[which])
        documents[which] = tree(1 + pick(20))
    same = {"documents": 100, "words": 50, "most": 20, "count": 2000}
    for objects in (2100, 3001, 100000):
        assert checksum_of("mark-sweep", objects=objects, **same) == hashed(sums)


def test_interpreter_counts_prime_factors() -> None:
    factors = [0, 0]
    for n in range(2, 2001):
        least = next(d for d in range(2, n + 1) if n % d == 0)
        factors.append(factors[n // least] + 1)
    for last, total in enumerate(accumulate(factors)):
        if last % 97 == 1:
            assert checksum_of("interpreter", last=last) == total
