# SPDX-License-Identifier: GPL-2.0-or-later
"""Sample events of a program with `perf record`: the choice of events, the run, its file."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tlbcost.common import paths
from tlbcost.common.cleanup import sigint_left_to_the_program
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, TlbcostError
from tlbcost.common.files import temporary_folder
from tlbcost.common.paths import sys_path
from tlbcost.counters.count_tool import Target, probe, watch
from tlbcost.counters.event_counts import Mode, Refusal, diagnose, explain, no_process
from tlbcost.counters.pmu import (
    EVENT_SOURCES,
    PROGRAM,
    SOFTWARE_SAMPLES,
    EventRequest,
    choose_events,
    choose_pmu,
    default_sample_names,
    encode,
    find_pmu,
)
from tlbcost.counters.profile import Hits, perf, read_hits
from tlbcost.processors.events import generic_pmu, select
from tlbcost.run.launch import Launcher, launcher_of, resolve, start_failure
from tlbcost.system.machine import read_line

# Events from sample to sample: some thousands of samples a second where translation hurts. Primes,
# so that sampling does not keep step with a loop of the program.
_PERIODS = {
    "cycles": 2_000_003,
    "instructions": 2_000_003,
    "task_clock_ns": 1_000_003,
    "page_faults": 1,
    "minor_faults": 1,
    "major_faults": 1,
    "context_switches": 1,
}
_CYCLES_PERIOD = 200_003
_MISSES_PERIOD = 10_007
# perf_event_open(2) has these types without a folder in sysfs; perf knows them by name.
_HARDWARE = (
    "cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses",
    "bus-cycles", "stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles",
)  # fmt: skip
_CACHES = ("L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node")
_ACCESSES = (
    ("loads", "load-misses"), ("stores", "store-misses"), ("prefetches", "prefetch-misses"),
)  # fmt: skip
_HARDWARE_TYPE, _CACHE_TYPE = 0, 3


@dataclass(frozen=True, slots=True)
class Pace:
    """How often samples are taken: each `period`th event, or `frequency` a second, or (both None)
    as suits the event."""

    period: int | None = None
    frequency: int | None = None


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """What is sampled, of what, and how."""

    requests: tuple[EventRequest, ...]
    mode: Mode
    pace: Pace
    target: Target
    addresses: bool

    def command(self, file: Path) -> list[str]:
        """perf record, which writes `file`. Raises TlbcostError (4): see event_terms()."""
        words = [perf(), "record", "--quiet", "--no-buildid-cache", "--sample-cpu"]
        words += ["--output", str(file)]
        for term in event_terms(self.requests, self.mode, self.pace):
            words += ["--event", term]
        if self.addresses:
            words.append("--data")
        if self.target.pid is not None:
            words += ["--pid", str(self.target.pid)]
        return [*words, "--all-cpus"] if self.target.scope == "system" else words


@dataclass(frozen=True, slots=True)
class RecordRequest:
    """What is to be sampled. `argv` empty: no program of ours runs.

    `events` empty: cycles and misses. `pmu` None: this CPU's.
    """

    argv: tuple[str, ...]
    target: Target
    events: tuple[str, ...] = ()
    pmu: str | None = None
    mode: Mode = "user"
    pace: Pace = Pace()
    addresses: bool = False


@dataclass(frozen=True, slots=True)
class Recording:
    """`data`: the content of perf's file; `code` the program's exit code, 0 without a program."""

    code: int
    data: bytes
    hits: Hits
    notes: tuple[str, ...]


def record(request: RecordRequest, warn: Callable[[str], None]) -> Recording:
    """Sample as asked; `warn` gets a sentence if there are no counters. Raises TlbcostError."""

    def recording(folder: Path, launch: Callable[[Sequence[str]], int] | None) -> Recording:
        code, file, left_out = take_samples(plan, folder, launch)
        return Recording(code, file.read_bytes(), read_hits(file), (*notes, *left_out))

    path = resolve(request.argv[0]) if request.argv else None
    pmu, notes = choose_pmu(request.pmu)
    names = request.events or default_sample_names(pmu, addresses=request.addresses)
    requests = choose_events(pmu, names)
    if not request.events and find_pmu().answer == "absent":
        warn(
            "no hardware counters here: the task's time and its page faults are recorded instead, "
            "no TLB misses"
        )
        requests, notes = tuple(map(EventRequest.of, select(generic_pmu(), SOFTWARE_SAMPLES))), ()
    plan = SamplingPlan(requests, request.mode, request.pace, request.target, request.addresses)
    if path is None:
        with temporary_folder() as folder:
            return recording(folder, None)
    # Ctrl-C is the program's; what it hit until it ends is reported.
    with launcher_of(None) as launcher, sigint_left_to_the_program():
        launch = sampled_runs(launcher, request.argv, path)
        if request.target.pid is not None:
            launch = _while_it_runs(launcher, request.argv, path)
        return recording(launcher.folder, launch)


def take_samples(
    plan: SamplingPlan, folder: Path, launch: Callable[[Sequence[str]], int] | None
) -> tuple[int, Path, tuple[str, ...]]:
    """Sample once; the program's exit code (0: there is none), perf's file, and notes on events
    that were left out because they are not here.

    `launch` runs the program, given the command to run it with. Raises TlbcostError: what
    diagnose() says, with exit code 4, if nothing could be sampled, and then nothing has run.
    """
    target, file = plan.target, folder / "perf.data"
    if target.pid is not None and not sys_path(f"/proc/{target.pid}").exists():
        raise no_process(target.pid)
    code = _run_perf(plan.command(file), launch)
    notes: tuple[str, ...] = ()
    if not _is_written(file):
        if launch is None and code == -signal.SIGINT:
            raise KeyboardInterrupt
        found = list(
            zip(plan.requests, probe(generic_pmu(), plan.requests, plan.mode), strict=True)
        )
        here = tuple(request for request, each in found if each.state == "counted")
        refused = [each for _, each in found if each.state != "counted"]
        if not here or not refused:
            raise diagnose(refused, target.scope, plan.mode, target.pid)
        notes = tuple(explain(refusal) for refusal in refused)
        code = _run_perf(replace(plan, requests=here).command(file), launch)
        if not _is_written(file):
            raise diagnose([], target.scope, plan.mode, target.pid)
    # By itself perf ends by the signal that stopped it, and has written its file.
    return code if launch else 0, file, notes


def _run_perf(words: Sequence[str], launch: Callable[[Sequence[str]], int] | None) -> int:
    """Its exit code; that of the program, if it was launched."""
    if launch is None:
        return watch(words)
    try:
        return launch(words)
    except TlbcostError as error:
        if error.exit_code != CANNOT_MEASURE:
            raise
        return CANNOT_MEASURE


def _is_written(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


def sampled_runs(
    launcher: Launcher,
    argv: Sequence[str],
    path: Path,
    started: Callable[[int], None] | None = None,
) -> Callable[[Sequence[str]], int]:
    """A `launch` for take_samples(): raises what start_failure() says if it cannot start.

    `started`: as in Launcher.execute(). The program's output is that of the launcher's first run.
    """

    def launch(words: Sequence[str]) -> int:
        outcome = launcher.execute(
            argv, discard=launcher.runs > 0, started=started, profiler=[*words, "--"]
        )
        if outcome.exec_errno is not None:
            raise start_failure(argv[0], path, outcome.exec_errno)
        return outcome.code

    return launch


def _while_it_runs(
    launcher: Launcher, argv: Sequence[str], path: Path
) -> Callable[[Sequence[str]], int]:
    """A `launch` for a sampled process: as perf's own command, perf would end the program, too."""

    def launch(words: Sequence[str]) -> int:
        orders, to_perf = os.pipe()
        from_perf, answers = os.pipe()
        command = [*words, "--delay=-1", f"--control=fd:{orders},{answers}"]
        with (
            os.fdopen(to_perf, "wb", 0) as order,
            os.fdopen(from_perf, "rb", 0) as answer,
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, process_group=0, pass_fds=(orders, answers)
            ) as perf_,
        ):
            os.close(orders)
            os.close(answers)
            try:
                with contextlib.suppress(BrokenPipeError):
                    order.write(b"enable\n")
                # It ends, and answers nothing, if it cannot open the events.
                if not answer.read(4):
                    return CANNOT_MEASURE
                outcome = launcher.execute(argv, discard=False)
            finally:
                perf_.send_signal(signal.SIGINT)
        if outcome.exec_errno is not None:
            raise start_failure(argv[0], path, outcome.exec_errno)
        return outcome.code

    return launch


def event_terms(requests: Sequence[EventRequest], mode: Mode, pace: Pace) -> list[str]:
    """How perf is asked for the events. Raises TlbcostError (4) if one is not encoded here."""
    rows = encode([request.spec for request in requests])
    if rows is None:
        tool = paths.libexec(PROGRAM)
        raise TlbcostError(f"{tool} cannot encode events", "tlbcost doctor", TOOL_FAILED)
    terms = []
    for request, row in zip(requests, rows, strict=True):
        name = _event_name(row)
        if name is None:
            raise diagnose([Refusal(request.shown, "unsupported", None)], "program", mode)
        # perf has other uses for most characters.
        word = re.sub(r"[^\w.]", "_", request.shown, flags=re.ASCII)
        values = [*name[1], f"name={word}", *_pace(request, pace)]
        modifiers = {"user": "u", "kernel": "k", "both": ""}[mode] + "p" * int(row["precise"] or 0)
        terms.append(f"{name[0]}/{','.join(values)}/{modifiers}")
    return terms


def _event_name(row: dict[str, str | None]) -> tuple[str, list[str]] | None:
    """perf's name of an event source, and the values of its fields; None: it is not here."""
    if row["type"] is None or row["config"] is None:
        return None
    kind, config = int(row["type"], 16), int(row["config"], 16)
    if kind == _HARDWARE_TYPE:
        return (_HARDWARE[config], []) if config < len(_HARDWARE) else None
    if kind == _CACHE_TYPE:
        cache, operation, result = config & 0xFF, config >> 8 & 0xFF, config >> 16 & 0xFF
        if cache >= len(_CACHES) or operation >= len(_ACCESSES) or result > 1:
            return None
        return f"{_CACHES[cache]}-{_ACCESSES[operation][result]}", []
    values = [f"config={config:#x}"]
    if row["config1"] is not None and int(row["config1"], 16):
        values.append(f"config1={row['config1']}")
    names = sorted(path.name for path in sys_path(EVENT_SOURCES).glob("*"))
    found = next((n for n in names if read_line(f"{EVENT_SOURCES}/{n}/type") == str(kind)), None)
    return None if found is None else (found, values)


def _pace(request: EventRequest, pace: Pace) -> list[str]:
    if pace.frequency is not None:
        return [f"freq={pace.frequency}"]
    if pace.period is not None:
        return [f"period={pace.period}"]
    role = (request.role_name or "").split(".")[0]
    if not role:
        role = next((e.role for e in generic_pmu().events if e.string == request.event), "")
    if not role:
        return []
    # AMD's instruction-based sampling takes any operation, few of which miss.
    often = role.endswith(("_cycles", "_slots")) or "ibs_" in request.spec
    other = _CYCLES_PERIOD if often else _MISSES_PERIOD
    return [f"period={_PERIODS.get(role, other)}"]
