# SPDX-License-Identifier: GPL-2.0-or-later
"""How does one of our programs get pages of one size here, and if not, why not?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from tlbcost.common import units
from tlbcost.common.document import doc
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.settings.change import Settings
from tlbcost.system import hints, huge_pages
from tlbcost.system.machine import THP, huge_page_bytes, thp_mode, thp_sizes

# base: the kernel's smallest; pool: reserved hugetlb pages; transparent: by madvise(2).
Way = Literal["base", "pool", "transparent"]


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a page size is not available, or not for one pattern, and what fixes it."""

    reason: Annotated[str, doc("why there are no such pages")]
    hint: Annotated[str | None, doc("what to type; null: nothing helps")]


@dataclass(frozen=True, slots=True)
class PageSupply:
    """A page size, and how a program gets it."""

    page_size_bytes: Annotated[int, doc("size of the pages", minimum=1)]
    way: Annotated[Way, doc("base pages, a hugetlb pool, or madvise(2)")]

    @property
    def name(self) -> str:
        return units.size(self.page_size_bytes)


def supply_of(n_bytes: int, base_bytes: int) -> PageSupply | Shortage:
    """How to get pages of this size here: from a pool if possible, else by madvise(2)."""
    if n_bytes == base_bytes:
        return PageSupply(n_bytes, "base")
    pool = n_bytes in huge_pages.sizes()
    if pool and (hints.is_root() or huge_pages.free_pages(n_bytes)):
        return PageSupply(n_bytes, "pool")
    if _transparent_here(n_bytes):
        return PageSupply(n_bytes, "transparent")
    name = units.size(n_bytes)
    if pool:
        return Shortage(
            f"the pool of {name} pages is empty, and only root can fill it",
            hints.again_as_root(),
        )
    if n_bytes in thp_sizes():
        return Shortage(
            f"transparent pages of {name} are off, and only root can turn them on and prove them",
            hints.again_as_root(),
        )
    known = sorted({*huge_pages.sizes(), *thp_sizes()})
    return Shortage(
        f"this kernel has no pages of {name}",
        f"--size with some of {','.join(map(huge_pages.size_name, [base_bytes, *known]))}",
    )


def _transparent_here(n_bytes: int) -> bool:
    """Whether root can turn them on, or this user finds them on; only huge ones need no root."""
    if n_bytes == huge_page_bytes() and thp_mode() is not None:
        return hints.is_root() or thp_mode() in ("always", "madvise")
    return n_bytes in thp_sizes() and hints.is_root()


@contextlib.contextmanager
def turned_on(size: PageSupply, settings: Settings | None) -> Iterator[None]:
    """Transparent pages of this size are on within it, for programs that request them."""
    if settings is None or size.way != "transparent":
        yield
        return
    with settings.temporarily():
        if not thp_sizes():
            settings.write(f"{THP}/enabled", "madvise")
        # Of the enabled sizes a page fault takes the largest.
        for each in thp_sizes():
            if each >= size.page_size_bytes:
                mode = "madvise" if each == size.page_size_bytes else "never"
                settings.write(f"{THP}/hugepages-{each >> 10}kB/enabled", mode)
        yield


def check_room(size: PageSupply, pages: int) -> None:
    """Refuse pages outside pools that the machine cannot spare: TlbcostError, exit code 4."""
    spare = huge_pages.spare_bytes()
    needed = pages * size.page_size_bytes
    if spare is not None and needed > spare:
        raise TlbcostError(
            f"{units.size(needed)} are needed, and this machine can spare {units.size(spare)}",
            None,
            CANNOT_MEASURE,
        )
