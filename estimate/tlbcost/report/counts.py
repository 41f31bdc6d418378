# SPDX-License-Identifier: GPL-2.0-or-later
"""What simulation and counters add to a report: TLBs, misses in each process, counts, both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tlbcost.answer.estimate_document import (
    AccessMisses,
    CountersPart,
    EstimateDocument,
    ProcessPart,
    SimulationPart,
    SourcedLevel,
)
from tlbcost.common import names, units
from tlbcost.common.console import section, table
from tlbcost.counters.count_report import print_events, print_figures
from tlbcost.counters.event_counts import EventCounts
from tlbcost.report.facts import page_sizes
from tlbcost.simulator.counts import CODE, DATA, Side, SideCounts

if TYPE_CHECKING:
    from rich.console import Console

_MOST_PROCESSES = 5


def print_tlbs(console: Console, simulation: SimulationPart) -> None:
    """The TLBs that were modelled, and where their sizes are from."""
    shown = table("TLB", "pages", "entries", "ways", "from")
    shown.columns[-1].justify = "left"
    for each in simulation.geometry:
        for name, tlb in (("dtlb", each.dtlb), ("itlb", each.itlb), ("stlb", each.stlb)):
            shape = ("none", "") if tlb is None else (str(tlb.entries), str(tlb.ways))
            shown.add_row(name, units.size(each.page_size_bytes), *shape, _source(tlb))
    section(console, shown)


def _source(tlb: SourcedLevel | None) -> str:
    return units.NOT_OBTAINED if tlb is None or tlb.source_kind is None else tlb.source_kind


def print_misses(console: Console, document: EstimateDocument) -> None:
    """The misses by page size and access, and those of each process; nothing if not simulated."""
    simulation = document.simulation
    if simulation is None:
        return
    size, huge = page_sizes(document)
    counts = _by_access(simulation.counts)
    shown = table("misses", "pages", "L1 TLB", "STLB hits", "page walks")
    for page_size in (size, huge):
        for name, sides in (("loads", DATA[:1]), ("stores", DATA[1:]), ("code", CODE)):
            side: Side = sides[0]
            seen = counts.get((page_size, side))
            cells = [units.NOT_OBTAINED] * 3 if seen is None else _cells(seen)
            shown.add_row(name, units.size(page_size), *cells)
    section(console, shown)
    if len(simulation.processes) > 1:
        _processes(console, simulation.processes, size, huge)


def _by_access(counts: Sequence[AccessMisses]) -> dict[tuple[int, Side], AccessMisses]:
    return {(each.page_size_bytes, each.access): each for each in counts}


def modelled_sentence(simulation: SimulationPart) -> str | None:
    """What the overlap model's gain rests on, and what the other says; None: it was not used."""
    sample, simple = simulation.modelled, simulation.expected_simple_fraction
    if simulation.model != "overlap" or sample is None or simple is None:
        return None
    part = units.percent(sample.sampled_references / sample.references)
    return (
        f"The expected gain is modelled in {units.count(sample.windows)} windows with {part} of "
        f"the references; misses times their costs (--model simple) give "
        f"{units.percent(simple.value)}, {units.range_of(simple)}."
    )


def _cells(counts: SideCounts) -> list[str]:
    return [units.count(n) for n in (counts.l1_tlb_misses, counts.stlb_hits, counts.stlb_misses)]


def _processes(console: Console, processes: Sequence[ProcessPart], size: int, huge: int) -> None:
    def walks(process: ProcessPart, page_size: int) -> int | None:
        if process.counts is None:
            return None
        return sum(each.stlb_misses for each in process.counts if each.page_size_bytes == page_size)

    shown = table(
        "process", "pid", "threads", "memory",
        f"walks {units.size(size)}", f"walks {units.size(huge)}",
    )  # fmt: skip
    ordered = sorted(processes, key=lambda each: walks(each, size) or 0, reverse=True)
    for process in ordered[:_MOST_PROCESSES]:
        touched = process.touched
        n_walks = [walks(process, page_size) for page_size in (size, huge)]
        shown.add_row(
            names.shown(process.program.rpartition("/")[2]),
            str(process.pid),
            units.NOT_OBTAINED if process.threads is None else str(process.threads),
            units.NOT_OBTAINED if touched is None else units.size(touched.pages * size),
            *(units.NOT_OBTAINED if n is None else units.count(n) for n in n_walks),
        )
    section(console, shown)
    left = len(processes) - _MOST_PROCESSES
    if left > 0:
        console.print(f"and {left} more, all in the sums and in the JSON.")


def print_counts(console: Console, part: CountersPart) -> None:
    """Each event's count, and the formulas that have a value."""
    print_events(console, EventCounts(part.source, part.pmu, part.mode, part.counts))
    formulas = part.formulas.items()
    print_figures(console, {name: each.value for name, each in formulas if each.value is not None})


def print_comparison(console: Console, document: EstimateDocument) -> None:
    """What both backends found, side by side; nothing if there is one."""
    counters, simulation = document.counters, document.simulation
    if counters is None or simulation is None:
        return
    shown = table("compared", "counters", "simulation")
    size, counts = page_sizes(document)[0], _by_access(simulation.counts)
    for label, formula, sides in (
        ("page walks", "walks", (*DATA, *CODE)),
        ("... for loads and stores", "data_walks", DATA),
    ):
        found = counters.formulas.get(formula)
        figure = None if found is None else found.value
        walks = [counts.get((size, side)) for side in sides]
        shown.add_row(
            label,
            units.NOT_OBTAINED if figure is None else units.count(round(figure.value)),
            units.count(sum(each.stlb_misses for each in walks if each is not None)),
        )
    both = (counters, simulation)
    shown.add_row("bound", *(units.percent(each.bound_fraction.value) for each in both))
    shown.add_row("expected gain", *(units.range_of(each.expected_fraction) for each in both))
    section(console, shown)
