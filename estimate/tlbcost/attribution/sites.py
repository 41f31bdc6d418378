# SPDX-License-Identifier: GPL-2.0-or-later
"""Code that allocated the memory with page walks, as the library in profiler/sites recorded it."""

from __future__ import annotations

import math
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec

from tlbcost.attribution.document import (
    HUGE_BYTES,
    added_bytes,
    allocation_site,
    saved_walks,
)
from tlbcost.common import paths
from tlbcost.common.document import Part, amount, doc, from_json, portion
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.progress import say
from tlbcost.common.reading import read_text
from tlbcost.simulator.memory_tables import Block, SiteGain, SourceLocation
from tlbcost.symbols.elf import ElfObject, build_id_of
from tlbcost.symbols.resolver import CodePlace, Resolver
from tlbcost.system.environment import joined

# struct sites_file of profiler/sites/sites.h.
_MAGIC = 0x3173657469736C74
_HEAD, _NAME_BYTES, _NAMES = struct.Struct("=3Q"), 256, 255
_ROW = struct.Struct("=16Q")
_OFFSET_BITS = 56
_LARGE_BYTES = 1 << 20
# Where in its first page a block is that mmap() gave, and one for which glibc's malloc calls it.
_PAGE_BYTES, _MAPPED_OFFSETS = 4096, (0, 16)
# A plan has the sites with this part of the gain.
_PLANNED_FRACTION = 0.75
_LOST_FRACTION = 0.01
# Of a process, and of a call stack in it.
_Key = tuple[int, int]


class _Allocation(NamedTuple):
    address: int
    n_bytes: int
    weight: int  # bytes of allocations that it stands for; 0: its end
    key: int
    frames: tuple[tuple[str | None, int], ...]  # object, and offset in it of the return address


def library() -> Path:
    """What the program is started with. Raises TlbcostError (4) if LD_PRELOAD cannot name it."""
    found = paths.libexec("tlbcost-sites.so")
    if not found.exists():
        raise TlbcostError(f"{found} is not there", "make; it is for x86-64", CANNOT_MEASURE)
    if set(" :") & set(str(found)):
        why = f"LD_PRELOAD cannot name {found}: a blank or a colon ends a name there"
        raise TlbcostError(why, "install tlbcost in another folder", CANNOT_MEASURE)
    return found


def recording(folder: Path, present: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program whose allocations are recorded in the folder."""
    added = {"LD_PRELOAD": str(library()), "TLBCOST_SITES": str(folder)}
    return {**present, **joined(present, added)}


@dataclass(frozen=True, slots=True)
class Sites:
    """What was recorded of blocks: call stacks, and the part of each block that each allocated."""

    stacks: Mapping[_Key, tuple[SourceLocation, ...]]
    peaks: Mapping[_Key, int]
    owners: tuple[Mapping[_Key, float], ...]


def read_sites(folder: Path, blocks: Sequence[Block]) -> Sites:
    """What the library wrote of the processes of these blocks."""
    wanted = {(block.pid, block.address): i for i, block in enumerate(blocks)}
    owners: list[dict[_Key, float]] = [{} for _ in blocks]
    rows: dict[_Key, _Allocation] = {}
    peaks: dict[_Key, int] = {}
    read = lost = 0
    for pid in {block.pid for block in blocks}:
        found, missing = _read(folder / f"sites.{pid}")
        read, lost = read + len(found), lost + missing
        # What was freed may have been there when its walks were counted.
        for row in {row.address: row for row in found if row.weight}.values():
            key = (pid, row.key)
            for place, n_bytes in _places(row):
                i = wanted.get((pid, place))
                if i is not None:
                    owners[i][key] = owners[i].get(key, 0.0) + n_bytes
                    rows[key] = row
        peaks |= {(pid, key): n for key, n in _peaks(found).items()}
    # Threads that wait for the file to grow lose a few.
    if lost > _LOST_FRACTION * (lost + read):
        lack = "did not fit into the record: no site is known"
        say(f"{lost:,} of {lost + read:,} allocations {lack}")
    for each in owners:
        whole = sum(each.values())
        for key in each:
            each[key] /= whole
    return Sites(_stacks(rows), peaks, tuple(owners))


def gains(sites: Sites, blocks: Sequence[Block]) -> tuple[SiteGain, ...]:
    """By the line that allocated, the largest gain first."""
    saved = saved_walks(blocks)
    gained: dict[SourceLocation, float] = defaultdict(float)
    growth: dict[SourceLocation, float] = defaultdict(float)
    keys: dict[SourceLocation, dict[_Key, None]] = {}
    for block, walks, owners in zip(blocks, saved, sites.owners, strict=True):
        added = added_bytes(block)
        for key, part in owners.items():
            site = allocation_site(sites.stacks[key])
            if site is not None:
                gained[site] += walks * part
                growth[site] += math.nan if added is None else added * part
                keys.setdefault(site, {})[key] = None
    whole = sum(saved) or 1.0
    found = [
        SiteGain(
            site=site,
            gain_fraction=min(gained[site] / whole, 1.0),
            allocated_bytes=sum(sites.peaks[key] for key in own),
            growth_bytes=None if math.isnan(growth[site]) else round(growth[site]),
            keys=tuple(dict.fromkeys(f"{key:016x}" for _, key in own)),
        )
        for site, own in keys.items()
    ]
    return tuple(sorted(found, key=lambda each: -each.gain_fraction))


def _read(path: Path) -> tuple[list[_Allocation], int]:
    """In their order, and how many are missing; none of a process without the library."""
    try:
        with path.open("rb") as file:
            magic, count, _ = _HEAD.unpack(file.read(_HEAD.size))
            if magic != _MAGIC:
                return [], 0
            text = [file.read(_NAME_BYTES) for _ in range(_NAMES)]
            data = file.read(count * _ROW.size)
    except (OSError, struct.error):
        return [], 0
    names = [None, *(each.partition(b"\0")[0].decode(errors="surrogateescape") for each in text)]
    found = []
    for start in range(0, len(data) - _ROW.size + 1, _ROW.size):
        address, n_bytes, weight, key, *frames = _ROW.unpack_from(data, start)
        # A process that was killed may not have finished a row.
        if address:
            stack = (divmod(each, 1 << _OFFSET_BITS) for each in frames if each)
            places = tuple((names[number], offset) for number, offset in stack)
            found.append(_Allocation(address, n_bytes, weight, key, places))
    return found, count - len(found)


def _peaks(rows: Iterable[_Allocation]) -> dict[int, int]:
    """Of each stack, the most bytes at once."""
    live: dict[int, _Allocation] = {}
    now, most = Counter[int](), dict[int, int]()
    for row in rows:
        before = live.pop(row.address, None)
        if before is not None:
            now[before.key] -= before.weight
        if row.weight:
            live[row.address] = row
            now[row.key] += row.weight
            most[row.key] = max(most.get(row.key, 0), now[row.key])
    return most


def _places(row: _Allocation) -> Iterable[tuple[int, int]]:
    """Places of 2 MiB and the bytes that it has there.

    A mapping of its own gets huge pages only where it has a place alone: when it is touched, what
    comes to lie next to it is not there yet, or is on base pages.
    """
    first = row.address // HUGE_BYTES * HUGE_BYTES
    if row.n_bytes < _LARGE_BYTES:
        yield first, row.weight
        return
    end = row.address + row.n_bytes
    start = row.address - row.address % _PAGE_BYTES
    last = -(-end // _PAGE_BYTES) * _PAGE_BYTES
    alone = row.address - start in _MAPPED_OFFSETS
    for place in range(first, end, HUGE_BYTES):
        if not alone or (place >= start and place + HUGE_BYTES <= last):
            yield place, min(end, place + HUGE_BYTES) - max(row.address, place)


def _stacks(rows: Mapping[_Key, _Allocation]) -> dict[_Key, tuple[SourceLocation, ...]]:
    objects: dict[str, ElfObject | None] = {}
    frames = [
        (key, name, _code_place(key[0], name, offset, objects))
        for key, row in rows.items()
        for name, offset in row.frames
    ]
    resolver, code = Resolver(), [place for _, _, place in frames]
    found: dict[_Key, list[SourceLocation]] = {key: [] for key in rows}
    for (key, name, _), symbol, chain in zip(
        frames, resolver.names(code), resolver.chains(code), strict=True
    ):
        found[key] += [SourceLocation(name, *source) for source in chain or ((symbol, None, None),)]
    return {key: tuple(stack) for key, stack in found.items()}


def _code_place(
    pid: int, name: str | None, offset: int, objects: dict[str, ElfObject | None]
) -> CodePlace:
    """Of the call, which is before the address that it returns to."""
    if name is not None and name not in objects:
        try:
            objects[name] = ElfObject.read(Path(name))
        except (OSError, ValueError):
            objects[name] = None
    elf = None if name is None else objects[name]
    if elf is None or not elf.segments:
        return CodePlace(pid, name, offset - 1)
    # The library counts from the object's first page.
    base = min(address for _, _, address in elf.segments) & -4096
    in_file = elf.offset(base + offset - 1)
    return CodePlace(pid, name, offset - 1 if in_file is None else in_file)


class SitePlan(Part, frozen=True, kw_only=True):
    """Memory that is to ask for transparent huge pages, by the code that allocates it."""

    schema: Annotated[Literal["tlbcost-plan-1"], doc("form of this document and its version")] = (
        "tlbcost-plan-1"
    )
    tlbcost_version: Annotated[str, doc("version of tlbcost")]
    program: Annotated[str, doc("path of the program")]
    build_id: Annotated[str | None, doc("of the program, whose other builds have other keys")]
    gain_fraction: Annotated[float, portion("these sites' part of what all memory saves")]
    growth_bytes: Annotated[int | None, amount("memory that huge pages add there; null: not known")]
    sites: Annotated[tuple[SiteGain, ...], doc("those that save most for the memory they add")]


def plan_of(sites: Sequence[SiteGain], program: str) -> SitePlan:
    """Sites with three quarters of the gain that sites have, for the least memory."""
    wanted = _PLANNED_FRACTION * sum(site.gain_fraction for site in sites)
    chosen: list[SiteGain] = []

    def worth(site: SiteGain) -> float:
        """The gain for each byte; with the memory unknown, as if it added none."""
        return site.gain_fraction / ((site.growth_bytes or 0) + 4096)

    for site in sorted(sites, key=worth, reverse=True):
        if sum(each.gain_fraction for each in chosen) < wanted:
            chosen.append(site)
    added = [site.growth_bytes for site in chosen]
    return SitePlan(
        tlbcost_version=paths.version(),
        program=program,
        build_id=build_id_of(program),
        gain_fraction=min(sum(site.gain_fraction for site in chosen), 1.0),
        growth_bytes=None if None in added else sum(n or 0 for n in added),
        sites=tuple(chosen),
    )


def plan_variables(path: Path) -> dict[str, str]:
    """What a program needs in its environment to follow a plan. Raises TlbcostError."""
    hint = "tlbcost estimate --plan FILE -- COMMAND"
    try:
        plan = from_json(read_text(path, hint=hint), SitePlan)
    except msgspec.DecodeError as error:
        raise TlbcostError(f"{path}: not a plan: {error}", hint) from error
    if plan.build_id != build_id_of(plan.program):
        why = f"{plan.program} is another build now, and its sites have other keys"
        raise TlbcostError(f"{path}: {why}", hint)
    keys = (key for site in plan.sites for key in site.keys)
    return {"LD_PRELOAD": str(library()), "TLBCOST_SITES_PLAN": ",".join(keys)}
