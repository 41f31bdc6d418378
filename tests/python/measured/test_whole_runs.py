# SPDX-License-Identifier: GPL-2.0-or-later
"""Pairs of runs: which run was on which pages, when pairs end, and which method answers."""

from __future__ import annotations

import itertools
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from builders.trial import METHOD
from tlbcost.common.cleanup import Stopped
from tlbcost.common.units import Interval
from tlbcost.measured import catalog, whole_runs
from tlbcost.measured.method import AS_IT_RUNS, Method
from tlbcost.measured.record import MeasuredGain, OverLimit, grown_words
from tlbcost.memory import smaps
from tlbcost.memory.peak import MemoryPart, PeakMemory
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome, Run
from tlbcost.run.turns import NotTogetherError, Way
from tlbcost.thp import program as thp

MIB = 1 << 20
FIRST = Outcome(Run(10**9, 990_000_000, 0, 100, 0, MIB), "", None, 0, None, None)
SWITCH = replace(METHOD, environment={"SWITCH": "1"})
OTHER = replace(METHOD, name="thp")

# User time of a run on base (False) or huge pages by a method's environment, in ns.
Times = Callable[[Way], int]


@pytest.fixture(autouse=True)
def methods(monkeypatch: pytest.MonkeyPatch) -> list[Method]:
    """The methods that serve; no host takes memory back, and no memory is looked at."""
    found = [SWITCH]
    monkeypatch.setattr(catalog, "candidates", lambda *_, **__: found)
    monkeypatch.setattr(whole_runs, "reports_free_pages", lambda: False)
    monkeypatch.setattr(whole_runs, "cpu_ticks", lambda: None)
    monkeypatch.setattr(PeakSampler, "stop", lambda _: None)
    return found


@dataclass
class Pairs:
    """Pairs of runs, which take what is pretended."""

    launcher: Launcher
    patch: pytest.MonkeyPatch

    def take(self, times: Times) -> None:
        def run(_: Launcher, ways: Sequence[Way], *__: object) -> tuple[Outcome, ...]:
            return tuple(took(times(way)) for way in ways)

        self.patch.setattr(whole_runs, "run_in_turns", run)

    def measure(self, budget_s: float | None = 60) -> MeasuredGain | str:
        words, path = ("program",), Path("/program")
        asked = whole_runs.PairsRequest(self.launcher, words, path, FIRST, (), budget_s)
        return whole_runs.measure_runs(asked)[0]

    def measured(self, budget_s: float | None = 60) -> MeasuredGain:
        found = self.measure(budget_s)
        assert isinstance(found, MeasuredGain)
        return found


@pytest.fixture
def pairs(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> Pairs:
    """On huge pages they take a tenth less, unless a test has it otherwise."""
    made = Pairs(launcher, monkeypatch)
    made.take(lambda way: 900_000_000 if on_huge(way) else 10**9)
    return made


def took(user_ns: int) -> Outcome:
    assert FIRST.run is not None
    return replace(FIRST, run=replace(FIRST.run, user_ns=user_ns))


def on_huge(way: Way) -> bool:
    return way.transparent is True


def noisy(way: Way, noise: Iterator[int]) -> int:
    return 900_000_000 + next(noise) if on_huge(way) else 10**9


def test_who_begins_does_not_matter(pairs: Pairs) -> None:
    found = pairs.measured()
    assert (found.source, found.method) == ("runs in turns", METHOD.name)
    assert found.total_fraction.value == pytest.approx(0.1)
    assert found.more_pairs is None
    assert found.rounds == 2


def test_a_busy_machine_widens_the_interval_and_pairs_go_on(pairs: Pairs) -> None:
    noise = itertools.cycle([0, 150_000_000, 60_000_000])
    pairs.take(lambda way: noisy(way, noise))
    assert pairs.measured().rounds == 30
    short = pairs.measured(budget_s=0)
    assert short.rounds == 2
    assert short.total_fraction.low < 0.02 < short.total_fraction.high
    assert short.more_pairs is not None


def test_memory_is_at_hand_where_the_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    where: list[tuple[int, set[int]]] = []

    class Memory(mmap.mmap):
        def madvise(self, *advice: int) -> None:
            where.append((advice[0], os.sched_getaffinity(0)))

    monkeypatch.setattr(whole_runs, "has_room", lambda _: True)
    monkeypatch.setattr(whole_runs, "reports_free_pages", lambda: True)
    monkeypatch.setattr(whole_runs, "mmap", SimpleNamespace(**(vars(mmap) | {"mmap": Memory})))
    assert FIRST.run is not None
    run, allowed = replace(FIRST.run, max_rss_bytes=64 * MIB), os.sched_getaffinity(0)
    whole_runs.have_at_hand(run, [max(allowed)])
    assert [cpus for _, cpus in where] == [{max(allowed)}] * 4
    assert [advice for advice, _ in where[:2]] == [mmap.MADV_HUGEPAGE, mmap.MADV_NOHUGEPAGE]
    where.clear()
    whole_runs.have_at_hand(run)
    assert {min(cpus) for _, cpus in where} == set(sorted(allowed)[:4])
    assert os.sched_getaffinity(0) == allowed


def test_our_own_memory_leaves_scattered_pages_to_the_program() -> None:
    code = (
        "import mmap; from tlbcost.measured.whole_runs import leave_scattered_pages;"
        "m = mmap.mmap(-1, 32 << 20, mmap.MAP_PRIVATE); m.write(bytes([1]) * len(m));"
        "leave_scattered_pages(); assert m[:] == bytes([1]) * len(m);"
        "print(*[line for line in open('/proc/self/smaps_rollup') if 'AnonHuge' in line])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    if int(done.stdout.split()[1]) < 16 << 10:
        pytest.skip("this kernel has no MADV_COLLAPSE (Linux 6.1), or no huge page is free")


def test_next_to_other_load_more_pairs_are_taken(pairs: Pairs) -> None:
    seconds = itertools.count(0, 10)

    def ticks(others: float) -> list[int]:
        """Two CPUs: the pair's 1.9 s in ten, and what others have of the twenty."""
        at = next(seconds) * os.sysconf("SC_CLK_TCK")
        busy = at // 10 * 19 // 10 + int(2 * others * at)
        return [busy, 0, 0, 2 * at - busy, 0, 0, 0, 0]

    rounds = {}
    for others in (0.15, 0.25):
        pairs.patch.setattr(whole_runs, "cpu_ticks", lambda others=others: ticks(others))
        rounds[others] = pairs.measured().rounds
    assert rounds == {0.15: 2, 0.25: 6}


@pytest.mark.parametrize(("budget_s", "next_to_load"), [(None, 11), (60, 6)])
def test_next_to_other_load_the_usual_budget_is_twice_as_long(
    budget_s: float | None, next_to_load: int, pairs: Pairs
) -> None:
    noise = itertools.cycle([0, 150_000_000, 60_000_000])
    pairs.take(lambda way: noisy(way, noise))
    clock = SimpleNamespace(monotonic=itertools.count(0, 4).__next__, process_time_ns=lambda: 0)
    pairs.patch.setattr(whole_runs, "time", clock)
    rounds = []
    for others in (0.0, 0.5):
        pairs.patch.setattr(whole_runs, "_others", lambda *_, others=others: others)
        rounds.append(pairs.measured(budget_s).rounds)
    assert rounds == [6, next_to_load]


def test_runs_that_spoil_each_other_come_one_by_one(
    pairs: Pairs, capsys: pytest.CaptureFixture[str]
) -> None:
    def together(*_: object) -> tuple[Outcome, ...]:
        raise NotTogetherError("it writes to /a/file")

    def execute(self: Launcher, *_: object, **__: object) -> Outcome:
        return took(900_000_000 if self.transparent else 10**9)

    pairs.patch.setattr(whole_runs, "run_in_turns", together)
    pairs.patch.setattr(Launcher, "execute", execute)
    found = pairs.measured()
    assert found.source == "runs one by one"
    assert found.total_fraction.value == pytest.approx(0.1)
    assert capsys.readouterr().err.count("it writes to /a/file") == 1


def seen(huge_bytes: int) -> PeakMemory:
    part = MemoryPart("[heap]", "heap", 100 * MIB, huge_bytes, "/program", 100 * MIB)
    return PeakMemory(100 * MIB, huge_bytes, 0, 0, 0, None, (part,), 3)


def test_a_method_that_reaches_too_little_gives_way(pairs: Pairs, methods: list[Method]) -> None:
    methods.append(OTHER)
    looks: Iterator[PeakMemory] = itertools.chain(
        [seen(0), seen(10 * MIB)], itertools.cycle([seen(0), seen(90 * MIB)])
    )
    pairs.patch.setattr(PeakSampler, "stop", lambda _: next(looks))
    found = pairs.measured()
    assert found.method == "thp"
    assert found.huge_part == pytest.approx(0.9)
    [other] = found.others
    assert (other.name, other.total_fraction) == (METHOD.name, None)
    assert "90 MiB of the 100 MiB" in (other.why_not or "")


def test_huge_pages_for_a_part_of_the_memory_are_better_than_no_answer(pairs: Pairs) -> None:
    for part, answered in ((45, True), (5, False)):
        looks = itertools.cycle([seen(0), seen(part * MIB)])
        pairs.patch.setattr(PeakSampler, "stop", lambda _, looks=looks: next(looks))
        found = pairs.measure()
        assert isinstance(found, MeasuredGain) == answered
        if isinstance(found, MeasuredGain):
            assert found.huge_part == pytest.approx(0.45)
            assert found.rounds >= 2


def test_a_program_that_undoes_the_refusal_has_no_run_on_base_pages(pairs: Pairs) -> None:
    pairs.patch.setattr(PeakSampler, "stop", lambda _: seen(90 * MIB))
    assert "huge pages, too" in str(pairs.measure())


def test_a_method_that_loses_gives_way_and_the_best_answers(
    pairs: Pairs, methods: list[Method]
) -> None:
    methods.append(OTHER)

    def time(way: Way, other_ns: int) -> int:
        if not on_huge(way):
            return 10**9
        return 1_300_000_000 if "SWITCH" in (way.environment or {}) else other_ns

    pairs.take(lambda way: time(way, 900_000_000))
    better = pairs.measured()
    assert better.method == "thp"
    [other] = better.others
    assert other.total_fraction is not None
    assert other.total_fraction.value == pytest.approx(-0.3)
    pairs.take(lambda way: time(way, 1_500_000_000))
    worse = pairs.measured()
    assert worse.method == METHOD.name
    assert worse.total_fraction.high < 0


def test_ctrl_c_ends_with_what_is_known(pairs: Pairs) -> None:
    noise = itertools.cycle([0, 150_000_000, 60_000_000])

    def stop(after: int, number: int) -> None:
        runs = itertools.count()

        def time(way: Way) -> int:
            if next(runs) == after:
                raise Stopped(number)
            return noisy(way, noise)

        pairs.take(time)

    for after, number in ((2, signal.SIGINT), (8, signal.SIGTERM)):
        stop(after, number)
        with pytest.raises(Stopped):
            pairs.measure()
    stop(8, signal.SIGINT)
    assert pairs.measured().rounds == 4


KILLED = replace(FIRST, exit_code=None, signal=signal.SIGKILL, memory_limit_bytes=64 * MIB)


@pytest.mark.parametrize(
    ("failed", "words", "over_limit"),
    [
        (replace(FIRST, exit_code=3), "exited with 3 on huge pages", False),
        (KILLED, f"by {METHOD.name} program was killed at its memory limit (64 MiB, cgroup)", True),
    ],
)
def test_a_program_that_fails_on_huge_pages_is_not_measured(
    pairs: Pairs, failed: Outcome, words: str, over_limit: bool
) -> None:
    def execute(self: Launcher, *_: object, **__: object) -> Outcome:
        return failed if self.transparent else FIRST

    pairs.patch.setattr(Launcher, "execute", execute)
    pairs.patch.setattr(whole_runs, "run_in_turns", lambda *_: (FIRST, failed))
    found = pairs.measure()
    assert isinstance(found, str)
    assert words in found
    assert isinstance(found, OverLimit) == over_limit


@pytest.mark.parametrize(
    ("grown", "words"),
    [((38, 36, 39), "38 MiB more memory"), ((38, 1, 41), "38 MiB more memory, 1 MiB to 41 MiB"),
     ((0.5, 0, 0.9), "512 KiB more memory"), ((-1, -3, 1), "no extra memory")],
)  # fmt: skip
def test_growth_is_told_with_its_range_where_pairs_differ(
    grown: tuple[float, float, float], words: str
) -> None:
    assert grown_words(Interval(*grown).scaled(MIB)) == words


def mapping(
    kind: smaps.MappingKind,
    name: str,
    huge: int = 0,
    block: int | None = None,
    *,
    anonymous: int = 100 * MIB,
    disabled: bool = False,
    asks: bool = False,
) -> smaps.Mapping:
    return smaps.Mapping(
        name, kind, True, 100 * MIB, anonymous, huge, 0, 0, 0,
        malloc_block_bytes=block, disabled=disabled, flags=("rd", "hg") if asks else None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("memory", "mode", "root", "names"),
    [
        ([mapping("heap", "[heap]")], "madvise", False, ["glibc-thp", "run-thp"]),
        ([mapping("heap", "[heap]")], "madvise", True, ["glibc-thp", "thp", "run-thp"]),
        # It maps its memory itself, as LuaJIT does.
        ([mapping("anonymous", smaps.UNNAMED, 0, 0)], "madvise", True, ["thp", "run-thp"]),
        ([mapping("heap", "[heap]")], "always", False, ["thp"]),
        ([mapping("heap", "[heap]")], "never", False, []),
        ([mapping("heap", "[heap]")], "never", True, ["thp"]),
        ([mapping("heap", "[heap]", 60 * MIB)], "madvise", True, [AS_IT_RUNS]),
        ([mapping("heap", "[heap]", asks=True)], "madvise", True, [AS_IT_RUNS]),
        ([], "madvise", False, ["run-thp"]),
        ([mapping("heap", "[heap]", disabled=True)], "madvise", True, []),
        ([mapping("shared", "/dev/zero (deleted)", anonymous=0)], "madvise", True, []),
    ],
)
def test_methods_by_the_memory_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
    memory: list[smaps.Mapping],
    mode: str,
    root: bool,
    names: list[str],
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(catalog, "thp_mode", lambda: mode)
    monkeypatch.setattr(catalog.hints, "is_root", lambda: root)
    monkeypatch.setattr(catalog.machine, "glibc_version", lambda: (2, 36))
    monkeypatch.setattr(thp, "is_here", lambda: True)
    found = catalog.candidates([("/bin/sh", each) for each in memory], system=True, traced=True)
    assert [each.name for each in found] == names


@pytest.mark.parametrize(("mode", "names"), [("madvise", ["run-thp-text"]), ("never", [])])
def test_code_is_copied_by_the_launcher_alone(
    monkeypatch: pytest.MonkeyPatch, mode: str, names: list[str]
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(catalog, "thp_mode", lambda: mode)
    monkeypatch.setattr(thp, "is_here", lambda: True)
    found = catalog.candidates([], system=True, traced=True, code=True)
    assert [each.name for each in found] == names
    assert all("--text" in each.prefix for each in found)
