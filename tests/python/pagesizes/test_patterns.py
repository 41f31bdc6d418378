# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the access patterns read what the article says?"""

from __future__ import annotations

import ctypes.util
import subprocess
from collections import Counter

import pytest
from builders.page_times import pattern
from tlbcost.common import paths
from tlbcost.pagesizes.patterns import GIB, PATTERNS
from tlbcost.pagesizes.runs import read_run

PROGRAM = paths.workloads() / "page-patterns"
RAND_MAX = (1 << 31) - 1


def glibc_random(n: int) -> list[int]:
    """The first numbers of random() as POSIX programs get them that never seed it."""
    state = [1]
    for _ in range(30):
        high, low = divmod(state[-1], 127773)
        word = 16807 * low - 2836 * high
        state.append(word if word >= 0 else word + RAND_MAX)
    state += state[:3]
    words = [*state[:31], *state[:3]]
    for i in range(34, 344 + n):
        words.append((words[i - 31] + words[i - 3]) & 0xFFFFFFFF)
    return [word >> 1 for word in words[344:]]


def article_places(number: int, gib: int, draws: int) -> list[int]:
    """As the article's program computes them: integers but for the first pattern."""
    sizes = {7: 4 * GIB, 8: 4 * GIB, 9: 64 << 20, 10: 64 << 20}
    offsets = [0, 0, 4096, 1 << 21, 4096 + (1 << 21), 4096 + (1 << 21) + 64, 64, 4160, 64, 4160]
    size = sizes.get(number, gib << 30)
    chunks = 512 if number == 1 else gib if number < 7 else 4096
    places = []
    for drawn in glibc_random(draws):
        x = int(float(chunks) * drawn / RAND_MAX) if number == 1 else chunks * drawn // RAND_MAX
        places.append((x * (size // chunks) + (x * offsets[number - 1]) % GIB) % size)
    return places


def program(number: int, *options: str) -> list[str]:
    if not PROGRAM.exists():
        pytest.skip("needs build/workloads/page-patterns (make)")
    command = [str(PROGRAM), "--pattern", str(number), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("number", range(1, 11))
def test_the_program_reads_the_places_of_the_article(number: int) -> None:
    if ctypes.util.find_library("c") != "libc.so.6":
        pytest.skip("random() of another C library draws other numbers")
    draws = 1000
    places = article_places(number, 24, draws)
    known = program(number, "--count", str(draws), "--table", "1", "--page", "4096")
    seen = read_run(0, "\n".join(known) + "\n").places
    counted = [len({place >> shift for place in places}) for shift in (6, 12, 21, 30)]
    assert [seen.lines, seen.pages_4k, seen.pages_2m, seen.pages_1g] == counted
    # Each byte that is read says where it is.
    values = [(p >> 6 ^ p >> 12 ^ p >> 21 ^ p >> 28) & 0xFF for p in places]
    assert known[-1] == f"checksum {sum(values):016x}"


@pytest.mark.parametrize("number", range(1, 11))
@pytest.mark.parametrize("gib", [5, 16, 24])
def test_the_package_knows_the_places_of_the_program(number: int, gib: int) -> None:
    drawn = set(article_places(number, gib, 20000))
    known = set(pattern(number).places(gib))
    assert drawn <= known
    if number < 7:
        assert drawn == known
    run = Counter(place >> 21 for place in drawn)
    assert len(run) <= pattern(number).pages(2 << 20, gib) <= len(known)


def in_sets(number: int, page: int, sets: int, gib: int = 24) -> Counter[int]:
    pages = {place // page for place in pattern(number).places(gib)}
    return Counter(each % sets for each in pages)


@pytest.mark.parametrize("gib", [5, 8, 16, 24])
def test_what_shares_sets_of_the_articles_tlb_does_at_any_scale(gib: int) -> None:
    """The E5-4617 has 128 sets of 4 KiB pages in the second level, and 8 of 2 MiB pages."""
    # 1: all 4 KiB pages in one set; of 2 MiB pages in so few that nearly none is held.
    assert list(in_sets(1, 4096, 128, gib).values()) == [512]
    assert sum(min(n, 4) for n in in_sets(1, 2 << 20, 8, gib).values()) <= 32
    # 2: one set on either page; 3 spreads 4 KiB pages, 4 those of 2 MiB, 5 both.
    assert len(in_sets(2, 4096, 128, gib)) == len(in_sets(2, 2 << 20, 8, gib)) == 1
    assert len(in_sets(3, 4096, 128, gib)) == gib
    assert len(in_sets(3, 2 << 20, 8, gib)) == 1
    assert len(in_sets(4, 4096, 128, gib)) == 1
    assert len(in_sets(4, 2 << 20, 8, gib)) == min(gib, 8)
    for number in (5, 6):
        assert max(in_sets(number, 4096, 128, gib).values()) == 1
        assert max(in_sets(number, 2 << 20, 8, gib).values()) <= 4
    # More pages of 1 GiB than its four entries.
    for number in range(1, 7):
        assert pattern(number).pages(GIB, gib) == gib > 4


def test_what_fits_the_articles_tlb_on_large_pages() -> None:
    assert [pattern(n).pages(GIB, 24) for n in (7, 8, 9, 10, 11)] == [4, 4, 1, 1, 4]
    assert [pattern(n).pages(2 << 20, 24) for n in (9, 10)] == [32, 32]
    assert pattern(11).pages(4096, 24) == 1 << 20
    # The offset of 64 B leaves 4 KiB pages in few sets; of 4 KiB more spreads them.
    assert len(in_sets(7, 4096, 128)) < len(in_sets(8, 4096, 128)) == 128


def test_patterns_are_numbered_as_they_stand() -> None:
    assert [each.number for each in PATTERNS] == list(range(1, 12))
