# SPDX-License-Identifier: GPL-2.0-or-later
"""Which calibration does a command take: that of a file, or this machine's?"""

from __future__ import annotations

from pathlib import Path

from tlbcost.calibration.cache import CalibrationRequest, Obtained, obtain
from tlbcost.calibration.file import read_calibration
from tlbcost.common.errors import TOOL_FAILED, USAGE, TlbcostError
from tlbcost.common.progress import Progress


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
    with Progress() as progress:
        return obtain(
            CalibrationRequest(recalibrate=recalibrate),
            progress.announce,
            progress.calibrating if progress.shown else None,
        )
