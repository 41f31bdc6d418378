# SPDX-License-Identifier: GPL-2.0-or-later
"""How does the memory of a process that runs already come onto huge pages?"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tlbcost.common import formats, paths
from tlbcost.common.document import now
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, TlbcostError
from tlbcost.common.paths import version
from tlbcost.common.table import counts_in, read_table
from tlbcost.common.temporary import temporary_folder
from tlbcost.system import hints
from tlbcost.thp.program import check_possible
from tlbcost.thp.reached import Reached

_PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


def ask_process(pid: int, *, collapse: bool) -> Reached:
    """Have each of its writable areas ask; with `collapse`, what it has already moves now.

    Raises TlbcostError: 1 if there is no such process, 4 if it may not be traced, or must not be.
    """
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
    """What the process itself says against it."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise _gone(pid) from error
    status = dict(re.findall(r"^(\w+):\s+(\S+)", text, re.MULTILINE))
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
    if not Path(f"/proc/{pid}").exists():
        raise _gone(pid)
    why = done.stderr.strip().rpartition(": ")[2] or f"exit code {done.returncode}"
    raise _refused(pid, f"it may not be traced: {why.lower()}", _permission(pid))


def _permission(pid: int) -> str | None:
    if hints.is_root():
        return None
    try:
        own = Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
        scope = int(_PTRACE_SCOPE.read_text(encoding="ascii"))
    except (OSError, ValueError):
        scope = 0
    if own and scope == 0:
        return None
    return hints.again_as_root()


def _gone(pid: int) -> TlbcostError:
    return TlbcostError(f"there is no process {pid}", "ps -e lists them")


def _refused(pid: int, why: str, hint: str | None = None) -> TlbcostError:
    return TlbcostError(f"process {pid} cannot ask for huge pages: {why}", hint, CANNOT_MEASURE)
