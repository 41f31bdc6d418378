# SPDX-License-Identifier: GPL-2.0-or-later
"""Which memory does a running process have, or a program when it had most?

Reading smaps takes the kernel some ms per GiB of base pages, in which the process cannot map
memory; marking pages unused (clear_refs) makes every page that is used take a page walk again, and
takes the same lock.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tlbcost.common.cleanup import sigint_left_to_the_program
from tlbcost.common.document import doc
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.memory import smaps
from tlbcost.memory.areas import Area, Reaches, areas_of
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.memory.smaps import Mapping
from tlbcost.run.launch import Launcher, resolve, start_failure
from tlbcost.system import hints, process
from tlbcost.system.huge_pages import huge_settings, process_disabled

# The program is not timed.
_REST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMemory:
    """The memory of one process, or of a program when it had most."""

    pid: Annotated[int | None, doc("the process; null: a program that was run")]
    program: Annotated[str | None, doc("path of its executable; null: not known")]
    name: Annotated[str | None, doc("what ps calls it; null: several processes, or not known")] = (
        None
    )
    thp_mode: Annotated[str | None, doc("of transparent huge pages; null: not in this kernel")]
    thp_defrag: Annotated[str | None, doc("their setting defrag")]
    shmem_enabled: Annotated[str | None, doc("their setting for shared memory")]
    looking_ns: Annotated[int | None, doc("time that reading its mappings took")] = None
    clearing_ns: Annotated[int | None, doc("time that marking its pages unused took")] = None
    watched_s: Annotated[float | None, doc("how long they were watched; null: they were not")] = (
        None
    )
    areas: Annotated[tuple[Area, ...], doc("its memory, most on base pages first")]


def look(pid: int, reaches: Reaches, touched_s: float | None = None) -> ProcessMemory:
    """Look at a running process; with `touched_s`, mark its pages and watch that many seconds.

    Raises TlbcostError: 1 if there is no such process, 4 if it may not be looked at, has no
    memory of its own or the kernel does not report it.
    """
    folder = Path(f"/proc/{pid}")
    if not folder.is_dir():
        raise process.gone(pid)
    clearing_ns = None
    if touched_s is not None:
        begin = time.monotonic_ns()
        try:
            (folder / "clear_refs").write_text("1", encoding="ascii")
        except OSError as error:
            raise _refused(pid, folder, error, "clear_refs") from error
        clearing_ns = time.monotonic_ns() - begin
        time.sleep(touched_s)
    begin = time.monotonic_ns()
    try:
        text = smaps.read(pid)
    except OSError as error:
        raise _refused(pid, folder, error, "smaps") from error
    looking_ns = time.monotonic_ns() - begin
    if not text:
        raise _without_memory(pid)
    program = None
    with contextlib.suppress(OSError):
        program = process.executable(pid)
    settings = huge_settings(pid)
    areas = areas_of(
        smaps.parse(text, program),
        settings,
        reaches,
        disabled=bool(process_disabled(pid)),
        watched=touched_s is not None,
    )
    return ProcessMemory(
        pid=pid,
        program=program,
        name=process.name(pid),
        thp_mode=settings.thp,
        thp_defrag=settings.defrag,
        shmem_enabled=settings.shmem,
        looking_ns=looking_ns,
        clearing_ns=clearing_ns,
        watched_s=touched_s,
        areas=areas,
    )


def run_program(
    launcher: Launcher, argv: Sequence[str], reaches: Reaches
) -> tuple[int, tuple[ProcessMemory, ...]]:
    """Exit code, and memory at the peak. Raises TlbcostError, its code or 4, without any."""
    path = resolve(argv[0])
    sampler = PeakSampler(_REST)
    with sigint_left_to_the_program():
        outcome = launcher.execute(argv, discard=False, started=sampler.start)
        sampler.stop()
    if outcome.exec_errno is not None:
        raise start_failure(argv[0], path, outcome.exec_errno)
    peak = sampler.peak()
    if not peak:
        raise TlbcostError(
            f"the memory of {argv[0]} was not seen: {sampler.why_not}",
            "tlbcost maps PID reports on a running process",
            outcome.code or CANNOT_MEASURE,
        )
    settings = huge_settings()
    by_program: dict[str, list[Mapping]] = {}
    for program, mapping in peak:
        by_program.setdefault(program, []).append(mapping)
    return outcome.code, tuple(
        ProcessMemory(
            pid=None,
            program=program,
            thp_mode=settings.thp,
            thp_defrag=settings.defrag,
            shmem_enabled=settings.shmem,
            areas=areas_of(mappings, settings, reaches),
        )
        for program, mappings in by_program.items()
    )


def _without_memory(pid: int) -> TlbcostError:
    stat = process.stat(pid)
    if stat is None:
        return process.gone(pid)
    ended = stat.state == "Z"
    what = "it has ended, and its parent has not noticed yet" if ended else "it is a kernel thread"
    return TlbcostError(
        f"process {pid} has no memory: {what}",
        "ps -e lists the processes",
        CANNOT_MEASURE,
    )


def _refused(pid: int, folder: Path, error: OSError, file: str) -> TlbcostError:
    if error.errno in (errno.ESRCH,) or not folder.is_dir():
        return process.gone(pid)
    if error.errno in (errno.EACCES, errno.EPERM):
        return TlbcostError(
            f"the memory of process {pid} may not be read: {folder / file}: {error.strerror}",
            "this root lacks CAP_SYS_PTRACE, as in containers: add it (docker run --cap-add "
            "SYS_PTRACE), or run tlbcost outside"
            if hints.is_root()
            else hints.again_as_root(),
            CANNOT_MEASURE,
        )
    if error.errno == errno.ENOENT:
        return TlbcostError(
            f"this kernel does not report the pages of a process: it has no {folder / file} "
            "(CONFIG_PROC_PAGE_MONITOR)",
            None,
            CANNOT_MEASURE,
        )
    return TlbcostError(f"cannot read {folder / file}: {error.strerror}", None, CANNOT_MEASURE)
