# SPDX-License-Identifier: GPL-2.0-or-later
"""What does translation cost on this machine? Measures it once, and remembers it.

A calibration holds for one machine, as `Machine` describes it. It is cached under a name made
from that description; one that is truncated, garbage or from elsewhere is measured again, and
that is announced.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from tlbcost import kinds
from tlbcost.errors import TlbcostError
from tlbcost.machine import current_machine
from tlbcost.paths import version
from tlbcost.probe import run_calibrator
from tlbcost.records import Access, Calibration, Cost, Interval, Machine
from tlbcost.table import Cell, count, format_table, number, parse_table, read_table, write_file
from tlbcost.user import calling_user

QUANTITIES = (
    "cycles_per_ns",
    "l1d_bytes", "l2_bytes", "l3_bytes", "l1d_ns", "l2_ns", "l3_ns", "memory_ns",
    "dtlb_entries", "dtlb_ways", "dtlb_store_entries", "itlb_entries", "stlb_entries", "stlb_ways",
    "tlb_entry_bytes",
    "stlb_hit_ns", "itlb_miss_ns", "walk_ns", "code_walk_ns",
    "walks_at_once", "walk_cache_regions", "walk_cache_miss_ns",
    "fault_ns", "unmap_ns",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Obtained:
    """A calibration, where it came from (part of a sentence), and what to know about it.

    `curve` is the text of the `curve` table behind it; None if it was not kept.
    """

    calibration: Calibration
    source: str
    notes: tuple[str, ...]
    curve: str | None = None


def obtain(
    *,
    recalibrate: bool,
    announce: Callable[[str], None],
    progress: Callable[[int], None] | None = None,
) -> Obtained:
    """The calibration of this machine: the cached one, or a new one that takes 20 s at most.

    `announce` gets a sentence for everything that is not the ordinary way; `progress` gets the
    percentage while it measures. Raises TlbcostError if it cannot be measured here.
    """
    machine = current_machine()
    path = cache_path(machine)
    if not recalibrate:
        with _as_calling_user():
            cached = _load(path, machine, announce)
        if cached is not None:
            return cached
    samples = run_calibrator(progress)
    # pandas' and numpy's start-up time is paid only by those who measure.
    from tlbcost import analysis

    table = parse_table(samples, "the calibrator's samples", kinds.SAMPLES)
    result = analysis.analyse(table)
    calibration = Calibration(
        machine=machine,
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        version=version(),
        duration_s=float(table.key("duration_s")),
        costs=result.costs,
    )
    header: dict[str, Cell] = {"date": calibration.date, "version": calibration.version}
    rows = [
        (p.page_size_bytes, p.layout, p.access, p.pages, p.delta.value, p.delta.low, p.delta.high)
        for p in result.curve
    ]
    curve = format_table(kinds.CURVE, header, rows)
    notes = result.notes
    try:
        with _as_calling_user():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(_curve_path(path), curve)
            write_calibration(path, calibration, notes)
    except OSError as error:
        unsaved = f"the calibration could not be saved: {path}: {error.strerror}"
        announce(unsaved)
        notes = (*notes, unsaved)
    return Obtained(calibration, "measured now", notes, curve)


def cache_path(machine: Machine) -> Path:
    """Where the calibration of a machine is kept."""
    key = hashlib.sha256(repr(astuple(machine)).encode()).hexdigest()[:12]
    return cache_folder() / f"calibration-{key}.tsv"


def cache_folder() -> Path:
    """The folder of cached calibrations; under sudo, that of the user who called it."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    if Path(folder).is_absolute():
        return Path(folder) / "tlbcost"
    user = calling_user()
    home = user.home if user else None
    return (home or Path(os.environ.get("HOME") or "/")) / ".cache" / "tlbcost"


def read_calibration(path: Path) -> Calibration:
    """Read a calibration. Raises TlbcostError naming the file and its defect."""
    return read_with_notes(path).calibration


def write_calibration(path: Path, calibration: Calibration, notes: tuple[str, ...] = ()) -> None:
    """Write a calibration whole or not at all. Raises OSError."""
    header: dict[str, Cell] = {
        field.name: getattr(calibration.machine, field.name) for field in fields(Machine)
    }
    header["date"] = calibration.date
    header["duration_s"] = calibration.duration_s
    header["version"] = calibration.version
    for i, note in enumerate(notes, start=1):
        header[f"note_{i}"] = note
    write_file(path, format_table(kinds.CALIBRATION, header, map(_row, calibration.costs)))


def _row(cost: Cost) -> tuple[Cell, ...]:
    interval = cost.interval
    values = (None,) * 3 if interval is None else (interval.value, interval.low, interval.high)
    return (cost.quantity, cost.page_size_bytes, cost.access, cost.pages, *values, cost.samples)


def read_with_notes(path: Path) -> Obtained:
    """Read a calibration with its notes. Raises TlbcostError naming the file and its defect."""
    table = read_table(path, kinds.CALIBRATION)
    costs = []
    for i, row in enumerate(table.records(), start=1):
        try:
            costs.append(_cost(row))
        except ValueError as error:
            raise TlbcostError(f"{path}: row {i}: {error}") from error
    try:
        calibration = Calibration(
            machine=_machine(table.header),
            date=table.key("date"),
            version=table.key("version"),
            duration_s=float(table.key("duration_s")),
            costs=tuple(costs),
        )
    except (KeyError, ValueError) as error:
        raise TlbcostError(f"{path}: the header is not a calibration's: {error}") from error
    notes = tuple(value for key, value in table.header.items() if key.startswith("note_"))
    return Obtained(calibration, f"cached in {path}", notes)


def _machine(header: Mapping[str, str]) -> Machine:
    text = {
        field.name: None if header[field.name] == "NA" else header[field.name]
        for field in fields(Machine)
        if field.name != "base_page_bytes"
    }
    return Machine(base_page_bytes=int(header["base_page_bytes"]), **text)


def _cost(row: Mapping[str, str | None]) -> Cost:
    quantity, size, access = row["quantity"], count(row["page_size_bytes"]), row["access"]
    samples = count(row["samples"])
    if quantity not in QUANTITIES or size is None or samples is None:
        raise ValueError(f"not a calibrated quantity: {quantity}")
    value, low, high = number(row["value"]), number(row["low"]), number(row["high"])
    interval = None
    if value is not None and low is not None and high is not None:
        interval = Interval(value, low, high)
    elif not value is low is high is None:
        raise ValueError("a value without its interval")
    known: Access | None
    match access:
        case "serial" | "overlapped" | None as known:
            return Cost(quantity, size, known, count(row["pages"]), interval, samples)
    raise ValueError(f"not a kind of access: {access}")


def _load(path: Path, machine: Machine, announce: Callable[[str], None]) -> Obtained | None:
    """The cached calibration; None, with the reason announced, if it has to be measured."""
    try:
        if not path.exists():
            announce("no calibration of this machine is cached: measuring, 20 s at most")
            return None
        cached = read_with_notes(path)
    except (TlbcostError, OSError) as error:
        announce(f"the cached calibration is of no use: {error}; measuring again")
        return None
    if cached.calibration.machine != machine:
        announce(f"the cached calibration is of another machine: {path}; measuring again")
        return None
    curve = None
    with contextlib.suppress(OSError, UnicodeDecodeError):
        curve = _curve_path(path).read_text(encoding="utf-8")
    return Obtained(cached.calibration, cached.source, cached.notes, curve)


def _curve_path(path: Path) -> Path:
    return path.with_name(path.name.replace("calibration-", "curve-", 1))


@contextlib.contextmanager
def _as_calling_user() -> Iterator[None]:
    """Touch files as the user who called sudo: his cache stays his, and no link leads elsewhere."""
    user = calling_user()
    if user is None or user.home is None:
        yield
        return
    group = os.getegid()
    os.setegid(user.gid)
    os.seteuid(user.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
