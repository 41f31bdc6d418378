# SPDX-License-Identifier: GPL-2.0-or-later
"""Huge pages of this system: what it allows, its pools, and the file systems of mapped files.

Read below $TLBCOST_ROOT; changes nothing.
"""

from __future__ import annotations

import gzip
import math
import mmap
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from tlbcost.common import units
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.paths import sys_path
from tlbcost.system import process
from tlbcost.system.machine import (
    POOLS,
    THP,
    huge_page_bytes,
    meminfo_bytes,
    read_line,
    read_number,
    read_text,
    selected,
    sizes_below,
)
from tlbcost.system.process import thp_enabled

# The first Linux in which an advised mapping (MADV_HUGEPAGE) gets huge pages in the file's page
# cache: file systems with large folios (5.18 for mappings, and each since it supports them).
_ADVISABLE = {"xfs": (5, 18), "ext4": (6, 16)}
_DELETED = " (deleted)"
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


@dataclass(frozen=True, slots=True)
class FileSystem:
    """One mount. `huge`: tmpfs's option of that name; without one it is never.

    `device`: (major, minor), as in mappings of its files.
    """

    folder: str
    kind: str
    device: tuple[int, int]
    huge: str | None = None


def mounted(pid: int | None = None) -> tuple[FileSystem, ...]:
    """What is mounted, as this process sees it, the latest last; empty if not known."""
    text = read_text(f"/proc/{pid or 'self'}/mountinfo") or ""
    found = (_parse(line) for line in text.splitlines())
    return tuple(each for each in found if each is not None)


def _parse(line: str) -> FileSystem | None:
    """One line of mountinfo: a hyphen separates its fields from the file system's."""
    own, separator, rest = line.partition(" - ")
    fields, kinds = own.split(), rest.split()
    device = re.fullmatch(r"(\d{1,9}):(\d{1,9})", fields[2]) if len(fields) > 4 else None
    if not separator or device is None or not kinds:
        return None
    option: str | None = None
    if kinds[0] == "tmpfs":
        huge = re.search(r"(?:^|,)huge=(\w+)", kinds[-1])
        option = huge[1] if huge else "never"
    return FileSystem(unescaped(fields[4]), kinds[0], (int(device[1]), int(device[2])), option)


def unescaped(word: str) -> str:
    """A field of mountinfo or mounts, whose blanks and backslashes are octal there."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), word)


def holding(
    mounts: Iterable[FileSystem], path: str, device: tuple[int, int] | None
) -> FileSystem | None:
    """The file system of a mapped file: by its device, else by its path; None: not among them.

    Some (btrfs, overlayfs) report other devices in mappings than in mounts.
    """
    best: FileSystem | None = None
    name = PurePosixPath(path.removesuffix(_DELETED))
    for mount in mounts:
        if device is not None and device != (0, 0) and mount.device == device:
            best = mount if best is None or best.device != device else _nearer(best, mount, name)
        elif (best is None or best.device != device) and name.is_relative_to(mount.folder):
            best = mount if best is None else _nearer(best, mount, name)
    return best


def _nearer(one: FileSystem, other: FileSystem, name: PurePosixPath) -> FileSystem:
    """Of two mounts the one whose folder is the longer part of the path; the later one if equal."""
    if not name.is_relative_to(other.folder):
        return one
    parts = len(PurePosixPath(one.folder).parts) if name.is_relative_to(one.folder) else 0
    return other if len(PurePosixPath(other.folder).parts) >= parts else one


def advisable(kind: str, kernel: tuple[int, int] | None) -> bool:
    """Whether madvise(MADV_HUGEPAGE) makes the kernel read files there onto huge pages."""
    since = _ADVISABLE.get(kind)
    return since is not None and kernel is not None and kernel >= since


_NODES = "/sys/devices/system/node"
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# What huge pages must leave for everything else: the machine still has to run the program.
_LEAST_LEFT_BYTES = 256 << 20
_LEAST_LEFT_FRACTION = 0.05
# What malloc needs beyond the memory of a run on base pages: rounding up in each arena, and blocks
# that the program never touches.
_SPARE_FRACTION = 8
_SPARE_PAGES = 16
# For pages of this size and above, one is spare.
_LARGE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool. `pages` includes `surplus`; `reserved` are promised and not touched yet.

    None: the kernel does not report it.
    """

    page_size_bytes: int
    pages: int | None
    free: int | None
    reserved: int | None
    surplus: int | None


def sizes() -> list[int]:
    return sizes_below(POOLS)


def pool_pages(peak_bytes: int, size: int) -> int:
    """Huge pages of `size` bytes that hold a program with this peak of resident memory."""
    needed = math.ceil(peak_bytes / size)
    spare = _SPARE_PAGES if size < _LARGE_BYTES else 1
    return needed + max(spare, needed // _SPARE_FRACTION)


def pool(page_size_bytes: int) -> Pool:
    files = (pool_file(page_size_bytes, name) for name in ("nr", "free", "resv", "surplus"))
    return Pool(page_size_bytes, *map(read_number, files))


def free_pages(page_size_bytes: int) -> int:
    """Pages of this size that a program could have now; 0 without such a pool."""
    names = ("free", "resv", "nr_overcommit", "surplus")
    free, reserved, over, surplus = (
        read_number(pool_file(page_size_bytes, name)) or 0 for name in names
    )
    return max(free - reserved, 0) + max(over - surplus, 0)


def default_page_bytes() -> int | None:
    return meminfo_bytes("Hugepagesize")


def pool_file(page_size_bytes: int, name: str = "nr") -> str:
    return f"{POOLS}/hugepages-{page_size_bytes >> 10}kB/{name}_hugepages"


def size_files(page_size_bytes: int) -> list[str]:
    """One file, or one for each memory node: a restored sum alone would not restore these."""
    name = f"hugepages-{page_size_bytes // 1024}kB"
    found = sys_path(_NODES).glob(f"node[0-9]*/hugepages/{name}/nr_hugepages")
    nodes = sorted(int(path.parts[-4].removeprefix("node")) for path in found)
    if len(nodes) < 2:
        return [pool_file(page_size_bytes)]
    return [f"{_NODES}/node{node}/hugepages/{name}/nr_hugepages" for node in nodes]


def spare_bytes() -> int | None:
    """Bytes that huge pages may use; None if the kernel does not report MemAvailable."""
    available, total = meminfo_bytes("MemAvailable"), meminfo_bytes("MemTotal")
    if available is None or total is None:
        return None
    left = max(_LEAST_LEFT_BYTES, round(total * _LEAST_LEFT_FRACTION))
    return max(0, available - left)


def whole_free(page_size_bytes: int) -> int | None:
    """Huge pages that are free in one piece; others need compaction first. None: not known."""
    text, free = read_text("/proc/buddyinfo"), 0
    for line in (text or "").splitlines():
        # "Node 0, zone Normal 1 2 ...": blocks of 1, 2, 4, ... base pages. No program gets DMA's.
        zone, *blocks = line.partition("zone")[2].split()
        sizes = enumerate(map(int, blocks), mmap.PAGESIZE.bit_length() - 1)
        if zone != "DMA":
            free += sum(count * ((1 << shift) // page_size_bytes) for shift, count in sizes)
    return free if text else None


def cgroup_spare_bytes(page_size_bytes: int) -> int | None:
    """Bytes of huge pages that this process's cgroups still allow; None: no limit."""
    name = f"hugetlb.{size_name(page_size_bytes)}B"
    spare = []
    for folder, mount, version in process.folders("hugetlb"):
        for each in (folder, *folder.parents):
            for part in ("", ".rsvd"):
                if version == 1:
                    limit, used = f"{part}.limit_in_bytes", f"{part}.usage_in_bytes"
                else:
                    limit, used = f"{part}.max", f"{part}.current"
                most = process.number_in(each / (name + limit))
                if most is not None and most < process.NO_LIMIT_BYTES:
                    now = process.number_in(each / (name + used)) or 0
                    spare.append(max(0, most - now))
            if each == mount:
                break
    return min(spare) if spare else None


def check_spare(page_size_bytes: int, pages: int) -> None:
    """Refuse pages that the machine cannot spare. Raises TlbcostError with exit code 4."""
    known = sizes()
    what = describe(pages, page_size_bytes)
    if page_size_bytes not in known:
        raise TlbcostError(
            f"cannot reserve {what}: this kernel has no pool of that size",
            "page sizes with a pool here: " + (", ".join(map(size_name, known)) or "none"),
            CANNOT_MEASURE,
        )
    machine = spare_bytes()
    if machine is None:
        raise TlbcostError(
            f"cannot reserve {what}: the kernel does not report MemAvailable, so it is unknown "
            "how much it can spare",
            None,
            CANNOT_MEASURE,
        )
    limit = cgroup_spare_bytes(page_size_bytes)
    for spare, who in ((machine, "this machine"), (limit, "the hugetlb limit of this cgroup")):
        if spare is not None and spare < pages * page_size_bytes:
            most = spare // page_size_bytes
            raise TlbcostError(
                f"cannot reserve {what}: {who} can spare {most}",
                "reserve fewer, or give the program a smaller input" if most else None,
                CANNOT_MEASURE,
            )


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted hugetlbfs."""

    folder: str
    page_size_bytes: int | None


def mounts() -> list[Mount]:
    """The hugetlbfs that are mounted, as this process sees them; the latest last."""
    found = []
    for line in (read_text("/proc/self/mounts") or "").splitlines():
        fields = line.split()
        if len(fields) < 4 or fields[2] != "hugetlbfs":
            continue
        size = re.search(r"(?:^|,)pagesize=(\d+)([KMG])", fields[3])
        n_bytes = int(size[1]) * _UNITS[size[2]] if size else meminfo_bytes("Hugepagesize")
        found.append(Mount(unescaped(fields[1]), n_bytes))
    return found


def size_name(page_size_bytes: int) -> str:
    """'64K', '2M', '1G', as hugeadm and mount(8) write page sizes; cgroups add a B."""
    for unit in ("G", "M", "K"):
        if page_size_bytes % _UNITS[unit] == 0:
            return f"{page_size_bytes // _UNITS[unit]}{unit}"
    return str(page_size_bytes)


def parse_bytes(text: str) -> int | None:
    """Bytes of '2M', '2MB', '2MiB', '1G'; None if it is no size with a unit."""
    size = re.fullmatch(r"(\d+)([KMG])(?:i?B)?", text, re.IGNORECASE | re.ASCII)
    return int(size[1]) * _UNITS[size[2].upper()] if size else None


def describe(pages: int, page_size_bytes: int) -> str:
    """'16 pages of 2 MiB'."""
    return f"{pages} page{'' if pages == 1 else 's'} of {units.size(page_size_bytes)}"


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
    pools: tuple[Pool, ...] = ()
    hugetlb_mounts: tuple[Mount, ...] = ()

    @property
    def compaction(self) -> str | None:
        """What a page fault does for a huge page where none is free; None: not known."""
        return _DEFRAG.get(self.defrag or "")


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
        mounts=mounted(pid),
        pools=tuple(pool(each) for each in sizes()),
        hugetlb_mounts=tuple(mounts()),
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


def kernel_counts() -> dict[str, int]:
    """The work of the whole system's kernel on huge pages and compaction, since it booted."""
    text = read_text("/proc/vmstat") or ""
    found = re.findall(
        r"^((?:thp_(?:fault|collapse|split)|compact)_\w+) (\d+)$", text, re.MULTILINE
    )
    return {name: int(count) for name, count in found}


def fallbacks() -> int | None:
    """Page faults of the whole system that failed to get a transparent huge page."""
    return kernel_counts().get("thp_fault_fallback")


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
