# SPDX-License-Identifier: GPL-2.0-or-later
"""Anonymous memory that glibc's malloc mapped.

It writes the size of each block that it maps before the block, at the start of the mapping, with a
bit that says that it was mapped (malloc/malloc.c, IS_MMAPPED). That distinguishes large arrays of
malloc from memory that a program or a runtime maps for itself.
"""

from __future__ import annotations

import dataclasses
import os
import struct
from collections.abc import Sequence
from pathlib import Path

from tlbcost.memory import smaps
from tlbcost.memory.smaps import Mapping

# The least that malloc maps by default, and the size and flags of a block in its header.
_LEAST_BYTES = 128 << 10
_HEADER = struct.Struct("=QQ")
_FLAGS, _MAPPED, _PAGE = 7, 2, 4096
# Those with the most memory on base pages decide what is advised.
_MOST_MAPPINGS = 32
# A page that userfaultfd is to fill would keep the reader waiting.
_USERFAULTFD = frozenset({"um", "uw", "ui"})


def with_malloc_blocks(pid: int, mappings: Sequence[Mapping]) -> list[Mapping]:
    """The mappings, the largest with the size of the block that they begin with, where readable."""
    asked = sorted(filter(_may_be, mappings), key=_base_bytes, reverse=True)[:_MOST_MAPPINGS]
    if not asked:
        return list(mappings)
    try:
        memory = os.open(Path(f"/proc/{pid}/mem"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return list(mappings)
    try:
        found = {each.start: _block_bytes(memory, each) for each in asked}
    finally:
        os.close(memory)
    return [
        dataclasses.replace(each, malloc_block_bytes=found[each.start])
        if each.start in found
        else each
        for each in mappings
    ]


def _may_be(mapping: Mapping) -> bool:
    return (
        mapping.name == smaps.UNNAMED
        and mapping.kind == "anonymous"
        and mapping.permissions == "rw-p"
        and mapping.size_bytes >= _LEAST_BYTES
        and _base_bytes(mapping) > 0
        and not _USERFAULTFD & set(mapping.flags or ())
    )


def _base_bytes(mapping: Mapping) -> int:
    return mapping.resident_bytes - mapping.huge_bytes


def _block_bytes(memory: int, mapping: Mapping) -> int | None:
    try:
        header = os.pread(memory, _HEADER.size, mapping.start)
    except OSError:
        return None
    if len(header) < _HEADER.size:
        return None
    _, word = _HEADER.unpack(header)
    size = word & ~_FLAGS
    is_block = word & _FLAGS == _MAPPED and size % _PAGE == 0 and size >= _PAGE
    return size if is_block and size <= mapping.size_bytes else 0
