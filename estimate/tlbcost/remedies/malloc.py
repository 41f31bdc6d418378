# SPDX-License-Identifier: GPL-2.0-or-later
"""How does memory of malloc, or that a program maps for itself, get onto huge pages?

What glibc's tunables reach was looked up in its malloc/malloc.c (2.36), and is proven by
tests/bats/remedies.bats: `hugetlb=1` asks for transparent huge pages only where their mode is
madvise, for large blocks and for the heap that brk grows, which then grows by whole huge pages, but
not for the arenas of threads; `hugetlb=2` takes all of it from the pool, without brk.
"""

from __future__ import annotations

from collections.abc import Sequence

from tlbcost.attribution.shares import RegionShare
from tlbcost.memory import smaps
from tlbcost.memory.eligibility import Standing
from tlbcost.remedies.price import growth_bytes
from tlbcost.remedies.program_facts import Facts
from tlbcost.remedies.remedy import (
    HUGECTL,
    MADVISE,
    Remedy,
    advised,
    mode_remedy,
    mode_setting,
    pooled,
    transparent,
)
from tlbcost.remedies.situation import (
    TUNABLES,
    Situation,
    tunables,
    with_environment,
    with_pool,
)
from tlbcost.system import glibc
from tlbcost.system.hugetlb import pool_pages

MANUAL = "https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html"
MMAP = "https://man7.org/linux/man-pages/man2/mmap.2.html"
# The first Linux with MADV_COLLAPSE.
_FIRST_WITH_COLLAPSE = (6, 1)
# A heap that grows by this much at a time has room for many huge pages in each step.
_STEP_BYTES = 64 << 20
# Memory that would grow by this share is served better by smaller transparent pages.
_MUCH_FRACTION = 0.5
_SMALLER_BYTES = 64 << 10


def remedies_for(
    regions: Sequence[RegionShare], facts: Facts, standing: Standing | None, situation: Situation
) -> list[Remedy]:
    """What works here for anonymous memory; what needs least first."""
    found: list[Remedy | None] = []
    if standing is None or standing.reason not in ("advised_against", "process"):
        found += _malloc(regions, facts, situation)
    found += [_mode_always(regions, standing, situation), *_code(regions, situation)]
    if standing is None or standing.reason != "too_small":
        found.append(_smaller(regions, situation))
    return [remedy for remedy in found if remedy is not None]


def _malloc(
    regions: Sequence[RegionShare], facts: Facts, situation: Situation
) -> list[Remedy | None]:
    """By the C library's malloc, if the program has it."""
    if (
        facts.runtime in ("java", "go")
        or regions[0].kind == "jit"
        or facts.glibc is False
        or facts.allocator is not None
    ):
        return []
    version = situation.glibc
    if version is None:
        return []
    if version < glibc.FIRST_WITHOUT_HOOK:
        return [_hugectl_heap(regions, situation)]
    if version < glibc.FIRST_WITH_HUGETLB:
        return []
    arena = any(region.name == smaps.ARENA for region in regions)
    return [
        None if arena else _glibc_thp(regions, situation),
        _larger_steps(regions, situation),
        _glibc_pool(regions, situation),
    ]


def _glibc_thp(regions: Sequence[RegionShare], situation: Situation) -> Remedy | None:
    thp = situation.settings.thp
    if thp not in ("madvise", "never"):
        # In mode always glibc leaves it to the kernel.
        return None
    steps: list[str] = []
    undo: list[str] = []
    if thp == "never":
        allow, back = mode_setting("madvise"), mode_setting("never")
        if allow is None:
            return None
        steps = [allow]
        undo = [back] if back else []
    value = tunables(situation, glibc.HUGETLB, "1")
    steps.append(with_environment(situation, {TUNABLES: value}))
    return transparent(
        "glibc-thp",
        "command",
        "malloc asks for transparent huge pages",
        tuple(steps),
        regions,
        situation,
        undo=tuple(undo),
        source=MANUAL,
    )


def _larger_steps(regions: Sequence[RegionShare], situation: Situation) -> Remedy | None:
    """With THP always, a heap gets none while it grows by steps smaller than a huge page."""
    if situation.settings.thp != "always" or all(region.kind != "heap" for region in regions):
        return None
    value = tunables(situation, "glibc.malloc.top_pad", str(_STEP_BYTES))
    return transparent(
        "glibc-top-pad",
        "command",
        "the heap grows by 64 MiB at a time, so that huge pages fit into it when it is touched",
        (with_environment(situation, {TUNABLES: value}),),
        regions,
        situation,
        caution=f"{glibc.HUGETLB}=1 does nothing where transparent huge pages are always on",
        source=MANUAL,
    )


def _glibc_pool(regions: Sequence[RegionShare], situation: Situation) -> Remedy | None:
    pages = _pages(regions, situation)
    if pages is None or not situation.can_pool(pages):
        return None
    value = tunables(situation, glibc.HUGETLB, "2")
    command = f"env {with_environment(situation, {TUNABLES: value})}"
    return pooled(
        "glibc-pool",
        "command",
        "malloc takes huge pages from a pool that is reserved while the program runs",
        (with_pool(situation, pages, command),),
        regions,
        situation,
        pages=pages,
        source=MANUAL,
    )


def _pages(regions: Sequence[RegionShare], situation: Situation) -> int | None:
    """Pages that hold what malloc gives out; as many as a trial reserves."""
    if not situation.runs:
        return None
    most = max(situation.runs, key=lambda run: run.max_rss_bytes)
    touched = sum(region.touched_huge_bytes or 0 for region in regions)
    return max(
        pool_pages(most.max_rss_bytes, situation.huge_page_bytes), situation.pages_of(touched)
    )


def _hugectl_heap(regions: Sequence[RegionShare], situation: Situation) -> Remedy | None:
    """Before glibc 2.34, whose malloc has no hook for it any more."""
    pages = _pages(regions, situation)
    if not situation.hugectl or pages is None or not situation.can_pool(pages):
        return None
    return pooled(
        "hugectl-heap",
        "command",
        "libhugetlbfs gives malloc huge pages from a pool",
        (with_pool(situation, pages, f"hugectl --heap {situation.command}"),),
        regions,
        situation,
        pages=pages,
        source=HUGECTL,
    )


def _mode_always(
    regions: Sequence[RegionShare], standing: Standing | None, situation: Situation
) -> Remedy | None:
    """For all programs: large blocks get them, a heap that grows in small steps does not."""
    thp = situation.settings.thp
    if thp not in ("madvise", "never") or all(region.kind == "heap" for region in regions):
        return None
    if any(region.name == smaps.ARENA for region in regions):
        return None
    if standing is not None and standing.reason in ("too_small", "advised_against", "process"):
        return None
    return mode_remedy(
        "thp-always",
        "all large anonymous memory gets transparent huge pages, in every program",
        (thp, "always"),
        regions,
        situation,
        caution="a heap that grows in small steps (brk) gets none from it",
    )


def _code(regions: Sequence[RegionShare], situation: Situation) -> list[Remedy | None]:
    """Lines for a program that can be changed."""
    settings = situation.settings
    found: list[Remedy | None] = []
    if settings.thp == "madvise":
        words = "behind the mmap or aligned_alloc, before the memory is touched"
        found.append(advised(words, regions, situation))
    if settings.thp is not None and (settings.kernel or (0, 0)) >= _FIRST_WITH_COLLAPSE:
        found.append(
            transparent(
                "collapse",
                "code",
                "when the memory is filled: at once, whatever the mode; copies it (Linux 6.1)",
                ("madvise(address, length, 25 /* MADV_COLLAPSE */);",),
                regions,
                situation,
                source=MADVISE,
            )
        )
    return [*found, map_hugetlb(regions, situation, "MAP_PRIVATE")]


def map_hugetlb(
    regions: Sequence[RegionShare], situation: Situation, sharing: str
) -> Remedy | None:
    """mmap of pages of the pool, which have to be reserved."""
    pages = sum(situation.pages_of(region.mapped_bytes) for region in regions)
    if not situation.can_pool(pages):
        return None
    line = (
        f"mmap(NULL, length, PROT_READ | PROT_WRITE, {sharing} | MAP_ANONYMOUS | MAP_HUGETLB, "
        "-1, 0);"
    )
    return pooled(
        "map-hugetlb",
        "code",
        "instead of the mmap, with a length of whole huge pages, and the pool below",
        (line, f"# {with_pool(situation, pages, situation.command)}"),
        regions,
        situation,
        pages=pages,
        source=MMAP,
    )


def _smaller(regions: Sequence[RegionShare], situation: Situation) -> Remedy | None:
    """Smaller transparent pages, where those of 2 MiB would be filled in part."""
    growth = growth_bytes(regions)
    touched = sum(region.touched_bytes or 0 for region in regions)
    folder = f"hugepages-{_SMALLER_BYTES >> 10}kB/enabled"
    thp = situation.settings.thp
    if growth is None or growth <= _MUCH_FRACTION * touched or thp is None:
        return None
    if _SMALLER_BYTES in situation.settings.mthp or thp == "never":
        return None
    return mode_remedy(
        "mthp-64k",
        "transparent pages of 64 KiB in every program: they take less memory here than those of "
        "2 MiB, and gain less; how much is not estimated",
        ("never", "always"),
        (),
        situation,
        folder,
    )
