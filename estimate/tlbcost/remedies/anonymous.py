# SPDX-License-Identifier: GPL-2.0-or-later
"""What puts anonymous memory on huge pages, whoever allocated it?

By tlbcost run --thp, by the mode of the whole system, and by lines of code for a program that can
be changed. Proven by tests/bats/remedies.bats and allocators.bats.
"""

from __future__ import annotations

from collections.abc import Sequence

from tlbcost.allocators.recognise import Program
from tlbcost.attribution.shares import RegionShare
from tlbcost.memory.eligibility import Standing
from tlbcost.remedies.malloc import is_arena, is_brk
from tlbcost.remedies.remedy import (
    MADVISE,
    Remedy,
    advised,
    allowing,
    growth_bytes,
    mode_remedy,
    pooled,
    transparent,
)
from tlbcost.remedies.situation import Situation, trial_with, with_pool

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
