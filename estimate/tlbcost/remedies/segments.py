# SPDX-License-Identifier: GPL-2.0-or-later
"""How do a program's code, its static data and mapped files get onto huge pages?

Proven by tests/bats/remedies.bats: code whose segments are aligned to a huge page lies on huge
pages of a tmpfs that gives them; libhugetlbfs moves segments that are linked for it; ext4 and xfs
read a file onto huge pages where the mapping asks for them before it is cached.
"""

from __future__ import annotations

import shutil
from pathlib import PurePosixPath

from tlbcost.allocators.recognise import Program
from tlbcost.attribution.shares import RegionShare
from tlbcost.common import names, units
from tlbcost.memory.eligibility import Standing
from tlbcost.remedies.remedy import (
    HUGECTL,
    MADVISE,
    TMPFS,
    Remedy,
    mode_remedy,
    mounting,
    pooled,
    transparent,
    unmounting,
)
from tlbcost.remedies.situation import Situation, with_pool
from tlbcost.system import filesystems, hugetlb

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
    size = hugetlb.size_name(situation.huge_page_bytes)
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
    mount = filesystems.holding(situation.settings.mounts, region.name, device)
    if mount is None or not filesystems.advisable(mount.kind, situation.settings.kernel):
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
