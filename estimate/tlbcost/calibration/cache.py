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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.calibration.file import CPUID, read_calibration, write_calibration
from tlbcost.calibration.loads import loads
from tlbcost.calibration.measurement import BOUND_S, CpuGoneError, Measured, measure
from tlbcost.calibration.records import Calibration, Extent
from tlbcost.common import formats
from tlbcost.common.errors import TlbcostError
from tlbcost.common.output import write_file
from tlbcost.common.paths import version
from tlbcost.common.table import Cell, format_table
from tlbcost.system.machine import Machine, current_machine
from tlbcost.system.sudo import calling_user

if TYPE_CHECKING:
    from tlbcost.calibration.analysis.quantities import Analysis


@dataclass(frozen=True, slots=True)
class Obtained:
    """A calibration, and where it came from (part of a sentence).

    `curve` is the text of the `curve` table behind it; None if it was not kept.
    """

    calibration: Calibration
    source: str
    curve: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about it: sentences about what is missing or limited."""
        return self.calibration.notes


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


def obtain(
    request: CalibrationRequest,
    announce: Callable[[str], None],
    progress: Callable[[int], None] | None = None,
) -> Obtained:
    """The calibration of this machine: the cached one, or a new one.

    A new one takes BOUND_S[extent] seconds at most. One that lacks what earlier versions did not
    calibrate is made again, to its extent. `announce` gets a sentence for everything that is not
    the ordinary way; `progress` gets the percentage while it measures.
    Raises TlbcostError if it cannot be measured here.
    """
    extent, page_sizes = request.extent, request.page_sizes
    cached, reason = (None, "") if page_sizes else look_up()
    if cached is not None and not request.recalibrate:
        lacks = _lacks(cached.calibration)
        if request.curve and cached.curve is None:
            announce("the curve behind the cached calibration is lost")
        elif not lacks and (cached.calibration.extent in (extent, "full") or extent is None):
            return cached
        else:
            reason = f"the cached calibration {f'has no {lacks}' if lacks else 'is a quick one'}"
    extent = extent or (cached.calibration.extent if cached else "quick")
    if reason:
        announce(f"{reason}: measuring, {BOUND_S[extent]} s at most")
    calibration, curve = _measured_now(extent, page_sizes, announce, progress)
    if page_sizes:
        unsaved = "not kept for later: only the page sizes asked for were measured"
    else:
        unsaved = _save(calibration, curve)
        if unsaved:
            announce(unsaved)
    if unsaved:
        calibration = replace(calibration, notes=(*calibration.notes, unsaved))
    return Obtained(calibration, "measured now", curve)


def _lacks(calibration: Calibration) -> str | None:
    """What every calibration has rows of now, and one of an earlier version has none of."""
    if loads(calibration) is None:
        return "loads"
    if all(cost.quantity != "walk_interval_ns" for cost in calibration.costs):
        return "intervals of walks"
    if all(cost.quantity != "l3_half_life_ns" for cost in calibration.costs):
        return "the half-life of lines in the last-level cache"
    return None


def cached_calibration(*, curve: bool) -> Obtained:
    """The cached calibration of this machine as it is, with its `curve` if that is wanted.

    Raises TlbcostError if there is none of use.
    """
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
    """The cached calibration of this machine; if there is none of use, why."""
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
        curve = None
        with contextlib.suppress(OSError, UnicodeDecodeError):
            curve = _curve_path(path).read_text(encoding="utf-8")
    return Obtained(calibration, f"cached in {path}", curve), ""


def _measured_now(
    extent: Extent,
    page_sizes: Sequence[int],
    announce: Callable[[str], None],
    progress: Callable[[int], None] | None,
) -> tuple[Calibration, str]:
    """A new calibration, and the text of its curve."""
    measured, machine = _measure(extent, page_sizes, announce, progress)
    calibration = Calibration(
        machine=machine,
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        version=version(),
        duration_s=round(measured.duration_s, 1),
        costs=measured.analysis.costs,
        extent=extent,
        cpuid={
            key: value for key, value in measured.samples[0].header.items() if key.startswith(CPUID)
        },
        notes=(*measured.notes, *measured.analysis.notes),
    )
    return calibration, _curve(calibration, measured.analysis)


def _save(calibration: Calibration, curve: str) -> str:
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


def _measure(
    extent: Extent,
    page_sizes: Sequence[int],
    announce: Callable[[str], None],
    progress: Callable[[int], None] | None,
) -> tuple[Measured, Machine]:
    """Measure while the machine stays as it is; the machine that the figures belong to."""
    machine = current_machine()
    for _ in range(2):
        try:
            measured, changes = measure(extent, page_sizes, progress), ""
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
    words = {
        "governor": "the frequency governor",
        "thp_mode": "the mode of transparent huge pages",
    }
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


def _curve_path(path: Path) -> Path:
    return path.with_name(path.name.replace("calibration-", "curve-", 1))


@contextlib.contextmanager
def as_calling_user() -> Iterator[None]:
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
