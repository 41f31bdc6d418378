# SPDX-License-Identifier: GPL-2.0-or-later
"""The calibration that a command asks for: of a file, cached, or measured now.

A cached one that is truncated, garbage or from elsewhere is measured again, and that is announced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.calibration.calibrator import Turn, our_turn, patience_s
from tlbcost.calibration.consistency import without_negative
from tlbcost.calibration.file import (
    CPUID,
    calibration_text,
    lock_path,
    look_up,
    parse_calibration,
    read_calibration,
    save,
)
from tlbcost.calibration.loads import loads
from tlbcost.calibration.measurement import BOUND_S, CpuGoneError, Measured, measure
from tlbcost.calibration.records import POOR, Calibration, Extent, Obtained
from tlbcost.common import formats
from tlbcost.common.document import now
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, USAGE, TlbcostError
from tlbcost.common.formats import Cell, format_table
from tlbcost.common.paths import version
from tlbcost.common.progress import Progress, say
from tlbcost.system.machine import Machine, current_machine, emulation

if TYPE_CHECKING:
    from tlbcost.calibration.analysis.quantities import Analysis


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
    measured, machine = _measure(extent, page_sizes, announce, progress, patience)
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
    return Obtained(calibration, "measured now", _curve(calibration, measured.analysis))


def _no_levels(why: str) -> TlbcostError:
    return TlbcostError(
        f"cannot calibrate: {why}: no costs of TLB misses can be measured here",
        "model a real CPU: tlbcost estimate --machine NAME (tlbcost machines lists them), or use "
        "one's costs: --calibration FILE",
        CANNOT_MEASURE,
    )


def _measure(
    extent: Extent,
    page_sizes: Sequence[int],
    announce: Callable[[str], None],
    progress: Callable[[int], None] | None,
    patience: float,
) -> tuple[Measured, Machine]:
    """Measure while the machine stays as it is; the machine that the figures belong to."""
    machine = current_machine()
    if emulated := emulation(machine):
        raise _no_levels(f"this CPU is emulated ({emulated})")
    for _ in range(2):
        try:
            measured = measure(extent, page_sizes, announce, progress, patience)
            changes = ""
        except CpuGoneError as cpu:
            measured, changes = None, f"CPU {cpu} went offline"
        after = current_machine()
        changes = changes or _changes(machine, after)
        if measured is not None and not changes:
            return measured, after
        announce(f"{changes} while it was measured: measuring again")
        machine = after
    raise TlbcostError(
        f"cannot calibrate: {changes} while it was measured, twice",
        "stop what changes it (a power daemon, a tuning script), then repeat",
    )


def _changes(before: Machine, after: Machine) -> str:
    """What became of a setting that the figures depend on, as words; empty if nothing did."""
    words = {"governor": "the frequency governor", "thp_mode": "the mode of transparent huge pages"}
    return " and ".join(
        f"{name} changed from {getattr(before, key) or 'none'} to {getattr(after, key) or 'none'}"
        for key, name in words.items()
        if getattr(before, key) != getattr(after, key)
    )


def _curve(calibration: Calibration, analysis: Analysis) -> str:
    header: dict[str, Cell] = {"date": calibration.date, "version": calibration.version}
    rows = [
        (p.probe, p.page_size_bytes, p.layout, p.spacing_bytes, p.access, p.lines,
         p.ns.value, p.ns.low, p.ns.high)
        for p in analysis.curve
    ]  # fmt: skip
    return format_table(formats.CURVE, header, rows)
