# SPDX-License-Identifier: GPL-2.0-or-later
"""A program, started or running, followed in copies."""

from __future__ import annotations

import contextlib
import os
import platform
import pwd
import re
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tlbcost.common import formats, paths, units
from tlbcost.common.cleanup import TimeLimitPassed, sigint_left_to_the_program
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError, tool_error
from tlbcost.common.formats import read_table
from tlbcost.common.progress import say
from tlbcost.memory import smaps
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.processors.published import Geometry
from tlbcost.run import process_tree
from tlbcost.run.outcome import Run
from tlbcost.run.process_tree import is_copy
from tlbcost.simulator.run import level_options
from tlbcost.system import hints, process
from tlbcost.system.process import PTRACE_SCOPE, Stat, TracingRights, tracing_rights

if TYPE_CHECKING:
    from tlbcost.copies.estimator import CopyTables

# Of one copy, one after the other.
_SLICES = 3
_TOOL = "tlbcost-copies"
# What else than anonymous memory copies can have on huge pages.
Also = Literal["text", "shared memory"]
_ALSO: Mapping[Also, str] = {"text": "--text", "shared memory": "--shared"}


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """How a program is copied.

    `overhead`: the share of its CPU time that copying may cost. `copies`: that many instead.
    `fault_ns`: CPU time of a page that is copied on write. `most_pause_s`: for which a copy may
    stop a thread; None: any.
    """

    geometry: Geometry
    core: str | None
    cycles_per_ns: float
    overhead: float = 0.05
    copies: int | None = None
    fault_ns: int = 1200
    most_pause_s: float | None = None


def follows_copies_of(architecture: str) -> bool:
    return architecture == "x86_64"


def is_built() -> bool:
    return os.access(paths.libexec(_TOOL), os.X_OK)


def unavailable() -> str | None:
    """Why this machine follows no copies; a running process may be refused besides (process.py)."""
    if not follows_copies_of(platform.machine()):
        return f"copies of the program are followed on x86-64 only, not on {platform.machine()}"
    if not is_built():
        return "tlbcost-copies is not built: Zydis was missing (libzydis-dev)"
    return None


def untraceable() -> str | None:
    """Why no program that we start may be traced; None: they may."""
    rights = tracing_rights()
    if rights.traceable != "none":
        return None
    who = "only root may trace a program"
    if rights.locked:
        who = "no process may trace a program until the next boot"
    return f"kernel.yama.ptrace_scope is {rights.scope}: {who}"


def copies_tool(plan: CopyPlan, folder: Path) -> Sequence[str]:
    limit = ["--overhead", f"{plan.overhead:g}"]
    if plan.copies is not None:
        limit = ["--copies", str(plan.copies)]
    words = [_TOOL, "--out", str(folder), *limit, "--fault-ns", str(plan.fault_ns)]
    words += ["--cycle-ps", str(round(1000 / plan.cycles_per_ns))]
    words += [word for option in level_options(plan.geometry) for word in option]
    words += [] if plan.core is None else ["--core", plan.core]
    return [*words, *_most_pause(plan.most_pause_s)]


def _most_pause(seconds: float | None) -> list[str]:
    return [] if seconds is None else ["--most-pause-ns", str(round(1e9 * seconds))]


def arms_tool(
    folder: Path,
    copies: int,
    expected_cpu_ns: int,
    recorded_calls: int = 0,
    until_s: float | None = None,
    also: Sequence[Also] = (),
    most_pause_s: float | None = None,
) -> Sequence[str]:
    """The same to have arms of N copies, spread over this CPU time, do its work natively.

    `recorded_calls`: with this many system calls, which are recorded first; 0: between two.
    `until_s`: fewer copies, but enough, if more would take longer than that since the start.
    `also`: what huge pages are for besides anonymous memory.
    """
    words = [_TOOL, "--out", str(folder), "--arms", str(_SLICES), "--record", str(recorded_calls)]
    words += ["--copies", str(copies), "--expected-cpu-ns", str(expected_cpu_ns)]
    words += [*(_ALSO[each] for each in also), *_most_pause(most_pause_s)]
    return words if until_s is None else [*words, "--until-seconds", str(max(1, round(until_s)))]


# Fewer windows than this say nothing of a program.
_FEWEST = 4
# A short program is run again for this many; fewer will do where its gain is measured, and windows
# have only to show which memory it comes from.
_ENOUGH, _ENOUGH_MEASURED = 10, 6


def too_few(tables: CopyTables) -> str | None:
    """Why there are too few windows to estimate from; None: there are enough."""
    timed = tables.windows[tables.windows["base_cycles"].notna()]
    if len(timed) >= _FEWEST:
        return None
    attempts = tables.attempts["result"].value_counts()
    refused = attempts[attempts.index.str.startswith("refused-")]
    if len(refused) and refused.iloc[0] > len(timed):
        return reason_of(str(refused.index[0]))
    if attempts.get("busy", 0) > len(timed):
        return f"{len(timed)} copies could be followed: no CPU was free for more"
    ends = tables.windows["ended"].value_counts()
    windows = "window" if len(timed) == 1 else "windows"
    number = f"{len(timed)} {windows} of copies could be timed, and {_FEWEST} are needed"
    return f"{number} (most were ended by: {ends.index[0]})" if len(ends) else number


def reason_of(result: str) -> str:
    """Why there are no copies, in words: by a result of the table of attempts."""
    return _REASONS.get(result, f"it cannot be copied ({result.removeprefix('refused-')})")


def more_may_do(tables: CopyTables, *, measured: bool) -> bool:
    """There are few windows, and another run could have more. `measured`: the gain will be, too."""
    timed = int(tables.windows["base_cycles"].notna().sum())
    refused = int(tables.attempts["result"].str.startswith("refused-").sum())
    enough = _ENOUGH_MEASURED if measured else _ENOUGH
    return 0 < timed < enough and refused <= timed


_REASONS = {
    "refused-seccomp": "the program has a seccomp filter, which a copy could be killed by",
    "refused-permission": "the program may not be traced",
    "refused-traced": "another program traces it",
    "refused-hugetlb": "its memory is on huge pages of a pool, which copies would use up",
    "refused-huge": "its memory is on huge pages already, which copying would split",
    "refused-memory": "there is too little memory for copies of it",
    "refused-pause": "a copy would stop it for longer than it may (--most-pause)",
    "refused-processes": "no more processes may be started",
    "refused-io_uring": "it uses io_uring, which a copy may disturb before Linux 5.12",
    "refused-userfaultfd": "it uses userfaultfd",
    "refused-32bit": "it is a 32-bit program",
    "refused-stopped": "it is stopped",
    "refused-gone": "its threads end before they can be copied",
    "refused-sleeping": "its threads sleep",
    "refused-busy": "its threads did not stop in time",
    "refused-clone": "the kernel refused to copy it",
    "refused-instruction": "it has no system call instruction in memory that could be used",
}


_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class FollowedProcess:
    """What it did while it was followed: `run` is of that time alone. `seen`: its mappings."""

    argv: tuple[str, ...]
    path: Path
    run: Run
    seen: tuple[tuple[str, smaps.Mapping], ...]


class _Meter:
    """What a process uses from now on; with `children`, its descendants, too.

    A process that ends is known as it was when it was read last.
    """

    def __init__(self, pid: int, *, children: bool) -> None:
        self._pid, self._children = pid, children
        # Stat at the beginning, None for a process that began since, and as it was read last.
        self._used: dict[tuple[int, int], tuple[Stat | None, Stat]] = {}
        self._look(new=False)
        self._started = time.monotonic_ns()

    def read(self) -> None:
        self._look(new=True)

    def _look(self, *, new: bool) -> None:
        """`new`: whether a process not seen before has begun since."""
        pids = [self._pid]
        if self._children:
            pids += [pid for pid in process_tree.offspring(pids) if not is_copy(pid)]
        for pid in pids:
            if (now := process.stat(pid)) is not None:
                before, _ = self._used.get((pid, now.started), (None if new else now, now))
                self._used[pid, now.started] = before, now

    def run(self, seen: Sequence[tuple[str, smaps.Mapping]]) -> Run:
        """All that was used up to the last look; `seen` was in memory at the peak."""

        def used(name: str) -> int:
            pairs = self._used.values()
            return sum(getattr(now, name) - getattr(before, name, 0) for before, now in pairs)

        return Run(
            wall_ns=time.monotonic_ns() - self._started,
            user_ns=used("user_ns"),
            system_ns=used("system_ns"),
            minor_faults=used("minor_faults"),
            major_faults=used("major_faults"),
            max_rss_bytes=sum(mapping.resident_bytes for _, mapping in seen),
        )


def follow_process(
    pid: int, plan: CopyPlan, folder: Path, seconds: float, *, children: bool
) -> FollowedProcess:
    """Follow a process for so long, or to its end. Raises TlbcostError: 1 without it, 4 refused."""
    argv, path = _command(pid)
    tool = copies_tool(plan, folder)
    words = [str(paths.libexec(tool[0])), *tool[1:], "--pid", str(pid)]
    words += ["--seconds", str(max(1, round(seconds)))]
    if children:
        words.append("--children")
    name = Path(argv[0]).name
    say(
        f"following process {pid} ({name}) for {seconds:g} s; each copy stops one of its threads "
        f"for about {units.time(_pause_ns(pid))}; Ctrl-C ends that earlier"
    )
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


# Copies, seconds before them and during them, and for which share of that time more the process may
# wait for a CPU, or copy pages on write.
_CANARIES, _CANARY_S, _CANARY_PART = 4, 4.0, 0.05


def check_canary(pid: int, plan: CopyPlan, folder: Path, *, children: bool) -> None:
    """Make a few copies first. Raises TlbcostError (4) if the process feels them too much."""
    _command(pid)
    say(f"canary: {_CANARIES} copies of process {pid} in {_CANARY_S:g} s, after as long without")
    words = [*copies_tool(replace(plan, copies=_CANARIES), folder), "--pid", str(pid)]
    words += ["--seconds", f"{_CANARY_S:.0f}", *(["--children"] if children else [])]

    def felt(during: Callable[[], object]) -> tuple[float, float]:
        before, began = _felt(pid, children=children), time.monotonic_ns()
        during()
        after, wall_ns = _felt(pid, children=children), time.monotonic_ns() - began
        waited, faults = (max(0, y - x) / wall_ns for x, y in zip(before, after, strict=True))
        return waited, faults * plan.fault_ns

    alone = felt(lambda: time.sleep(_CANARY_S))
    codes: list[int] = []
    copied = felt(lambda: codes.append(run_tool(words, whole=True)[0]))
    if codes != [0]:
        # Nothing was copied: following it says why.
        return
    for name, x, y in zip(("waits for a CPU", "copies pages"), alone, copied, strict=True):
        if y - x > _CANARY_PART:
            shares = f"{units.percent(y)} of the time, {units.percent(x)} before"
            raise TlbcostError(
                f"canary: with copies, process {pid} {name} for {shares}; no more are made",
                "a smaller --overhead, or --most-pause 1ms",
                CANNOT_MEASURE,
            )
    say("canary: the process does not wait or fault more than before")


def _felt(pid: int, *, children: bool) -> tuple[int, int]:
    """Time that threads waited for a CPU, in ns, and page faults, since they began."""
    waited = faults = 0
    family = process_tree.offspring([pid]) if children else ()
    for each in [pid, *(child for child in family if not is_copy(child))]:
        now = process.stat(each)
        faults += 0 if now is None else now.minor_faults
        for path in Path(f"/proc/{each}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, IndexError):
                waited += int(path.read_text().split()[1])
    return waited, faults


def _pause_ns(pid: int) -> float:
    """What profiler/copies/budget.c expects of the first copy: most of it copies page tables."""
    resident = re.match(r"\d+", process.status(process.below_root(pid)).get("VmRSS", ""))
    return 300e3 + 28e6 * (int(resident[0]) if resident else 0) / (1 << 20)


def run_tool(words: Sequence[str], *, whole: bool = False) -> tuple[int, str]:
    """Run a tool to its end, or until SIGINT or the time limit: its exit code, and its words.

    Raises KeyboardInterrupt if it had to be `whole`.
    """
    return _follow([str(paths.libexec(words[0])), *words[1:]], None, whole=whole)


def _follow(words: Sequence[str], meter: _Meter | None, *, whole: bool = False) -> tuple[int, str]:
    with tempfile.TemporaryFile() as said, sigint_left_to_the_program() as interrupted:
        try:
            # In a process group of its own, so that it gets Ctrl-C once, from us.
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=said, process_group=0)
        except OSError as error:
            raise hints.cannot_run(words[0], error) from error
        passed_on = False
        try:
            while child.returncode is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(_LOOK_S)
                    break
                if meter is not None:
                    meter.read()
                if not passed_on and interrupted():
                    passed_on = True
                    child.send_signal(signal.SIGINT)
        except TimeLimitPassed:
            child.send_signal(signal.SIGINT)
            child.wait()
        except BaseException:
            process_tree.end(child)
            raise
        if meter is not None:
            meter.read()
        if whole and passed_on:
            raise KeyboardInterrupt
        said.seek(0)
        return child.returncode, said.read().decode(errors="replace").strip()


def _command(pid: int) -> tuple[tuple[str, ...], Path]:
    folder = _living(pid)
    try:
        words = process.read(folder, "cmdline").rstrip(b"\0").split(b"\0")
    except OSError as error:
        raise process.gone(pid) from error
    argv = tuple(os.fsdecode(word) for word in words if word)
    try:
        path = Path(process.executable(folder))
    except PermissionError as error:
        raise _forbidden(pid) from error
    except OSError as error:
        what = "is a kernel thread" if process.is_running(folder) else "has ended"
        raise TlbcostError(
            f"process {pid} {what}: it has no memory", "ps -e lists the processes", CANNOT_MEASURE
        ) from error
    if len(argv) == 1 and not Path(argv[0]).exists():
        # A title that the program has set for itself: "redis-server *:6379".
        argv = tuple(argv[0].split())
    return argv or (str(path),), path


def note_end(pid: int) -> None:
    if not process.is_running(_living(pid)):
        say(f"process {pid} has ended, and its copies with it: the answer is of the time before")


def _living(pid: int) -> str:
    """A thread that has not ended: the first one may have, and shows no memory then."""
    folder = f"/proc/{pid}"
    threads = (folder, *sorted(map(str, Path(folder, "task").glob("*"))))
    return next(filter(process.is_running, threads), folder)


def refused(pid: int, folder: Path) -> TlbcostError:
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
    why, hint = _lacks(pid, tracing_rights())
    return TlbcostError(f"process {pid} may not be traced: {why}", hint, CANNOT_MEASURE)


def _lacks(pid: int, rights: TracingRights) -> tuple[str, str]:
    tracer, owner = int(process.status(pid).get("TracerPid", "0")), process.owner(pid)
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
    if owner is not None and owner != os.geteuid():
        try:
            user = pwd.getpwuid(owner).pw_name
        except KeyError:
            user = f"user {owner}"
        return f"it belongs to {user}", hints.again_as_root()
    if rights.traceable != "own":
        allow = hints.write_setting("0", PTRACE_SCOPE)
        again = hints.again_as_root()
        return f"kernel.yama.ptrace_scope is {rights.scope}", f"{again}, or {allow}"
    return "it has more rights than you", hints.again_as_root()
