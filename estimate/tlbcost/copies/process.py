# SPDX-License-Identifier: GPL-2.0-or-later
"""How is a process that already runs followed in copies?"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from tlbcost.common import formats, paths
from tlbcost.common.causes import tool_error
from tlbcost.common.cleanup import TimeLimitPassed, sigint_left_to_the_program
from tlbcost.common.errors import CANNOT_MEASURE, FAILED, TlbcostError
from tlbcost.common.progress import say
from tlbcost.common.table import read_table
from tlbcost.copies.run import CopyPlan, copies_tool, reason_of
from tlbcost.memory import smaps
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.run import process_tree
from tlbcost.run.copied_processes import is_copy
from tlbcost.run.outcome import Run
from tlbcost.system import hints
from tlbcost.system.tracing import PTRACE_SCOPE, TracingRights, tracing_rights

_LOOK_S = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class FollowedProcess:
    """What it did while it was followed: `run` is of that time alone. `seen`: its mappings."""

    argv: tuple[str, ...]
    path: Path
    run: Run
    seen: tuple[tuple[str, smaps.Mapping], ...]


@dataclass(frozen=True, slots=True)
class _Usage:
    user_ns: int = 0
    system_ns: int = 0
    minor_faults: int = 0
    major_faults: int = 0

    def __add__(self, other: _Usage) -> _Usage:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return _Usage(*(one + another for one, another in pairs))

    def __sub__(self, other: _Usage) -> _Usage:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return _Usage(*(one - another for one, another in pairs))


class _Meter:
    """What a process uses from now on; with `children`, its descendants, too.

    A process that ends is known as it was when it was read last.
    """

    def __init__(self, pid: int, *, children: bool) -> None:
        self._pid, self._children = pid, children
        self._used: dict[tuple[int, int], tuple[_Usage, _Usage]] = {}
        self._look(new=False)
        self._started = time.monotonic_ns()

    def read(self) -> None:
        """What have they used up to now?"""
        self._look(new=True)

    def _look(self, *, new: bool) -> None:
        """`new`: whether a process not seen before has begun since."""
        pids = {self._pid: process_tree.start_ticks(self._pid)}
        if self._children:
            found = process_tree.offspring([self._pid])
            pids |= {pid: start for pid, start in found.items() if not is_copy(pid)}
        for pid, start in pids.items():
            usage = _usage(pid)
            if usage is None or start is None:
                continue
            before, _ = self._used.get((pid, start), (_Usage() if new else usage, usage))
            self._used[pid, start] = before, usage

    def run(self, seen: Sequence[tuple[str, smaps.Mapping]]) -> Run:
        """All that was used up to the last look; `seen` was in memory at the peak."""
        used = sum((now - before for before, now in self._used.values()), _Usage())
        return Run(
            wall_ns=time.monotonic_ns() - self._started,
            user_ns=used.user_ns,
            system_ns=used.system_ns,
            minor_faults=used.minor_faults,
            major_faults=used.major_faults,
            max_rss_bytes=sum(mapping.resident_bytes for _, mapping in seen),
        )


def follow_process(
    pid: int, plan: CopyPlan, folder: Path, seconds: float, *, children: bool
) -> FollowedProcess:
    """Follow it for so long, or until it or Ctrl-C ends that; tables are in `folder` then.

    Raises TlbcostError: 1 if there is no such process, 4 if it cannot be followed.
    """
    argv, path = _command(pid)
    tool = copies_tool(plan, folder)
    words = [str(paths.libexec(tool[0])), *tool[1:], "--pid", str(pid)]
    words += ["--seconds", str(max(1, round(seconds)))]
    if children:
        words.append("--children")
    name = Path(argv[0]).name
    say(f"following process {pid} ({name}) for {seconds:g} s; Ctrl-C ends that earlier")
    meter, sampler = _Meter(pid, children=children), PeakSampler(copied=True)
    sampler.start_at(pid, children=children)
    try:
        code, said = _follow(words, meter)
    finally:
        sampler.stop()
    note_end(pid)
    if code == CANNOT_MEASURE:
        raise refused(pid, folder)
    if code != 0:
        say(said)
        raise tool_error(f"cannot follow process {pid}", tool[0], code, folder)
    run = meter.run(sampler.peak())
    if not run.cpu_ns:
        raise TlbcostError(
            f"process {pid} used no CPU time while it was followed",
            "follow it under load, or longer (--seconds)",
            CANNOT_MEASURE,
        )
    return FollowedProcess(argv, path, run, sampler.peak())


def run_tool(words: Sequence[str]) -> tuple[int, str]:
    """Run a tool of ours that watches a process, to its end: its exit code, and what it said.

    SIGINT and the time limit end it early, and what it has counts.
    """
    return _follow([str(paths.libexec(words[0])), *words[1:]], None)


def _follow(words: Sequence[str], meter: _Meter | None) -> tuple[int, str]:
    """The same, with `meter` read now and then."""
    with tempfile.TemporaryFile() as said, sigint_left_to_the_program() as interrupted:
        try:
            # In a process group of its own, so that it gets Ctrl-C once, from us.
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stderr=said, process_group=0
            )
        except OSError as error:
            raise hints.cannot_run(words[0], error) from error
        passed_on = False
        try:
            while not _ended(process):
                if meter is not None:
                    meter.read()
                if not passed_on and interrupted():
                    passed_on = True
                    process.send_signal(signal.SIGINT)
        except TimeLimitPassed:
            process.send_signal(signal.SIGINT)
            process.wait()
        except BaseException:
            process_tree.end(process)
            raise
        if meter is not None:
            meter.read()
        said.seek(0)
        return process.returncode, said.read().decode(errors="replace").strip()


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it ends within a moment."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_LOOK_S)
        return True
    return False


def _command(pid: int) -> tuple[tuple[str, ...], Path]:
    folder = _living(pid)
    try:
        words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        argv = tuple(os.fsdecode(word) for word in words if word)
    except OSError as error:
        raise TlbcostError(f"there is no process {pid}", "ps -e lists them", FAILED) from error
    try:
        path = (folder / "exe").readlink()
    except PermissionError as error:
        raise _forbidden(pid) from error
    except OSError as error:
        what = "is a kernel thread" if _is_alive(folder) else "has ended"
        raise TlbcostError(
            f"process {pid} {what}: it has no memory", "ps -e lists the processes", CANNOT_MEASURE
        ) from error
    if len(argv) == 1 and not Path(argv[0]).exists():
        # A title that the program has set for itself: "redis-server *:6379".
        argv = tuple(argv[0].split())
    return argv or (str(path),), path


def note_end(pid: int) -> None:
    """Say so if the process has ended."""
    if not _is_alive(_living(pid)):
        say(f"process {pid} has ended, and its copies with it: the answer is of the time before")


def _living(pid: int) -> Path:
    """A thread that has not ended: the first one may have, and shows no memory then."""
    folder = Path(f"/proc/{pid}")
    threads = [folder] if _is_alive(folder) else sorted((folder / "task").glob("*"))
    return next((thread for thread in threads if _is_alive(thread)), folder)


def _is_alive(folder: Path) -> bool:
    try:
        text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[:1] not in (["Z"], ["X"])


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


def refused(pid: int, folder: Path) -> TlbcostError:
    """Why there are no copies of it, by the table of attempts."""
    results: Sequence[str] = ()
    with contextlib.suppress(OSError, TlbcostError):
        rows = read_table(folder / "copies.tsv", formats.COPIES).records()
        results = [str(row["result"]) for row in rows]
    reasons = Counter(each for each in results if each.startswith("refused-"))
    why = reasons.most_common(1)[0][0] if reasons else "refused-permission"
    if why in ("refused-permission", "refused-traced"):
        return _forbidden(pid)
    return TlbcostError(
        f"process {pid} cannot be followed: {reason_of(why)}",
        "tlbcost estimate -- COMMAND starts the program, if need be in Valgrind",
        CANNOT_MEASURE,
    )


def _forbidden(pid: int) -> TlbcostError:
    """What is missing, and the line that grants it."""
    why, hint = _lacks(pid, tracing_rights())
    return TlbcostError(f"process {pid} may not be traced: {why}", hint, CANNOT_MEASURE)


def _lacks(pid: int, rights: TracingRights) -> tuple[str, str]:
    """Why it may not be traced, and what to type."""
    tracer, owner = _status(pid, "TracerPid"), _owner(pid)
    if tracer:
        return f"process {tracer} traces it", f"end that one first: ps {tracer} shows it"
    if rights.locked:
        why = f"kernel.yama.ptrace_scope is {rights.scope}: no process may until the next boot"
        return why, "tlbcost estimate --engine valgrind -- COMMAND starts the program in Valgrind"
    if rights.privileged:
        return "the kernel refuses it, a security module may", "dmesg | tail may say more"
    if hints.is_root():
        why = "root lacks CAP_SYS_PTRACE here"
        return why, "docker run --cap-add SYS_PTRACE, in a container"
    if owner not in (None, os.geteuid()):
        return f"it belongs to {_name_of(owner)}", hints.again_as_root()
    if rights.traceable != "own":
        allow = hints.write_setting("0", PTRACE_SCOPE)
        again = hints.again_as_root()
        return f"kernel.yama.ptrace_scope is {rights.scope}", f"{again}, or {allow}"
    return "it has more rights than you", hints.again_as_root()


def _owner(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _status(pid: int, key: str) -> int | None:
    """A number in /proc/PID/status; None if there is none."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(rf"^{key}:\s+(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else None
