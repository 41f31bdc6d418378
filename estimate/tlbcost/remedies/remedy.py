# SPDX-License-Identifier: GPL-2.0-or-later
"""A remedy, by transparent huge pages or by a pool, and its cost: memory, pages, faults, forks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from tlbcost.attribution.shares import RegionShare
from tlbcost.common.document import doc
from tlbcost.common.interval import Interval
from tlbcost.remedies.situation import Situation
from tlbcost.system import hints
from tlbcost.system.machine import THP

Pages = Literal["transparent", "pool"]

# Whether a page fault waits while the kernel compacts memory, by the setting defrag (Linux's
# Documentation/admin-guide/mm/transhuge.rst).
_DEFRAG = {
    "always": "page faults wait while the kernel compacts memory (defrag always)",
    "defer": "no page fault waits for compaction; huge pages may come late (defrag defer)",
    "defer+madvise": "page faults in memory that asks wait for compaction (defrag defer+madvise)",
    "madvise": "page faults in memory that asks wait for compaction (defrag madvise)",
    "never": "no page fault waits for compaction; without free huge pages there are none "
    "(defrag never)",
}
_FORK = {
    # Since Linux 5.8 a write to a shared transparent page splits it (mm/huge_memory.c).
    "transparent": "after a fork, writes split the huge pages again",
    "pool": "after a fork, each write copies a whole huge page and takes another from the pool; a "
    "child that finds none is killed (SIGBUS)",
}
_KHUGEPAGED = "khugepaged may fill holes that the program freed"


@dataclass(frozen=True, slots=True)
class RemedyCost:
    """What one remedy costs; None: not known, or nothing of that kind.

    `pool_pages` of `pool_page_bytes`: to be reserved, and taken from all other programs.
    `growth_bytes`: what the program's memory grows by, since huge pages are touched in part.
    `fault_ns`: of the first touch of a huge page; `base_fault_ns`: of a base page. `sentences`:
    what else to expect.
    """

    pool_pages: Annotated[int | None, doc("huge pages to reserve")]
    pool_page_bytes: Annotated[int | None, doc("size of these")]
    growth_bytes: Annotated[
        int | None,
        doc(
            "what the program's memory grows by, from the regions of a huge page that it touched "
            "in part"
        ),
    ]
    fault_ns: Annotated[Interval | None, doc("first touch of a huge page")]
    base_fault_ns: Annotated[Interval | None, doc("first touch of a base page")]
    sentences: Annotated[tuple[str, ...], doc("what else to expect")]


def growth_bytes(regions: Sequence[RegionShare]) -> int | None:
    """What memory grows by on huge pages, by the regions touched in part; None: not known."""
    total = 0
    for region in regions:
        if region.touched_bytes is None or region.touched_huge_bytes is None:
            return None
        total += max(region.touched_huge_bytes - region.touched_bytes, 0)
    return total


def cost_of(
    regions: Sequence[RegionShare], pages: Pages, situation: Situation, pool: int | None = None
) -> RemedyCost:
    """What huge pages of a kind cost for these regions. `pool`: pages to reserve."""
    settings = situation.settings
    # A fork does not copy shared memory.
    shared = all(region.kind in ("tmpfs", "memfd", "sysv", "shared") for region in regions)
    sentences: list[str] = []
    if pages == "transparent":
        if settings.defrag in _DEFRAG:
            sentences.append(_DEFRAG[settings.defrag])
        if settings.thp == "always" and not shared:
            sentences.append(_KHUGEPAGED)
    if not shared:
        sentences.append(_FORK[pages])
    if pages == "pool":
        sentences.append("reserved pages serve nothing else until they are returned")
    base, huge = situation.faults
    growth = growth_bytes(regions) if regions else None
    size = None if pool is None else situation.huge_page_bytes
    return RemedyCost(pool, size, growth, huge, base, tuple(sentences))


Form = Literal["command", "setting", "code", "build", "server"]

# Documentation that several remedies come from.
THP_GUIDE = "https://docs.kernel.org/admin-guide/mm/transhuge.html"
MADVISE = "https://man7.org/linux/man-pages/man2/madvise.2.html"
HUGECTL = "https://man7.org/linux/man-pages/man8/hugectl.8.html"
TMPFS = "https://docs.kernel.org/filesystems/tmpfs.html"
_MADVISE_LINE = "madvise(address, length, MADV_HUGEPAGE);"


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do.

    `code`: its name, the same everywhere. `words`: what it does. `steps`: lines to type, or with
    `form` code to write, in their order; those with # explain. `undo`: how a changed system is put
    back. `caution`: what its makers, or the system, say against it. `source`: documentation.
    `proof`: the command that proves it by a trial; None: there is no such method. `environment`:
    variables that are all there is to do, besides a pool.
    """

    code: Annotated[str, doc("its name, the same everywhere")]
    form: Annotated[Form, doc("what its steps are")]
    words: Annotated[str, doc("what it does")]
    steps: Annotated[
        tuple[str, ...],
        doc("lines to type, or of form code to write; those with # explain"),
    ]
    pages: Annotated[Pages, doc("which huge pages")]
    cost: Annotated[RemedyCost, doc("what it costs")]
    undo: Annotated[tuple[str, ...], doc("how a changed system is put back")] = ()
    caution: Annotated[str | None, doc("what its makers, or the system, say against it")] = None
    source: Annotated[str | None, doc("address of the documentation")] = None
    proof: Annotated[str | None, doc("the command that proves it by a trial; null: none does")] = (
        None
    )
    environment: Annotated[
        Mapping[str, str], doc("variables that the program is to be started with")
    ] = field(default_factory=dict)


def transparent(
    code: str,
    form: Form,
    words: str,
    steps: Sequence[str],
    regions: Sequence[RegionShare],
    situation: Situation,
    *,
    source: str | None,
    undo: Sequence[str] = (),
    caution: str | None = None,
    proof: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Remedy:
    cost = cost_of(regions, "transparent", situation)
    return Remedy(
        code, form, words, tuple(steps), "transparent", cost, tuple(undo), caution, source, proof,
        environment or {},
    )  # fmt: skip


def pooled(
    code: str,
    form: Form,
    words: str,
    steps: Sequence[str],
    regions: Sequence[RegionShare],
    situation: Situation,
    *,
    pages: int,
    source: str,
    undo: Sequence[str] = (),
    proof: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Remedy:
    """A remedy that puts these regions on pages of a pool; `pages`: how many to reserve."""
    cost = cost_of(regions, "pool", situation, pages)
    return Remedy(
        code, form, words, tuple(steps), "pool", cost, tuple(undo), None, source, proof,
        environment or {},
    )  # fmt: skip


def advised(
    words: str, regions: Sequence[RegionShare], situation: Situation, source: str = MADVISE
) -> Remedy:
    """A line for a program that can be changed: memory that asks for transparent huge pages."""
    return transparent("madvise", "code", words, [_MADVISE_LINE], regions, situation, source=source)


def mode_setting(mode: str, file: str = "enabled") -> str | None:
    """Write a mode of transparent huge pages; None: that cannot be written here."""
    return hints.write_setting(mode, f"{THP}/{file}")


def allowing(situation: Situation) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Lines that allow asking for huge pages, and lines to undo them; None if asking is in vain."""
    if situation.settings.thp == "madvise":
        return (), ()
    allow, back = mode_setting("madvise"), mode_setting("never")
    if situation.settings.thp != "never" or allow is None:
        return None
    return (allow,), (back,) if back else ()


def mode_remedy(
    code: str,
    words: str,
    modes: tuple[str | None, str],
    regions: Sequence[RegionShare],
    situation: Situation,
    file: str = "enabled",
    caution: str | None = None,
    proof: str | None = None,
) -> Remedy | None:
    """A mode for the whole system, from and to `modes`; None if it cannot be written here."""
    before, after = modes
    set_it = mode_setting(after, file)
    if set_it is None:
        return None
    back = mode_setting(before, file) if before is not None else None
    return transparent(
        code, "setting", words, (set_it, situation.command), regions, situation,
        source=THP_GUIDE, undo=(back,) if back else (), caution=caution, proof=proof,
    )  # fmt: skip


def mounting(kind: str, options: str, folder: str) -> tuple[str, ...]:
    return (
        hints.as_root(f"mkdir -p {folder}"),
        hints.as_root(f"mount -t {kind} -o {options} tlbcost {folder}"),
    )


def unmounting(folder: str) -> tuple[str, ...]:
    return hints.as_root(f"umount {folder}"), hints.as_root(f"rmdir {folder}")
