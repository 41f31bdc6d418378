# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the access patterns read what the article says, and do sizes take turns, or say why not?"""

from __future__ import annotations

import ctypes.util
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from builders.page_times import BASE, GIGANTIC, HUGE, pattern
from builders.tree import fails, put
from tlbcost.common import formats, paths
from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.errors import CANNOT_MEASURE
from tlbcost.common.formats import format_table
from tlbcost.pagesizes.published import GIB
from tlbcost.pagesizes.runner import PageSupply, Runner, Shortage, read_run, supply_of


class Fake:
    """Stands for a launcher: notes what is run, and fails on sizes that it does not have."""

    def __init__(self, lacking: set[int]) -> None:
        self.ran: list[tuple[int, int]] = []
        self.heard: list[tuple[tuple[str, ...], str]] = []
        self.lacking = lacking
        self.most: int | None = None

    def execute(self, argv: Sequence[str], *, discard: bool) -> object:
        assert discard
        if len(self.ran) == self.most:
            raise TimeLimitPassed
        given = dict(zip(argv[1::2], argv[2::2], strict=True))
        number, size = int(given["--pattern"]), int(given["--page"])
        self.ran.append((number, size))
        cells = [number, size, given["--size"], 1, 1, 1, 1, 1, 1, 1, 1, size, size, 1000, 5000, 3.5]
        text = format_table(formats.PATTERN, {}, [cells]) + "checksum 0000000000000000\n"
        self.heard.append((tuple(argv), text))

        class Outcome:
            failed = size in self.lacking
            exit_code = CANNOT_MEASURE if failed else 0
            last_words = "0 of 4096 bytes are on pages\n" if failed else ""

        return Outcome()


@pytest.fixture(autouse=True)
def many_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tlbcost.pagesizes.runner.free_pages", lambda _: 1000)


def runner(lacking: set[int]) -> tuple[Runner, Fake]:
    fake = Fake(lacking)
    return Runner(fake, None, lambda _: None, 1000), fake  # type: ignore[arg-type]


def test_sizes_take_turns_and_begin_with_another_one_each_round() -> None:
    made, fake = runner(set())
    found = made.run([pattern(9)], [BASE, HUGE, GIGANTIC], 3)
    order = [size for _, size in fake.ran]
    assert [set(order[i : i + 3]) for i in (0, 3, 6)] == [{4096, 2 << 20, GIB}] * 3
    assert {order[0], order[3], order[6]} == {4096, 2 << 20, GIB}
    assert [run.time.round for run in found] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert made.gib == 24
    assert not made.shortages


def test_a_size_that_fails_is_not_tried_again_and_says_why() -> None:
    made, fake = runner({2 << 20})
    found = made.run([pattern(9)], [BASE, HUGE], 3)
    assert [run.page_size_bytes for run in found] == [4096] * 3
    assert fake.ran.count((9, 2 << 20)) == 1
    assert made.shortages[9, 2 << 20].reason == "0 of 4096 bytes are on pages"


@pytest.mark.parametrize(("free", "gib", "ran"), [(40, 24, True), (7, 7, True), (4, 24, False)])
def test_patterns_are_scaled_to_the_pages_there_are(
    monkeypatch: pytest.MonkeyPatch, free: int, gib: int, ran: bool
) -> None:
    monkeypatch.setattr("tlbcost.pagesizes.runner.free_pages", lambda _: free)
    made, fake = runner(set())
    made.run([pattern(2), pattern(8)], [BASE, GIGANTIC], 3)
    assert made.gib == gib
    assert ((2, GIB) in fake.ran) == ran
    assert (8, GIB) in fake.ran
    if not ran:
        lack = made.shortages[2, GIB]
        assert lack.reason == "5 pages of 1 GiB are needed at least, and there are 4"
        assert lack.hint is not None
        assert lack.hint.endswith("tlbcost pool reserve --page-size 1G 1")


def test_other_failures_of_the_program_are_no_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    made, fake = runner({4096})
    execute = fake.execute

    def killed(argv: Sequence[str], *, discard: bool) -> object:
        outcome = execute(argv, discard=discard)
        outcome.exit_code = 1  # type: ignore[attr-defined]
        return outcome

    monkeypatch.setattr(fake, "execute", killed)
    with fails("0 of 4096 bytes", 1):
        made.run([pattern(9)], [BASE], 3)


@pytest.mark.parametrize(("most", "rounds"), [(7, None), (8, None), (9, 3), (14, 4)])
def test_the_time_limit_leaves_whole_rounds(
    monkeypatch: pytest.MonkeyPatch, most: int, rounds: int | None
) -> None:
    monkeypatch.setattr(TimeLimitPassed, "passed", False)
    made, fake = runner(set())
    fake.most = most
    if rounds is None:
        with pytest.raises(TimeLimitPassed):
            made.run([pattern(9)], [BASE, HUGE, GIGANTIC], 5)
        return
    found = made.run([pattern(9)], [BASE, HUGE, GIGANTIC], 5)
    assert [run.time.round for run in found] == [n for n in range(rounds) for _ in range(3)]


def test_sizes_that_a_kernel_has_or_lacks(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tlbcost.system.hints.is_root", lambda: False)
    thp = "sys/kernel/mm/transparent_hugepage"
    pool = "sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages"
    for size in (64, 2048):
        put(root, f"{thp}/hugepages-{size}kB/enabled", "always inherit madvise [never]\n")
    put(root, f"{thp}/enabled", "always [madvise] never\n")
    put(root, f"{thp}/hpage_pmd_size", "2097152\n")
    put(root, pool, "0\n")
    assert supply_of(4096, 4096) == BASE
    assert supply_of(2 << 20, 4096) == PageSupply(2 << 20, "transparent")
    for size, reason in (
        (GIB, "the pool of 1 GiB pages is empty, and only root can fill it"),
        (64 << 10, "transparent pages of 64 KiB are off, and only root can turn them on"),
        (1 << 20, "this kernel has no pages of 1 MiB"),
    ):
        found = supply_of(size, 4096)
        assert isinstance(found, Shortage)
        assert found.reason.startswith(reason)
        assert found.hint
    put(root, pool, "3\n")
    assert supply_of(GIB, 4096) == GIGANTIC
    put(root, f"{thp}/enabled", "always madvise [never]\n")
    assert isinstance(supply_of(2 << 20, 4096), Shortage)


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
