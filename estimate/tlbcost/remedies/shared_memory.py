# SPDX-License-Identifier: GPL-2.0-or-later
"""How does shared memory get onto huge pages: files on tmpfs, memfd, System V, MAP_SHARED?

Proven by tests/bats/remedies.bats: a tmpfs gives them by its own option huge=, to files written
after it is set; all other shared memory goes by shmem_enabled.
"""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath

from tlbcost.attribution.shares import RegionShare
from tlbcost.common import names
from tlbcost.memory.eligibility import Standing
from tlbcost.remedies.anonymous import map_hugetlb
from tlbcost.remedies.remedy import (
    HUGECTL,
    THP_GUIDE,
    TMPFS,
    Remedy,
    advised,
    mode_remedy,
    mounting,
    pooled,
    transparent,
    unmounting,
)
from tlbcost.remedies.situation import Situation, own_command, with_pool
from tlbcost.system import filesystems, hints, hugetlb
from tlbcost.system.machine import read_line

HUGETLBFS = "https://docs.kernel.org/admin-guide/mm/hugetlbpage.html"
MEMFD = "https://man7.org/linux/man-pages/man2/memfd_create.2.html"
SHMGET = "https://man7.org/linux/man-pages/man2/shmget.2.html"
_DELETED = " (deleted)"
_TMPFS_FOLDER = "/mnt/tlbcost-tmpfs"
_HUGETLBFS_FOLDER = "/mnt/tlbcost-hugetlbfs"


def remedies_for(
    region: RegionShare, standing: Standing | None, situation: Situation
) -> list[Remedy]:
    if region.kind == "tmpfs":
        found = [
            _madvise(region, standing, situation),
            _own_tmpfs(region, situation),
            _remount(region, situation),
            _hugetlbfs(region, situation),
        ]
    else:
        found = [
            _madvise(region, standing, situation),
            _hugectl_shm(region, situation) if region.kind == "sysv" else None,
            _shmem_enabled(region, situation),
            _code(region, situation),
        ]
    return [remedy for remedy in found if remedy is not None]


def _size_option(region: RegionShare, situation: Situation) -> tuple[int, str]:
    """Whole huge pages that hold it, and their bytes as mount(8) takes them."""
    pages = situation.pages_of(region.mapped_bytes)
    return pages, hugetlb.size_name(pages * situation.huge_page_bytes)


def _moved(region: RegionShare, folder: str, situation: Situation) -> tuple[str, ...]:
    """The command with the file in another folder, if the command names it."""
    path = region.name.removesuffix(_DELETED)
    other = f"{folder}/{PurePosixPath(path).name}"
    if any(path in word for word in situation.argv):
        return (names.command_line(word.replace(path, other) for word in situation.argv),)
    return (f"# then let the program keep {path} in {folder}:", situation.command)


def _own_tmpfs(region: RegionShare, situation: Situation) -> Remedy | None:
    if situation.settings.thp is None or situation.settings.shmem == "deny":
        return None
    # Room for another file of that size, and for what a program writes as well.
    _, size = _size_option(region, situation)
    room = hugetlb.size_name(2 * (hugetlb.parse_bytes(size) or 0))
    return transparent(
        "tmpfs-huge",
        "command",
        "a tmpfs of its own that is mounted with huge pages holds the file",
        (
            *mounting("tmpfs", f"huge=always,mode=1777,size={room}", _TMPFS_FOLDER),
            *_moved(region, _TMPFS_FOLDER, situation),
        ),
        [region],
        situation,
        undo=unmounting(_TMPFS_FOLDER),
        source=TMPFS,
    )


def _remount(region: RegionShare, situation: Situation) -> Remedy | None:
    """For a file whose place cannot be chosen."""
    settings = situation.settings
    mount = filesystems.holding(
        settings.mounts, region.name, region.backed.device if region.backed else None
    )
    if mount is None or mount.kind != "tmpfs" or settings.thp is None or settings.shmem == "deny":
        return None
    if mount.huge not in ("never", "advise"):
        return None
    folder = shlex.quote(mount.folder)
    return transparent(
        "tmpfs-remount",
        "setting",
        f"every file written to {mount.folder} from then on gets huge pages within its length",
        (
            hints.as_root(f"mount -o remount,huge=within_size {folder}"),
            situation.command,
        ),
        [region],
        situation,
        undo=(hints.as_root(f"mount -o remount,huge={mount.huge} {folder}"),),
        caution="a file that is there already stays as it is: it has to be written anew",
        source=TMPFS,
    )


def _hugetlbfs(region: RegionShare, situation: Situation) -> Remedy | None:
    pages, _ = _size_option(region, situation)
    # One more: a program that rounds up, or asks for a page to try it.
    pages += 1
    if not situation.can_pool(pages):
        return None
    size = hugetlb.size_name(situation.huge_page_bytes)
    reserve = f"{own_command()} pool reserve --page-size {size} {pages}"
    return pooled(
        "hugetlbfs",
        "command",
        f"a hugetlbfs holds the file: its length has to be a multiple of {size}, and it can be "
        "mapped but not written with write(2)",
        (
            hints.as_root(reserve),
            *mounting("hugetlbfs", f"pagesize={size},mode=1777", _HUGETLBFS_FOLDER),
            *_moved(region, _HUGETLBFS_FOLDER, situation),
        ),
        [region],
        situation,
        pages=pages,
        undo=(
            *unmounting(_HUGETLBFS_FOLDER),
            hints.as_root(f"{own_command()} pool restore"),
        ),
        source=HUGETLBFS,
    )


def _madvise(region: RegionShare, standing: Standing | None, situation: Situation) -> Remedy | None:
    if standing is None or standing.reason not in ("tmpfs_advise", "shmem_advise"):
        return None
    words = "behind the mmap, before the memory is touched"
    return advised(words, [region], situation, THP_GUIDE)


def _shmem_enabled(region: RegionShare, situation: Situation) -> Remedy | None:
    mode = situation.settings.shmem
    if situation.settings.thp is None or mode not in ("never", "advise", "deny"):
        return None
    return mode_remedy(
        "shmem-enabled",
        "shared memory of every program gets transparent huge pages within its length",
        (mode, "within_size"),
        [region],
        situation,
        "shmem_enabled",
    )


def _hugectl_shm(region: RegionShare, situation: Situation) -> Remedy | None:
    pages = _size_option(region, situation)[0] + 1
    if not situation.hugectl or not situation.can_pool(pages):
        return None
    group: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    before = read_line("/proc/sys/vm/hugetlb_shm_group")
    if not hints.is_root() and before is not None:
        group = (
            "# segments of huge pages are for root and this group:",
            hints.as_root("sysctl vm.hugetlb_shm_group=$(id -g)"),
        )
        undo = (hints.as_root(f"sysctl vm.hugetlb_shm_group={before}"),)
    return pooled(
        "hugectl-shm",
        "command",
        "libhugetlbfs takes System V segments from a pool",
        (*group, with_pool(situation, pages, f"hugectl --shm {situation.command}")),
        [region],
        situation,
        pages=pages,
        undo=undo,
        source=HUGECTL,
    )


def _code(region: RegionShare, situation: Situation) -> Remedy | None:
    if region.kind == "shared":
        return map_hugetlb([region], situation, "MAP_SHARED")
    pages = _size_option(region, situation)[0]
    if not situation.can_pool(pages):
        return None
    line, source = "shmget(key, length, IPC_CREAT | SHM_HUGETLB | 0600);", SHMGET
    if region.kind == "memfd":
        line, source = "memfd_create(name, MFD_HUGETLB);", MEMFD
    return pooled(
        f"{region.kind}-hugetlb",
        "code",
        "instead of the call, with a length of whole huge pages, and the pool below",
        (line, f"# {with_pool(situation, pages, situation.command)}"),
        [region],
        situation,
        pages=pages,
        source=source,
    )
