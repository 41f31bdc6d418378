# SPDX-License-Identifier: GPL-2.0-or-later
"""Do access patterns read what the article says, and do ratios compare what belongs together?"""

from __future__ import annotations

import ctypes.util
import io
import json
import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import jsonschema
import pytest
from builders.answer import MACHINE
from tlbcost.calibration.records import Calibration, Cost
from tlbcost.common import formats, paths
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.common.table import format_table
from tlbcost.pagesizes.backing import Lack, PageSize, way_to
from tlbcost.pagesizes.context import notes, tlbs
from tlbcost.pagesizes.figure import draw_page_sizes
from tlbcost.pagesizes.json import to_json
from tlbcost.pagesizes.patterns import GIB, PATTERNS, Pattern
from tlbcost.pagesizes.published import published, ratio_of
from tlbcost.pagesizes.report import PageReport, extremes, print_page_sizes
from tlbcost.pagesizes.run import PageTimes, Runner, Timed, read_run

TREE = Path(__file__).parents[3]
SCHEMA = json.loads((TREE / "data/schema/pagesizes.schema.json").read_text("utf-8"))
PROGRAM = paths.workloads() / "page-patterns"
BASE, HUGE, GIGANTIC = PageSize(4096, "base"), PageSize(2 << 20, "pool"), PageSize(GIB, "pool")
RAND_MAX = (1 << 31) - 1
EMPTY = format_table(formats.PATTERN, {}, [])


def pattern(number: int) -> Pattern:
    return PATTERNS[number - 1]


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
    told = program(number, "--count", str(draws), "--table", "1", "--page", "4096")
    run = read_run(0, "\n".join(told) + "\n")
    counted = [len({place >> shift for place in places}) for shift in (6, 12, 21, 30)]
    assert [run.lines, run.pages_4k, run.pages_2m, run.pages_1g] == counted
    # Each byte that is read says where it is.
    values = [(p >> 6 ^ p >> 12 ^ p >> 21 ^ p >> 28) & 0xFF for p in places]
    assert told[-1] == f"checksum {sum(values):016x}"


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


def test_published_ratios_are_those_of_the_cycles() -> None:
    figures = published()
    for number in range(1, 11):
        cycles = {f.page_bytes: f.cycles for f in figures if f.pattern == number}
        for size in (2 << 20, GIB):
            told = ratio_of(figures, number, size)
            assert told is not None
            assert told.ratio is not None
            above, below = cycles[size], cycles[4096]
            assert below is not None
            if above is not None:
                assert told.ratio == pytest.approx(above / below, abs=0.011)
    last = ratio_of(figures, 11, 2 << 20)
    assert last is not None
    assert last.ratio == pytest.approx(1 / 2.9, abs=0.001)


def timed(round_: int, number: int, size: int, ns: float, rate: float = 2.0) -> Timed:
    return Timed(
        round_, number, size, 64 << 20, 4096, 16384, 64, 1024, 911, 911, 32, 1, 4096, 4096,
        1000, 1000 * ns, rate,
    )  # fmt: skip


def times(
    runs: Sequence[Timed],
    sizes: Sequence[PageSize] = (BASE, HUGE, GIGANTIC),
    lacks: Mapping[tuple[int, int], Lack] | None = None,
    missing: Mapping[int, Lack] | None = None,
) -> PageTimes:
    return PageTimes(
        (pattern(2), pattern(9)), tuple(sizes), missing or {}, 24, 3, 1000, tuple(runs),
        lacks or {},
    )  # fmt: skip


def test_a_ratio_is_of_runs_of_the_same_round() -> None:
    runs = [timed(r, 9, 4096, ns) for r, ns in enumerate((10, 20, 40))]
    runs += [timed(r, 9, 2 << 20, ns) for r, ns in enumerate((5, 10, 20))]
    result = times(runs)
    assert result.ratio(9, 2 << 20) == Interval(0.5, 0.5, 0.5)
    cycles = result.cost(9, 4096, lambda run: run.cycles)
    assert cycles is not None
    assert cycles.value == 40
    # In cycles: that the clock was slower in one of both runs is no cost of its pages.
    slow = [timed(r, 9, 2 << 20, 2 * each.ns / 2, 1.0) for r, each in enumerate(runs[:3])]
    assert times([*runs[:3], *slow]).ratio(9, 2 << 20) == Interval(0.5, 0.5, 0.5)


def test_too_few_rounds_tell_no_ratio() -> None:
    runs = [timed(r, 9, 4096, 10) for r in range(3)] + [timed(r, 9, 2 << 20, 10) for r in range(2)]
    assert times(runs).ratio(9, 2 << 20) is None
    assert times(runs).ratio(2, 2 << 20) is None


class Fake:
    """Stands for a launcher: notes what is run, and fails on sizes that it does not have."""

    def __init__(self, lacking: set[int]) -> None:
        self.ran: list[tuple[int, int]] = []
        self.heard: list[tuple[tuple[str, ...], str]] = []
        self.lacking = lacking

    def execute(self, argv: Sequence[str], *, discard: bool) -> object:
        assert discard
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
    monkeypatch.setattr("tlbcost.pagesizes.run.free_pages", lambda _: 1000)
    made, fake = runner(set())
    found = made.run([pattern(9)], [BASE, HUGE, GIGANTIC], 3)
    order = [size for _, size in fake.ran]
    assert [set(order[i : i + 3]) for i in (0, 3, 6)] == [{4096, 2 << 20, GIB}] * 3
    assert {order[0], order[3], order[6]} == {4096, 2 << 20, GIB}
    assert [run.round for run in found] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert made.gib == 24
    assert not made.lacks


def test_a_size_that_fails_is_not_tried_again_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tlbcost.pagesizes.run.free_pages", lambda _: 1000)
    made, fake = runner({2 << 20})
    found = made.run([pattern(9)], [BASE, HUGE], 3)
    assert [run.page_bytes for run in found] == [4096] * 3
    assert fake.ran.count((9, 2 << 20)) == 1
    assert made.lacks[9, 2 << 20].reason == "0 of 4096 bytes are on pages"


@pytest.mark.parametrize(("free", "gib", "ran"), [(40, 24, True), (7, 7, True), (4, 24, False)])
def test_patterns_are_scaled_to_the_pages_there_are(
    monkeypatch: pytest.MonkeyPatch, free: int, gib: int, ran: bool
) -> None:
    monkeypatch.setattr("tlbcost.pagesizes.run.free_pages", lambda _: free)
    made, fake = runner(set())
    made.run([pattern(2), pattern(8)], [BASE, GIGANTIC], 3)
    assert made.gib == gib
    assert ((2, GIB) in fake.ran) == ran
    assert (8, GIB) in fake.ran
    if not ran:
        lack = made.lacks[2, GIB]
        assert lack.reason == "5 pages of 1 GiB at least are needed, and there are 4"
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
    assert way_to(4096, 4096) == BASE
    assert way_to(2 << 20, 4096) == PageSize(2 << 20, "transparent")
    for size, reason in (
        (GIB, "the pool of 1 GiB pages is empty, and root alone can fill it"),
        (64 << 10, "transparent pages of 64 KiB are off, and root alone can turn them on"),
        (1 << 20, "this kernel has no pages of 1 MiB"),
    ):
        found = way_to(size, 4096)
        assert isinstance(found, Lack)
        assert found.reason.startswith(reason)
        assert found.hint
    (pool / "free_hugepages").write_text("3\n")
    assert way_to(GIB, 4096) == GIGANTIC
    (thp / "enabled").write_text("always madvise [never]\n")
    assert isinstance(way_to(2 << 20, 4096), Lack)


def calibration(entry_bytes: float | None) -> Calibration:
    value = None if entry_bytes is None else Interval(entry_bytes, entry_bytes, entry_bytes)
    cost = Cost("tlb_entry_bytes", 2 << 20, None, None, value, 0)
    return Calibration(MACHINE, "2026-01-01T00:00:00Z", "0", 1.0, (cost,))


def test_a_host_that_holds_pages_in_pieces_is_told() -> None:
    from dataclasses import replace

    result = times([])
    guest, metal = replace(MACHINE, hypervisor="kvm"), replace(MACHINE, hypervisor=None)
    words = " ".join(notes(guest, calibration(4096.0), result))
    assert "one TLB entry covers 4 KiB of a page of 2 MiB" in words
    assert "T21" in words
    assert tlbs(guest, calibration(4096.0), result)[1:] == (
        "2 MiB: as for 4 KiB pages, in pieces of these",
        "1 GiB: as for 4 KiB pages, in pieces of these",
    )
    assert "is not known" in " ".join(notes(guest, None, result))
    assert "T21" not in " ".join(notes(guest, calibration(2.0**21), result))
    assert "T21" not in " ".join(notes(metal, None, result))


def report(result: PageTimes) -> PageReport:
    return PageReport(
        "1.0", "2026-01-01T00:00:00Z", MACHINE, result, tuple(published()), ("4 KiB: 64",), ("so",)
    )


def full() -> PageTimes:
    runs = [
        timed(r, number, size.n_bytes, ns + r)
        for r in range(3)
        for number, costs in ((2, (10, 30, 20)), (9, (30, 10, 5)))
        for size, ns in zip((BASE, HUGE, GIGANTIC), costs, strict=True)
        if (number, size) != (2, GIGANTIC)
    ]
    lack = Lack("5 pages of 1 GiB at least are needed, and there are 2", "reserve more")
    return times(runs, lacks={(2, GIB): lack}, missing={64 << 10: Lack("none here", None)})


def test_the_report_has_the_articles_table() -> None:
    text = io.StringIO()
    print_page_sizes(report(full()), text)
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    ratios = lines[next(i for i, line in enumerate(lines) if line.startswith("time over 4 KiB")) :]
    assert ratios[1].split() == [
        "2", "a", "chunk", "in", "each", "GiB", "2.82", "(2.67-3.00)", "NA", "0.82", "0.59",
    ]  # fmt: skip
    assert ratios[2].split()[-5:] == ["(0.33-0.38)", "0.19", "(0.17-0.22)", "0.34", "0.34"]
    whole = " ".join(text.getvalue().split())
    assert "NA 1 GiB, pattern 2: 5 pages of 1 GiB at least are needed" in whole
    assert "type: reserve more" in whole
    assert "NA 64 KiB: none here." in whole
    assert "Worst here: pattern 2 on 2 MiB pages takes 2.82 (2.67-3.00) times" in whole
    assert "Best here: pattern 9 on 1 GiB pages takes 0.19 (0.17-0.22) times" in whole


def test_what_may_be_noise_is_neither_worst_nor_best() -> None:
    runs = [timed(r, 9, 4096, 10) for r in range(3)]
    runs += [timed(r, 9, 2 << 20, ns) for r, ns in enumerate((9, 10.5, 11))]
    assert extremes(times(runs)) == (None, None)


def test_json_has_null_for_what_is_not_there() -> None:
    document = json.loads(to_json(report(full())))
    jsonschema.validate(document, SCHEMA)
    lacking = document["patterns"][0]["page_sizes"][2]
    assert lacking["cycles"] is None
    assert lacking["ratio"] is None
    assert lacking["runs"] == []
    assert lacking["missing"]["reason"].startswith("5 pages")
    assert document["patterns"][1]["page_sizes"][1]["ratio"]["value"] == pytest.approx(11 / 31)
    jsonschema.validate(json.loads(to_json(report(times([])))), SCHEMA)


def test_the_recorded_run_is_what_the_document_says() -> None:
    text = (TREE / "doc/page-sizes.md").read_text(encoding="utf-8")
    for file in (TREE / "data/pagesizes").glob("*.json"):
        assert f"data/pagesizes/{file.name}" in text
        document = json.loads(file.read_text(encoding="utf-8"))
        jsonschema.validate(document, SCHEMA)
        assert len(document["patterns"]) == len(PATTERNS)
        for each in document["patterns"]:
            ratios = [size["ratio"] for size in each["page_sizes"][1:]]
            cells = [f"{r['value']:.2f} ({r['low']:.2f}-{r['high']:.2f})" for r in ratios]
            assert re.search(
                rf"^\| {each['pattern']} \|.*{re.escape(' | '.join(cells))}", text, re.MULTILINE
            )


def test_no_picture_without_a_ratio(tmp_path: Path) -> None:
    with pytest.raises(TlbcostError, match="no ratio was measured"):
        draw_page_sizes(report(times([])), tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_a_picture(tmp_path: Path) -> None:
    import shutil

    if shutil.which("gnuplot") is None:
        pytest.skip("gnuplot is not installed")
    draw_page_sizes(report(full()), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for words in ("time over that on 4 KiB pages", "2 a chunk in each GiB", "9 64 MiB + 64 B"):
        assert words in text


def test_patterns_are_numbered_as_they_stand() -> None:
    assert [each.number for each in PATTERNS] == list(range(1, 12))


@pytest.mark.parametrize("text", ["", "checksum 0\n", "# tlbcost pattern 1\n", EMPTY])
def test_a_table_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(TlbcostError, match="page-patterns"):
        read_run(0, text)
