# SPDX-License-Identifier: GPL-2.0-or-later
"""What do the tables of a program's placement come to, all that a report says?"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tlbcost.calibration.costs import cost_at
from tlbcost.calibration.records import Calibration
from tlbcost.common import units
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.paths import version
from tlbcost.numa import accesses as numa
from tlbcost.numa import carrefour
from tlbcost.numa.accesses import HotPages, Pages
from tlbcost.numa.carrefour import Decision, IntervalFigures, Remedy
from tlbcost.numa.locality import Direction, Score, placement_direction
from tlbcost.numa.nodes import Nodes, Spread, machine_nodes
from tlbcost.numa.placement_table import ImagePlacement, PlacementPlan, cache_within
from tlbcost.numa.sampler import NodeMemory
from tlbcost.run.records import Run
from tlbcost.simulator.run import Simulation
from tlbcost.simulator.totals import DATA, total_counts
from tlbcost.system.machine import Machine


@dataclass(frozen=True, slots=True)
class SizeFigures:
    """One page size: placements by first touch and interleaved, hot pages, walks and faults.

    `page_faults` are first touches of anonymous memory; `fault_time_ns` None: not calibrated.
    `largest_thread_fault_fraction`: of the run, that of the thread with most.
    """

    page_size_bytes: int
    first_touch: Score
    interleaved: Score
    hot: HotPages | None
    data_walks: int
    page_faults: int
    fault_time_ns: float | None
    largest_thread_fault_fraction: float | None


@dataclass(frozen=True, slots=True)
class Study:
    """Everything that a report says. None: not obtained.

    `walk_l2_fraction`: of the L2 misses, those by page walks on base pages. `dram_accesses`: of
    the whole run; `maptu`: of them per microsecond of the native run and node. `translation`:
    what huge pages do for translation; `placement`: what they do by first touch. `real`: where
    the memory of a native run lay, on a machine with several nodes; `why_not_real`: otherwise.
    """

    version: str
    date: str
    machine: Machine
    argv: tuple[str, ...]
    run: Run
    simulated_ns: int | None
    plan: PlacementPlan
    nodes: Nodes
    spread: Spread
    threads: int
    interval_references: int
    base: SizeFigures
    huge: SizeFigures
    false_sharing: float | None
    walk_l2_fraction: float | None
    dram_accesses: float
    maptu: float | None
    figures: tuple[IntervalFigures, ...]
    decision: Decision
    remedies: Mapping[Remedy, Score]
    after: Score
    translation: Direction
    placement: Direction
    costs_source: str
    real: NodeMemory | None
    why_not_real: str | None


def conclude(
    machine: Machine,
    argv: Sequence[str],
    run: Run,
    simulation: Simulation,
    images: tuple[ImagePlacement, ...],
    plan: PlacementPlan,
    nodes: Nodes,
    spread: Spread,
    calibrated: Calibration | None,
    costs_source: str,
    real: NodeMemory | None,
) -> Study:
    """What the tables come to. Raises TlbcostError with exit code 4 without DRAM accesses."""
    pages = numa.gather(images, nodes.count, spread)
    sample = images[0].period / images[0].measured
    accesses = float(pages.totals.sum()) * sample
    if accesses == 0:
        raise _nothing_to_place(plan)
    sizes = (images[0].base_page_bytes, images[0].huge_page_bytes)
    fault_ns = [_fault_ns(calibrated, size) for size in sizes]
    base = _size(pages, simulation, sizes, huge=False, fault_ns=fault_ns, wall_ns=run.wall_ns)
    huge = _size(pages, simulation, sizes, huge=True, fault_ns=fault_ns, wall_ns=run.wall_ns)
    l2_misses = sum(image.l2_misses for image in images)
    walk_fraction = sum(image.walk_l2_misses for image in images) / l2_misses if l2_misses else None
    figures = carrefour.look(pages)
    decision = carrefour.decide(
        figures, huge.first_touch, walk_fraction, base.largest_thread_fault_fraction
    )
    promising = (walk_fraction or 0.0) >= carrefour.PROMOTE_FROM
    return Study(
        version=version(),
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        machine=machine,
        argv=tuple(argv),
        run=run,
        simulated_ns=None if simulation.outcome.run is None else simulation.outcome.run.wall_ns,
        plan=plan,
        nodes=nodes,
        spread=spread,
        threads=len(pages.faults),
        interval_references=max(image.interval_references for image in images),
        base=base,
        huge=huge,
        false_sharing=numa.false_sharing(pages),
        walk_l2_fraction=walk_fraction,
        dram_accesses=accesses,
        maptu=accesses / (run.wall_ns / 1e3) / nodes.count if run.wall_ns else None,
        figures=figures,
        decision=decision,
        remedies=carrefour.remedies(pages),
        after=carrefour.after(pages, decision),
        translation="faster" if promising and huge.data_walks < base.data_walks / 2 else "same",
        placement=placement_direction(base.first_touch, huge.first_touch),
        costs_source=costs_source,
        real=real,
        why_not_real=_why_not_real(real),
    )


def _size(
    pages: Pages,
    simulation: Simulation,
    sizes: tuple[int, int],
    *,
    huge: bool,
    fault_ns: Sequence[float | None],
    wall_ns: int,
) -> SizeFigures:
    by = pages.totals
    counts = total_counts(simulation.processes)
    size = sizes[1] if huge else sizes[0]
    small, large = pages.huge_faults if huge else (pages.faults, pages.faults * 0)
    times = None
    # A price that is not needed need not be known.
    if (fault_ns[0] is not None or not small.sum()) and (
        fault_ns[1] is not None or not large.sum()
    ):
        times = small * (fault_ns[0] or 0.0) + large * (fault_ns[1] or 0.0)
    return SizeFigures(
        page_size_bytes=size,
        first_touch=numa.score(by, numa.first_touch(pages, huge=huge)),
        interleaved=numa.score(by, numa.interleaved(pages, huge=huge)),
        hot=numa.hot_pages(pages, huge=huge),
        data_walks=sum(counts[size, side].stlb_misses for side in DATA if (size, side) in counts),
        page_faults=int(small.sum() + large.sum()),
        fault_time_ns=None if times is None else float(times.sum()),
        largest_thread_fault_fraction=None
        if times is None or not wall_ns
        else float(times.max(initial=0.0)) / wall_ns,
    )


def _fault_ns(calibrated: Calibration | None, size: int) -> float | None:
    cost = None if calibrated is None else cost_at(calibrated, "fault_ns", size)
    return None if cost is None else max(cost.value, 0.0)


def _nothing_to_place(plan: PlacementPlan) -> TlbcostError:
    return TlbcostError(
        "nothing to place: all that the program refers to stays in a thread's caches of "
        f"{_cache_words(plan)}",
        "--cache 256K,0 to see what smaller caches would miss, or give it more memory",
        CANNOT_MEASURE,
    )


def _cache_words(plan: PlacementPlan) -> str:
    l2, l3 = cache_within(plan.l2_bytes)[0], cache_within(plan.l3_bytes)[0]
    return f"{units.size(l2)} and {units.size(l3)}" if l3 else units.size(l2)


def _why_not_real(real: NodeMemory | None) -> str | None:
    if real is not None:
        return None
    nodes = len(machine_nodes())
    if nodes == 0:
        return "this kernel tells of no NUMA nodes"
    if nodes == 1:
        return "this machine has one node"
    return "the program's memory could not be looked at (it ended too soon, or may not be read)"
