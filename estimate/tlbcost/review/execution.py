# SPDX-License-Identifier: GPL-2.0-or-later
"""One service estimated for one type of host, by `tlbcost estimate` in its own process.

What ends that, a signal or a defect of ours included, is then this service's failure alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec

from tlbcost.common.document import from_json, now
from tlbcost.common.errors import TlbcostError
from tlbcost.machines.document import MachineEstimateDocument
from tlbcost.report.saved import read_estimate
from tlbcost.review.plan import time_s
from tlbcost.review.task import Task, TaskResult

_PACKAGE = Path(__file__).resolve().parent.parent.parent
# It ends with the process that wants it, however that ends: 1 is PR_SET_PDEATHSIG.
_START = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGTERM); "
    "os.getppid() == int(sys.argv.pop(1)) or sys.exit(1); sys.path.insert(0, sys.argv.pop(1)); "
    "from tlbcost.__main__ import main; sys.exit(main())"
)
# After its time limit an estimate has this long to say what it has.
_GRACE_S = 60.0
_POLL_S = 0.1


class Interrupted(Exception):
    """The estimate was ended because its result is not needed any more: that is no result."""


def run_task(task: Task, folder: Path, stop: threading.Event | None = None) -> TaskResult:
    """Run a task; its result has any failure. Raises Interrupted after `stop`."""
    start = time.monotonic()
    made = folder / "estimate.json"
    made.unlink(missing_ok=True)
    failure, estimate, elsewhere = None, None, None
    try:
        if not task.options:
            estimate = read_estimate(Path(str(task.service.estimate)))
        else:
            failure = _run(task, made, folder / "messages", stop)
            if failure is None and "--machine" in task.options:
                elsewhere = from_json(made.read_bytes(), MachineEstimateDocument)
            elif failure is None:
                estimate = read_estimate(made)
    except (TlbcostError, OSError, msgspec.DecodeError) as error:
        failure = str(error)
    return TaskResult(
        service=task.service.name,
        machine=task.machine_name,
        plan=task.plan,
        date=now(),
        seconds=time.monotonic() - start,
        command=task.command,
        failure=failure,
        estimate=estimate,
        elsewhere=elsewhere,
    )


def _run(task: Task, made: Path, messages: Path, stop: threading.Event | None) -> str | None:
    service = task.service
    words = [sys.executable, "-I", "-c", _START, str(os.getpid()), str(_PACKAGE)]
    words += ["estimate", "--quiet", "--json", str(made), "--output", os.devnull]
    words += task.options or ()
    limit_s = time_s(service.time_limit, "time_limit") + _GRACE_S
    with contextlib.ExitStack() as files:
        stdin = files.enter_context(Path(service.stdin or os.devnull).open("rb"))
        text = files.enter_context(messages.open("wb"))
        process = subprocess.Popen(
            words, stdin=stdin, stdout=subprocess.DEVNULL, stderr=text, cwd=service.folder,
            # What a review says follows from its plan, and no user's defaults.
            env={**os.environ, **service.environment},
        )  # fmt: skip
        try:
            code = process.wait(limit_s) if stop is None else _wait(process, limit_s, stop)
        except subprocess.TimeoutExpired:
            code = _end(process)
        except BaseException:
            _end(process)
            raise
    return None if code == 0 and made.is_file() else _why(code, messages)


def _wait(process: subprocess.Popen[bytes], limit_s: float, stop: threading.Event) -> int:
    end = time.monotonic() + limit_s
    while not stop.wait(_POLL_S):
        code = process.poll()
        if code is not None:
            return code
        if time.monotonic() > end:
            raise subprocess.TimeoutExpired(process.args, limit_s)
    raise Interrupted


def _end(process: subprocess.Popen[bytes]) -> int:
    """It ends what it started before it ends itself."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _why(code: int, messages: Path) -> str:
    """What it said last, else how it ended."""
    lines = messages.read_text(encoding="utf-8", errors="replace").splitlines()
    said = [
        line.removeprefix("tlbcost: ")
        for line in lines
        if line.startswith("tlbcost: ") and not line.startswith("tlbcost: hint: ")
    ]
    if said:
        return said[-1]
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"tlbcost estimate ended without a result ({how})"
