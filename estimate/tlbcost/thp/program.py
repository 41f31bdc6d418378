# SPDX-License-Identifier: GPL-2.0-or-later
"""A program, started or running, whose mappings ask for huge pages, and how much came onto them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal, NoReturn, TextIO

from tlbcost.common import formats, paths, units
from tlbcost.common.cleanup import sigint_left_to_the_program
from tlbcost.common.document import Part, amount, doc, now
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, TlbcostError
from tlbcost.common.files import temporary_folder
from tlbcost.common.formats import count, counts_in, read_table
from tlbcost.common.paths import version
from tlbcost.common.sudo import become, calling_user
from tlbcost.run.launch import resolve, rights_gained, start_failure
from tlbcost.system import hints, process
from tlbcost.system.environment import joined
from tlbcost.system.machine import THP, thp_mode
from tlbcost.system.process import tracing_rights

# linux/prctl.h; the flag since Linux 6.18.
_PR_SET_THP_DISABLE, _EXCEPT_ADVISED = 41, 2


class Reached(Part, frozen=True, kw_only=True):
    """What `tlbcost run --json FILE` writes: the memory that asked for transparent huge pages, and
    what it got. Units are in the keys; null means that a figure was not obtained, or is not of
    this kind of run.
    """

    schema: Annotated[Literal["tlbcost-run-1"], doc("form of this document and its version")] = (
        "tlbcost-run-1"
    )
    tlbcost_version: Annotated[str, doc("version of tlbcost that wrote it")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    argv: Annotated[tuple[str, ...] | None, doc("the program; null: a process that was running")]
    pid: Annotated[int | None, doc("the process that was running; null: a program")]
    exit_code: Annotated[int | None, doc("the program's; 128 + N: killed by signal N")]
    anonymous_bytes: Annotated[
        int | None,
        amount("anonymous memory, at the program's peak or of the process now; of two processes "
            "that share it, twice")]  # fmt: skip
    huge_bytes: Annotated[int | None, amount("what of it was on huge pages")]
    huge_before_bytes: Annotated[
        int | None, amount("of the process: what was on huge pages before")
    ]
    processes: Annotated[int | None, doc("of the program, at the peak", minimum=1)]
    requests: Annotated[int, amount("areas of memory that asked for huge pages")]
    notes: Annotated[tuple[str, ...], doc("what kept memory from it, or is to be known besides")]


def print_reached(reached: Reached, file: TextIO) -> None:
    for line in (_summary(reached), *reached.notes):
        print(f"tlbcost: {line}", file=file)


def _summary(reached: Reached) -> str:
    if reached.anonymous_bytes is None or reached.huge_bytes is None:
        return "the program ended before its memory could be measured"
    amount = f"{units.size(reached.huge_bytes)} of {units.size(reached.anonymous_bytes)}"
    if reached.pid is None:
        return f"{amount} of anonymous memory were on huge pages at the peak"
    assert reached.huge_before_bytes is not None
    return (
        f"{amount} of process {reached.pid}'s anonymous memory are on huge pages now; before, "
        f"{units.size(reached.huge_before_bytes)} were"
    )


_NO_TRACER = (
    "allow ptrace and seccomp: in a container, by its seccomp profile or --cap-add SYS_PTRACE"
)


def launcher(*, text: bool = False) -> tuple[str, ...]:
    """What goes before a command line, `text`: for its code, too. It exits as the command does."""
    return (str(paths.libexec("tlbcost-thp")), *(["--text"] if text else []), "--")


def is_here() -> bool:
    """Whether memory can be made to ask on this kind of machine: the calls are x86-64's."""
    return platform.machine() == "x86_64" and paths.libexec("tlbcost-thp").exists()


def check_possible() -> None:
    """Raise TlbcostError with exit code 4 where memory cannot ask for huge pages."""
    if platform.machine() != "x86_64":
        raise TlbcostError(
            "programs are traced to put their memory on huge pages on x86-64 only, not on "
            f"{platform.machine()}",
            "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 ./app has malloc ask for huge pages",
            CANNOT_MEASURE,
        )
    mode = thp_mode()
    if mode is None:
        raise TlbcostError("this kernel has no transparent huge pages", None, CANNOT_MEASURE)
    if mode == "never":
        raise TlbcostError(
            f"transparent huge pages are off: {THP}/enabled is never",
            hints.write_setting("madvise", f"{THP}/enabled"),
            CANNOT_MEASURE,
        )


def replace_by(argv: Sequence[str], *, advised: bool) -> NoReturn:
    """Become the program, which has no transparent huge pages but those it asks for (`advised`).

    What it starts inherits that. Raises TlbcostError: 4 where the kernel cannot, 126 or 127 if it
    cannot be started.
    """
    if ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, _EXCEPT_ADVISED if advised else 0, 0, 0):
        raise TlbcostError(
            "this kernel cannot keep transparent huge pages from memory that does not ask alone",
            "Linux 6.18 can; --no-thp keeps them from all memory",
            CANNOT_MEASURE,
        )
    become_program(argv, {})


def become_program(argv: Sequence[str], variables: Mapping[str, str]) -> NoReturn:
    """With these variables, too. Raises TlbcostError: 126 or 127 if it cannot be started."""
    environment = {**os.environ, **joined(os.environ, variables)}
    path = resolve(argv[0])
    user = calling_user()
    if user is not None:
        become(user)
    # Python ignores them.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(path, list(argv), environment)
    except OSError as error:
        raise start_failure(argv[0], path, error.errno or 0) from error


def run_program(argv: Sequence[str], *, text: bool = False) -> Reached:
    """Run it to its end, with our own streams, environment and working directory.

    `text`: its code is copied to huge pages, too.

    Raises TlbcostError: 4 where that is not possible here or for this program, 126 or 127 if it
    cannot be started, 125 if tlbcost itself failed.
    """
    check_possible()
    path = resolve(argv[0])
    rights = rights_gained(path)
    if rights is not None and not hints.is_root():
        raise TlbcostError(
            f"cannot run {path}: it is {rights}, and a traced program gains no rights",
            hints.as_root(shlex.join(["tlbcost", "run", "--thp", "--", str(path)]) + " ..."),
            CANNOT_MEASURE,
        )
    with temporary_folder() as folder:
        table = folder / "thp.tsv"
        code = _run(argv, table, text=text)
        if not table.exists():
            # Which of our programs failed, and why, that has said itself.
            hint = _NO_TRACER if code == CANNOT_MEASURE else None
            raise TlbcostError(f"{argv[0]} did not run, or was ended", hint, code or TOOL_FAILED)
        (row,) = read_table(table, formats.THP).records()
    cells = {name: count(cell) for name, cell in row.items()}
    if cells["exec_errno"]:
        raise start_failure(argv[0], path, cells["exec_errno"])
    return Reached(
        tlbcost_version=version(),
        date=now(),
        argv=tuple(argv),
        pid=None,
        exit_code=code,
        anonymous_bytes=cells["anonymous_bytes"],
        huge_bytes=cells["huge_bytes"],
        huge_before_bytes=None,
        processes=cells["processes"],
        requests=cells["requests"] or 0,
        notes=tuple(_notes(cells)),
    )


def _run(argv: Sequence[str], table: Path, *, text: bool) -> int:
    tool = paths.libexec("tlbcost-thp")
    user = calling_user()
    options = ["--output", str(table), *(["--text"] if text else [])]
    if user is not None:
        options += ["--user", f"{user.uid}:{user.gid}"]
    try:
        process = subprocess.Popen([str(tool), *options, "--", *argv], close_fds=False)
    except OSError as error:
        raise TlbcostError(
            f"cannot run {tool}: {error.strerror}", hints.rebuild(), TOOL_FAILED
        ) from error
    with sigint_left_to_the_program(), _passed_on(process):
        return process.wait()


@contextlib.contextmanager
def _passed_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """SIGTERM and SIGHUP are for the program to act on: we end when it does."""

    def forward(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        process.send_signal(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        for number, handler in before.items():
            if handler != signal.SIG_IGN:
                signal.signal(number, forward)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _notes(cells: dict[str, int | None]) -> Iterator[str]:
    if cells["disabled"]:
        yield (
            "the program turned transparent huge pages off for itself (PR_SET_THP_DISABLE): look "
            "for its own switch"
        )
    if cells["filtered"]:
        yield (
            "a process limited its own system calls (seccomp), and its memory did not ask from "
            "then on"
        )
    if cells["ptraced"]:
        yield "a process called ptrace(), which fails here: a debugger cannot run in tlbcost run"
    if left := cells["left_processes"]:
        yield (
            f"{left} of its processes {'remains' if left == 1 else 'remain'}; their memory keeps "
            "asking for huge pages"
        )


def ask_process(pid: int, *, collapse: bool) -> Reached:
    """Its areas ask; `collapse`: at once. Raises TlbcostError: 1 without it, 4 if it is refused."""
    check_possible()
    _check(pid)
    with temporary_folder() as folder:
        table = folder / "thp.tsv"
        _ask(pid, table, collapse=collapse)
        (row,) = read_table(table, formats.THP_PROCESS).records()
    before, anonymous, huge, requests, complete = counts_in(
        row, "huge_before_bytes", "anonymous_bytes", "huge_bytes", "requests", "complete"
    )
    return Reached(
        tlbcost_version=version(),
        date=now(),
        argv=None,
        pid=pid,
        exit_code=None,
        anonymous_bytes=anonymous,
        huge_bytes=huge,
        huge_before_bytes=before,
        processes=None,
        requests=requests,
        notes=() if complete else ("interrupted: not all of its memory was moved",),
    )


def make_huge_page(pid: int, address: int) -> bool:
    """One of the base pages that it has at this boundary, even if it only reads them: whether it
    is one now. Raises TlbcostError if tlbcost-thp cannot run.
    """
    return _ask_by("--pid", str(pid), "--huge-page", f"{address:#x}").returncode == 0


def _check(pid: int) -> None:
    status = process.status(pid)
    if not status:
        raise process.gone(pid)
    if "VmSize" not in status:
        raise _refused(pid, "it has no memory: it has ended, or is a thread of the kernel")
    if status.get("TracerPid", "0") != "0":
        raise _refused(
            pid, f"process {status['TracerPid']} traces it already", "end the debugger, and repeat"
        )
    if status.get("Seccomp", "0") != "0":
        raise _refused(
            pid,
            "its system calls are limited (seccomp), and it may be killed for another one",
            "start it by: tlbcost run --thp -- COMMAND",
        )
    if status.get("THP_enabled") == "0":
        raise _refused(
            pid,
            "it turned transparent huge pages off for itself (PR_SET_THP_DISABLE)",
            "look for its own switch",
        )


def _ask_by(*words: str) -> subprocess.CompletedProcess[str]:
    tool = paths.libexec("tlbcost-thp")
    try:
        return subprocess.run(
            [str(tool), *words], stderr=subprocess.PIPE, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise TlbcostError(
            f"cannot run {tool}: {error.strerror}", hints.rebuild(), TOOL_FAILED
        ) from error


def _ask(pid: int, table: Path, *, collapse: bool) -> None:
    words = ["--pid", str(pid), "--output", str(table)]
    done = _ask_by(*words, *([] if collapse else ["--no-collapse"]))
    if table.exists():
        return
    owner = process.owner(pid)
    if owner is None:
        raise process.gone(pid)
    why = done.stderr.strip().rpartition(": ")[2] or f"exit code {done.returncode}"
    free = hints.is_root() or (owner == os.geteuid() and not tracing_rights().scope)
    hint = None if free else hints.again_as_root()
    raise _refused(pid, f"it may not be traced: {why.lower()}", hint)


def _refused(pid: int, why: str, hint: str | None = None) -> TlbcostError:
    return TlbcostError(f"process {pid} cannot ask for huge pages: {why}", hint, CANNOT_MEASURE)
