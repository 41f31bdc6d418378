# SPDX-License-Identifier: GPL-2.0-or-later
"""How is a program run so that its mappings ask for huge pages, and nothing else differs?"""

from __future__ import annotations

import contextlib
import platform
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from tlbcost.common import formats, paths
from tlbcost.common.cleanup import sigint_left_to_the_program
from tlbcost.common.document import now
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, TlbcostError
from tlbcost.common.files import temporary_folder
from tlbcost.common.formats import count, read_table
from tlbcost.common.paths import version
from tlbcost.common.sudo import calling_user
from tlbcost.run.launch import resolve, rights_gained, start_failure
from tlbcost.system import hints
from tlbcost.system.machine import THP, thp_mode
from tlbcost.thp.reached import Reached

_NO_TRACER = (
    "allow ptrace and seccomp: in a container, by its seccomp profile or --cap-add SYS_PTRACE"
)


def launcher() -> tuple[str, ...]:
    """What goes before a command line. It exits as the command does."""
    return (str(paths.libexec("tlbcost-thp")), "--")


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


def run_program(argv: Sequence[str]) -> Reached:
    """Run it to its end, with our own streams, environment and working directory.

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
        code = _run(argv, table)
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


def _run(argv: Sequence[str], table: Path) -> int:
    tool = paths.libexec("tlbcost-thp")
    user = calling_user()
    become = [] if user is None else ["--user", f"{user.uid}:{user.gid}"]
    try:
        process = subprocess.Popen(
            [str(tool), "--output", str(table), *become, "--", *argv], close_fds=False
        )
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
