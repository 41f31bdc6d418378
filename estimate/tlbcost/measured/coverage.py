# SPDX-License-Identifier: GPL-2.0-or-later
"""Share of a method's memory that was on huge pages, and why the rest was not."""

from __future__ import annotations

from pathlib import Path

from tlbcost.allocators.owner import own_heap_of, words_of
from tlbcost.allocators.recognise import Program, program_of
from tlbcost.common import units
from tlbcost.measured.method import Method, setting
from tlbcost.memory import smaps
from tlbcost.memory.peak import MemoryPart, PeakMemory
from tlbcost.system import huge_pages
from tlbcost.system.machine import THP, TUNABLES, huge_page_bytes, thp_mode

# Less than this part of the memory that a method should reach on huge pages is no trial of them.
PROVEN_FRACTION = 0.5
# Parts smaller than this share of what stayed are not named.
_WORTH_NAMING = 0.1
_MOST_NAMED = 3
_JAVA = "java has -XX:+UseTransparentHugePages and -XX:+UseLargePages"


def covered_fraction(method: Method, backing: PeakMemory | None) -> float | None:
    return None if backing is None else backing.reached_fraction(method.reach)


def is_proven(method: Method, backing: PeakMemory | None) -> bool:
    return (covered_fraction(method, backing) or 0.0) >= PROVEN_FRACTION


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
