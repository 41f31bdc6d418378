# SPDX-License-Identifier: GPL-2.0-or-later
"""What does a calibration say at a glance? At most 24 lines: its grade, and what estimates take."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from tlbcost.calibration.consistency import presentable
from tlbcost.calibration.costs import find
from tlbcost.calibration.loads import UNIT_BYTES
from tlbcost.calibration.other_sources import ReportedFigure, disagreements, is_splintered
from tlbcost.calibration.records import POOR, Access, Calibration, Obtained
from tlbcost.common import units
from tlbcost.common.interval import Interval
from tlbcost.system.machine import Machine

LINES = 24
_MOST_WALKS = 4
_LABEL, _COLUMN = 25, 27
_HELD = "\u00a0"
# Quantities of each page size: the words for them, the access.
_ROWS: tuple[tuple[str, str, Access | None], ...] = (
    ("dtlb_entries", "L1 dTLB, entries", None),
    ("stlb_entries", "STLB, entries", None),
    ("stlb_hit_ns", "STLB hit", "serial"),
    ("fault_ns", "Page fault", None),
    ("unmap_ns", "Unmapping a page", None),
)


def summarize(obtained: Obtained, reported: Sequence[ReportedFigure] = (), width: int = 80) -> str:
    """The calibration in short. `reported` is what other sources say of the machine."""
    calibration = presentable(obtained.calibration)
    lines = [
        *_grade(calibration, width),
        *_wrapped(f"Machine  {_machine(calibration.machine)}", width, 9)[:2],
        *_wrapped(f"Source   {obtained.source}", width, 9)[:2],
        "",
        *_table(calibration),
        "",
        *_loads(calibration, width),
    ]
    end = "Everything else, and what is published: --details"
    notes = [line for note in _notes(calibration, reported) for line in _wrapped(note, width, 2)]
    room = LINES - len(lines) - 2
    if len(notes) > room:
        notes = notes[:room]
    lines += ["", *notes, end] if notes else ["", end]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _grade(calibration: Calibration, width: int) -> list[str]:
    """The grade, and the first of its reasons."""
    when = f"{calibration.date}, {calibration.extent}, in {calibration.duration_s:.1f} s"
    if calibration.grade == "good":
        return [f"Good calibration: {when}"]
    first, *others = calibration.grade_reasons
    what, _, remedy = POOR.partition(": ")
    more = f"; {len(others)} more" if others else ""
    return [
        f"{what.upper()}: {remedy}",
        *_wrapped(f"Because  {first}{more}", width, 9)[:2],
        f"Taken    {when}",
    ]


def _machine(machine: Machine) -> str:
    name = machine.cpu_name or machine.cpu_vendor or "unknown CPU"
    guest = f", guest of {machine.hypervisor}" if machine.hypervisor else ""
    kernel = machine.kernel or "an unknown kernel"
    return f"{name}{guest}; {kernel}; transparent huge pages {machine.thp_mode or 'absent'}"


def _table(calibration: Calibration) -> Iterator[str]:
    """Entries and costs of the base page and of the usual huge page, side by side."""
    sizes = sorted({c.page_size_bytes for c in calibration.costs if c.page_size_bytes})[:2]
    heads = "".join(f"{f'{units.size(size)} pages':<{_COLUMN}}" for size in sizes)
    yield f"{'Costs in ns':<{_LABEL}}{heads}"
    for quantity, words, access in _ROWS:
        found = [find(calibration, quantity, size, access) for size in sizes]
        if any(found):
            yield _row(words, [rows[0].interval if rows else None for rows in found], quantity)
        if quantity == "stlb_hit_ns":
            yield from _walks(calibration, sizes)


def _walks(calibration: Calibration, sizes: Sequence[int]) -> Iterator[str]:
    """Walks at a few footprints: the farthest apart that were measured."""
    by_size = [
        {cost.pages: cost.interval for cost in find(calibration, "walk_ns", size, "serial")
         if cost.pages}
        for size in sizes
    ]  # fmt: skip
    footprints = sorted({pages for walks in by_size for pages, ns in walks.items() if ns})
    if not footprints:
        yield _row("Page walk", [None] * len(sizes), "walk_ns")
    for pages in _spread(footprints):
        words = f"Page walk, {pages:,} pages"
        cells = [_value("walk_ns", walks[pages]) if pages in walks else "" for walks in by_size]
        yield f"{words:<{_LABEL}}{''.join(f'{cell:<{_COLUMN}}' for cell in cells)}"


def _spread(footprints: Sequence[int]) -> list[int]:
    """At most this many of them, including the first and the last."""
    n = len(footprints)
    most = min(n, _MOST_WALKS)
    return [footprints[round(i * (n - 1) / max(1, most - 1))] for i in range(most)]


def _row(words: str, intervals: Iterable[Interval | None], quantity: str) -> str:
    cells = "".join(f"{_value(quantity, interval):<{_COLUMN}}" for interval in intervals)
    return f"{words:<{_LABEL}}{cells}"


def _value(quantity: str, interval: Interval | None) -> str:
    if interval is None:
        return units.NOT_OBTAINED
    if not quantity.endswith("_ns"):
        return f"{interval.value:.0f} ({interval.low:.0f} to {interval.high:.0f})"
    low, high = units.nanoseconds(interval.low), units.nanoseconds(interval.high)
    return f"{units.nanoseconds(interval.value)} ({low} to {high})"


def _loads(calibration: Calibration, width: int) -> list[str]:
    """Dependent loads by footprint, in one sentence."""
    found = [
        (cost.pages, cost.interval)
        for cost in find(calibration, "load_ns", None, "serial")
        if cost.interval
    ]
    words = [f"{units.size(n * UNIT_BYTES)} {units.nanoseconds(at.value)}" for n, at in found if n]
    memory = [units.nanoseconds(at.value) for n, at in found if n is None]
    words += [f"memory {memory[0] if memory else units.NOT_OBTAINED}"]
    held = [word.replace(" ", _HELD) for word in words]
    lines = _wrapped(f"Loads, ns, by footprint: {', '.join(held)}", width, 2)
    return [line.replace(_HELD, " ") for line in lines]


def _notes(calibration: Calibration, reported: Sequence[ReportedFigure]) -> Iterator[str]:
    """What matters most: what huge pages are in the TLB, and what contradicts other sources."""
    yield "In brackets: 95 % interval. NA: not obtained. Walks: by the pages in use."
    for size in sorted({c.page_size_bytes for c in calibration.costs if c.page_size_bytes}):
        if is_splintered(calibration, size):
            yield (f"The TLB holds {units.size(size)} pages in smaller pieces, as the host backs "
                   "them: huge pages make a walk cheaper, and remove none.")  # fmt: skip
    for sentence in disagreements(calibration, reported):
        yield f"{sentence}."


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    return textwrap.wrap(
        text, width, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=True
    )
