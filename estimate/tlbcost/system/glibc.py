# SPDX-License-Identifier: GPL-2.0-or-later
"""Which C library is this, and which switches for huge pages does its malloc have?"""

from __future__ import annotations

import os
import re

# The first version with the tunable glibc.malloc.hugetlb.
FIRST_WITH_HUGETLB = (2, 35)
# The first version without the hook that `hugectl --heap` needs.
FIRST_WITHOUT_HOOK = (2, 34)

TUNABLES = "GLIBC_TUNABLES"
HUGETLB = "glibc.malloc.hugetlb"
MMAP_THRESHOLD = "glibc.malloc.mmap_threshold"


def glibc_version() -> tuple[int, int] | None:
    """Major and minor version; None: this C library is not glibc."""
    try:
        name = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        return None
    version = re.match(r"glibc (\d+)\.(\d+)", name)
    return (int(version[1]), int(version[2])) if version else None


def tunable(tunables: str, name: str) -> str | None:
    """The value of one tunable in GLIBC_TUNABLES; the last one wins, as in glibc."""
    value = None
    for part in tunables.split(":"):
        key, equals, text = part.partition("=")
        if equals and key == name:
            value = text
    return value
