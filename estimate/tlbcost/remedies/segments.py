# SPDX-License-Identifier: GPL-2.0-or-later
"""Remedies for a program's code, static data, mapped files and shared memory.

Proven by tests/bats/remedies.bats: code whose segments are aligned to a huge page lies on huge
pages of a tmpfs that gives them; libhugetlbfs moves segments that are linked for it; ext4 and xfs
read a file onto huge pages where the mapping asks for them before it is cached.

Proven by tests/bats/remedies.bats: a tmpfs gives them by its own option huge=, to files written
after it is set; all other shared memory goes by shmem_enabled.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import PurePosixPath

from tlbcost.allocators.recognise import Program
from tlbcost.attribution.document import RegionShare
from tlbcost.common import names, units
from tlbcost.memory.eligibility import Standing
from tlbcost.remedies.anonymous import map_hugetlb
from tlbcost.remedies.remedy import (
    HUGECTL,
    MADVISE,
    THP_GUIDE,
    TMPFS,
    Remedy,
    Situation,
    advised,
    allowing,
    mode_remedy,
    mounting,
    own_command,
    pooled,
    transparent,
    trial_with,
    unmounting,
    with_pool,
)
from tlbcost.system import hints, huge_pages
from tlbcost.system.machine import read_line

LD_HUGETLBFS = "https://man7.org/linux/man-pages/man1/ld.hugetlbfs.1.html"
_FOLDER = "/mnt/tlbcost-code"
_HUGETLBFS = "/mnt/tlbcost-hugetlbfs"


def remedies_for(
    region: RegionShare, program: Program, standing: Standing | None, situation: Situation
) -> list[Remedy]:
    if region.kind == "file":
        found = [_khugepaged(region, situation), _advised_file(region, situation)]
    elif region.code:
        found = [
            _khugepaged(region, situation),
            _run_thp_text(region, situation),
            _code_on_tmpfs(region, program, situation),
            _hugectl(region, program, situation, "--text"),
        ]
    else:
        found = [
            _static_madvise(region, standing, situation),
            _hugectl(region, program, situation, "--bss --data"),
            _static_always(region, standing, situation),
        ]
    return [remedy for remedy in found if remedy is not None]


def _run_thp_text(region: RegionShare, situation: Situation) -> Remedy | None:
    first = ((), ()) if situation.settings.thp == "always" else allowing(situation)
    # A whole huge page of it is sure from two on.
    too_small = region.mapped_bytes < 2 * situation.huge_page_bytes
    if first is None or too_small or not situation.can_run_thp:
        return None
    steps, undo = first
    return transparent(
        "run-thp-text",
        "command",
        "tlbcost copies the code to huge pages as the program starts",
        (*steps, f"tlbcost run --thp --text -- {situation.command}"),
        [region],
        situation,
        undo=undo,
        caution="profilers see such code without its file's name",
        source=None,
        proof=trial_with(situation, "run-thp-text"),
    )


def _code_on_tmpfs(region: RegionShare, program: Program, situation: Situation) -> Remedy | None:
    settings = situation.settings
    if settings.thp is None or settings.shmem == "deny":
        return None
    alignment = program.load_alignment
    aligned = alignment is not None and alignment % situation.huge_page_bytes == 0
    name = PurePosixPath(region.program).name
    other = f"{_FOLDER}/{name}"
    command = f"# then let {situation.command} start {other}"
    if shutil.which(situation.argv[0]) and name == PurePosixPath(situation.argv[0]).name:
        command = names.command_line([other, *situation.argv[1:]])
    steps: list[str] = []
    if not aligned:
        steps += [
            "# link the program again, with:",
            f"-Wl,-z,max-page-size={situation.huge_page_bytes}",
        ]
    steps += [
        *mounting("tmpfs", "huge=always,mode=1777", _FOLDER),
        f"cp {names.command_line([region.program])} {_FOLDER}/",
        command,
    ]
    return transparent(
        "code-on-tmpfs",
        "command" if aligned else "build",
        "the program starts from a tmpfs with huge pages, with its code aligned to them",
        tuple(steps),
        [region],
        situation,
        undo=unmounting(_FOLDER),
        caution="whole huge pages of the code alone get there, so that code of less gains nothing",
        source=TMPFS,
    )


def _hugectl(
    region: RegionShare, program: Program, situation: Situation, options: str
) -> Remedy | None:
    """libhugetlbfs copies segments to a pool when the program starts, if it is linked for it."""
    # The file that the segment is copied to holds its code, and the private mapping of that file
    # reserves as many again; of data a part is copied. Segments begin and end at whole pages.
    pages = situation.pages_of(region.mapped_bytes) * (1 + region.code) + 8
    if not situation.hugectl or not situation.can_pool(pages):
        return None
    if not program.movable and shutil.which("ld.hugetlbfs") is None:
        return None
    steps: list[str] = []
    if not program.movable:
        steps += [
            "# link the program again, in a folder where ld is ld.hugetlbfs, with:",
            "mkdir -p hugetlbfs-ld && ln -sfn $(command -v ld.hugetlbfs) hugetlbfs-ld/ld",
            "-B hugetlbfs-ld -fno-pie -no-pie -Wl,-z,noseparate-code -Wl,--no-as-needed "
            "-Wl,--hugetlbfs-align",
        ]
    size = huge_pages.size_name(situation.huge_page_bytes)
    undo: tuple[str, ...] = ()
    if not any(
        mount.page_size_bytes == situation.huge_page_bytes
        for mount in situation.settings.hugetlb_mounts
    ):
        undo = unmounting(_HUGETLBFS)
        steps += mounting("hugetlbfs", f"pagesize={size},mode=1777", _HUGETLBFS)
    steps.append(with_pool(situation, pages, f"hugectl {options} {situation.command}"))
    what = "code" if options == "--text" else "static data"
    return pooled(
        "hugectl-text" if options == "--text" else "hugectl-data",
        "command" if program.movable else "build",
        f"libhugetlbfs copies the {what} to pages of a pool when the program starts",
        tuple(steps),
        [region],
        situation,
        pages=pages,
        undo=undo,
        source=HUGECTL if program.movable else LD_HUGETLBFS,
    )


def _khugepaged(region: RegionShare, situation: Situation) -> Remedy | None:
    """A kernel that puts code of files onto huge pages does so where all memory may have them."""
    settings = situation.settings
    if not settings.files or not region.code or settings.thp in (None, "always"):
        return None
    return mode_remedy(
        "thp-always",
        "khugepaged puts code of files onto huge pages, some minutes after it was started",
        (settings.thp, "always"),
        [region],
        situation,
    )


def _advised_file(region: RegionShare, situation: Situation) -> Remedy | None:
    """A file on storage whose file system reads it onto huge pages where it is asked to."""
    device = region.backed.device if region.backed else None
    mount = huge_pages.holding(situation.settings.mounts, region.name, device)
    if mount is None or not huge_pages.advisable(mount.kind, situation.settings.kernel):
        return None
    if situation.settings.thp is None or region.code:
        return None
    path = names.command_line([region.name])
    return transparent(
        "madvise-file",
        "code",
        "behind the mmap; what of the file is cached already stays as it is, and is dropped by "
        "the second line",
        (
            "madvise(address, length, MADV_HUGEPAGE);",
            f"# dd of={path} oflag=nocache conv=notrunc,fdatasync count=0",
        ),
        [region],
        situation,
        source=MADVISE,
    )


def _static_madvise(
    region: RegionShare, standing: Standing | None, situation: Situation
) -> Remedy | None:
    if situation.settings.thp != "madvise" or (standing and standing.reason == "too_small"):
        return None
    huge = situation.huge_page_bytes
    return transparent(
        "madvise",
        "code",
        f"when the program starts, for an array aligned to {units.size(huge)} "
        f"(__attribute__((aligned(1 << {huge.bit_length() - 1}))))",
        ("madvise(array, sizeof(array), MADV_HUGEPAGE);",),
        [region],
        situation,
        source=MADVISE,
    )


def _static_always(
    region: RegionShare, standing: Standing | None, situation: Situation
) -> Remedy | None:
    thp = situation.settings.thp
    if thp not in ("madvise", "never") or (standing and standing.reason == "too_small"):
        return None
    return mode_remedy(
        "thp-always",
        "large static arrays get transparent huge pages, as all memory of every program",
        (thp, "always"),
        [region],
        situation,
    )


HUGETLBFS = "https://docs.kernel.org/admin-guide/mm/hugetlbpage.html"
MEMFD = "https://man7.org/linux/man-pages/man2/memfd_create.2.html"
SHMGET = "https://man7.org/linux/man-pages/man2/shmget.2.html"
_DELETED = " (deleted)"
_TMPFS_FOLDER = "/mnt/tlbcost-tmpfs"
_HUGETLBFS_FOLDER = "/mnt/tlbcost-hugetlbfs"


def shared_remedies_for(
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
    return pages, huge_pages.size_name(pages * situation.huge_page_bytes)


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
    room = huge_pages.size_name(2 * (huge_pages.parse_bytes(size) or 0))
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
    mount = huge_pages.holding(
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
    size = huge_pages.size_name(situation.huge_page_bytes)
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
