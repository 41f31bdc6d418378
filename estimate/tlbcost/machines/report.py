# SPDX-License-Identifier: GPL-2.0-or-later
"""How is an estimate for other machines and page sizes shown: as text, and as JSON?"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from tlbcost.common import units
from tlbcost.common.console import WIDTH, print_whole, section, table
from tlbcost.machines.gain import MachineResult, SizeResult, sentence
from tlbcost.processors.geometry import PageSizeGeometry, TlbLevel
from tlbcost.simulator.counts import SideCounts

if TYPE_CHECKING:
    from rich.console import Console

    from tlbcost.machines.estimate import OtherReport

_MODEL = (
    "Times are shares of modelled core cycles: the program did not run on these machines. On the "
    "machine that the model was made on its errors are those of tlbcost-validate(1); on others it "
    "has been compared with published patterns alone (doc/page-sizes.md)."
)


def print_report(report: OtherReport, file: TextIO) -> None:
    """Print it whole."""
    print_whole(lambda console: _fill(report, console), file)


def _fill(report: OtherReport, console: Console) -> None:
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
    for code, text in caveats(report):
        _words(console, f"{code}: {text}")


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
        data = _data(size)
        rows.add_row(
            units.size(size.size.page_bytes),
            _level(size.size.geometry.dtlb),
            _level(size.size.geometry.stlb),
            *(units.count(n) for n in (data.l1_tlb_misses, data.stlb_hits, data.stlb_misses)),
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


def _level(level: TlbLevel | None) -> str:
    return "none" if level is None else f"{level.entries}:{level.ways}"


def _data(size: SizeResult) -> SideCounts:
    sides = [seen for side, seen in size.counts.items() if side != "fetch"]
    return SideCounts(
        sum(seen.l1_tlb_misses for seen in sides),
        sum(seen.stlb_hits for seen in sides),
        sum(seen.stlb_misses for seen in sides),
    )


def caveats(report: OtherReport) -> list[tuple[str, str]]:
    """The caveats that apply (doc/caveats.md)."""
    found = []
    assumed = [r.machine.name for r in report.machines if r.machine.assumed]
    if assumed:
        found.append(
            (
                "M01",
                f"figures of {', '.join(assumed)} are assumed or unchecked, as told above; a "
                "calibration brought from such a machine is better (--calibration).",
            )
        )
    large = [s for r in report.machines for s in r.sizes if s.size.page_bytes >= 1 << 30]
    if large:
        found.append(
            (
                "M02",
                "memory is taken to be on 1 GiB pages where a mapping spans such a page whole, "
                "and on base pages elsewhere; which memory gets them is the program's matter.",
            )
        )
    return found


def to_json(report: OtherReport) -> str:
    """The report for programs: data/schema/machine-estimate.schema.json."""
    run = report.run
    content = {
        "schema": "tlbcost-machine-estimate-1",
        "tlbcost_version": report.version,
        "date": report.date,
        "command": list(report.argv),
        "native_wall_ns": None if run is None else run.wall_ns,
        "simulated_wall_ns": report.simulated_ns,
        "machines": [_machine_json(result) for result in report.machines],
        "caveats": [{"code": code, "text": text} for code, text in caveats(report)],
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _machine_json(result: MachineResult) -> Mapping[str, object]:
    machine = result.machine
    return {
        "name": machine.name,
        "title": machine.title,
        "costs": machine.costs,
        "core": None if machine.core is None else machine.core.option,
        "windows": result.windows,
        "no_times": result.no_times,
        "assumed": list(machine.assumed),
        "page_sizes": [_size_json(size, result.sizes[0]) for size in result.sizes],
    }


def _size_json(size: SizeResult, base: SizeResult) -> Mapping[str, object]:
    ratio = size.time_ratio
    return {
        "page_size_bytes": size.size.page_bytes,
        "misses_like_bytes": size.size.like,
        "note": size.size.note,
        "tlb": _geometry_json(size.size.geometry),
        "misses": {
            side: {
                "l1_tlb_misses": seen.l1_tlb_misses,
                "stlb_hits": seen.stlb_hits,
                "page_walks": seen.stlb_misses,
            }
            for side, seen in size.counts.items()
        },
        "cycles_per_reference": size.cycles_per_reference,
        "time_ratio": None
        if ratio is None
        else {"value": ratio.value, "low": ratio.low, "high": ratio.high},
        "expected_gain_fraction": None
        if ratio is None
        else {"value": 1 - ratio.value, "low": 1 - ratio.high, "high": 1 - ratio.low},
        "verdict": size.verdict,
        "sentence": None if size is base else sentence(size, base),
    }


def _geometry_json(geometry: PageSizeGeometry) -> Mapping[str, object]:
    return {
        name: None if level is None else {"entries": level.entries, "ways": level.ways}
        for name, level in (
            ("dtlb", geometry.dtlb), ("itlb", geometry.itlb), ("stlb", geometry.stlb)
        )
    }  # fmt: skip
