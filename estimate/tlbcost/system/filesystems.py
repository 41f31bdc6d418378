# SPDX-License-Identifier: GPL-2.0-or-later
"""On which file system is a mapped file, and how is that mounted?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from tlbcost.system.machine import read_text

# The first Linux in which an advised mapping (MADV_HUGEPAGE) gets huge pages in the file's page
# cache: file systems with large folios (5.18 for mappings, and each since it supports them).
_ADVISABLE = {"xfs": (5, 18), "ext4": (6, 16)}
_DELETED = " (deleted)"


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
