# SPDX-License-Identifier: GPL-2.0-or-later
"""What does the kernel count about transparent huge pages for the system as a whole?"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tlbcost.system.machine import sys_path

_THP = "/sys/kernel/mm/transparent_hugepage"


def mthp() -> dict[int, int] | None:
    """Anonymous memory of the system on multi-size THP, by page size; PMD-sized ones left out."""
    try:
        largest = int(sys_path(f"{_THP}/hpage_pmd_size").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    found = {
        size: n * size for size, n in _sizes(sys_path(_THP)) if size < largest and n is not None
    }
    return found or None


def _sizes(folder: Path) -> Iterator[tuple[int, int | None]]:
    for size in folder.glob("hugepages-*kB"):
        with contextlib.suppress(ValueError):
            n_bytes = int(size.name.removeprefix("hugepages-").removesuffix("kB")) * 1024
            try:
                yield n_bytes, int((size / "stats" / "nr_anon").read_text(encoding="utf-8"))
            except OSError:
                yield n_bytes, None


def grown(
    before: Mapping[int, int] | None, after: Mapping[int, int] | None
) -> dict[int, int] | None:
    """By how much each size grew; one that shrank did not."""
    if before is None or after is None:
        return None
    return {size: max(n - before.get(size, 0), 0) for size, n in after.items()}


def fallbacks() -> int | None:
    """Faults of the whole system that got no transparent huge page although they might have."""
    with contextlib.suppress(OSError):
        text = sys_path("/proc/vmstat").read_text(encoding="utf-8")
        found = re.search(r"^thp_fault_fallback (\d+)$", text, re.MULTILINE)
        return int(found[1]) if found else None
    return None
