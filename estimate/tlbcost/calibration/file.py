# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of a calibration (doc/format.md), and the cache of such tables by machine."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import astuple, fields, replace
from pathlib import Path
from typing import cast, get_args

from tlbcost.calibration.consistency import contradictions_of
from tlbcost.calibration.records import Access, Calibration, Cost, Extent, Obtained
from tlbcost.common import formats
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import Cell, Table, count, format_table, number, parse_table, read_table
from tlbcost.common.interval import Interval
from tlbcost.common.output import write_file
from tlbcost.common.sudo import as_calling_user, calling_user
from tlbcost.system.machine import Machine, current_machine

# No calibration is as large; a full one has 30 KiB.
MOST_BYTES = 16 << 20
# Start of the keys that hold the raw words of CPUID leaves.
CPUID = "cpuid_"
QUANTITIES = (
    "cycles_per_ns",
    "l1d_bytes", "l2_bytes", "l3_bytes", "l1d_ns", "l2_ns", "l3_ns", "memory_ns",
    "load_ns", "stream_ns", "l3_half_life_ns",
    "dtlb_entries", "dtlb_ways", "dtlb_store_entries", "itlb_entries", "stlb_entries", "stlb_ways",
    "tlb_entry_bytes",
    "stlb_hit_ns", "itlb_miss_ns", "walk_ns", "walk_interval_ns", "code_walk_ns",
    "walks_at_once", "walk_cache_regions", "walk_cache_miss_ns",
    "fault_ns", "unmap_ns",
)  # fmt: skip
# What earlier versions called a quantity.
_RENAMED = {"l3_stay_ns": "l3_half_life_ns"}


def quantity_named(word: object) -> str:
    """The quantity that a file calls so. Raises ValueError if it is none."""
    quantity = _RENAMED.get(str(word), str(word))
    if quantity not in QUANTITIES:
        raise ValueError(f"not a calibrated quantity: {quantity}")
    return quantity


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write a calibration whole or not at all. Raises OSError."""
    write_file(path, calibration_text(calibration))


def calibration_text(calibration: Calibration) -> str:
    header: dict[str, Cell] = {
        field.name: getattr(calibration.machine, field.name) for field in fields(Machine)
    }
    header["extent"] = calibration.extent
    header["date"] = calibration.date
    header["duration_s"] = calibration.duration_s
    header["version"] = calibration.version
    header["grade"] = calibration.grade
    for i, reason in enumerate(calibration.grade_reasons, start=1):
        header[f"poor_{i}"] = reason
    header |= calibration.cpuid
    for i, note in enumerate(calibration.notes, start=1):
        header[f"note_{i}"] = note
    return format_table(formats.CALIBRATION, header, map(_row, calibration.costs))


def _row(cost: Cost) -> tuple[Cell, ...]:
    interval = cost.interval
    values = (None,) * 3 if interval is None else (interval.value, interval.low, interval.high)
    return (cost.quantity, cost.page_size_bytes, cost.access, cost.pages, *values, cost.samples)


def read_calibration(path: Path) -> Calibration:
    """Read a calibration. Raises TlbcostError naming the file and its defect."""
    return _calibration(read_table(path, formats.CALIBRATION, most_bytes=MOST_BYTES))


def parse_calibration(text: str, name: str) -> Calibration:
    """As read_calibration(), of a text; `name` stands for the file in messages."""
    return _calibration(parse_table(text, name, formats.CALIBRATION))


def _calibration(table: Table) -> Calibration:
    costs = []
    for i, row in enumerate(table.records(), start=1):
        try:
            costs.append(_cost(row))
        except ValueError as error:
            raise TlbcostError(f"{table.name}: row {i}: {error}") from error
    try:
        calibration = Calibration(
            machine=machine_of(table.header),
            date=table.key("date"),
            version=table.key("version"),
            duration_s=float(table.key("duration_s")),
            costs=tuple(costs),
            extent=_extent(table.key("extent")),
            cpuid={key: value for key, value in table.header.items() if key.startswith(CPUID)},
            notes=tuple(value for key, value in table.header.items() if key.startswith("note_")),
            grade_reasons=tuple(
                value for key, value in table.header.items() if key.startswith("poor_")
            ),
        )
    except (KeyError, ValueError) as error:
        raise TlbcostError(f"{table.name}: the header is not a calibration's: {error}") from error
    return graded(calibration)


def graded(calibration: Calibration) -> Calibration:
    reasons = (*calibration.grade_reasons, *contradictions_of(calibration))
    return replace(calibration, grade_reasons=tuple(dict.fromkeys(reasons)))


def _extent(word: str) -> Extent:
    match word:
        case "quick" | "full":
            return word
    raise ValueError(f"not an extent: {word}")


def machine_of(header: Mapping[str, str]) -> Machine:
    """The machine in a table's header. Raises KeyError or ValueError for what is wrong there."""
    text = {
        field.name: None if header[field.name] == "NA" else header[field.name]
        for field in fields(Machine)
        if field.name != "base_page_bytes"
    }
    return Machine(base_page_bytes=int(header["base_page_bytes"]), **text)


def _cost(row: Mapping[str, str | None]) -> Cost:
    quantity = quantity_named(row["quantity"])
    size, access = count(row["page_size_bytes"]), row["access"]
    samples = count(row["samples"])
    if samples is None:
        raise ValueError(f"no number of samples of {quantity}")
    if access is not None and access not in get_args(Access):
        raise ValueError(f"not a kind of access: {access}")
    value, low, high = number(row["value"]), number(row["low"]), number(row["high"])
    interval = None
    if value is not None and low is not None and high is not None:
        interval = Interval(value, low, high)
    elif not value is low is high is None:
        raise ValueError("a value without its interval")
    return Cost(
        quantity, size, cast("Access | None", access), count(row["pages"]), interval, samples
    )


def cached_calibration(*, curve: bool) -> Obtained:
    """The cached calibration of this machine, with its `curve` if wanted. Raises TlbcostError."""
    cached, reason = look_up()
    if cached is None:
        raise TlbcostError(f"nothing to show: {reason}", "tlbcost calibrate")
    if curve and cached.curve is None:
        raise TlbcostError(
            "cannot plot: the curve behind the cached calibration is lost",
            "tlbcost calibrate --recalibrate",
        )
    return cached


def look_up() -> tuple[Obtained | None, str]:
    machine = current_machine()
    path = cache_path(machine)
    with as_calling_user():
        try:
            if not path.exists():
                return None, "no calibration of this machine is cached"
            calibration = read_calibration(path)
        except (TlbcostError, OSError) as error:
            return None, f"the cached calibration is of no use ({error})"
        if calibration.machine != machine:
            return None, f"the cached calibration is of another machine ({path})"
        if calibration.grade_reasons:
            return None, f"the cached calibration is poor ({calibration.grade_reasons[0]})"
        curve = None
        with contextlib.suppress(OSError, UnicodeDecodeError):
            curve = _curve_path(path).read_text(encoding="utf-8")
    return Obtained(calibration, f"cached in {path}", curve), ""


def read_with_curve(path: Path) -> Obtained:
    """The calibration in a file, and its curve if that lies next to it. Raises TlbcostError."""
    calibration, curve = read_calibration(path), None
    neighbour = _curve_path(path)
    if neighbour != path:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            curve = neighbour.read_text(encoding="utf-8")
    return Obtained(calibration, f"from {path}", curve)


def save(calibration: Calibration, curve: str) -> str:
    """Keep it for later; if that fails, why."""
    path = cache_path(calibration.machine)
    try:
        with as_calling_user():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(_curve_path(path), curve)
            write_calibration(path, calibration)
    except OSError as error:
        return f"the calibration could not be saved: {path}: {error.strerror}"
    return ""


def cache_path(machine: Machine) -> Path:
    key = hashlib.sha256(repr(astuple(machine)).encode()).hexdigest()[:12]
    return cache_folder() / f"calibration-{key}.tsv"


def lock_path(machine: Machine) -> Path:
    return cache_path(machine).with_suffix(".lock")


def cache_folder() -> Path:
    """The folder of cached calibrations; under sudo, that of the user who called it."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    if Path(folder).is_absolute():
        return Path(folder) / "tlbcost"
    user = calling_user()
    home = user.home if user else None
    return (home or Path(os.environ.get("HOME") or "/")) / ".cache" / "tlbcost"


def _curve_path(path: Path) -> Path:
    return path.with_name(path.name.replace("calibration-", "curve-", 1))
