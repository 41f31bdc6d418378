# SPDX-License-Identifier: GPL-2.0-or-later
"""How does memory of a malloc get onto huge pages: glibc's, jemalloc, mimalloc?

What glibc's tunables reach was looked up in its malloc/malloc.c (2.36): `hugetlb=1` asks for
transparent huge pages only where their mode is madvise, for blocks of at least a huge page and for
the heap that brk grows, which then grows by whole huge pages, but not for smaller blocks that are
mapped one by one, nor for the arenas of threads; `hugetlb=2` takes all of it from the pool. All of
it, and what the other mallocs read, is proven by tests/bats/remedies.bats and allocators.bats.
tcmalloc and musl's malloc have no switch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tlbcost.allocators.recognise import Malloc
from tlbcost.attribution.shares import RegionShare
from tlbcost.memory import smaps
from tlbcost.remedies.remedy import HUGECTL, Remedy, allowing, pooled, transparent
from tlbcost.remedies.situation import (
    Situation,
    environment_with,
    trial_by_environment,
    trial_with,
    with_environment,
    with_pool,
)
from tlbcost.system import glibc
from tlbcost.system.glibc import TUNABLES
from tlbcost.system.hugetlb import pool_pages

MANUAL = "https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html"
JEMALLOC = "https://jemalloc.net/jemalloc.3.html#opt.thp"
MIMALLOC = "https://microsoft.github.io/mimalloc/environment.html"
# A heap that grows by this much at a time has room for many huge pages in each step.
_STEP_BYTES = 64 << 20
# The most that malloc takes for mmap_threshold (HEAP_MAX_SIZE / 2): smaller blocks come from the
# heap then, instead of mappings of their own that whole huge pages fit into badly.
_MOST_THRESHOLD_BYTES = 32 << 20


def remedies_for(
    regions: Sequence[RegionShare], malloc: Malloc, situation: Situation
) -> list[Remedy]:
    """The malloc's own switches that work here; what needs least first."""
    if malloc.name == "glibc":
        found = _glibc(regions, malloc, situation)
    elif malloc.variable is None:
        found = []
    elif malloc.name == "jemalloc":
        # Its metadata are few; auto puts them on huge pages once they are not.
        variables = {malloc.variable: "thp:always,metadata_thp:auto"}
        found = [
            _by_environment("jemalloc-thp", "jemalloc", variables, regions, situation, JEMALLOC)
        ]
    else:
        variables = {malloc.variable: "1"}
        found = [
            _by_environment("mimalloc-thp", "mimalloc", variables, regions, situation, MIMALLOC)
        ]
    return [remedy for remedy in found if remedy is not None]


def _by_environment(
    code: str,
    who: str,
    variables: Mapping[str, str],
    regions: Sequence[RegionShare],
    situation: Situation,
    source: str,
    proof: str | None = None,
) -> Remedy | None:
    """Remedy by variables; None where asking changes nothing, as with THP always."""
    first = allowing(situation)
    if first is None:
        return None
    steps, undo = first
    return transparent(
        code,
        "command",
        f"{who} asks for transparent huge pages",
        (*steps, with_environment(situation, variables)),
        regions,
        situation,
        undo=undo,
        source=source,
        proof=proof or trial_by_environment(situation, variables),
        environment=environment_with(situation, variables),
    )


def _glibc(
    regions: Sequence[RegionShare], malloc: Malloc, situation: Situation
) -> list[Remedy | None]:
    version = situation.glibc
    if malloc.variable is None:
        return []
    if malloc.library is not None:
        # It is this system's; a static one has the tunable in it.
        if version is None:
            return []
        if version < glibc.FIRST_WITHOUT_HOOK:
            return [_hugectl_heap(regions, situation)]
        if version < glibc.FIRST_WITH_HUGETLB:
            return []
    arena = any(map(is_arena, regions))
    return [
        None if arena else _glibc_thp(regions, situation),
        _larger_steps(regions, situation),
        _glibc_pool(regions, situation),
    ]


def is_arena(region: RegionShare) -> bool:
    """Whether it is, for the most part, arenas of glibc's malloc for threads."""
    return region.name == smaps.ARENA or _growing(region) == "arena"


def is_brk(region: RegionShare) -> bool:
    """Whether it is, for the most part, the heap that brk grows."""
    return region.kind == "heap" or _growing(region) == "brk"


def _growing(region: RegionShare) -> str | None:
    return None if region.backed is None else region.backed.growing


def _glibc_thp(regions: Sequence[RegionShare], situation: Situation) -> Remedy | None:
    blocks = [each.backed.malloc_block_bytes for each in regions if each.backed is not None]
    smaller = any(n_bytes and n_bytes < _MOST_THRESHOLD_BYTES for n_bytes in blocks)
    if smaller and smaps.ARENA in situation.mapped.get(regions[0].program, ()):
        # In threads they would come from arenas, which do not ask.
        return None
    options = {glibc.HUGETLB: "1"}
    if smaller:
        options[glibc.MMAP_THRESHOLD] = str(_MOST_THRESHOLD_BYTES)
    value = ":".join(f"{name}={option}" for name, option in options.items())
    return _by_environment(
        "glibc-thp",
        "malloc",
        {TUNABLES: value},
        regions,
        situation,
        MANUAL,
        None if smaller else trial_with(situation, "glibc-thp"),
    )


def _larger_steps(regions: Sequence[RegionShare], situation: Situation) -> Remedy | None:
    """With THP always, a heap gets none while it grows by steps smaller than a huge page."""
    if situation.settings.thp != "always" or not any(map(is_brk, regions)):
        return None
    variables = {TUNABLES: f"glibc.malloc.top_pad={_STEP_BYTES}"}
    return transparent(
        "glibc-top-pad",
        "command",
        "the heap grows by 64 MiB at a time, so that huge pages fit when it is touched",
        (with_environment(situation, variables),),
        regions,
        situation,
        caution=f"{glibc.HUGETLB}=1 does nothing where transparent huge pages are always on",
        source=MANUAL,
        proof=trial_by_environment(situation, variables),
        environment=environment_with(situation, variables),
    )


def _glibc_pool(regions: Sequence[RegionShare], situation: Situation) -> Remedy | None:
    pages = _pages(regions, situation)
    if pages is None or not situation.can_pool(pages):
        return None
    variables = {TUNABLES: f"{glibc.HUGETLB}=2"}
    command = f"env {with_environment(situation, variables)}"
    return pooled(
        "glibc-pool",
        "command",
        "malloc uses huge pages of a pool that is reserved while the program runs",
        (with_pool(situation, pages, command),),
        regions,
        situation,
        pages=pages,
        source=MANUAL,
        proof=trial_with(situation, "glibc-hugetlb", root=True),
        environment=environment_with(situation, variables),
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
        "libhugetlbfs gives malloc huge pages of a pool",
        (with_pool(situation, pages, f"hugectl --heap {situation.command}"),),
        regions,
        situation,
        pages=pages,
        source=HUGECTL,
        proof=trial_with(situation, "hugectl:--heap", root=True),
    )
