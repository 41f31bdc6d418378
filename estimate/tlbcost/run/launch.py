# SPDX-License-Identifier: GPL-2.0-or-later
"""Starting a program several times so that each run sees the same, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import os
import select
import shlex
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tlbcost.common import errors, paths
from tlbcost.common.cleanup import check_time
from tlbcost.common.files import temporary_folder
from tlbcost.common.progress import RunProgress
from tlbcost.common.sudo import User, calling_user
from tlbcost.run import process_tree
from tlbcost.run.outcome import Outcome, Region, check_outcome, read_outcome
from tlbcost.run.stdin import ProgramInput
from tlbcost.system import hints
from tlbcost.system.process import memory_limit

_SCRIPT_DEPTH = 4  # the kernel follows no more interpreters of interpreters
_ELF_CLASS_32 = 1


def resolve(name: str) -> Path:
    """Find the file as execvp(3) does. Raises TlbcostError with exit code 126 or 127."""
    search = os.environ.get("PATH", os.defpath).split(":") if name else []
    folders = [""] if "/" in name else search
    refused: Path | None = None
    for folder in folders:
        path = Path(folder, name)
        # False also in a folder that may not be entered, where Path.exists() raises.
        if not os.access(path, os.F_OK):
            continue
        if path.is_file() and os.access(path, os.X_OK):
            return path
        refused = refused or path
    if refused is None:
        raise _not_found(name)
    if refused.is_dir():
        raise errors.TlbcostError(
            f"cannot run {name}: it is a directory",
            "name the program, e.g. one of the files in it",
            errors.NOT_EXECUTABLE,
        )
    raise errors.TlbcostError(
        f"cannot run {name}: not executable",
        f"chmod +x {shlex.quote(str(refused))}; a script also runs as: "
        f"tlbcost estimate sh {shlex.quote(str(refused))}",
        errors.NOT_EXECUTABLE,
    )


def check_simulatable(path: Path) -> None:
    """Refuse what would not run in the simulator as natively: TlbcostError, exit code 125."""
    chain = [path, *_interpreters(path)]
    for file in chain:
        head = _head(file)
        if head[:4] == b"\x7fELF" and head[4:5] == bytes([_ELF_CLASS_32]):
            raise errors.TlbcostError(
                f"cannot simulate {file}: it is a 32-bit program, and the simulator is 64-bit",
                "build it for 64 bits (without -m32), and estimate that",
                errors.TOOL_FAILED,
            )
    # The kernel ignores these bits on a script, but not on what interprets it.
    privilege = _privilege(chain[-1])
    if privilege:
        raise errors.TlbcostError(
            f"cannot simulate {chain[-1]}: it is {privilege}, and a simulated program cannot "
            "gain privileges",
            f"estimate a copy without them: cp {shlex.quote(str(chain[-1]))} /tmp/ && "
            f"tlbcost estimate /tmp/{shlex.quote(chain[-1].name)} ...",
            errors.TOOL_FAILED,
        )


def rights_gained(path: Path) -> str | None:
    """What gives a program, or what interprets it, rights of its own: 'setuid'; None: nothing."""
    return _privilege([path, *_interpreters(path)][-1])


def start_failure(name: str, path: Path, error: int) -> errors.TlbcostError:
    """Why execve(2) refused a file that exists and is executable, as an error to raise."""
    why, hint = os.strerror(error).lower(), None
    interpreter = _interpreter(path)
    if error == errno.ENOENT and interpreter is not None:
        why = f"its interpreter {interpreter} does not exist"
        hint = f"correct the first line of {path}"
    elif error == errno.ENOENT and path.exists():
        why = "the loader that it was linked for does not exist"
        hint = f"readelf -l {shlex.quote(str(path))} | grep interpreter"
    elif error == errno.ENOEXEC:
        why = "neither a program for this machine nor a script with a #! line"
        hint = (
            "if it is a shell script, write #!/bin/sh in its first line, or: "
            f"tlbcost estimate sh {shlex.quote(str(path))}"
        )
    elif error == errno.EACCES:
        hint = f"findmnt -T {shlex.quote(str(path))} shows whether it is mounted noexec"
    elif error == errno.E2BIG:
        hint = "the arguments and the environment together are too long; shorten them"
    code = errors.NOT_FOUND if error == errno.ENOENT else errors.NOT_EXECUTABLE
    return errors.TlbcostError(f"cannot run {name}: {why}", hint, code)


def _not_found(name: str) -> errors.TlbcostError:
    if "/" in name:
        return errors.TlbcostError(
            f"cannot run {name}: no such file",
            f"ls {shlex.quote(str(Path(name).parent))}",
            errors.NOT_FOUND,
        )
    if name and os.access(name, os.X_OK) and Path(name).is_file():
        hint = f"the one in this directory runs as: tlbcost estimate ./{shlex.quote(name)}"
    else:
        hint = "check the spelling, or give the path of the program"
    return errors.TlbcostError(
        f"cannot run {name!r}: no such program on PATH", hint, errors.NOT_FOUND
    )


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(256)
    except OSError:
        return b""  # executable but not readable: what it is shows when it runs


def _interpreter(path: Path) -> Path | None:
    head = _head(path)
    if not head.startswith(b"#!"):
        return None
    words = head[2:].split(b"\n", 1)[0].split()
    return Path(os.fsdecode(words[0])) if words else None


def _interpreters(path: Path) -> list[Path]:
    found: list[Path] = []
    interpreter = _interpreter(path)
    while interpreter is not None and len(found) < _SCRIPT_DEPTH:
        found.append(interpreter)
        interpreter = _interpreter(interpreter)
    return found


def _privilege(path: Path) -> str | None:
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    if mode & stat.S_ISUID:
        return "setuid"
    # Without the group's execute bit it means mandatory locking, not a privilege.
    if mode & stat.S_ISGID and mode & stat.S_IXGRP:
        return "setgid"
    try:
        os.getxattr(path, "security.capability")
    except OSError:
        return None
    return "given capabilities (getcap)"


_TICK_S = 1.0
_PR_SET_THP_DISABLE, _PR_GET_THP_DISABLE = 41, 42


@dataclass(frozen=True, slots=True)
class Started:
    """A run that is under way: its launcher, the table it will write, and kills before it."""

    process: subprocess.Popen[bytes]
    output: Path
    tool: tuple[str, ...]
    oom_kills: int


@dataclass(slots=True)
class Launcher:
    """Runs programs through tlbcost-run, with its files in `folder`, as `user` if given.

    tlbcost-count launches in the same way, and watches the program besides.
    `runs`: how many there were. `transparent`: whether the kernel may give the program transparent
    huge pages at all, even if it asks for them; None: as it may give them to us. `region`: what
    runs cost is what this phase of them does. `environment`: of programs that execute() gives none;
    None: ours.
    """

    folder: Path
    stdin: ProgramInput
    user: User | None = None
    prepare: str | None = None
    transparent: bool | None = None
    region: Region | None = None
    environment: Mapping[str, str] | None = None
    runs: int = field(default=0, init=False)

    def execute(
        self,
        argv: Sequence[str],
        *,
        discard: bool,
        environment: Mapping[str, str] | None = None,
        tick: Callable[[float], None] | None = None,
        started: Callable[[int], None] | None = None,
        tool: Sequence[str] = (),
        whole: bool = False,
        profiler: Sequence[str] = (),
    ) -> Outcome:
        """Run `argv` once. `tick` is called about once a second with the seconds so far.

        `started` is called with the launcher's process id as soon as that runs. `tool`: the
        program to launch it with instead of tlbcost-run, and its own options; with it, or `whole`,
        the costs are of the whole run. `profiler`: a command before all of it, such as perf record.
        Raises TlbcostError if the launcher itself or the --prepare command failed; with the exit
        code 4 if `tool` ran nothing because nothing could be measured.
        """
        region = None if whole or tool else self.region
        table = self.folder / f"region{self.runs + 1}.tsv"
        if region is not None:
            tool = region.tool(table)
        with contextlib.ExitStack() as stack:
            run = self.begin(
                argv, stack, discard=discard, environment=environment, started=started, tool=tool,
                profiler=profiler,
            )  # fmt: skip
            outcome = self.finish(run, tick)
        return outcome if region is None else region.outcome(outcome, table)

    def begin(
        self,
        argv: Sequence[str],
        stack: contextlib.ExitStack,
        *,
        discard: bool,
        environment: Mapping[str, str] | None = None,
        started: Callable[[int], None] | None = None,
        tool: Sequence[str] = (),
        profiler: Sequence[str] = (),
    ) -> Started:
        """The same, but do not wait for its end: that is finish(). `stack` holds its input."""
        check_time()
        first = self.runs == 0
        self.runs += 1
        if self.prepare is not None:
            self._prepare(self.prepare)
        output = self.folder / f"run{self.runs}.tsv"
        before = memory_limit()
        fd = stack.enter_context(self.stdin.opened(first=first))
        process = self._start(
            argv, output, fd, discard=discard, environment=environment or self.environment,
            tool=tool, profiler=profiler,
        )  # fmt: skip
        if started is not None:
            try:
                started(process.pid)
            except BaseException:
                process_tree.end(process)
                raise
        return Started(process, output, tuple(tool or profiler), before.oom_kills or 0)

    def finish(self, run: Started, tick: Callable[[float], None] | None = None) -> Outcome:
        try:
            code = _wait(run.process, tick, self.stdin)
        except BaseException:
            process_tree.end(run.process)
            raise
        after = memory_limit()
        if not run.output.exists():
            # perf ends with 255 if it cannot open the events.
            if run.tool and code in (errors.CANNOT_MEASURE, 255):
                self.runs -= 1
                raise errors.TlbcostError(
                    f"{run.tool[0]} could measure nothing", None, errors.CANNOT_MEASURE
                )
            name = run.tool[0] if run.tool else "tlbcost-run"
            raise errors.tool_error("cannot time the program", name, code, self.folder.parent)
        killed = (after.oom_kills or 0) > run.oom_kills
        return read_outcome(run.output, (after.limit_bytes or 0) if killed else None)

    def _start(
        self,
        argv: Sequence[str],
        output: Path,
        stdin: int | None,
        *,
        discard: bool,
        environment: Mapping[str, str] | None = None,
        tool: Sequence[str] = (),
        profiler: Sequence[str] = (),
        stdout: int | None = None,
    ) -> subprocess.Popen[bytes]:
        launcher = str(paths.libexec(tool[0] if tool else "tlbcost-run"))
        options = [launcher, *tool[1:], "--run" if tool else "--output", str(output)]
        if profiler:
            options += ["--path", os.environ.get("PATH", "")]
        if discard:
            options.append("--discard")
        if self.user is not None:
            options += ["--user", f"{self.user.uid}:{self.user.gid}"]
        try:
            # Descriptors that tlbcost was given, e.g. by <(...), belong to the program; our own
            # close themselves.
            with _transparent_huge_pages(self.transparent):
                return subprocess.Popen(
                    [*profiler, *options, "--", *argv],
                    stdin=stdin,
                    stdout=stdout,
                    env=environment,
                    close_fds=False,
                )
        except OSError as error:
            raise hints.cannot_run(launcher, error) from error

    def _prepare(self, command: str) -> None:
        output = self.folder / f"prepare{self.runs}.tsv"
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123
            process = self._start(
                ["sh", "-c", command], output, nothing.fileno(), discard=False, stdout=2
            )
        try:
            code = _wait(process, None, self.stdin)
        except BaseException:
            process_tree.end(process)
            raise
        if code != 0:
            raise errors.TlbcostError(
                f"the command to prepare a run failed: exit code {code}: {command}",
                "try it by itself",
                errors.TOOL_FAILED,
            )


@contextlib.contextmanager
def launcher_of(prepare: str | None) -> Iterator[Launcher]:
    """A launcher with a folder of its own, for the user who called sudo where one did."""
    with temporary_folder() as folder, contextlib.closing(ProgramInput()) as stdin:
        launcher = Launcher(folder, stdin, calling_user(), prepare)
        if launcher.user is not None:
            os.chown(folder, launcher.user.uid, launcher.user.gid)
        yield launcher


def native_runs(
    launcher: Launcher,
    argv: Sequence[str],
    path: Path,
    n: int,
    *,
    ignore_failure: bool,
    last_started: Callable[[int], None] | None = None,
    between: Callable[[], None] | None = None,
    tool: Callable[[int], Sequence[str]] | None = None,
    long_s: float = math.inf,
) -> list[Outcome]:
    """Time the program `n` times: the first with its own output, the others in silence.

    A first run that takes longer than `long_s` stays the only one.
    `last_started` is called with the launcher's process id when the last run has begun, or is known
    to be the last; `between` before each run and after the last. `tool`: what a run is launched
    with, by its number.
    Raises TlbcostError with the program's exit code if it failed, unless `ignore_failure`, and if
    a later run ended otherwise than the first.
    """
    outcomes: list[Outcome] = []
    with RunProgress(f"{n} native run{'s' if n > 1 else ''}", n) as progress:
        for i in range(n):
            if between is not None:
                between()
            started = last_started if i == n - 1 else None
            with progress.run(own_output=i == 0) as tick:
                watched = None
                if i == 0 and started is None and long_s < math.inf:
                    watched = _LongRun(long_s, last_started, tick)
                outcome = launcher.execute(
                    argv,
                    discard=i > 0,
                    started=started if watched is None else watched.started,
                    tick=tick if watched is None else watched.tick,
                    tool=() if tool is None else tool(i),
                )
            if outcome.exec_errno is not None:
                raise start_failure(argv[0], path, outcome.exec_errno)
            check_outcome(argv[0], outcome, outcomes, ignore_failure=ignore_failure)
            outcomes.append(outcome)
            if watched is not None and watched.long:
                break
    if between is not None:
        between()
    return outcomes


class _LongRun:
    """Notices that a run takes longer than `limit_s`, and then calls `then` with its launcher."""

    def __init__(
        self,
        limit_s: float,
        then: Callable[[int], None] | None,
        tick: Callable[[float], None] | None,
    ) -> None:
        self._limit_s, self._then, self._tick = limit_s, then, tick
        self._launcher: int | None = None
        self.long = False

    def started(self, launcher: int) -> None:
        self._launcher = launcher

    def tick(self, seconds: float) -> None:
        if self._tick is not None:
            self._tick(seconds)
        if seconds > self._limit_s and not self.long:
            self.long = True
            if self._then is not None and self._launcher is not None:
                self._then(self._launcher)


@contextlib.contextmanager
def _transparent_huge_pages(allowed: bool | None) -> Iterator[None]:
    """What is started inside the block inherits the answer (prctl(2)), and passes it on."""
    if allowed is None:
        yield
        return
    prctl = ctypes.CDLL(None).prctl
    before = max(prctl(_PR_GET_THP_DISABLE, 0, 0, 0, 0), 0)
    prctl(_PR_SET_THP_DISABLE, int(not allowed), 0, 0, 0)
    try:
        yield
    finally:
        # Since Linux 6.18 there are flags besides the lowest bit.
        prctl(_PR_SET_THP_DISABLE, before & 1, before & ~1 if before & 1 else 0, 0, 0)


def _wait(
    process: subprocess.Popen[bytes], tick: Callable[[float], None] | None, stdin: ProgramInput
) -> int:
    """Its exit code. `tick` as in execute(); raises TlbcostError if `stdin` cannot be fed."""
    if tick is None and stdin.alarm is None:
        return process.wait()
    start = time.monotonic()
    # Popen.wait(timeout) wakes up twenty times a second alongside the program that is being timed.
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(process.pid)
        try:
            end = select.poll()
            end.register(handle, select.POLLIN)
            if stdin.alarm is not None:
                end.register(stdin.alarm, select.POLLIN)
            while not end.poll(1000 * _TICK_S if tick is not None else None):
                if tick is not None:
                    tick(time.monotonic() - start)
        finally:
            os.close(handle)
        stdin.check()
        return process.wait()
    # Before Linux 5.3 there are no pidfds.
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=_TICK_S)
        stdin.check()


# The shell opens the file, and is replaced by the program.
_TO_FILE = ("sh", "-c", 'exec "$@" >"$0"')


@dataclass(slots=True)
class Listener(Launcher):
    """A launcher that keeps each run's command and standard output, and shows none."""

    heard: list[tuple[tuple[str, ...], str]] = field(default_factory=list, init=False)

    def execute(
        self,
        argv: Sequence[str],
        *,
        discard: bool,
        **options: Any,  # noqa: ANN401
    ) -> Outcome:
        file = self.folder / f"heard{self.runs + 1}"
        # No super(): the decorator makes another class, the one that has the slots.
        outcome = Launcher.execute(self, [*_TO_FILE, str(file), *argv], discard=discard, **options)
        text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        self.heard.append((tuple(argv), text))
        return outcome


@contextlib.contextmanager
def listener() -> Iterator[Listener]:
    with temporary_folder() as folder, contextlib.closing(ProgramInput()) as stdin:
        # An estimate, too, is of the program on base pages.
        launcher = Listener(folder, stdin, calling_user(), transparent=False)
        if launcher.user is not None:
            os.chown(folder, launcher.user.uid, launcher.user.gid)
        yield launcher
