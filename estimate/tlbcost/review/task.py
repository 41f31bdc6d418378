# SPDX-License-Identifier: GPL-2.0-or-later
"""Tasks of a review: which estimate of which service for which type of host, and its run.

What ends that, a signal or a defect of ours included, is then this service's failure alone.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from tlbcost.answer.estimate_document import EstimateDocument, read_estimate
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Calibration
from tlbcost.common.document import Part, doc, from_json, now
from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.common.names import program_only
from tlbcost.common.paths import version
from tlbcost.common.reading import read_file
from tlbcost.machines.document import MachineEstimateDocument
from tlbcost.machines.plan import named
from tlbcost.processors.published import published
from tlbcost.review.plan import MachineType, Plan, Service, time_s
from tlbcost.system.machine import Machine, current_machine

_SAME_CPU = ("cpu_vendor", "cpu_family", "cpu_model", "cpu_stepping")

# `calibrate --output` writes a report; the table is in the cache.
_CALIBRATION_HINT = (
    "on such a host, tlbcost calibrate keeps one as calibration-*.tsv in ~/.cache/tlbcost"
)


class TaskResult(Part, frozen=True, kw_only=True):
    """One service on one type of host."""

    service: Annotated[str, doc("its name in the plan")]
    machine: Annotated[str, doc("the type of host, by its name in the plan")]
    plan: Annotated[str, doc("what the plan said of both, and the version: hashed")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    seconds: Annotated[float, doc("how long it took")]
    command: Annotated[tuple[str, ...], doc("what repeats it")]
    failure: Annotated[str | None, doc("why there is no estimate; null: there is one")]
    estimate: Annotated[EstimateDocument | None, doc("here, or of counts from elsewhere")] = None
    elsewhere: Annotated[
        MachineEstimateDocument | None, doc("by the figures of another machine, simulated here")
    ] = None


@dataclass(frozen=True, slots=True)
class Task:
    """One service on one type of host.

    `options`: of tlbcost estimate; empty: there is a file; None: they depend on the worker.
    """

    service: Service
    machine_name: str
    machine: MachineType
    options: tuple[str, ...] | None
    plan: str

    @property
    def command(self) -> tuple[str, ...]:
        """What a person types to repeat it; empty: only a worker knows."""
        if self.options is None:
            return ()
        if not self.options:
            return ("tlbcost", "show", str(self.service.estimate))
        if self.service.redact and self.service.command:
            return ("tlbcost", "estimate", "--redact", "--", *program_only(self.service.command))
        return ("tlbcost", "estimate", *self.options)


def plan_tasks(plan: Plan, *, fleet: bool = False) -> list[Task]:
    """Tasks of a plan, here or on hosts of the `fleet`. Raises TlbcostError with exit code 2."""
    calibrations = {name: _calibration(name, kind) for name, kind in plan.machines.items()}
    return [
        _task(service, name, plan.machines[name], calibrations[name], fleet=fleet)
        for service, name in plan.pairs()
    ]


def task_here(service: Service, name: str, kind: MachineType) -> Task:
    """One of a fleet's tasks, on this host. Raises TlbcostError as plan_tasks()."""
    return _task(service, name, kind, _calibration(name, kind), fleet=False)


def _wrong(key: str, why: str, hint: str | None = None) -> TlbcostError:
    return TlbcostError(f"plan: {key}: {why}", hint, USAGE)


def _calibration(name: str, kind: MachineType) -> Calibration | None:
    if kind.core is not None:
        named(kind.core)
    if kind.calibration is None:
        return None
    try:
        return read_calibration(Path(kind.calibration))
    except TlbcostError as error:
        key = f"machines.{name}.calibration"
        raise _wrong(key, str(error), _CALIBRATION_HINT) from error


def _task(
    service: Service, name: str, kind: MachineType, found: Calibration | None, *, fleet: bool
) -> Task:
    options: list[str] | None = []
    if service.estimate is not None:
        if len(service.machines) != 1:
            raise _wrong(f"{service.name}.machines", "an estimate is of one machine: name it")
        if not Path(service.estimate).is_file():
            raise _wrong(
                f"{service.name}.estimate",
                f"there is no file {service.estimate}",
                "tlbcost estimate --json FILE -- COMMAND writes one",
            )
    elif fleet and service.counts is None:
        options = None
    else:
        if fleet and kind.calibration is None:
            # Else the costs would be those of the host that the review runs on.
            why = "with --scheduler, counts need its calibration"
            raise _wrong(f"machines.{name}", why, _CALIBRATION_HINT)
        options = [*_machine_options(service, name, kind, found), *_evidence_options(service)]
    # The files that a result depends on: changed ones make another task.
    counts = _files(service.counts) if service.counts else []
    files = [file for file in (service.estimate, kind.calibration, *counts) if file is not None]
    content = [hashlib.sha256(read_file(Path(file))).hexdigest() for file in files]
    identity = msgspec.json.encode((service, kind, options, version(), content))
    known = None if options is None else tuple(options)
    return Task(service, name, kind, known, hashlib.sha256(identity).hexdigest())


def _files(pattern: str) -> list[str]:
    # Path.glob() knows no absolute patterns.
    return sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207


def is_here(machine: Machine) -> bool:
    here = current_machine()
    return all(getattr(machine, key) == getattr(here, key) for key in _SAME_CPU)


def _machine_options(
    service: Service, name: str, kind: MachineType, found: Calibration | None
) -> list[str]:
    calibration = [] if kind.calibration is None else ["--calibration", kind.calibration]
    if service.counts is not None or (found is None and kind.core is None):
        return calibration
    if found is not None and is_here(found.machine):
        return calibration
    if not service.command:
        raise _wrong(
            f"{service.name}.machines",
            f"{name} is another machine than this one, where the process runs",
            "tlbcost estimate --pid there, and its file as estimate = in the plan",
        )
    core = kind.core
    if found is not None:
        known = published(found.machine)
        core = None if known is None else known.core
        if core is None:
            raise _wrong(f"machines.{name}.calibration", "nothing is published of its CPU")
    return ["--machine", str(core), *calibration]


def _evidence_options(service: Service) -> list[str]:
    limit = ["--time-limit", f"{time_s(service.time_limit, 'time_limit'):g}s"]
    redact = ["--redact"] if service.redact else []
    if service.counts is not None:
        files = _files(service.counts)
        if not files:
            raise _wrong(
                f"{service.name}.counts",
                f"no file matches {service.counts}",
                "relative patterns are below the plan's folder",
            )
        cpu = [] if service.cpu is None else ["--cpu", service.cpu]
        return [*redact, *cpu, *(word for file in files for word in ("--from", file))]
    if service.command:
        runs = [] if service.runs is None else ["--runs", str(service.runs)]
        prepare = [] if service.prepare is None else ["--prepare", service.prepare]
        return [*redact, *limit, *runs, *prepare, "--", *service.command]
    seconds = []
    if service.seconds is not None:
        seconds = ["--seconds", f"{time_s(service.seconds, 'seconds'):g}"]
    pid = service.pid
    if service.pidfile is not None:
        try:
            pid = int(Path(service.pidfile).read_text(encoding="ascii").strip())
        except (OSError, ValueError) as error:
            raise _wrong(f"{service.name}.pidfile", f"no process number: {error}") from error
    if not Path(f"/proc/{pid}").is_dir():
        raise _wrong(
            f"{service.name}.pid",
            f"there is no process {pid}",
            "pidfile = FILE follows a service through restarts",
        )
    return [*redact, *limit, *seconds, "--pid", str(int(pid or 0))]


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
