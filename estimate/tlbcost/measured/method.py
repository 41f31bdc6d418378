# SPDX-License-Identifier: GPL-2.0-or-later
"""One way to huge pages: its needs, the system made ready for it, and the memory it reached."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.allocators.recognise import Program, own_heap_of, program_of, words_of
from tlbcost.common import units
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.memory import smaps
from tlbcost.memory.peak import MemoryPart, PeakMemory
from tlbcost.system import hints, huge_pages, machine
from tlbcost.system.environment import joined
from tlbcost.system.machine import THP, TUNABLES, huge_page_bytes, read_line, selected, thp_mode

if TYPE_CHECKING:
    from tlbcost.memory.peak import MemoryScope
    from tlbcost.run.outcome import Run
    from tlbcost.settings.change import Settings

# The name of no change at all, for a program that has huge pages by itself.
AS_IT_RUNS = "as it runs"
# What asks for huge pages in the environment: no program on base pages may have it.
_ASKING = ("HUGETLB_MORECORE", "HUGETLB_ELFMAP", "HUGETLB_SHM")


@dataclass(frozen=True, slots=True)
class Method:
    """One way to give a program huge pages.

    `words` say what it does, `reach` which memory it should get. `page_bytes`: the size of the
    pages. `prefix` goes before the program. `pool_bytes`: the size of the hugetlb pages that must
    be free for it; `mount`: with a hugetlbfs. `settings`: what files of the kernel must hold.
    `notes`: what is to be known of the result. `proven_fraction`: with less of the memory that it
    should reach on huge pages it was not tried.
    """

    name: str
    words: str
    reach: MemoryScope
    page_bytes: int | None
    environment: Mapping[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    pool_bytes: int | None = None
    mount: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    proven_fraction: float = 0.5

    @property
    def transparent(self) -> bool:
        """Whether it needs transparent huge pages; others are tried without them."""
        return self.pool_bytes is None

    @property
    def needs_root(self) -> bool:
        """Whether settings of this system have to change, apart from a pool."""
        return any(setting(path) != value for path, value in self.settings)

    @property
    def changes_settings(self) -> bool:
        """Whether prepare() changes the system, where it may."""
        return self.needs_root or self.pool_bytes is not None

    def check(self) -> None:
        """Raise TlbcostError (4) if this user cannot prepare it; pools are checked after a run."""
        if not hints.is_root():
            self._change(None)

    def prepare(self, settings: Settings | None, run: Run) -> None:
        """Make the system ready, given a run on base pages. Raises TlbcostError (4)."""
        self._change(settings)
        if self.pool_bytes is None:
            return
        pages = huge_pages.pool_pages(run.max_rss_bytes, self.pool_bytes)
        if settings is not None:
            settings.reserve(self.pool_bytes, pages)
            if self.mount:
                settings.mount_hugetlbfs(self.pool_bytes)
            return
        free = huge_pages.free_pages(self.pool_bytes)
        if free < pages:
            command = (
                f"tlbcost pool reserve --page-size {huge_pages.size_name(self.pool_bytes)} {pages}"
            )
            raise TlbcostError(
                f"{self.name} needs {pages} free huge pages of {units.size(self.pool_bytes)}, "
                f"and there are {free}",
                hints.as_root(command),
                CANNOT_MEASURE,
            )

    def _change(self, settings: Settings | None) -> None:
        for path, value in self.settings:
            if setting(path) == value:
                continue
            if settings is None:
                raise TlbcostError(
                    f"{self.name} needs {value} in {path}, which root alone can write",
                    hints.again_as_root(),
                    CANNOT_MEASURE,
                )
            settings.write(path, value)

    def environment_of(self, base: Mapping[str, str]) -> dict[str, str]:
        return {**base, **joined(base, self.environment)}


def setting(path: str) -> str | None:
    """The value of a setting; of several in a line, the one in brackets. None: not there."""
    return selected(path) or read_line(path)


def base_environment() -> tuple[dict[str, str], tuple[str, ...]]:
    """Our environment without what asks for huge pages; and sentences about what was left out."""
    environment = dict(os.environ)
    notes = []
    tunables = environment.get(TUNABLES, "")
    if machine.tunable(tunables, machine.HUGETLB_TUNABLE) not in (None, "0"):
        kept = [
            part
            for part in tunables.split(":")
            if part.partition("=")[0] != machine.HUGETLB_TUNABLE
        ]
        environment[TUNABLES] = ":".join(kept)
        notes.append(f"{TUNABLES} asks for huge pages here; that is left out")
    present = [name for name in _ASKING if environment.pop(name, None) is not None]
    if present:
        notes.append(f"{', '.join(present)} of libhugetlbfs is left out")
    preload = environment.get("LD_PRELOAD", "")
    kept = [part for part in re.split(r"[ :]+", preload) if "libhugetlbfs" not in part]
    if "libhugetlbfs" in preload:
        environment["LD_PRELOAD"] = ":".join(kept)
        notes.append("libhugetlbfs in LD_PRELOAD is left out")
    return environment, tuple(notes)


def drop_huge_page_requests(announce: Callable[[str], None]) -> tuple[str, ...]:
    """Remove requests for huge pages from our environment; returns the sentences announced."""
    environment, notes = base_environment()
    for note in notes:
        announce(note)
    os.environ.clear()
    os.environ.update(environment)
    return notes


# Parts smaller than this share of what stayed are not named.
_WORTH_NAMING = 0.1
_MOST_NAMED = 3
_JAVA = "java has -XX:+UseTransparentHugePages and -XX:+UseLargePages"


def covered_fraction(method: Method, backing: PeakMemory | None) -> float | None:
    return None if backing is None else backing.reached_fraction(method.reach)


def is_proven(method: Method, backing: PeakMemory | None) -> bool:
    return (covered_fraction(method, backing) or 0.0) >= method.proven_fraction


def explain(backing: PeakMemory, method: Method, path: Path | None = None) -> str:
    """One sentence or two, without a final period; true while the system is as in the run."""
    reachable = backing.reachable_bytes(method.reach)
    left = reachable - backing.reached_bytes(method.reach)
    reached = backing.parts(method.reach)
    unseen = ""
    if backing.unreadable:
        processes = "1 process" if backing.unreadable == 1 else f"{backing.unreadable} processes"
        unseen = f"; the memory of {processes} more may not be looked at"
    others = [part for part in backing.mappings if part not in reached]
    if others and others[0].base_bytes > reachable:
        return (
            f"{method.name} reaches no more than {units.size(reachable)} of the program's "
            f"{units.size(backing.resident_bytes)}: most is {_where(others[0], path)}" + unseen
        )
    text = (
        f"{units.size(left)} of the {units.size(reachable)} that {method.name} should reach "
        "stayed on base pages"
    )
    by_reason: dict[str, list[MemoryPart]] = {}
    for part in reached[:_MOST_NAMED]:
        if part.base_bytes >= max(_WORTH_NAMING * left, 1):
            by_reason.setdefault(_why(part, method, backing), []).append(part)
    reasons = [
        " and ".join(_where(part, path) for part in parts) + f": {why}"
        for why, parts in by_reason.items()
    ]
    if reasons:
        text += ": " + "; ".join(reasons)
    return text + unseen


def heeds_tunables(backing: PeakMemory) -> bool:
    """Whether glibc's tunables serve the program with the most memory; true if it is not known."""
    largest = max(backing.mappings, key=lambda part: part.resident_bytes, default=None)
    if largest is None or largest.program is None:
        return True
    found = program_of(largest.program, _mapped(backing, largest.program))
    return not found.secure and _deaf_to_tunables(found) is None


def _where(part: MemoryPart, path: Path | None) -> str:
    words = {
        "heap": "the heap",
        "stack": "the stack",
        "segment": "static arrays (bss)" if part.name == smaps.BSS else f"segments of {part.name}",
        "anonymous": "mapped memory" if part.name == smaps.UNNAMED else part.name,
        "shared": f"shared memory {part.name}",
        "file": f"the file {part.name}",
    }[part.kind]
    owner = ""
    if part.program is not None and (path is None or Path(part.program).name != path.name):
        owner = f" of {Path(part.program).name}"
    return f"{words}{owner} ({units.size(part.base_bytes)})"


def _why(part: MemoryPart, method: Method, backing: PeakMemory) -> str:
    if part.kind in ("file", "stack"):
        return "the kernel rarely provides huge pages for it"
    deaf = (
        _deafness(part, method, backing)
        if (bool(method.environment) or method.name.startswith("hugectl"))
        else None
    )
    if deaf is not None:
        return deaf
    return (
        _why_not_transparent(part, method, backing)
        if method.transparent
        else _pool(part, method, backing)
    )


def _deafness(part: MemoryPart, method: Method, backing: PeakMemory) -> str | None:
    if part.program is None:
        return None
    found = program_of(part.program, _mapped(backing, part.program))
    if found.secure:
        return (
            f"{found.name} gains rights when it starts (setuid), and the C library drops such "
            "requests"
        )
    if "LD_PRELOAD" in method.environment and found.static:
        return f"{found.name} is a static executable, into which nothing can be preloaded"
    return _deaf_to_tunables(found) if TUNABLES in method.environment else None


def _deaf_to_tunables(found: Program) -> str | None:
    runtime = own_heap_of(found)
    if runtime == "java":
        return f"the Java runtime maps its heap itself: {_JAVA}"
    if runtime == "go":
        return f"{found.name} is a Go program, whose runtime maps memory itself"
    if runtime is not None and runtime != "python":
        return f"{words_of(runtime)} maps its heap itself"
    malloc = found.malloc
    if found.static and (malloc is None or malloc.variable != TUNABLES):
        return f"{found.name} is a static executable, which heeds no such request"
    if malloc is not None and malloc.name != "glibc":
        return f"{found.name} uses {words_of(malloc.name)}, which heeds no tunable of glibc"
    return None


def _mapped(backing: PeakMemory, program: str) -> list[str]:
    return [part.name for part in backing.mappings if part.program == program]


def _why_not_transparent(part: MemoryPart, method: Method, backing: PeakMemory) -> str:
    mode = thp_mode()
    if mode == "never" and not method.name.startswith("mthp-"):
        return f"transparent huge pages are off ({THP}/enabled is never)"
    size = huge_page_bytes()
    if size and backing.fallbacks and 2 * backing.fallbacks * size >= part.base_bytes:
        defrag = setting(f"{THP}/defrag") or "unknown"
        return (
            f"{units.count(backing.fallbacks)} times the kernel had no free huge page at hand: "
            f"memory is fragmented, and {THP}/defrag is {defrag}"
        )
    small = "it grew in steps smaller than a huge page"
    if part.kind == "heap" or part.name == smaps.ARENA:
        return f"{small}; --with glibc-hugetlb is not held up by that"
    if part.eligible_bytes is not None and 2 * part.eligible_bytes >= part.base_bytes:
        return f"{small}, or did not last until the kernel gave it some"
    if method.reach == "malloc":
        return "no huge pages were asked for there: the program maps it itself, not with malloc"
    return "the kernel does not allow them there: too small, or the program refuses them"


def _pool(part: MemoryPart, method: Method, backing: PeakMemory) -> str:
    assert method.pool_bytes is not None
    size = method.pool_bytes
    pages = huge_pages.pool(size).pages
    needed = backing.reachable_bytes(method.reach)
    if pages is not None and pages * size < needed:
        return (
            f"the pool has {pages} pages of {units.size(size)} "
            f"({units.size(pages * size)}), and it needs {units.size(needed)}; what does not "
            "fit gets base pages in silence"
        )
    if part.kind == "segment":
        return "it is not linked so that libhugetlbfs can move it (--hugetlbfs-align)"
    if part.kind == "shared":
        return "it was not asked for by shmget()"
    if TUNABLES not in method.environment:
        return "glibc has had no hook for hugectl --heap since 2.34"
    return (
        "it does not come from malloc, since the program maps it itself; or malloc mapped more at "
        "once than the pool has, for which all of it counts, touched or not (tlbcost pool reserve)"
    )
