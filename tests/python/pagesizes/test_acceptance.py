# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the simulator agree with what others measured on machines that we do not have?

P. Khuong, "How bad can 1GB pages be?" (2014): ten patterns on a Xeon E5-4617. E. Jones, "Huge Pages
are a Good Idea" (2023): Zen 4's 3072 entries reach to 12 MiB.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest
from builders.tree import BUILD
from kept import kept
from simulated_pages import Simulated, direction, later_half, simulated, within
from tlbcost.common import paths
from tlbcost.machines.estimate import results
from tlbcost.machines.plan import GIB, HUGE_BYTES, machine_named, plan_pass
from tlbcost.pagesizes.published import published, ratio_of
from tlbcost.run.launch import Launcher, launcher_of
from tlbcost.simulator.memory_tables import WindowPlan
from tlbcost.simulator.run import find_valgrind, simulate

WORKLOADS = BUILD / "workloads"
PATTERNS = range(1, 11)
# Where the two differ by more: doc/page-sizes.md says why.
FACTOR, LEAST_WITHIN = 1.3, 9

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        shutil.which("valgrind") is None
        or not any(paths.valgrind_lib().glob("tlbsim-*"))
        or not (WORKLOADS / "page-patterns").exists(),
        reason="needs valgrind, the simulator and the workloads (make)",
    ),
]


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with launcher_of(None) as made:
        yield made


@pytest.fixture(scope="module")
def patterns(launcher: Launcher) -> list[Simulated]:
    program = WORKLOADS / "page-patterns"
    return [simulated(launcher, program, pattern, guesses=False) for pattern in PATTERNS]


def pairs(found: Simulated) -> list[tuple[float, float]]:
    """Simulated and published ratio of 2 MiB and of 1 GiB pages."""
    figures = [each for each in published() if each.machine == "E5-4617"]
    made = []
    for page in (HUGE_BYTES, GIB):
        figure, ratio = ratio_of(figures, found.pattern, page), found.ratio(page)
        assert figure is not None
        assert figure.ratio is not None
        assert ratio is not None
        made.append((ratio, figure.ratio))
    return made


def test_all_ten_patterns_agree_in_direction(patterns: list[Simulated]) -> None:
    for found in patterns:
        for ours, theirs in pairs(found):
            assert direction(ours) == direction(theirs), (found.pattern, ours, theirs)


def test_eight_patterns_agree_within_a_factor(patterns: list[Simulated]) -> None:
    near = [
        found.pattern
        for found in patterns
        if all(within(ours, theirs, FACTOR) for ours, theirs in pairs(found))
    ]
    assert len(near) >= LEAST_WITHIN, near


def test_aliasing_makes_every_read_of_a_few_pages_walk(patterns: list[Simulated]) -> None:
    # 24 pages are fewer than 64 entries; a GiB apart all of them are of one set.
    walks = [
        sum(seen.stlb_misses for side, seen in found.sizes[0].counts.items() if side == "load")
        for found in patterns[1:3]
    ]
    assert walks[0] > 3_000_000
    assert walks[1] < 100_000


def walks_per_read(launcher: Launcher, mebibytes: int, reads: int) -> float:
    """Of random reads of so much memory on Zen 4, with base pages."""
    other = machine_named("zen4", (4096, HUGE_BYTES), None, None)
    plan = plan_pass([other])
    argv = [
        str(WORKLOADS / "random-read"), "--size", f"{mebibytes}M", "--count", str(reads)
    ]  # fmt: skip
    native = launcher.execute([argv[0], "--help"], discard=True, environment=dict(os.environ))
    found = simulate(launcher, find_valgrind(), plan.geometry, argv, native, options=plan.options)
    counts = results([other], plan, found)[0].sizes[0].counts
    return counts["load"].stlb_misses / reads


def test_the_knee_of_zen_4_is_at_twelve_mebibytes(launcher: Launcher) -> None:
    reads = 200_000
    rates = {size: walks_per_read(launcher, size, reads) for size in (8, 11, 12, 13, 16, 24, 48)}
    # 3072 entries of 4 KiB are 12 MiB. Each page walks once; beyond, what does not fit.
    for size in (8, 11):
        assert rates[size] < 1.2 * size * 256 / reads
    assert rates[13] > 2 * rates[11]
    for size in (16, 24, 48):
        assert rates[size] == pytest.approx(1 - 12 / size, abs=0.05)


def cycles_of_chain(launcher: Launcher, l3_mebibytes: int, adaptive: int) -> float:
    """Of a read of 8 MiB, line by line in the same order, on a Skylake-X with that L3."""
    product = {"l3_bytes": l3_mebibytes << 20, "l3_adaptive": adaptive}
    machine = replace(machine_named("skx", (4096,), None, None, product), variants=())
    plan = plan_pass([machine])
    argv = [str(WORKLOADS / "unfilled-reads"), "--size", "8M", "--chain", "1", "--count", "600000"]
    windows = WindowPlan(period=60_000, warm=8_000, measured=4_000, most=40)
    image = later_half(kept(launcher, plan, windows, argv)).views[0]
    cycles = sum(each[0] for _, each in image.windows)
    return cycles / sum(references for references, _ in image.windows)


def test_a_chain_longer_than_the_last_level_finds_what_the_cache_keeps(launcher: Launcher) -> None:
    # A read of L3 takes 69 cycles, of memory about 300; walks come on top.
    fits, kept_half, evicted = (
        cycles_of_chain(launcher, *l3) for l3 in ((16, 0), (4, 100), (4, 0))
    )
    assert fits < 120
    assert evicted > 280
    assert kept_half == pytest.approx((fits + evicted) / 2, rel=0.15)
