# SPDX-License-Identifier: GPL-2.0-or-later
"""What does this system let onto huge pages, and how? Read below $TLBCOST_ROOT; changes nothing."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
from dataclasses import dataclass, field

from tlbcost.system import filesystems, hugetlb
from tlbcost.system.filesystems import FileSystem
from tlbcost.system.machine import huge_page_bytes, read_line, sys_path

_THP = "/sys/kernel/mm/transparent_hugepage"
_READ_ONLY_FILES = "CONFIG_READ_ONLY_THP_FOR_FS"


@dataclass(frozen=True, slots=True)
class HugeSettings:
    """Settings that decide on which pages memory lies; None: this kernel has no such setting.

    `thp`, `shmem`: always, madvise, never; always, within_size, advise, never, deny, force: as they
    hold for pages of `huge_page_bytes`, which have settings of their own since Linux 6.8. `mthp`:
    smaller transparent pages that anonymous memory may have, by size in bytes. `files`: whether
    khugepaged puts code of files onto huge pages. `mounts`: as the process in question sees them.
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
    own = f"{_THP}/hugepages-{(size or 0) >> 10}kB"
    return HugeSettings(
        huge_page_bytes=size,
        thp=_effective(f"{_THP}/enabled", f"{own}/enabled"),
        defrag=chosen(f"{_THP}/defrag"),
        shmem=_effective(f"{_THP}/shmem_enabled", f"{own}/shmem_enabled"),
        mthp=_smaller(size),
        files=_configured(_READ_ONLY_FILES),
        kernel=kernel_version(),
        mounts=filesystems.mounted(pid),
        pools=tuple(hugetlb.pool(each) for each in hugetlb.sizes()),
        hugetlb_mounts=tuple(hugetlb.mounts()),
    )


def chosen(path: str) -> str | None:
    """The word in brackets of a setting; None: there is none."""
    found = re.search(r"\[([\w+]+)\]", read_line(path) or "")
    return found[1] if found else None


def kernel_version() -> tuple[int, int] | None:
    """Major and minor version of the kernel."""
    found = re.match(r"(\d+)\.(\d+)", read_line("/proc/sys/kernel/osrelease") or "")
    return (int(found[1]), int(found[2])) if found else None


def process_disabled(pid: int) -> bool | None:
    """Whether the process has transparent huge pages off (prctl(2)); None: not told."""
    with contextlib.suppress(OSError):
        text = sys_path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        found = re.search(r"^THP_enabled:\s+([01])$", text, re.MULTILINE)
        return None if found is None else found[1] == "0"
    return None


def _effective(path: str, own: str) -> str | None:
    common, special = chosen(path), chosen(own)
    if common in (None, "deny", "force") or special in (None, "inherit"):
        return common
    return special


def _smaller(huge: int | None) -> dict[int, str]:
    found: dict[int, str] = {}
    common = chosen(f"{_THP}/enabled")
    for folder in sys_path(_THP).glob("hugepages-*kB"):
        kib = folder.name.removeprefix("hugepages-").removesuffix("kB")
        mode = chosen(f"{_THP}/{folder.name}/enabled")
        mode = common if mode == "inherit" else mode
        if kib.isdigit() and int(kib) << 10 != huge and mode not in (None, "never"):
            found[int(kib) << 10] = str(mode)
    return dict(sorted(found.items()))


def _configured(option: str) -> bool | None:
    """Whether the kernel was built with an option; None: it does not tell how it was built."""
    release = read_line("/proc/sys/kernel/osrelease")
    text: str | None = None
    try:
        text = gzip.decompress(sys_path("/proc/config.gz").read_bytes()).decode(errors="replace")
    except (OSError, EOFError):
        if release is not None and os.sep not in release:
            with contextlib.suppress(OSError):
                path = sys_path(f"/boot/config-{release}")
                text = path.read_text(encoding="utf-8", errors="replace")
    return None if text is None else f"\n{option}=y\n" in text
