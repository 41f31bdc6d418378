# SPDX-License-Identifier: GPL-2.0-or-later
"""The document of `tlbcost estimate --json` with --machine or --page-size."""

from __future__ import annotations

from typing import Annotated

from tlbcost.common import document
from tlbcost.common.document import Part, doc
from tlbcost.common.interval import Interval
from tlbcost.machines.gain import (
    MachineCaveat,
    MachineEstimates,
    MachineResult,
    SizeResult,
    UnknownEffect,
    Verdict,
    sentence,
)
from tlbcost.processors.published import TlbLevel
from tlbcost.simulator.counts import Side


class SimulatedTlb(Part, frozen=True, kw_only=True):
    """The TLBs for one page size; null: the level does not hold it."""

    dtlb: Annotated[TlbLevel | None, doc("first level of data")]
    itlb: Annotated[TlbLevel | None, doc("first level of code")]
    stlb: Annotated[TlbLevel | None, doc("second level")]


class SideMisses(Part, frozen=True, kw_only=True):
    """Misses of one kind of access."""

    l1_tlb_misses: Annotated[int, doc("missed the first level", minimum=0)]
    stlb_hits: Annotated[int, doc("of these, found in the second level", minimum=0)]
    page_walks: Annotated[int, doc("of these, found in neither", minimum=0)]


class PageSizeEstimate(Part, frozen=True, kw_only=True):
    """One page size on one machine."""

    page_size_bytes: Annotated[int, doc("size of the pages", minimum=4096)]
    misses_like_bytes: Annotated[
        int | None, doc("the smaller page size whose TLB entries hold such pages in pieces")
    ]
    note: Annotated[str | None, doc("what to know about it")]
    tlb: Annotated[
        SimulatedTlb | None, doc("the TLBs that it was simulated on; null: not known, see note")
    ]
    misses: Annotated[dict[Side, SideMisses] | None, doc("by kind of access; null: not simulated")]
    cycles_per_reference: Annotated[float | None, doc("modelled core cycles")]
    time_ratio: Annotated[Interval | None, doc("modelled time over that on the first page size")]
    expected_gain_fraction: Annotated[
        Interval | None, doc("of the modelled time on the first page size; negative: a loss")
    ]
    effects: Annotated[
        tuple[UnknownEffect, ...],
        doc("of figures that are guesses on time_ratio, the largest first; they are in its range"),
    ]
    verdict: Annotated[Verdict, doc("compared with the first page size")]
    sentence: Annotated[str | None, doc("the same for people; null: the first page size")]


class MachineEstimate(Part, frozen=True, kw_only=True):
    """One machine."""

    name: Annotated[str, doc("as given to --machine; here: this machine")]
    title: Annotated[str, doc("its full name")]
    costs: Annotated[str, doc("where its times come from")]
    core: Annotated[str | None, doc("what was modelled, as given to the simulator")]
    windows: Annotated[int, doc("how many were modelled", minimum=0)]
    no_times: Annotated[str | None, doc("why there are no times")]
    assumed: Annotated[tuple[str, ...], doc("which of its figures are assumed or unchecked")]
    page_sizes: Annotated[list[PageSizeEstimate], doc("ascending", minItems=1)]


class MachineEstimateDocument(Part, frozen=True, kw_only=True):
    """What `tlbcost estimate --machine NAMES --json FILE` and `--page-size` write.

    Misses and modelled times on other machines and page sizes. null means that a figure was not
    obtained.
    """

    schema: Annotated[
        str, doc("form of this document and its version", const="tlbcost-machine-estimate-3")
    ] = "tlbcost-machine-estimate-3"
    tlbcost_version: Annotated[str, doc("the version of tlbcost that made it")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    command: Annotated[tuple[str, ...], doc("the program's command line")]
    region: Annotated[
        str | None, doc("the phase of it that this is of, START:END; null: all of it")
    ] = None
    native_wall_ns: Annotated[int | None, doc("its native run, or the region's part of it")]
    simulated_wall_ns: Annotated[int | None, doc("its run in the simulator")]
    machines: Annotated[list[MachineEstimate], doc("one for each machine", minItems=1)]
    caveats: Annotated[tuple[MachineCaveat, ...], doc("what to know before relying on it")]


def to_json(report: MachineEstimates) -> str:
    return document.to_json(
        MachineEstimateDocument(
            tlbcost_version=report.version,
            date=report.date,
            command=report.argv,
            region=report.region,
            native_wall_ns=None if report.run is None else report.run.wall_ns,
            simulated_wall_ns=report.simulated_ns,
            machines=[_machine(result) for result in report.machines],
            caveats=report.caveats,
        )
    )


def _machine(result: MachineResult) -> MachineEstimate:
    machine = result.machine
    return MachineEstimate(
        name=machine.name,
        title=machine.title,
        costs=machine.costs,
        core=None if machine.core is None else machine.core.option,
        windows=result.windows,
        no_times=result.no_times,
        assumed=machine.assumed,
        page_sizes=[_page_size(size, result.sizes[0]) for size in result.sizes],
    )


def _page_size(result: SizeResult, base: SizeResult) -> PageSizeEstimate:
    ratio, geometry = result.time_ratio, result.size.geometry
    return PageSizeEstimate(
        page_size_bytes=result.size.page_bytes,
        misses_like_bytes=result.size.like,
        note=result.size.note,
        tlb=None
        if geometry is None
        else SimulatedTlb(dtlb=geometry.dtlb, itlb=geometry.itlb, stlb=geometry.stlb),
        misses=None
        if result.counts is None
        else {
            side: SideMisses(
                l1_tlb_misses=seen.l1_tlb_misses,
                stlb_hits=seen.stlb_hits,
                page_walks=seen.stlb_misses,
            )
            for side, seen in result.counts.items()
        },
        cycles_per_reference=result.cycles_per_reference,
        time_ratio=ratio,
        expected_gain_fraction=None
        if ratio is None
        else Interval(1 - ratio.value, 1 - ratio.high, 1 - ratio.low),
        effects=result.effects,
        verdict=result.verdict,
        sentence=None if result is base else sentence(result, base),
    )
