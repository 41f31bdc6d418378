# SPDX-License-Identifier: GPL-2.0-or-later
"""Stacks of page walks as a pprof profile (profile.proto of github.com/google/pprof), gzipped.

Numbers of fields are those of that file. Addresses are none of the program's: its lines are known.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from typing import TypeVar

from tlbcost.simulator.memory_tables import ImageAttribution, SourceLocation
from tlbcost.symbols.elf import build_id_of

_Key = TypeVar("_Key")


class _Profile:
    """Each string, mapping, function and location is written once; a number says which it is."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._strings = {"": 0}
        self._mappings: dict[str, int] = {}
        self._functions: dict[tuple[str, str | None], int] = {}
        self._locations: dict[tuple[int, int, int], int] = {}

    def string(self, text: str | None) -> int:
        return self._strings.setdefault(text or "", len(self._strings))

    def location(self, site: SourceLocation) -> int:
        key = self._mapping(site.object or "[unknown]"), self._function(site), site.line or 0
        number, new = _number(self._locations, key)
        if new:
            line = _fields([(1, key[1]), (2, key[2])])
            self.parts.append(_message(4, [(1, number), (2, key[0]), (4, line)]))
        return number

    def sample(self, frames: Sequence[SourceLocation], values: list[int]) -> None:
        places = [self.location(frame) for frame in frames]
        packed = [(n, b"".join(map(_varint, part))) for n, part in ((1, places), (2, values))]
        self.parts.append(_message(2, packed))

    def _mapping(self, path: str) -> int:
        number, new = _number(self._mappings, path)
        if new:
            names = [(5, self.string(path)), (6, self.string(build_id_of(path)))]
            has_all = [(field, 1) for field in (7, 8, 9, 10)]
            self.parts.append(_message(3, [(1, number), *names, *has_all]))
        return number

    def _function(self, site: SourceLocation) -> int:
        name = site.function or site.variable or "[unknown]"
        number, new = _number(self._functions, (name, site.file))
        if new:
            names = [(2, self.string(name)), (3, self.string(name)), (4, self.string(site.file))]
            self.parts.append(_message(5, [(1, number), *names]))
        return number

    def strings(self) -> Iterable[bytes]:
        return (_field(6, text.encode(errors="replace")) for text in self._strings)


def _number(known: dict[_Key, int], key: _Key) -> tuple[int, bool]:
    """From 1 on, and whether it is new."""
    new = key not in known
    return known.setdefault(key, len(known) + 1), new


def pprof(images: Sequence[ImageAttribution], stall_ns: float | None) -> bytes:
    """Samples `walks/count` and `huge_walks/count`, with `stall_ns` also `stall/nanoseconds`.

    `stall_ns`: the time in translation on base pages, which is divided by their walks. Where
    allocations were recorded, `waste/bytes`: what huge pages add there, at the call.
    """
    profile = _Profile()
    wasted = [site for image in images for site in image.sites if site.growth_bytes]
    kinds = [("walks", "count"), ("huge_walks", "count")]
    kinds += [] if stall_ns is None else [("stall", "nanoseconds")]
    kinds += [("waste", "bytes")] if wasted else []
    for kind in kinds:
        numbers = [(n, profile.string(text)) for n, text in enumerate(kind, start=1)]
        profile.parts.append(_message(1, numbers))
    stacks = [stack for image in images for stack in image.stacks]
    walks = sum(stack.base_walks for stack in stacks) or 1
    unknown = SourceLocation(None, None, None, None)
    for stack in stacks:
        values = [stack.base_walks, stack.huge_walks]
        if stall_ns is not None:
            values.append(round(stall_ns * stack.base_walks / walks))
        profile.sample(stack.frames or (unknown,), values + [0] * bool(wasted))
    for site in wasted:
        profile.sample((site.site,), [0] * (len(kinds) - 1) + [site.growth_bytes or 0])
    profile.parts.append(_field(14, profile.string("walks")))
    return gzip.compress(b"".join([*profile.parts, *profile.strings()]), mtime=0)


def _message(number: int, fields: Iterable[tuple[int, int | bytes]]) -> bytes:
    return _field(number, _fields(fields))


def _fields(fields: Iterable[tuple[int, int | bytes]]) -> bytes:
    return b"".join(_field(number, value) for number, value in fields)


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
