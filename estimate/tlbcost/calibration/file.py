# SPDX-License-Identifier: GPL-2.0-or-later
"""The calibration that a command asks for, its table (doc/format.md), and the cache of such tables.

A cached one that is truncated, garbage or from elsewhere is measured again, and that is announced.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import cast, get_args

from tlbcost.calibration.calibrator import Turn, our_turn, patience_s
from tlbcost.calibration.consistency import contradictions_of, loads, without_negative
from tlbcost.calibration.measurement import BOUND_S, CpuGoneError, Measured, measure
from tlbcost.calibration.records import POOR, Access, Calibration, Cost, Extent, Obtained
from tlbcost.common import formats
from tlbcost.common.document import now
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, USAGE, TlbcostError
from tlbcost.common.formats import Cell, Table, count, format_table, number, parse_table, read_table
from tlbcost.common.output import write_file
from tlbcost.common.paths import version
from tlbcost.common.progress import Progress, say
from tlbcost.common.sudo import as_calling_user, calling_user
from tlbcost.common.units import Interval
from tlbcost.system.machine import Machine, current_machine, emulation, machine_of

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
        extent = table.key("extent")
        if extent not in get_args(Extent):
            raise ValueError(f"not an extent: {extent}")
        calibration = Calibration(
            machine=machine_of(table.header),
            date=table.key("date"),
            version=table.key("version"),
            duration_s=float(table.key("duration_s")),
            costs=tuple(costs),
            extent=cast("Extent", extent),
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


# Without any of these a calibration has nothing that an estimate could multiply.
_LEVELS = ("dtlb_entries", "stlb_entries", "stlb_hit_ns", "walk_ns")


@dataclass(frozen=True, slots=True)
class CalibrationRequest:
    """Which calibration is wanted; by default the cached one, else a quick one.

    A full calibration stands in for a quick one. With `page_sizes` (bytes) only these and the base
    page are measured, and what was found is not cached. `curve`: the curve has to be there, too.
    """

    extent: Extent | None = None
    recalibrate: bool = False
    page_sizes: tuple[int, ...] = ()
    curve: bool = False


def calibration_for(file: Path | None, *, recalibrate: bool = False) -> Obtained:
    """The costs in `file` if given, else of this machine. Raises TlbcostError."""
    if file is not None:
        if recalibrate:
            raise TlbcostError(
                "--calibration and --recalibrate exclude each other", "give one of them", USAGE
            )
        try:
            return Obtained(read_calibration(file), f"from {file}")
        except TlbcostError as error:
            hint = "leave --calibration out to measure this machine"
            raise TlbcostError(f"cannot use the calibration: {error}", hint, TOOL_FAILED) from error
    with Progress("calibration") as progress:
        return obtain(CalibrationRequest(recalibrate=recalibrate), say, progress.calibrating)


def obtain(
    request: CalibrationRequest,
    announce: Callable[[str], None],
    progress: Callable[[int], None] | None = None,
) -> Obtained:
    """The calibration of this machine: the cached one, or a new one.

    A new one takes BOUND_S[extent] seconds, and where others disturb it as long again and
    patience_s() at most. One that lacks what earlier versions did not calibrate is made again,
    to its extent. A poor one is not kept for later, and takes no good one's place. Where another
    process calibrates this machine, what it finds is used.

    `announce` gets a sentence for everything that is not the ordinary way; `progress` gets the
    percentage while it measures. Raises TlbcostError if it cannot be measured here.
    """
    patience = patience_s()
    cached, reason = _cached(request)
    if cached is not None and not reason and not request.recalibrate:
        return cached
    extent = request.extent or (cached.calibration.extent if cached else "quick")
    asked = now()
    # Twice the bound and the time until its CPU-bound analysis is done.
    most_s = 3 * BOUND_S[extent] + patience
    with our_turn(lock_path(current_machine()), most_s, announce) as turn:
        if turn.waited and not request.page_sizes:
            other = _of_the_other(request, turn.left, asked)
            if other is not None:
                return other
        if reason:
            announce(f"{reason}: measuring, {BOUND_S[extent]} s at most")
        measured = _measured_now(extent, request.page_sizes, announce, progress, patience)
        kept = cached if not reason else None
        return _kept(measured, request, kept, turn, announce)


def _cached(request: CalibrationRequest) -> tuple[Obtained | None, str]:
    """The cached calibration, and why it does not do; an empty reason: it does."""
    if request.page_sizes:
        return None, ""
    cached, reason = look_up()
    if cached is None:
        return None, reason
    lacks = _lacks(cached.calibration)
    if request.curve and cached.curve is None:
        return cached, "the curve behind the cached calibration is lost"
    if lacks:
        return cached, f"the cached calibration has no {lacks}"
    if request.extent == "full" and cached.calibration.extent == "quick":
        return cached, "the cached calibration is a quick one"
    return cached, ""


def _of_the_other(request: CalibrationRequest, left: str, asked: str) -> Obtained | None:
    """What another process measured while we waited for it; None: nothing of use to us."""
    with contextlib.suppress(TlbcostError):
        if left:
            calibration = parse_calibration(left, "the other tlbcost's calibration")
            if request.extent in (None, "quick", calibration.extent) and not request.curve:
                return Obtained(calibration, "measured by another tlbcost just now")
    cached, reason = _cached(request)
    if cached is None or reason or (request.recalibrate and cached.calibration.date < asked):
        return None
    return cached


def _kept(
    measured: Obtained,
    request: CalibrationRequest,
    cached: Obtained | None,
    turn: Turn,
    announce: Callable[[str], None],
) -> Obtained:
    """What was measured now, in the cache if it is good; or the good one that is there."""
    calibration = measured.calibration
    if calibration.grade_reasons:
        first, *others = calibration.grade_reasons
        announce(f"{POOR} ({first}{f'; {len(others)} more' if others else ''})")
    if request.page_sizes:
        unsaved = "not kept for later: only the page sizes asked for were measured"
    elif not calibration.grade_reasons:
        unsaved = save(calibration, measured.curve or "")
        if unsaved:
            announce(unsaved)
    elif cached is not None:
        announce(f"the good calibration of {cached.calibration.date} stays, and is used")
        return cached
    else:
        turn.leave(calibration_text(calibration))
        unsaved = "not kept for later: a poor calibration is measured again the next time"
    if not unsaved:
        return measured
    return replace(measured, calibration=replace(calibration, notes=(*calibration.notes, unsaved)))


def _lacks(calibration: Calibration) -> str | None:
    """What every calibration has rows of now, and one of an earlier version has none of."""
    if loads(calibration) is None:
        return "loads"
    if all(cost.quantity != "walk_interval_ns" for cost in calibration.costs):
        return "intervals of walks"
    if all(cost.quantity != "l3_half_life_ns" for cost in calibration.costs):
        return "the half-life of lines in the last-level cache"
    return None


def _measured_now(
    extent: Extent,
    page_sizes: Sequence[int],
    announce: Callable[[str], None],
    progress: Callable[[int], None] | None,
    patience: float,
) -> Obtained:
    """Measure while the machine stays as it is: the figures belong to one machine."""
    machine = current_machine()
    if emulated := emulation(machine):
        raise _no_levels(f"this CPU is emulated ({emulated})")
    for _ in range(2):
        measured: Measured | None = None
        try:
            measured = measure(extent, page_sizes, announce, progress, patience)
            lost = ""
        except CpuGoneError as cpu:
            lost = f"CPU {cpu} went offline"
        before, machine = machine, current_machine()
        changes = lost or _changes(before, machine)
        if measured is not None and not changes:
            break
        announce(f"{changes} while it was measured: measuring again")
    else:
        raise TlbcostError(
            f"cannot calibrate: {changes} while it was measured, twice",
            "stop what changes it (a power daemon, a tuning script), then repeat",
        )
    costs, negative = without_negative(measured.analysis.costs)
    # Of a busy machine, that says nothing.
    if not measured.poor_because and not any(
        cost.quantity in _LEVELS and cost.interval for cost in costs
    ):
        raise _no_levels("no TLB level shows in the times of loads, as on an emulated CPU")
    calibration = Calibration(
        machine=machine,
        date=now(),
        version=version(),
        duration_s=round(measured.duration_s, 1),
        costs=costs,
        extent=extent,
        cpuid={
            key: value for key, value in measured.samples[0].header.items() if key.startswith(CPUID)
        },
        notes=(*measured.notes, *measured.analysis.notes, *negative),
        grade_reasons=measured.poor_because,
    )
    header: dict[str, Cell] = {"date": calibration.date, "version": calibration.version}
    rows = [
        (p.probe, p.page_size_bytes, p.layout, p.spacing_bytes, p.access, p.lines,
         p.ns.value, p.ns.low, p.ns.high)
        for p in measured.analysis.curve
    ]  # fmt: skip
    return Obtained(calibration, "measured now", format_table(formats.CURVE, header, rows))


def _no_levels(why: str) -> TlbcostError:
    return TlbcostError(
        f"cannot calibrate: {why}: no costs of TLB misses can be measured here",
        "model a real CPU: tlbcost estimate --machine NAME (tlbcost machines lists them), or use "
        "one's costs: --calibration FILE",
        CANNOT_MEASURE,
    )


def _changes(before: Machine, after: Machine) -> str:
    """What became of a setting that the figures depend on, as words; empty if nothing did."""
    words = {"governor": "the frequency governor", "thp_mode": "the mode of transparent huge pages"}
    return " and ".join(
        f"{name} changed from {getattr(before, key) or 'none'} to {getattr(after, key) or 'none'}"
        for key, name in words.items()
        if getattr(before, key) != getattr(after, key)
    )
