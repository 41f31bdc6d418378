# SPDX-License-Identifier: GPL-2.0-or-later
"""How is a process that already runs followed in copies?"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common import paths
from tlbcost.common.cleanup import sigint_left_to_the_program
from tlbcost.common.errors import CANNOT_MEASURE, FAILED, TOOL_FAILED, TlbcostError
from tlbcost.common.progress import say
from tlbcost.copies.run import CopyPlan, copies_tool
from tlbcost.memory import smaps
from tlbcost.run.outcome import Run
from tlbcost.system import hints

_TICKS = os.sysconf("SC_CLK_TCK")
_PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
_CAN_ONLY_LAUNCH = (
    "tlbcost estimate -- COMMAND; or, as root: sysctl kernel.yama.ptrace_scope=0 lets a user trace "
    "his own processes"
)


@dataclass(frozen=True, slots=True)
class FollowedProcess:
    """What it did while it was followed: `run` is of that time alone. `seen`: its mappings."""

    argv: tuple[str, ...]
    path: Path
    run: Run
    seen: tuple[tuple[str, smaps.Mapping], ...]


@dataclass(frozen=True, slots=True)
class _Usage:
    user_ns: int
    system_ns: int
    minor_faults: int
    major_faults: int


def follow_process(
    pid: int, plan: CopyPlan, folder: Path, seconds: float, *, children: bool
) -> FollowedProcess:
    """Follow it for so long, or until it or Ctrl-C ends that; tables are in `folder` then.

    Raises TlbcostError: 1 if there is no such process, 4 if it may not be traced.
    """
    argv, path = _command(pid)
    before, started = _usage(pid), time.monotonic_ns()
    tool = copies_tool(plan, folder)
    words = [str(paths.libexec(tool[0])), *tool[1:], "--pid", str(pid)]
    words += ["--seconds", str(max(1, round(seconds)))]
    if children:
        words.append("--children")
    say(f"following process {pid} ({path.name}) for {seconds:g} s")
    with sigint_left_to_the_program():
        # Ctrl-C reaches it, too, and it ends with what it has.
        code = _run(words)
        seen = _seen(pid, path)
        after, ended = _usage(pid), time.monotonic_ns()
    if code == CANNOT_MEASURE:
        raise _refused(pid)
    if code != 0:
        raise TlbcostError(
            f"cannot follow process {pid}: {tool[0]} exited with {code}",
            "tlbcost doctor",
            TOOL_FAILED,
        )
    if before is None or after is None:
        raise TlbcostError(
            f"process {pid} ended while it was followed: its CPU time is not known",
            "tlbcost estimate -- COMMAND runs it from start to end",
            CANNOT_MEASURE,
        )
    run = Run(
        wall_ns=ended - started,
        user_ns=after.user_ns - before.user_ns,
        system_ns=after.system_ns - before.system_ns,
        minor_faults=after.minor_faults - before.minor_faults,
        major_faults=after.major_faults - before.major_faults,
        max_rss_bytes=sum(mapping.resident_bytes for _, mapping in seen),
    )
    if not run.cpu_ns:
        raise TlbcostError(
            f"process {pid} used no CPU time while it was followed",
            "follow it under load, or longer (--seconds)",
            CANNOT_MEASURE,
        )
    return FollowedProcess(argv, path, run, seen)


def _run(words: Sequence[str]) -> int:
    try:
        return subprocess.run(words, check=False).returncode
    except OSError as error:
        raise hints.cannot_run(words[0], error) from error


def _command(pid: int) -> tuple[tuple[str, ...], Path]:
    folder = Path(f"/proc/{pid}")
    try:
        words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        argv = tuple(os.fsdecode(word) for word in words if word)
    except OSError as error:
        raise TlbcostError(f"there is no process {pid}", "ps -e lists them", FAILED) from error
    try:
        path = (folder / "exe").readlink()
    except PermissionError as error:
        raise _refused(pid) from error
    except OSError as error:
        raise TlbcostError(
            f"process {pid} has no memory: it is a kernel thread, or has ended",
            "ps -e lists the processes",
            CANNOT_MEASURE,
        ) from error
    return argv or (str(path),), path


def _usage(pid: int) -> _Usage | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    words = text.rpartition(")")[2].split()
    # Fields 10, 12, 14 and 15 of proc(5); the state is field 3.
    minor, major, user, system = (int(words[field - 3]) for field in (10, 12, 14, 15))
    tick = 1_000_000_000 // _TICKS
    return _Usage(user * tick, system * tick, minor, major)


def _seen(pid: int, path: Path) -> tuple[tuple[str, smaps.Mapping], ...]:
    try:
        text = Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    return tuple((str(path), mapping) for mapping in smaps.parse(text, str(path)))


def _refused(pid: int) -> TlbcostError:
    """What is missing, and the line that grants it."""
    what = f"process {pid} may not be traced"
    try:
        scope = _PTRACE_SCOPE.read_text(encoding="ascii").strip()
    except OSError:
        scope = "0"
    try:
        owner: int | None = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        owner = None
    if hints.is_root():
        return TlbcostError(
            f"{what}: this root lacks CAP_SYS_PTRACE, or something else traces it",
            "docker run --cap-add SYS_PTRACE, or end the debugger",
            CANNOT_MEASURE,
        )
    if owner not in (None, os.geteuid()):
        again = shlex.join(["sudo", "tlbcost", "estimate", "--pid", str(pid)])
        return TlbcostError(f"{what}: it belongs to another user", again, CANNOT_MEASURE)
    if scope != "0":
        return TlbcostError(
            f"{what}: kernel.yama.ptrace_scope is {scope}", _CAN_ONLY_LAUNCH, CANNOT_MEASURE
        )
    return TlbcostError(
        f"{what}: it has more rights than you, or a debugger", hints.again_as_root(), CANNOT_MEASURE
    )
