# SPDX-License-Identifier: GPL-2.0-or-later
"""What simulation and counters add to a report: TLBs, misses in each process, counts, both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tlbcost.answer.record import CountedPart, Estimate, Simulated
from tlbcost.common import units
from tlbcost.common.console import section, table
from tlbcost.counters.count_report import print_events, print_figures
from tlbcost.processors.geometry import Level, LevelSource, TlbLevel
from tlbcost.simulator.counts import CODE, DATA, ProcessCounts, Side, SideCounts

if TYPE_CHECKING:
    from rich.console import Console

_MOST_PROCESSES = 5


def print_tlbs(console: Console, simulated: Simulated) -> None:
    """The TLBs that were modelled, and where their sizes are from."""
    shown = table("TLB", "pages", "entries", "ways", "from")
    shown.columns[-1].justify = "left"
    for level in (simulated.geometry.base, simulated.geometry.huge):
        size = level.page_size_bytes
        levels: tuple[tuple[Level, TlbLevel | None], ...] = (
            ("dtlb", level.dtlb), ("itlb", level.itlb), ("stlb", level.stlb)
        )  # fmt: skip
        for name, tlb in levels:
            source = _source(simulated.geometry.sources.get((name, size)))
            shape = ("none", "") if tlb is None else (str(tlb.entries), str(tlb.ways))
            shown.add_row(name, units.size(size), *shape, source)
    section(console, shown)


def _source(source: LevelSource | None) -> str:
    if source is None:
        return units.NOT_OBTAINED
    return f"{source.kind}, confirmed" if source.confirmed else source.kind


def print_misses(console: Console, simulated: Simulated) -> None:
    """The misses by page size and access, and those of each process."""
    size = simulated.geometry.base.page_size_bytes
    huge = simulated.geometry.huge.page_size_bytes
    shown = table("misses", "pages", "L1 TLB", "STLB hits", "page walks")
    for page_size in (size, huge):
        for name, sides in (("loads", DATA[:1]), ("stores", DATA[1:]), ("code", CODE)):
            side: Side = sides[0]
            counts = simulated.counts.get((page_size, side))
            cells = [units.NOT_OBTAINED] * 3 if counts is None else _cells(counts)
            shown.add_row(name, units.size(page_size), *cells)
    section(console, shown)
    if len(simulated.processes) > 1:
        _processes(console, simulated.processes, size, huge)


def modelled_sentence(simulated: Simulated) -> str:
    """What the overlap model's expected gain rests on, and what the other model says."""
    sample, simple = simulated.sample, simulated.gain.models.get("simple")
    assert sample is not None
    assert simple is not None
    part = units.percent(sample.sampled_references / sample.references)
    return (
        f"The expected gain is modelled in {units.count(sample.windows)} windows with {part} of "
        f"the references; misses times their costs (--model simple) give "
        f"{units.percent(simple.value)}, {units.range_of(simple)}."
    )


def _cells(counts: SideCounts) -> list[str]:
    return [units.count(n) for n in (counts.l1_tlb_misses, counts.stlb_hits, counts.stlb_misses)]


def _processes(
    console: Console, processes: tuple[ProcessCounts, ...], size: int, huge: int
) -> None:
    def walks(process: ProcessCounts, page_size: int) -> int | None:
        if process.counts is None:
            return None
        sides = [process.counts.get((page_size, side)) for side in (*DATA, *CODE)]
        return sum(side.stlb_misses for side in sides if side is not None)

    shown = table(
        "process", "pid", "threads", "memory",
        f"walks {units.size(size)}", f"walks {units.size(huge)}",
    )  # fmt: skip
    ordered = sorted(processes, key=lambda each: walks(each, size) or 0, reverse=True)
    for process in ordered[:_MOST_PROCESSES]:
        touched = process.touched
        n_walks = [walks(process, page_size) for page_size in (size, huge)]
        shown.add_row(
            process.program.rpartition("/")[2],
            str(process.pid),
            units.NOT_OBTAINED if process.threads is None else str(process.threads),
            units.NOT_OBTAINED if touched is None else units.size(touched.pages * size),
            *(units.NOT_OBTAINED if n is None else units.count(n) for n in n_walks),
        )
    section(console, shown)
    left = len(processes) - _MOST_PROCESSES
    if left > 0:
        console.print(f"and {left} more, all in the sums and in the JSON.")


def print_counts(console: Console, part: CountedPart) -> None:
    """Each event's count, and the formulas that have a value."""
    print_events(console, part.counted)
    obtained = {name: figure for name, figure in part.figures.items() if figure is not None}
    print_figures(console, obtained)


def print_comparison(console: Console, estimate: Estimate) -> None:
    """What both backends found, side by side."""
    counted, simulated = estimate.counted, estimate.simulated
    if counted is None or simulated is None:
        return
    shown = table("compared", "counters", "simulation")
    size = simulated.geometry.base.page_size_bytes
    for label, formula, sides in (
        ("page walks", "walks", (*DATA, *CODE)),
        ("... for loads and stores", "data_walks", DATA),
    ):
        figure = counted.figures.get(formula)
        walks = [simulated.counts.get((size, side)) for side in sides]
        shown.add_row(
            label,
            units.NOT_OBTAINED if figure is None else units.count(round(figure.value)),
            units.count(sum(each.stlb_misses for each in walks if each is not None)),
        )
    both = (counted.gain, simulated.gain)
    shown.add_row("bound", *(units.percent(each.bound_fraction.value) for each in both))
    shown.add_row("expected gain", *(units.range_of(each.expected_fraction) for each in both))
    section(console, shown)
