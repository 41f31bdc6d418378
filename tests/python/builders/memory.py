# SPDX-License-Identifier: GPL-2.0-or-later
"""A made-up mapping, and the settings of a made-up system."""

from __future__ import annotations

from dataclasses import replace

from tlbcost.memory.kinds import Backing
from tlbcost.system.filesystems import FileSystem
from tlbcost.system.huge_pages import HugeSettings

HUGE = 2 << 20
SIZE = 64 << 20
START = 0x7F0000000000
MOUNTS = (
    FileSystem("/", "ext4", (254, 0)),
    FileSystem("/dev/shm", "tmpfs", (0, 23), "never"),
    FileSystem("/srv/advise", "tmpfs", (0, 24), "advise"),
    FileSystem("/srv/always", "tmpfs", (0, 25), "always"),
)
SETTINGS = HugeSettings(
    HUGE, "madvise", "madvise", "never", files=False, kernel=(6, 18), mounts=MOUNTS
)


def backed(**changes: object) -> Backing:
    """64 MiB of base pages at a huge page's boundary, readable and writable."""
    made = Backing(START, START + SIZE, "rw-p", SIZE, 0, 4096, False, (), 0, (0, 0))
    return replace(made, **changes)  # type: ignore[arg-type]
