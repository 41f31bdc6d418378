# SPDX-License-Identifier: GPL-2.0-or-later
"""Where can we open a file that a process has mapped? A container has other files by that name."""

from __future__ import annotations

import contextlib
from pathlib import Path


def mapped_file(pid: int, name: str, inode: int, start: int, end: int) -> str:
    """A path of ours for the file that process `pid` has mapped at [start, end) by this name.

    `inode` as in /proc/PID/maps. If it is in a file system that is not ours and cannot be reached,
    the path is never one of another file.
    """
    inside = f"/proc/{pid}/root{name}"
    for path in (name, inside, f"/proc/{pid}/map_files/{start:x}-{end:x}"):
        with contextlib.suppress(OSError, ValueError):
            if Path(path).stat().st_ino == inode:
                return path
    return inside if _has_other_files(pid) else name


def _has_other_files(pid: int) -> bool:
    """Whether it has mounts of its own; not known of one that has ended."""
    try:
        return Path(f"/proc/{pid}/ns/mnt").readlink() != Path("/proc/self/ns/mnt").readlink()
    except OSError:
        return False
