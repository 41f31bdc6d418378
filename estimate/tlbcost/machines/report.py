# SPDX-License-Identifier: GPL-2.0-or-later
"""How is an estimate for other machines and page sizes shown as text?"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, TextIO

from tlbcost.common import units
from tlbcost.common.console import WIDTH, print_whole, section, table
from tlbcost.machines.gain import MachineEstimates, MachineResult, Sides, sentence
from tlbcost.processors.geometry import PageSizeGeometry, TlbLevel

if TYPE_CHECKING:
    from rich.console import Console

_MODEL = (
    "Times are shares of modelled core cycles: the program did not run on these machines. On the "
    "machine that the model was made on its errors are those of tlbcost-validate(1); on others it "
    "has been compared with published patterns alone (doc/page-sizes.md)."
)


def print_report(report: MachineEstimates, file: TextIO) -> None:
    """Print it whole."""
    print_whole(lambda console: _fill(report, console), file)


def _fill(report: MachineEstimates, console: Console) -> None:
    console.print(f"tlbcost {report.version}: {' '.join(report.argv)}")
    if report.run is not None and report.simulated_ns is not None:
        console.print(
            f"Ran natively in {units.time(report.run.wall_ns)}, simulated once for all in "
            f"{units.time(report.simulated_ns)}."
        )
    for result in report.machines:
        _machine(result, console)
    console.print()
    _words(console, _MODEL)
    for caveat in report.caveats:
        _words(console, f"{caveat.code}: {caveat.text}")


def _words(console: Console, text: str) -> None:
    for line in textwrap.wrap(text, WIDTH):
        console.print(line)


def _machine(result: MachineResult, console: Console) -> None:
    machine = result.machine
    console.print()
    console.print(f"machine {machine.title} ({machine.name})")
    _words(console, f"costs   {machine.costs}")
    rows = table("pages", "L1 dTLB", "STLB", "L1 misses", "STLB hits", "walks", "time")
    for size in result.sizes:
        rows.add_row(
            units.size(size.size.page_bytes),
            *_levels(size.size.geometry),
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
    for note in machine.assumed:
        _words(console, f"  {note}.")


def _levels(geometry: PageSizeGeometry | None) -> tuple[str, str]:
    """First and second level for data."""
    if geometry is None:
        return units.NOT_OBTAINED, units.NOT_OBTAINED
    return _level(geometry.dtlb), _level(geometry.stlb)


def _level(level: TlbLevel | None) -> str:
    return "none" if level is None else f"{level.entries}:{level.ways}"


def _data(counts: Sides | None) -> tuple[str, ...]:
    """Misses of the first level, hits of the second, and walks."""
    if counts is None:
        return (units.NOT_OBTAINED,) * 3
    sides = [seen for side, seen in counts.items() if side != "fetch"]
    return (
        units.count(sum(seen.l1_tlb_misses for seen in sides)),
        units.count(sum(seen.stlb_hits for seen in sides)),
        units.count(sum(seen.stlb_misses for seen in sides)),
    )
