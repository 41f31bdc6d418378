# SPDX-License-Identifier: GPL-2.0-or-later
"""How is the calibrator run so that it ends with us, whatever happens?"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence

from tlbcost.common import formats
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.paths import libexec
from tlbcost.common.table import Table, parse_table
from tlbcost.system.hints import cannot_run

# The calibrator keeps to its time limit; one that takes this much longer hangs.
_GRACE_S = 40


def run_calibrator(
    options: Sequence[str], limit_s: float, progress: Callable[[int], None] | None
) -> Table:
    """Run tlbcost-calibrate for `limit_s` seconds at most; its `samples` table.

    `progress` gets the percentage. Raises TlbcostError with the calibrator's own words and hint.
    However this ends, the calibrator has ended too.
    """
    program = libexec("tlbcost-calibrate")
    reader, writer = os.pipe()
    ends = ["--time-limit", f"{limit_s:.2f}", "--output", "-", "--progress-fd", str(writer)]
    try:
        # It writes to a pipe, so that no file is left if either of us is killed.
        process = subprocess.Popen(
            [program, *options, *ends],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[writer],
            text=True,
        )
    except OSError as error:
        os.close(reader)
        raise cannot_run(str(program), error) from error
    finally:
        os.close(writer)
    thread = threading.Thread(target=_follow, args=(reader, progress), daemon=True)
    thread.start()
    try:
        samples, complaint = process.communicate(timeout=limit_s + _GRACE_S)
    except subprocess.TimeoutExpired as error:
        raise TlbcostError(
            f"cannot calibrate: the calibrator did not end within {limit_s + _GRACE_S:.0f} s",
            "try again when the machine is less busy",
        ) from error
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        thread.join(timeout=1)
    if process.returncode != 0:
        raise _failure(process.returncode, complaint)
    return parse_table(samples, "the calibrator's samples", formats.SAMPLES)


def _follow(reader: int, progress: Callable[[int], None] | None) -> None:
    with os.fdopen(reader, encoding="ascii", errors="replace") as lines:
        for line in lines:
            word, _, percent = line.strip().partition(" ")
            if progress and word == "progress" and percent.isdigit():
                progress(int(percent))


def _failure(code: int, complaint: str) -> TlbcostError:
    if code < 0:
        name = signal.Signals(-code).name
        hint = "end programs that use the memory" if name == "SIGKILL" else None
        return TlbcostError(f"cannot calibrate: the calibrator was killed by {name}", hint)
    message, hint = "cannot calibrate: no reason was given", None
    for line in complaint.splitlines():
        text = line.removeprefix("tlbcost: ")
        if text.startswith("hint: "):
            hint = text.removeprefix("hint: ")
        elif text:
            message = text
    return TlbcostError(message, hint, CANNOT_MEASURE if code == CANNOT_MEASURE else 1)
