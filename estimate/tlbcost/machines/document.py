# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of an estimate for other machines and page sizes, as text and as JSON."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TextIO

from tlbcost.common import document, units
from tlbcost.common.console import print_whole, section, table
from tlbcost.common.document import Part, amount, doc, part_of
from tlbcost.common.units import Interval, middle
from tlbcost.machines.estimate import (
    MachineCaveat,
    MachineEstimates,
    MachineResult,
    Sides,
    SizeResult,
    UnknownEffect,
    Verdict,
    sentence,
)
from tlbcost.processors.published import TlbLevel
from tlbcost.report.lines import LABEL, labelled, visible, wrapped
from tlbcost.run.outcome import region_words
from tlbcost.simulator.counts import Side

if TYPE_CHECKING:
    from rich.console import Console


class SimulatedTlb(Part, frozen=True, kw_only=True):
    """The TLBs for one page size; null: the level does not hold it."""

    dtlb: Annotated[TlbLevel | None, doc("first level of data")]
    itlb: Annotated[TlbLevel | None, doc("first level of code")]
    stlb: Annotated[TlbLevel | None, doc("second level")]


class SideMisses(Part, frozen=True, kw_only=True):
    """Misses of one kind of access."""

    l1_tlb_misses: Annotated[int, amount("missed the first level")]
    stlb_hits: Annotated[int, amount("of these, found in the second level")]
    page_walks: Annotated[int, amount("of these, found in neither")]


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
    windows: Annotated[int, amount("how many were modelled")]
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
        part_of(
            MachineEstimateDocument,
            report,
            tlbcost_version=report.version,
            command=report.argv,
            native_wall_ns=None if report.run is None else report.run.wall_ns,
            simulated_wall_ns=report.simulated_ns,
            machines=[
                part_of(
                    MachineEstimate,
                    result.machine,
                    core=None if result.machine.core is None else result.machine.core.option,
                    windows=result.windows,
                    no_times=result.no_times,
                    page_sizes=[_page_size(size, result.sizes[0]) for size in result.sizes],
                )
                for result in report.machines
            ],
        )
    )


def _page_size(result: SizeResult, base: SizeResult) -> PageSizeEstimate:
    ratio, geometry = result.time_ratio, result.size.geometry
    return part_of(
        PageSizeEstimate,
        result,
        page_size_bytes=result.size.page_bytes,
        misses_like_bytes=result.size.like,
        note=result.size.note,
        tlb=None if geometry is None else part_of(SimulatedTlb, geometry),
        misses=None
        if result.counts is None
        else {
            side: part_of(SideMisses, seen, page_walks=seen.stlb_misses)
            for side, seen in result.counts.items()
        },
        cycles_per_reference=result.cycles_per_reference,
        expected_gain_fraction=None
        if ratio is None
        else Interval(1 - ratio.value, 1 - ratio.high, 1 - ratio.low),
        sentence=None if result is base else sentence(result, base),
    )


_MOST_LINES = 24
_VERDICTS = {"faster": "faster", "slower": "slower", "alike": "not proven"}
# Effects of guesses on a time ratio that are worth a word.
_SHOWN = 0.005
_BASIS = "Basis: simulation; times are of modelled cores, on which the program did not run."
_MODEL = (
    "Times are shares of modelled core cycles: the program did not run on these machines. On the "
    "machine that the model was made on its errors are those of tlbcost-validate(1); on others it "
    "has been compared with published tables alone (doc/accuracy-machines.md)."
)


def print_report(report: MachineEstimates, file: TextIO, *, details: bool = False) -> None:
    print_whole(lambda console: _fill(report, console, details=details), file)


def _fill(report: MachineEstimates, console: Console, *, details: bool) -> None:
    width = console.width
    for line in wrapped(verdict(report.machines), width):
        console.print(line, style="bold")
    together = plain_sentence(report.machines)
    for line in wrapped(together, width) if together else ():
        console.print(line)
    ran = "not timed"
    if report.run is not None and report.simulated_ns is not None:
        ran = (
            f"{units.time(report.run.wall_ns)} natively, simulated once for all in "
            f"{units.time(report.simulated_ns)}"
        )
    below = [
        f"{'Program':<{LABEL}}{middle(visible(shlex.join(report.argv)), width - LABEL)}",
        *labelled("Run", ran, width),
    ]
    if report.region is not None:
        below[1:1] = labelled("Region", region_words(report.region), width)
    codes = [
        line
        for each in report.caveats
        for line in wrapped(each.text, width, f"{each.code:<5}", " " * 5)
    ]
    ending = [*codes, *wrapped(f"{_BASIS} Details: --details", width)]
    said = 6 if together is None else 6 + len(wrapped(together, width))
    _sizes(console, report.machines, _MOST_LINES - len(below) - len(ending) - said)
    for line in ("", *below, "", *ending):
        console.print(line, soft_wrap=True)
    if details:
        for result in report.machines:
            _print_machine(result, console)
        console.print()
        _words(console, _MODEL)


def verdict(machines: Sequence[MachineResult]) -> str:
    """The best of all, or that nothing is clearly faster, in a sentence."""
    others = [
        (size, result)
        for result in machines
        for size in result.sizes[1:]
        if size.time_ratio is not None
    ]
    if not others:
        return "NOT KNOWN: no times could be modelled; misses alone are known."
    size, result = min(others, key=lambda each: _value(each[0]))
    if size.verdict == "faster":
        pages = f"{units.size(size.size.page_bytes)} pages"
        first = units.size(result.sizes[0].size.page_bytes)
        where = f" on {result.machine.title}" if len(machines) > 1 else ""
        most = "most" if len(others) > 1 else "time"
        return (
            f"FASTER: {pages} should save {most}{where}: {_value(size):.2f} of the time on "
            f"{first} pages ({_range(size)})."
        )
    if all(size.verdict == "slower" for size, _ in others):
        return "SLOWER: larger pages should take more time."
    return "NOT PROVEN: no larger page size is clearly faster."


def _value(size: SizeResult) -> float:
    return math.inf if size.time_ratio is None else size.time_ratio.value


def _range(size: SizeResult) -> str:
    ratio = size.time_ratio
    return units.NOT_OBTAINED if ratio is None else f"{ratio.low:.2f} to {ratio.high:.2f}"


def _sizes(console: Console, machines: Sequence[MachineResult], most: int) -> None:
    shown = table("machine", "pages", "walks", "time", "range", "")
    shown.columns[-1].justify = "left"
    rows = [(result, size) for result in machines for size in result.sizes]
    if len(machines) > 1:
        # A line for each machine: the size that saves most there.
        rows = [(result, size or result.sizes[-1]) for result, size in best_first(machines)]
    for result, size in rows[: most if len(rows) <= most else most - 1]:
        first = size is result.sizes[0]
        shown.add_row(
            result.machine.title if first or len(machines) > 1 else "",
            units.size(size.size.page_bytes),
            _data(size.counts)[2],
            units.NOT_OBTAINED if size.time_ratio is None else f"{size.time_ratio.value:.2f}",
            "" if first or size.time_ratio is None else _range(size),
            "" if first or size.time_ratio is None else _VERDICTS[size.verdict],
        )
    section(console, shown)
    if len(rows) > most:
        console.print(f"{len(rows) - most + 1} more lines: --details")


def _words(console: Console, text: str) -> None:
    for line in wrapped(text, console.width):
        console.print(line)


def _print_machine(result: MachineResult, console: Console) -> None:
    machine = result.machine
    console.print()
    console.print(f"machine {machine.title} ({machine.name})")
    _words(console, f"costs   {machine.costs}")
    rows = table("pages", "L1 dTLB", "STLB", "L1 misses", "STLB hits", "walks", "time")
    for size in result.sizes:
        tlbs = size.size.geometry
        levels = [units.NOT_OBTAINED] * 2
        if tlbs is not None:
            levels = [_level(tlbs.dtlb), _level(tlbs.stlb)]
        rows.add_row(
            units.size(size.size.page_bytes),
            *levels,
            *_data(size.counts),
            units.NOT_OBTAINED if size.time_ratio is None else f"{size.time_ratio.value:.2f}",
        )
    section(console, rows)
    _words(
        console,
        "Misses of loads and stores. "
        + (
            f"Time relative to the first size, modelled in {result.windows} windows."
            if result.no_times is None
            else f"No times: {result.no_times}."
        ),
    )
    for size in result.sizes[1:]:
        _words(console, sentence(size, result.sizes[0]))
        if size.size.note is not None:
            _words(console, f"  {size.size.note}.")
    _effects(result, console)
    for note in machine.assumed:
        _words(console, f"  {note}.")


def _effects(result: MachineResult, console: Console) -> None:
    for size in result.sizes[1:]:
        parts = [
            f"{each.figure} -{each.below:.2f} +{each.above:.2f}"
            for each in size.effects
            if max(each.below, each.above) >= _SHOWN
        ]
        if parts:
            pages = units.size(size.size.page_bytes)
            _words(console, f"  Of the range on {pages} pages, by guesses: {', '.join(parts)}.")


def _level(level: TlbLevel | None) -> str:
    return "none" if level is None else f"{level.entries}:{level.ways}"


def _data(counts: Sides | None) -> tuple[str, ...]:
    if counts is None:
        return (units.NOT_OBTAINED,) * 3
    sides = [seen for side, seen in counts.items() if side != "fetch"]
    return (
        units.count(sum(seen.l1_tlb_misses for seen in sides)),
        units.count(sum(seen.stlb_hits for seen in sides)),
        units.count(sum(seen.stlb_misses for seen in sides)),
    )


def best_of(result: MachineResult) -> SizeResult | None:
    """The larger page size with the least time; None: none was timed."""
    timed = [size for size in result.sizes[1:] if size.time_ratio is not None]
    return min(timed, key=_ratio_of) if timed else None


def best_first(machines: Sequence[MachineResult]) -> list[tuple[MachineResult, SizeResult | None]]:
    """The machines with their best sizes, what saves most first, what is not known last."""
    found = [(result, best_of(result)) for result in machines]
    return sorted(found, key=lambda pair: (pair[1] is None, pair[1] and _ratio_of(pair[1])))


def plain_sentence(machines: Sequence[MachineResult]) -> str | None:
    """What all of them come to, in one sentence; None if there is only one."""
    timed = [(result, size) for result, size in best_first(machines) if size is not None]
    if len(machines) < 2 or not timed:
        return None
    parts = [f"on {result.machine.title} {_saves(size)}" for result, size in timed]
    text = f"{', '.join(parts)}."
    return text[0].upper() + text[1:]


def _saves(size: SizeResult) -> str:
    ratio = size.time_ratio
    assert ratio is not None
    pages = units.size(size.size.page_bytes)
    low, value, high = (round(100 * (1 - end)) for end in (ratio.high, ratio.value, ratio.low))
    return f"{pages} pages save {value} % ({low} to {high})"


def _ratio_of(size: SizeResult) -> float:
    assert size.time_ratio is not None
    return size.time_ratio.value
