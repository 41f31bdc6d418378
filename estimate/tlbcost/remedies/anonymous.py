# SPDX-License-Identifier: GPL-2.0-or-later
"""Remedies for anonymous memory, whoever allocated it.

By tlbcost run --thp, by the mode of the whole system, and by lines of code for a program that can
be changed. Proven by tests/bats/remedies.bats and allocators.bats.

What glibc's tunables reach was looked up in its malloc/malloc.c (2.36): `hugetlb=1` asks for
transparent huge pages only where their mode is madvise, for blocks of at least a huge page and for
the heap that brk grows, which then grows by whole huge pages, but not for smaller blocks that are
mapped one by one, nor for the arenas of threads; `hugetlb=2` takes all of it from the pool. All of
it, and what the other mallocs read, is proven by tests/bats/remedies.bats and allocators.bats.
tcmalloc and musl's malloc have no switch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tlbcost.allocators.recognise import Malloc, Program
from tlbcost.attribution.document import RegionShare
from tlbcost.memory import smaps
from tlbcost.memory.eligibility import Standing
from tlbcost.remedies.remedy import (
    HUGECTL,
    MADVISE,
    Remedy,
    Situation,
    advised,
    allowing,
    environment_with,
    growth_bytes,
    mode_remedy,
    pooled,
    transparent,
    trial_by_environment,
    trial_with,
    with_environment,
    with_pool,
)
from tlbcost.system import machine
from tlbcost.system.huge_pages import pool_pages
from tlbcost.system.machine import TUNABLES

MANUAL = "https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html"
JEMALLOC = "https://jemalloc.net/jemalloc.3.html#opt.thp"
MIMALLOC = "https://microsoft.github.io/mimalloc/environment.html"
# A heap that grows by this much at a time has room for many huge pages in each step.
_STEP_BYTES = 64 << 20
# The most that malloc takes for mmap_threshold (HEAP_MAX_SIZE / 2): smaller blocks come from the
# heap then, instead of mappings of their own that whole huge pages fit into badly.
_MOST_THRESHOLD_BYTES = 32 << 20


def malloc_remedies_for(
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
        if version < machine.FIRST_WITHOUT_HOOK:
            return [_hugectl_heap(regions, situation)]
        if version < machine.FIRST_WITH_HUGETLB:
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
    options = {machine.HUGETLB_TUNABLE: "1"}
    if smaller:
        options[machine.MMAP_THRESHOLD] = str(_MOST_THRESHOLD_BYTES)
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
        caution=f"{machine.HUGETLB_TUNABLE}=1 does nothing where THP is always on",
        source=MANUAL,
        proof=trial_by_environment(situation, variables),
        environment=environment_with(situation, variables),
    )


def _glibc_pool(regions: Sequence[RegionShare], situation: Situation) -> Remedy | None:
    pages = _pages(regions, situation)
    if pages is None or not situation.can_pool(pages):
        return None
    variables = {TUNABLES: f"{machine.HUGETLB_TUNABLE}=2"}
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


MMAP = "https://man7.org/linux/man-pages/man2/mmap.2.html"
# The first Linux with MADV_COLLAPSE.
_FIRST_WITH_COLLAPSE = (6, 1)
# Memory that would grow by this share is served better by smaller transparent pages.
_MUCH_FRACTION = 0.5
_SMALLER_BYTES = 64 << 10
# Where asking for huge pages gets none.
_REFUSED = ("too_small", "advised_against", "process")


def run_thp(
    regions: Sequence[RegionShare], standing: Standing | None, situation: Situation
) -> list[Remedy]:
    first = ((), ()) if situation.settings.thp == "always" else allowing(situation)
    if first is None or not situation.can_run_thp or _is(standing, *_REFUSED):
        return []
    if situation.settings.thp == "always" and not any(is_brk(x) or is_arena(x) for x in regions):
        # It asks for nothing more then, but makes room for whole huge pages.
        return []
    steps, undo = first
    return [
        transparent(
            "run-thp",
            "command",
            "tlbcost has each mapping of the program ask for transparent huge pages",
            (*steps, f"tlbcost run --thp -- {situation.command}"),
            regions,
            situation,
            undo=undo,
            source=None,
            proof=trial_with(situation, "run-thp"),
        )
    ]


def remedies_for(
    regions: Sequence[RegionShare],
    program: Program,
    standing: Standing | None,
    situation: Situation,
) -> list[Remedy]:
    """By the mode of the system, and by lines of code; what needs least first."""
    found = [_mode_always(regions, standing, situation)]
    if program.runtime is None:
        found += _code(regions, situation)
    if not _is(standing, "too_small"):
        found.append(_smaller(regions, situation))
    return [remedy for remedy in found if remedy is not None]


def _is(standing: Standing | None, *reasons: str) -> bool:
    return standing is not None and standing.reason in reasons


def _mode_always(
    regions: Sequence[RegionShare], standing: Standing | None, situation: Situation
) -> Remedy | None:
    """For all programs: large blocks get them, a heap that grows in small steps does not."""
    thp = situation.settings.thp
    if thp not in ("madvise", "never") or all(map(is_brk, regions)):
        return None
    if any(map(is_arena, regions)) or _is(standing, *_REFUSED):
        return None
    return mode_remedy(
        "thp-always",
        "all large anonymous memory gets transparent huge pages, in every program",
        (thp, "always"),
        regions,
        situation,
        caution="a heap that grows in small steps (brk) gets none from it",
        proof=trial_with(situation, "thp", root=True),
    )


def _code(regions: Sequence[RegionShare], situation: Situation) -> list[Remedy | None]:
    settings = situation.settings
    found: list[Remedy | None] = []
    if settings.thp == "madvise":
        words = "after the mmap or aligned_alloc, before the memory is touched"
        found.append(advised(words, regions, situation))
    if settings.thp is not None and (settings.kernel or (0, 0)) >= _FIRST_WITH_COLLAPSE:
        found.append(
            transparent(
                "collapse",
                "code",
                "once the memory is filled: at once, in any mode; copies it (Linux 6.1)",
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
        "transparent pages of 64 KiB in every program: they use less memory here than those of "
        "2 MiB, and gain less; how much is not estimated",
        ("never", "always"),
        (),
        situation,
        folder,
        proof=trial_with(situation, "mthp-64K", root=True),
    )
