# SPDX-License-Identifier: GPL-2.0-or-later
"""The study of a program's placement: what reports and JSON show, from its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Literal

from tlbcost.calibration.records import Calibration, cost_at
from tlbcost.common import units
from tlbcost.common.document import Part, amount, doc, now, portion
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.paths import version
from tlbcost.numa import carrefour, placement
from tlbcost.numa.carrefour import Decision, IntervalFigures, Remedy
from tlbcost.numa.locality import Direction, Score, placement_direction
from tlbcost.numa.node_memory import NodeMemory
from tlbcost.numa.placement import HotPages, NodePages, Nodes, Spread, gather, machine_nodes
from tlbcost.numa.placement_table import (
    ImagePlacement,
    PlacementPlan,
    PlacementSample,
    cache_within,
)
from tlbcost.run.outcome import Run
from tlbcost.simulator.counts import DATA, total_counts
from tlbcost.simulator.run import Simulation
from tlbcost.system.machine import Machine

# By the number of its nodes.
_WHY_NOT_REAL = (
    "this kernel reports no NUMA nodes",
    "this machine has one node",
    "the program's memory could not be sampled (it ended too soon, or may not be read)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeFigures:
    """One page size: placements by first touch and interleaved, hot pages, walks and faults."""

    page_size_bytes: Annotated[int, amount("size of the pages")]
    first_touch: Annotated[Score, doc("each page on the node that touches it first")]
    interleaved: Annotated[Score, doc("the pages on the nodes in turn")]
    hot_pages: Annotated[HotPages | None, doc("null: no accesses")]
    data_walks: Annotated[int, amount("page walks for data")]
    page_faults: Annotated[int, amount("first touches of anonymous memory")]
    fault_time_ns: Annotated[
        float | None, amount("calibrated time of the faults; null: not calibrated")
    ]
    largest_thread_fault_fraction: Annotated[
        float | None, amount("share of the run, for the thread with the most")
    ]


class Directions(Part, frozen=True, kw_only=True):
    """What huge pages do, without a sum of the two effects."""

    translation: Annotated[Direction, doc("to the time of address translation")]
    placement: Annotated[Direction, doc("to local and even accesses, by first touch")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What page sizes do to a program's placement on NUMA nodes: `tlbcost numa --json FILE`.

    Shares are fractions, 0 to 1; null: not obtained.
    """

    schema: Annotated[Literal["tlbcost-numa-2"], doc("form of this document and its version")] = (
        "tlbcost-numa-2"
    )
    tlbcost_version: Annotated[str, doc("version of tlbcost that wrote it")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    machine: Annotated[Machine, doc("where the program ran")]
    argv: Annotated[tuple[str, ...], doc("the program")]
    run: Annotated[Run, doc("the native run")]
    simulated_ns: Annotated[int | None, amount("time of the simulation")]
    nodes: Annotated[Nodes, doc("the nodes that placements are for")]
    threads: Annotated[int, doc("threads of all processes", minimum=1)]
    spread: Annotated[Spread, doc("of the threads over the nodes")]
    sample: Annotated[PlacementSample, doc("what was followed, with which caches")]
    dram_accesses: Annotated[float, amount("of the whole run; scaled where a sample was followed")]
    dram_accesses_per_us_and_node: Annotated[
        float | None, amount("by the wall time of the native run")
    ]
    walk_l2_miss_fraction: Annotated[
        float | None, portion("of the L2 misses, those of page walks on base pages")
    ]
    false_sharing_fraction: Annotated[
        float | None,
        portion(
            "of the DRAM accesses, those to huge pages whose base pages belong to different nodes"
        ),
    ]
    page_sizes: Annotated[tuple[SizeFigures, SizeFigures], doc("on base and on huge pages")]
    costs_source: Annotated[str, doc("source of a page fault's cost")]
    intervals: Annotated[
        tuple[IntervalFigures, ...],
        doc(
            "huge pages by first touch; what moving them to their main users, and splitting them "
            "first, would give"
        ),
    ]
    remedies: Annotated[
        Mapping[Remedy, Score], doc("each applied to huge pages by first touch for the whole run")
    ]
    directions: Annotated[Directions, doc("what huge pages do here")]
    verdict: Annotated[str, doc("the same in a sentence, with its figures")] = ""
    carrefour_lp: Annotated[Decision, doc("what Carrefour-LP would do, and why")]
    real: Annotated[
        NodeMemory | None, doc("bytes on each node, by numa_maps, and pages queried by move_pages")
    ]
    why_not_real: Annotated[str | None, doc("why `real` is null")]

    @property
    def base(self) -> SizeFigures:
        return self.page_sizes[0]

    @property
    def huge(self) -> SizeFigures:
        return self.page_sizes[1]


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
    """The study of the tables. Raises TlbcostError with exit code 4 without DRAM accesses."""
    pages = gather(images, nodes.count, spread)
    scale = images[0].period_references / images[0].measured_references
    accesses = float(pages.totals.sum()) * scale
    if accesses == 0:
        l2, l3 = cache_within(plan.l2_bytes)[0], cache_within(plan.l3_share_bytes)[0]
        raise TlbcostError(
            "nothing to place: all memory that the program accesses fits a thread's caches of "
            + (f"{units.size(l2)} and {units.size(l3)}" if l3 else units.size(l2)),
            "--cache 256K,0 to see what smaller caches would miss, or give it more memory",
            CANNOT_MEASURE,
        )
    sizes = (images[0].base_page_bytes, images[0].huge_page_bytes)
    costs = [cost_at(calibrated, "fault_ns", size) if calibrated else None for size in sizes]
    fault_ns = [None if cost is None else max(cost.value, 0.0) for cost in costs]
    base = _size(pages, simulation, sizes, huge=False, fault_ns=fault_ns, wall_ns=run.wall_ns)
    huge = _size(pages, simulation, sizes, huge=True, fault_ns=fault_ns, wall_ns=run.wall_ns)
    l2_misses = sum(image.l2_misses for image in images)
    walk_fraction = sum(image.walk_l2_misses for image in images) / l2_misses if l2_misses else None
    intervals = carrefour.intervals_of(pages)
    decision = carrefour.decide(
        intervals, huge.first_touch, walk_fraction, base.largest_thread_fault_fraction
    )
    promising = (walk_fraction or 0.0) >= carrefour.PROMOTE_FROM
    return Study(
        tlbcost_version=version(),
        date=now(),
        machine=machine,
        argv=tuple(argv),
        run=run,
        simulated_ns=None if simulation.outcome.run is None else simulation.outcome.run.wall_ns,
        nodes=nodes,
        threads=len(pages.faults),
        spread=spread,
        sample=PlacementSample(
            **asdict(plan), interval_references=max(image.interval_references for image in images)
        ),
        dram_accesses=accesses,
        dram_accesses_per_us_and_node=accesses / (run.wall_ns / 1e3) / nodes.count
        if run.wall_ns
        else None,
        walk_l2_miss_fraction=walk_fraction,
        false_sharing_fraction=placement.false_sharing(pages),
        page_sizes=(base, huge),
        costs_source=costs_source,
        intervals=intervals,
        remedies=carrefour.remedies(pages),
        directions=Directions(
            translation="faster" if promising and huge.data_walks < base.data_walks / 2 else "same",
            placement=placement_direction(base.first_touch, huge.first_touch),
        ),
        carrefour_lp=replace(decision, after=carrefour.after(pages, decision)),
        real=real,
        why_not_real=None if real is not None else _WHY_NOT_REAL[min(len(machine_nodes()), 2)],
    )


def _size(
    pages: NodePages,
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
    # A cost that is not needed need not be known.
    if (fault_ns[0] is not None or not small.sum()) and (
        fault_ns[1] is not None or not large.sum()
    ):
        times = small * (fault_ns[0] or 0.0) + large * (fault_ns[1] or 0.0)
    return SizeFigures(
        page_size_bytes=size,
        first_touch=placement.score(by, placement.first_touch(pages, huge=huge)),
        interleaved=placement.score(by, placement.interleaved(pages, huge=huge)),
        hot_pages=placement.hot_pages(pages, huge=huge),
        data_walks=sum(counts[size, side].stlb_misses for side in DATA if (size, side) in counts),
        page_faults=int(small.sum() + large.sum()),
        fault_time_ns=None if times is None else float(times.sum()),
        largest_thread_fault_fraction=None
        if times is None or not wall_ns
        else float(times.max(initial=0.0)) / wall_ns,
    )
