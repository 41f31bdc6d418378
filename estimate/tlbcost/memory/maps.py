# SPDX-License-Identifier: GPL-2.0-or-later
"""Which memory does a running process have, on which pages, and how does it compare with the TLB?

What is compared are sizes: an opinion, no estimate. Reading smaps takes the kernel some ms per GiB
of base pages, in which the process cannot map memory; marking pages unused (clear_refs) makes every
page that is used take a page walk again, and takes the same lock.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.memory import smaps
from tlbcost.memory.eligibility import Reason, Standing, backed_of, kind_of, stand
from tlbcost.memory.kinds import MemoryKind
from tlbcost.memory.smaps import Mapping
from tlbcost.processors.geometry import Geometry, LevelSource, PageSizeGeometry
from tlbcost.system import hints
from tlbcost.system.huge_pages import HugeSettings, huge_settings, process_disabled


@dataclass(frozen=True, slots=True)
class Area:
    """The mappings of one name and kind in one process, together.

    `start`, `end`: of the one with most on base pages, of those that are not on huge ones; whose
    standing the last four are.
    `eligible_bytes`: of what is on base pages, what may be on transparent huge ones.
    `touched_bytes`: on pages used in the interval that was watched; None: none was.
    """

    name: str
    kind: MemoryKind
    mappings: int
    start: int
    end: int
    size_bytes: int
    resident_bytes: int
    huge_bytes: int
    touched_bytes: int | None
    eligible_bytes: int
    page_bytes: int | None
    eligible: bool | None
    reason: Reason
    words: str

    @property
    def used_bytes(self) -> int:
        """What is known to be used: what was touched, else all that is there."""
        return self.resident_bytes if self.touched_bytes is None else self.touched_bytes


@dataclass(frozen=True, slots=True)
class Looked:
    """One process as it was looked at.

    `looking_ns`: what reading smaps took; `clearing_ns`, `watched_s`: what marking the pages took,
    and how long they were watched; None: they were not.
    """

    pid: int
    program: str | None
    areas: tuple[Area, ...]
    settings: HugeSettings
    looking_ns: int | None
    clearing_ns: int | None = None
    watched_s: float | None = None


@dataclass(frozen=True, slots=True)
class Reach:
    """What the last level of the TLB that holds a page size covers.

    `entry_bytes`: of one entry; less than a page under a hypervisor that splinters it.
    """

    page_bytes: int
    entries: int
    entry_bytes: int
    source: LevelSource | None

    @property
    def reach_bytes(self) -> int:
        """Memory that can be accessed without a page walk."""
        return self.entries * self.entry_bytes


def reach_of(geometry: Geometry, sizes: PageSizeGeometry) -> Reach:
    """The reach on pages of one size."""
    level = sizes.stlb or sizes.dtlb
    source = geometry.sources.get(("stlb" if sizes.stlb else "dtlb", sizes.page_size_bytes))
    entry = sizes.entry_bytes or sizes.page_size_bytes
    return Reach(sizes.page_size_bytes, level.entries, entry, source)


def reach_ratio(area: Area, base: Reach, huge: Reach) -> float:
    """How many times the TLB the area's used pages would take; above 1 they exceed its reach."""
    share = area.huge_bytes / area.resident_bytes if area.resident_bytes else 0.0
    if area.kind == "hugetlbfs":
        share = 1.0
    return area.used_bytes * (share / huge.reach_bytes + (1 - share) / base.reach_bytes)


def look(pid: int, touched_s: float | None = None) -> Looked:
    """Look at a running process; with `touched_s`, mark its pages and watch that many seconds.

    Raises TlbcostError: 1 if there is no such process, 4 if it may not be looked at, has no
    memory of its own or the kernel does not tell.
    """
    folder = _folder(pid)
    clearing_ns = None if touched_s is None else _mark_unused(pid, folder)
    if touched_s is not None:
        time.sleep(touched_s)
    begin = time.monotonic_ns()
    try:
        text = (folder / "smaps").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise _refused(pid, folder, error, "smaps") from error
    looking_ns = time.monotonic_ns() - begin
    if not text:
        raise _without_memory(pid, folder)
    program = _program(folder)
    mappings = smaps.parse(text, program)
    settings = huge_settings(pid)
    areas = areas_of(
        mappings, settings, disabled=bool(process_disabled(pid)), watched=touched_s is not None
    )
    return Looked(pid, program, areas, settings, looking_ns, clearing_ns, touched_s)


def areas_of(
    mappings: Iterable[Mapping],
    settings: HugeSettings,
    *,
    disabled: bool = False,
    watched: bool = False,
) -> tuple[Area, ...]:
    """Mappings of one name and kind together; most on base pages first."""
    groups: dict[tuple[MemoryKind, str], list[Mapping]] = {}
    for mapping in mappings:
        kind = kind_of(mapping, settings)
        if kind != "unknown":
            groups.setdefault((kind, mapping.name), []).append(mapping)
    areas = [
        _area(kind, name, group, settings, disabled=disabled, watched=watched)
        for (kind, name), group in groups.items()
    ]
    return tuple(sorted(areas, key=lambda area: (area.huge_bytes - area.resident_bytes, area.name)))


def _area(
    kind: MemoryKind,
    name: str,
    group: list[Mapping],
    settings: HugeSettings,
    *,
    disabled: bool,
    watched: bool,
) -> Area:
    standings: list[tuple[Mapping, Standing]] = [
        (each, stand(kind, name, backed_of(each), settings, disabled=disabled)) for each in group
    ]
    first, standing = max(
        standings,
        key=lambda pair: (
            pair[1].reason not in ("huge", "hugetlb", "empty"),
            pair[0].resident_bytes - pair[0].huge_bytes,
            pair[0].end,
        ),
    )
    # The kernel does not tell of hugetlb pages which were used.
    told = watched and kind != "hugetlbfs" and all(m.referenced_bytes is not None for m in group)
    return Area(
        name=name,
        kind=kind,
        mappings=len(group),
        start=first.start,
        end=first.end,
        size_bytes=sum(each.size_bytes for each in group),
        resident_bytes=sum(each.resident_bytes for each in group),
        huge_bytes=sum(each.huge_bytes for each in group),
        touched_bytes=sum(each.referenced_bytes or 0 for each in group) if told else None,
        eligible_bytes=sum(m.resident_bytes - m.huge_bytes for m, st in standings if st.eligible),
        page_bytes=standing.page_bytes,
        eligible=standing.eligible,
        reason=standing.reason,
        words=standing.words,
    )


def _folder(pid: int) -> Path:
    folder = Path(f"/proc/{pid}")
    if not folder.is_dir():
        raise _gone(pid)
    return folder


def _program(folder: Path) -> str | None:
    try:
        return str((folder / "exe").readlink())
    except OSError:
        return None


def _mark_unused(pid: int, folder: Path) -> int:
    """Mark all pages unused; the time it took in ns."""
    begin = time.monotonic_ns()
    try:
        (folder / "clear_refs").write_text("1", encoding="ascii")
    except OSError as error:
        raise _refused(pid, folder, error, "clear_refs") from error
    return time.monotonic_ns() - begin


def _gone(pid: int) -> TlbcostError:
    return TlbcostError(f"there is no process {pid}", "ps -e lists them")


def _without_memory(pid: int, folder: Path) -> TlbcostError:
    """Nothing in smaps: a thread of the kernel, or a process that has ended."""
    try:
        state = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    except OSError:
        return _gone(pid)
    what = "it has ended, and waits for its parent" if state.split()[:1] == ["Z"] else None
    return TlbcostError(
        f"process {pid} has no memory to look at: {what or 'it is a thread of the kernel'}",
        "ps -e lists the processes",
        CANNOT_MEASURE,
    )


def _refused(pid: int, folder: Path, error: OSError, file: str) -> TlbcostError:
    if error.errno in (errno.ESRCH,) or not folder.is_dir():
        return _gone(pid)
    if error.errno in (errno.EACCES, errno.EPERM):
        return TlbcostError(
            f"process {pid} may not be looked at: {folder / file}: {error.strerror}",
            hints.again_as_root(),
            CANNOT_MEASURE,
        )
    if error.errno == errno.ENOENT:
        return TlbcostError(
            f"this kernel does not tell of a process's pages: it has no {folder / file} "
            "(CONFIG_PROC_PAGE_MONITOR)",
            None,
            CANNOT_MEASURE,
        )
    return TlbcostError(f"cannot read {folder / file}: {error.strerror}", None, CANNOT_MEASURE)
