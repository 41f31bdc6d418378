# SPDX-License-Identifier: GPL-2.0-or-later
"""Where is a calibration kept for later, and is there one of this machine?

It holds for one machine, as `Machine` describes it; its name is made from that description.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import astuple
from pathlib import Path

from tlbcost.calibration.file import read_calibration, write_calibration
from tlbcost.calibration.records import Calibration, Obtained
from tlbcost.common.errors import TlbcostError
from tlbcost.common.output import write_file
from tlbcost.common.sudo import as_calling_user, calling_user
from tlbcost.system.machine import Machine, current_machine


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
        if calibration.grade_reasons:
            return None, f"the cached calibration is poor ({calibration.grade_reasons[0]})"
        curve = None
        with contextlib.suppress(OSError, UnicodeDecodeError):
            curve = _curve_path(path).read_text(encoding="utf-8")
    return Obtained(calibration, f"cached in {path}", curve), ""


def read_with_curve(path: Path) -> Obtained:
    """The calibration in a file; its curve, if that lies next to it as it does in the cache.

    Raises TlbcostError naming the file and its defect.
    """
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
    """Where the calibration of a machine is kept."""
    key = hashlib.sha256(repr(astuple(machine)).encode()).hexdigest()[:12]
    return cache_folder() / f"calibration-{key}.tsv"


def lock_path(machine: Machine) -> Path:
    """The file that is locked while this machine is calibrated."""
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
