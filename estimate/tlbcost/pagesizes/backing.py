# SPDX-License-Identifier: GPL-2.0-or-later
"""How is a program of ours given pages of one size here, and if it is not, why not?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tlbcost.common import units
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.settings.change import Settings
from tlbcost.system import hints, hugetlb
from tlbcost.system.hugetlb import free_pages
from tlbcost.system.machine import THP, huge_page_bytes, sys_path, thp_mode

# base: the kernel's smallest; pool: reserved hugetlb pages; transparent: by madvise(2).
Way = Literal["base", "pool", "transparent"]


@dataclass(frozen=True, slots=True)
class Lack:
    """Why a size is not available, or not for one pattern, and the command that fixes it."""

    reason: str
    hint: str | None


@dataclass(frozen=True, slots=True)
class PageSize:
    """A page size, and how a program gets it."""

    n_bytes: int
    way: Way

    @property
    def name(self) -> str:
        """'2 MiB'."""
        return units.size(self.n_bytes)


def mthp_sizes() -> list[int]:
    """Bytes of the transparent pages of this kernel that are smaller than its huge page."""
    largest = huge_page_bytes() or 0
    return [size for size in _transparent_sizes() if size < largest]


def _transparent_sizes() -> list[int]:
    # Those without `enabled` are for files only.
    found = sys_path(THP).glob("hugepages-*kB/enabled")
    names = [path.parent.name.removeprefix("hugepages-").removesuffix("kB") for path in found]
    return sorted(int(kib) * 1024 for kib in names if kib.isdigit())


def way_to(n_bytes: int, base_bytes: int) -> PageSize | Lack:
    """How pages of this size are had here: from a pool before by madvise(2)."""
    if n_bytes == base_bytes:
        return PageSize(n_bytes, "base")
    pool = n_bytes in hugetlb.sizes()
    if pool and (hints.is_root() or free_pages(n_bytes)):
        return PageSize(n_bytes, "pool")
    if _transparent_here(n_bytes):
        return PageSize(n_bytes, "transparent")
    name = units.size(n_bytes)
    if pool:
        return Lack(
            f"the pool of {name} pages is empty, and root alone can fill it",
            hints.again_as_root(),
        )
    if n_bytes in _transparent_sizes():
        return Lack(
            f"transparent pages of {name} are off, and root alone can turn them on and prove them",
            hints.again_as_root(),
        )
    known = sorted({*hugetlb.sizes(), *_transparent_sizes()})
    return Lack(
        f"this kernel has no pages of {name}",
        f"--size with some of {','.join(map(hugetlb.size_name, [base_bytes, *known]))}",
    )


def _transparent_here(n_bytes: int) -> bool:
    """Whether this user can have them: root turns them on, others may find them on.

    Only the huge page can be proven without root.
    """
    if n_bytes == huge_page_bytes() and thp_mode() is not None:
        return hints.is_root() or thp_mode() in ("always", "madvise")
    return n_bytes in _transparent_sizes() and hints.is_root()


@contextlib.contextmanager
def turned_on(size: PageSize, settings: Settings | None) -> Iterator[None]:
    """Transparent pages of this size are on within it, for who asks; nothing is done for others."""
    if settings is None or size.way != "transparent":
        yield
        return
    with settings.temporarily():
        _turn_on(size, settings)
        yield


def _turn_on(size: PageSize, settings: Settings) -> None:
    """Of the sizes that are on a page fault takes the largest."""
    if not _transparent_sizes():
        settings.write(f"{THP}/enabled", "madvise")
    for each in _transparent_sizes():
        if each >= size.n_bytes:
            mode = "madvise" if each == size.n_bytes else "never"
            settings.write(f"{THP}/hugepages-{each >> 10}kB/enabled", mode)


def check_room(size: PageSize, pages: int) -> None:
    """Refuse pages of no pool that the machine cannot spare. Raises TlbcostError, exit code 4."""
    spare = hugetlb.spare_bytes()
    needed = pages * size.n_bytes
    if spare is not None and needed > spare:
        raise TlbcostError(
            f"{units.size(needed)} are needed, and this machine can spare {units.size(spare)}",
            None,
            CANNOT_MEASURE,
        )
