# SPDX-License-Identifier: GPL-2.0-or-later
"""How does the memory of a process that runs already come onto huge pages?"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tlbcost.common import formats, paths
from tlbcost.common.document import now
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, TlbcostError
from tlbcost.common.files import temporary_folder
from tlbcost.common.formats import counts_in, read_table
from tlbcost.common.paths import version
from tlbcost.system import hints, process
from tlbcost.system.process import tracing_rights
from tlbcost.thp.program import check_possible
from tlbcost.thp.reached import Reached


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
    return _run("--pid", str(pid), "--huge-page", f"{address:#x}").returncode == 0


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


def _run(*words: str) -> subprocess.CompletedProcess[str]:
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
    done = _run(*words, *([] if collapse else ["--no-collapse"]))
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
