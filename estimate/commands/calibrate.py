# SPDX-License-Identifier: GPL-2.0-or-later
"""`tlbcost calibrate`: what does address translation cost on this machine?"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from dataclasses import asdict
from pathlib import Path

from tlbcost import units
from tlbcost.calibration import Obtained, obtain
from tlbcost.costs import cost_at, find
from tlbcost.errors import TlbcostError
from tlbcost.paths import plot as plot_file
from tlbcost.progress import Progress
from tlbcost.records import Calibration, Cost, Machine
from tlbcost.report.output import check_writable, write

_NAMES = {
    "dtlb_entries": "L1 dTLB entries",
    "stlb_entries": "STLB entries",
    "tlb_entry_bytes": "TLB entry covers",
    "stlb_hit_ns": "STLB hit",
    "walk_ns": "page walk",
    "fault_ns": "page fault",
}
_TERMINALS = {".png": "pngcairo", ".svg": "svg"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it there as JSON too")
    parser.add_argument("--output", type=Path, metavar="FILE", help="print to FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the curve (.png or .svg)")
    parser.add_argument(
        "--recalibrate", action="store_true", help="measure again, even if a calibration is cached"
    )


def run(arguments: argparse.Namespace) -> int:
    """Measure or look up, print, and draw if asked."""
    picture: Path | None = arguments.plot
    if picture is not None and picture.suffix not in _TERMINALS:
        raise TlbcostError(f"cannot plot to {picture}: not a .png or .svg file", "--plot curve.png")
    for path in (picture, arguments.json, arguments.output):
        if path is not None:
            check_writable(path)
    obtained = _obtain(arguments.recalibrate, picture is not None)
    text = describe(obtained)
    if arguments.output is None:
        print(text, end="")
    else:
        write(arguments.output, text)
    if arguments.json is not None:
        write(arguments.json, json.dumps(as_json(obtained), indent=2) + "\n")
    if picture is not None:
        draw(obtained, picture)
    return 0


def describe(obtained: Obtained) -> str:
    """The calibration as text of at most 80 columns."""
    calibration = obtained.calibration
    lines = _machine_lines(calibration.machine)
    lines += [f"Measured   {calibration.date}, in {calibration.duration_s:.1f} s"]
    lines += _wrap("Source     ", obtained.source)
    lines += ["", f"{'quantity':<17}{'page':<7}{'access':<12}{'footprint':>10}{'value':>11}"
              "   95 % interval", "-" * 77]  # fmt: skip
    shown = ""
    for cost in _ordered(calibration):
        name = _NAMES[cost.quantity]
        if shown and cost.quantity != shown and cost.quantity in ("stlb_hit_ns", "fault_ns"):
            lines.append("")
        lines.append(_row(name, cost))
        shown = cost.quantity
    lines.append("")
    lines.append("serial: the next access waits for this one; overlapped: it does not.")
    lines.append("footprint: pages in use, one cache line in each. NA: not obtained, see below.")
    for note in obtained.notes:
        lines += _wrap("note: ", note)
    return "\n".join(lines) + "\n"


def as_json(obtained: Obtained) -> dict[str, object]:
    """The same as a JSON document; the unit of a value is the suffix of its quantity's name."""
    calibration = obtained.calibration
    return {
        "schema": "tlbcost-calibration-1",
        "tlbcost_version": calibration.version,
        "machine": asdict(calibration.machine),
        "date": calibration.date,
        "duration_s": calibration.duration_s,
        "source": obtained.source,
        "notes": list(obtained.notes),
        "costs": [
            {
                "quantity": cost.quantity,
                "page_size_bytes": cost.page_size_bytes,
                "access": cost.access,
                "footprint_pages": cost.pages,
                "value": cost.interval.value if cost.interval else None,
                "low": cost.interval.low if cost.interval else None,
                "high": cost.interval.high if cost.interval else None,
                "samples": cost.samples,
            }
            for cost in calibration.costs
        ],
    }


def draw(obtained: Obtained, picture: Path) -> None:
    """Draw the curve with gnuplot. Raises TlbcostError if that fails; then no file is left."""
    assert obtained.curve is not None
    calibration = obtained.calibration
    sizes = sorted({cost.page_size_bytes for cost in calibration.costs})
    base = calibration.machine.base_page_bytes
    huge = next((size for size in sizes if size != base), 0)
    with tempfile.TemporaryDirectory(prefix="tlbcost-") as folder:
        curve, drawn = Path(folder) / "curve.tsv", Path(folder) / f"drawn{picture.suffix}"
        curve.write_text(obtained.curve, encoding="utf-8")
        settings: dict[str, str | int] = {
            "curve": str(curve),
            "output": str(drawn),
            "terminal_name": _TERMINALS[picture.suffix],
            "base": base,
            "huge": huge,
            "base_words": units.size(base),
            "huge_words": units.size(huge),
            "machine": _cpu(calibration.machine),
            "dtlb": _entries(calibration, "dtlb_entries"),
            "stlb": _entries(calibration, "stlb_entries"),
        }
        words = [f"{name}={_quote(value)}" for name, value in settings.items()]
        command = ["gnuplot", "-e", "; ".join(words), str(plot_file("calibration.gp"))]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise TlbcostError(
                f"cannot draw {picture}: gnuplot: {error.strerror}", "apt install gnuplot-nox"
            ) from error
        if done.returncode != 0 or not drawn.exists() or drawn.stat().st_size == 0:
            reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}, no picture"
            raise TlbcostError(
                f"cannot draw {picture}: gnuplot failed: {reason}",
                "apt install gnuplot-nox  (5.4 or later, with its cairo terminals)",
            )
        try:
            picture.write_bytes(drawn.read_bytes())
        except OSError as error:
            picture.unlink(missing_ok=True)
            raise TlbcostError(f"cannot write {picture}: {error.strerror}") from error


def _obtain(recalibrate: bool, with_curve: bool) -> Obtained:
    with Progress() as progress:
        show = progress.calibrating if progress.shown else None
        obtained = obtain(recalibrate=recalibrate, announce=progress.announce, progress=show)
        if obtained.curve is not None or not with_curve:
            return obtained
        progress.announce("the curve behind the cached calibration is lost: measuring again")
        return obtain(recalibrate=True, announce=progress.announce, progress=show)


def _ordered(calibration: Calibration) -> list[Cost]:
    sizes = sorted({cost.page_size_bytes for cost in calibration.costs})
    return [
        cost
        for quantity in _NAMES
        for size in sizes
        for access in (None, "serial", "overlapped")
        for cost in find(calibration, quantity, size)
        if cost.access == access
    ]


def _row(name: str, cost: Cost) -> str:
    pages = "" if cost.pages is None else str(cost.pages)
    start = f"{name:<17}{units.size(cost.page_size_bytes):<7}{cost.access or '':<12}{pages:>10}"
    if cost.interval is None:
        return f"{start}{'NA':>8}"
    if cost.quantity == "tlb_entry_bytes":
        return f"{start}{units.size(round(cost.interval.value)):>11}"
    if cost.quantity.endswith("_entries"):
        low, high = f"{cost.interval.low:.0f}", f"{cost.interval.high:.0f}"
        return f"{start}{cost.interval.value:>8.0f}     {low:>7} ..{high:>6}"
    # Three figures, and one unit for all three so that they compare at a glance.
    digits = 2 if abs(cost.interval.value) < 100 else 0
    low, high = f"{cost.interval.low:.{digits}f}", f"{cost.interval.high:.{digits}f}"
    return f"{start}{cost.interval.value:>8.{digits}f} ns  {low:>7} .. {high} ns"


def _machine_lines(machine: Machine) -> list[str]:
    numbers = "-".join(
        part or "?" for part in (machine.cpu_family, machine.cpu_model, machine.cpu_stepping)
    )
    where = f"guest of {machine.hypervisor}" if machine.hypervisor else "no hypervisor seen"
    return [
        *_wrap("Machine    ", _cpu(machine)),
        *_wrap("           ", f"{machine.cpu_vendor or 'unknown vendor'} {numbers}, microcode "
               f"{machine.microcode or 'unknown'}, {where}"),
        *_wrap("Kernel     ", f"{machine.kernel or 'unknown'}, "
               f"{units.size(machine.base_page_bytes)} pages, transparent huge pages "
               f"{machine.thp_mode or 'absent'}, governor {machine.governor or 'unknown'}"),
    ]  # fmt: skip


def _cpu(machine: Machine) -> str:
    return machine.cpu_name or machine.cpu_vendor or "unknown CPU"


def _entries(calibration: Calibration, quantity: str) -> int:
    interval = cost_at(calibration, quantity, calibration.machine.base_page_bytes)
    return 0 if interval is None else round(interval.value)


def _quote(value: str | int) -> str:
    # gnuplot's single quotes take everything as it is; a quote is written twice.
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _wrap(start: str, text: str) -> list[str]:
    import textwrap

    lines = textwrap.wrap(
        text,
        79,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [start]
