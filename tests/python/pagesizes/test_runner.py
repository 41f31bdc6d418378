# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the sizes take turns, and are those that fail left out with their reason?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from builders.page_times import BASE, GIGANTIC, HUGE, pattern
from tlbcost.common import formats
from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.table import format_table
from tlbcost.pagesizes.page_size import PageSupply, Shortage, supply_of
from tlbcost.pagesizes.patterns import GIB
from tlbcost.pagesizes.runner import Runner


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


def runner(lacking: set[int]) -> tuple[Runner, Fake]:
    fake = Fake(lacking)
    return Runner(fake, None, lambda _: None, 1000), fake  # type: ignore[arg-type]


def test_sizes_take_turns_and_begin_with_another_one_each_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tlbcost.pagesizes.runner.free_pages", lambda _: 1000)
    made, fake = runner(set())
    found = made.run([pattern(9)], [BASE, HUGE, GIGANTIC], 3)
    order = [size for _, size in fake.ran]
    assert [set(order[i : i + 3]) for i in (0, 3, 6)] == [{4096, 2 << 20, GIB}] * 3
    assert {order[0], order[3], order[6]} == {4096, 2 << 20, GIB}
    assert [run.time.round for run in found] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert made.gib == 24
    assert not made.shortages


def test_a_size_that_fails_is_not_tried_again_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tlbcost.pagesizes.runner.free_pages", lambda _: 1000)
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
    with pytest.raises(TlbcostError, match="0 of 4096 bytes") as raised:
        made.run([pattern(9)], [BASE], 3)
    assert raised.value.exit_code == 1


@pytest.mark.parametrize(("most", "rounds"), [(7, None), (8, None), (9, 3), (14, 4)])
def test_the_time_limit_leaves_whole_rounds(
    monkeypatch: pytest.MonkeyPatch, most: int, rounds: int | None
) -> None:
    monkeypatch.setattr("tlbcost.pagesizes.runner.free_pages", lambda _: 1000)
    monkeypatch.setattr(TimeLimitPassed, "passed", False)
    made, fake = runner(set())
    fake.most = most
    if rounds is None:
        with pytest.raises(TimeLimitPassed):
            made.run([pattern(9)], [BASE, HUGE, GIGANTIC], 5)
        return
    found = made.run([pattern(9)], [BASE, HUGE, GIGANTIC], 5)
    assert [run.time.round for run in found] == [n for n in range(rounds) for _ in range(3)]


def test_sizes_that_a_kernel_has_or_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    monkeypatch.setattr("tlbcost.system.hints.is_root", lambda: False)
    thp = tmp_path / "sys/kernel/mm/transparent_hugepage"
    pool = tmp_path / "sys/kernel/mm/hugepages/hugepages-1048576kB"
    for folder in (thp / "hugepages-64kB", thp / "hugepages-2048kB", pool):
        folder.mkdir(parents=True)
    for size in (64, 2048):
        (thp / f"hugepages-{size}kB/enabled").write_text("always inherit madvise [never]\n")
    (thp / "enabled").write_text("always [madvise] never\n")
    (thp / "hpage_pmd_size").write_text("2097152\n")
    (pool / "free_hugepages").write_text("0\n")
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
    (pool / "free_hugepages").write_text("3\n")
    assert supply_of(GIB, 4096) == GIGANTIC
    (thp / "enabled").write_text("always madvise [never]\n")
    assert isinstance(supply_of(2 << 20, 4096), Shortage)
