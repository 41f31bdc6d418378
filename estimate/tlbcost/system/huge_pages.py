# SPDX-License-Identifier: GPL-2.0-or-later
"""What does this system allow on huge pages, and how much is on them?

Read below $TLBCOST_ROOT; changes nothing.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tlbcost.system import filesystems, hugetlb
from tlbcost.system.filesystems import FileSystem
from tlbcost.system.machine import (
    THP,
    huge_page_bytes,
    read_line,
    read_number,
    read_text,
    selected,
    sizes_below,
    sys_path,
)
from tlbcost.system.process import thp_enabled

_READ_ONLY_FILES = "CONFIG_READ_ONLY_THP_FOR_FS"


@dataclass(frozen=True, slots=True)
class HugeSettings:
    """Settings that decide which pages memory is on; None: this kernel has no such setting.

    `thp`, `shmem`: always, madvise, never; always, within_size, advise, never, deny, force: those
    for pages of `huge_page_bytes`, which have their own settings since Linux 6.8. `mthp`: smaller
    transparent pages that anonymous memory may have, by size in bytes. `files`: whether khugepaged
    puts code of files onto huge pages. `mounts`: as the process in question sees them.
    """

    huge_page_bytes: int | None
    thp: str | None
    defrag: str | None = None
    shmem: str | None = None
    mthp: dict[int, str] = field(default_factory=dict)
    files: bool | None = None
    kernel: tuple[int, int] | None = None
    mounts: tuple[FileSystem, ...] = ()
    pools: tuple[hugetlb.Pool, ...] = ()
    hugetlb_mounts: tuple[hugetlb.Mount, ...] = ()


def huge_settings(pid: int | None = None) -> HugeSettings:
    """The settings now; mounts as the process `pid` sees them."""
    size = huge_page_bytes()
    own = f"{THP}/hugepages-{(size or 0) >> 10}kB"
    kernel = re.match(r"(\d+)\.(\d+)", read_line("/proc/sys/kernel/osrelease") or "")
    return HugeSettings(
        huge_page_bytes=size,
        thp=_effective(f"{THP}/enabled", f"{own}/enabled"),
        defrag=selected(f"{THP}/defrag"),
        shmem=_effective(f"{THP}/shmem_enabled", f"{own}/shmem_enabled"),
        mthp=_smaller(size),
        files=_configured(_READ_ONLY_FILES),
        kernel=(int(kernel[1]), int(kernel[2])) if kernel else None,
        mounts=filesystems.mounted(pid),
        pools=tuple(hugetlb.pool(each) for each in hugetlb.sizes()),
        hugetlb_mounts=tuple(hugetlb.mounts()),
    )


def process_disabled(pid: int) -> bool | None:
    enabled = thp_enabled(pid)
    return None if enabled is None else enabled == "0"


def mthp_bytes() -> dict[int, int] | None:
    """Anonymous memory of the system on multi-size THP, by page size; PMD-sized ones left out."""
    largest = read_number(f"{THP}/hpage_pmd_size")
    found = {}
    for size in sizes_below(THP) if largest is not None else ():
        pages = read_number(f"{THP}/hugepages-{size >> 10}kB/stats/nr_anon")
        if size < (largest or 0) and pages is not None:
            found[size] = pages * size
    return found or None


def grown(
    before: Mapping[int, int] | None, after: Mapping[int, int] | None
) -> dict[int, int] | None:
    """By how much each size grew; one that shrank did not."""
    if before is None or after is None:
        return None
    return {size: max(n - before.get(size, 0), 0) for size, n in after.items()}


def fallbacks() -> int | None:
    """Page faults of the whole system that failed to get a transparent huge page."""
    text = read_text("/proc/vmstat") or ""
    found = re.search(r"^thp_fault_fallback (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else None


def _effective(path: str, own: str) -> str | None:
    common, special = selected(path), selected(own)
    if common in (None, "deny", "force") or special in (None, "inherit"):
        return common
    return special


def _smaller(huge: int | None) -> dict[int, str]:
    found: dict[int, str] = {}
    common = selected(f"{THP}/enabled")
    for size in sizes_below(THP):
        mode = selected(f"{THP}/hugepages-{size >> 10}kB/enabled")
        mode = common if mode == "inherit" else mode
        if size != huge and mode not in (None, "never"):
            found[size] = str(mode)
    return found


def _configured(option: str) -> bool | None:
    """Whether the kernel was built with an option; None: its configuration is not available."""
    release = read_line("/proc/sys/kernel/osrelease")
    text: str | None = None
    try:
        text = gzip.decompress(sys_path("/proc/config.gz").read_bytes()).decode(errors="replace")
    except (OSError, EOFError):
        if release is not None and os.sep not in release:
            text = read_text(f"/boot/config-{release}")
    return None if text is None else f"\n{option}=y\n" in text
