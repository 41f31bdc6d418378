# SPDX-License-Identifier: GPL-2.0-or-later
"""Page walks by memory region and by code from windows of copies, scaled to the whole program."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd

from tlbcost.attribution.backing import Seen
from tlbcost.attribution.sites import gains, read_sites
from tlbcost.copies.estimator import CopyTables, Weighed
from tlbcost.memory import smaps
from tlbcost.simulator.memory_tables import (
    Block,
    ImageAttribution,
    Line,
    Misses,
    ModelledMisses,
    RegionMisses,
    SidedMisses,
    SourceLocation,
    Stack,
)
from tlbcost.symbols.resolver import CodePlace, Resolver, mapped_file

_KEY = ["run", "window"]
_HUGE_BYTES = 2 << 20  # copies are of x86-64 alone
_MAPPING = ["run", "worker", "mapping"]
_PLACE = ["pid", "object", "place"]
_WALKS = ["base_walks", "huge_walks"]
_MISSES = [
    f"{size}_{side}_{what}"
    for size in ("base", "huge")
    for side in ("data", "fetch")
    for what in ("hits", "walks")
]
_WAITED = ["base_waited_cycles", "huge_waited_cycles"]
# Names of memory without a file; the last is shared anonymous memory.
_HUGETLB, _MEMFD, _SYSV, _ZERO = "/anon_hugepage", "/memfd:", "/SYSV", "/dev/zero"


def copied_attributions(
    tables: CopyTables,
    weighed: Weighed,
    program: str,
    executable: str,
    seen: Seen,
    recorded: Path | None = None,
) -> tuple[ImageAttribution, ...]:
    """Attribution summed over processes; empty if none. `seen` shows how much is resident.

    `recorded`: the folder with allocations; None: they were not recorded.
    """
    weights = weighed.windows[[*_KEY, "weight"]]
    memory = tables.memory.merge(weights, on=_KEY)
    if memory.empty:
        return ()
    for column in (*_MISSES, *_WAITED):
        memory[column] = memory[column] * memory["weight"]
    sums = memory.groupby(_MAPPING)[[*_MISSES, *_WAITED]].sum().reset_index()
    places = sums.merge(tables.mappings, on=_MAPPING)
    kinds = _kinds(places, executable)
    resident = {(mapping.start, mapping.end): mapping for _, mapping in seen}
    sized = zip(_rows(places), kinds, _sizes(places, kinds, resident), strict=True)
    blocks = _blocks(tables, weighed)
    return (
        ImageAttribution(
            pid=int(places["pid"].iloc[0]),
            program=program,
            regions=tuple(_region(row, kind, size, resident) for row, kind, size in sized),
            lines=_lines(tables, weights, program),
            stacks=_stacks(tables, weights),
            phases=(),
            references=round(weighed.references),
            phase_references=0,
            executable=executable,
            blocks=blocks,
            sites=() if recorded is None else gains(read_sites(recorded, blocks), blocks),
        ),
    )


def _blocks(tables: CopyTables, weighed: Weighed) -> tuple[Block, ...]:
    """Of the run with most windows: addresses differ from run to run."""
    windows = weighed.windows[[*_KEY, "pid", "weight"]]
    blocks = tables.blocks.merge(windows, on=_KEY)
    if blocks.empty:
        return ()
    blocks = blocks[blocks["run"] == windows["run"].mode()[0]]
    for column in _WALKS:
        blocks[column] = blocks[column] * blocks["weight"]
    by_place = blocks.groupby(["pid", "address"])
    sums = by_place[_WALKS].sum().join(by_place["resident_bytes"].max())
    return tuple(
        Block(
            resident_bytes=None if pd.isna(row["resident_bytes"]) else int(row["resident_bytes"]),
            base_walks=row["base_walks"],
            huge_walks=row["huge_walks"],
            pid=int(row["pid"]),
            address=int(row["address"]),
        )
        for row in _rows(sums.reset_index())
    )


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return cast(list[dict[str, Any]], frame.to_dict("records"))


def _kinds(places: pd.DataFrame, executable: str) -> list[smaps.Mapping]:
    """Each as smaps describes it: the kernel's names for kinds of memory."""
    found = []
    for row in _rows(places):
        write = "w" if row["writable"] == "yes" else "-"
        execute = "x" if row["executable"] == "yes" else "-"
        share = "s" if row["shared"] == "yes" else "p"
        line = (
            f"{row['start']:x}-{row['end']:x} r{write}{execute}{share} {row['offset']:08x} "
            f"{row['major']:02x}:{row['minor']:02x} {row['inode']} {row['name']}"
        )
        unknown = smaps.Mapping(str(row["name"]), "anonymous", None, 0, 0, 0, 0, 0, 0)
        found.append(next(iter(smaps.parse(line + "\nSize: 0 kB\n", executable)), unknown))
    return found


def _kind(mapping: smaps.Mapping) -> str:
    if mapping.name == smaps.BSS:
        return "segment"
    if mapping.name.startswith(_HUGETLB):
        return "hugetlbfs"
    if mapping.kind == "shared":
        if mapping.name.startswith(_MEMFD):
            return "memfd"
        if mapping.name.startswith(_SYSV):
            return "sysv"
        # A file, such as one in /dev/shm: its file system says what it is.
        is_file = mapping.name.startswith("/") and not mapping.name.startswith(_ZERO)
        return "file" if is_file else "shared"
    if mapping.kind == "anonymous" and "x" in mapping.permissions:
        return "jit"
    return mapping.kind


def _sizes(
    places: pd.DataFrame,
    kinds: Sequence[smaps.Mapping],
    resident: Mapping[tuple[int, int], smaps.Mapping],
) -> list[int]:
    """The bytes that each adds to its kind of memory: of one run alone, and once.

    Several workers see the same mapping, a mapping grows, and each run has it somewhere else. A run
    whose mappings were seen is preferred, unless its windows met less than half of another's.
    """
    rows = _rows(places)
    described = {row["run"] for row in rows if (row["start"], row["end"]) in resident}
    added = [0] * len(rows)
    totals: dict[tuple[str, str], dict[int, int]] = {}
    covered: dict[tuple[int, int], int] = {}
    for i in sorted(range(len(rows)), key=lambda i: (int(rows[i]["start"]), -int(rows[i]["end"]))):
        row, mapping = rows[i], kinds[i]
        until = covered.get((row["run"], row["pid"]), 0)
        added[i] = max(0, int(row["end"]) - max(int(row["start"]), until))
        covered[row["run"], row["pid"]] = max(until, int(row["end"]))
        runs = totals.setdefault((mapping.kind, mapping.name), {})
        runs[row["run"]] = runs.get(row["run"], 0) + added[i]
    chosen = {
        key: max(
            runs,
            key=lambda run: (run in described and 2 * runs[run] >= max(runs.values()), runs[run]),
        )
        for key, runs in totals.items()
    }
    return [
        size if chosen[mapping.kind, mapping.name] == row["run"] else 0
        for size, mapping, row in zip(added, kinds, rows, strict=True)
    ]


def _region(
    row: Mapping[str, Any],
    mapping: smaps.Mapping,
    size: int,
    resident: Mapping[tuple[int, int], smaps.Mapping],
) -> RegionMisses:
    """`size`: see _sizes(); nothing of what is counted elsewhere was touched here."""
    # Never mapped there when the copy was made: a mapping of its own.
    kind = _kind(mapping) if row["end"] else "unknown"
    present = resident.get((row["start"], row["end"]))
    pages = huge_pages = None
    if present is not None and present.resident_bytes >= present.size_bytes:
        # All of it is there: huge pages that hold any of it.
        huge_pages = -(-present.end // _HUGE_BYTES) - present.start // _HUGE_BYTES
    if not size:
        pages = huge_pages = 0
    elif present is not None and present.page_bytes:
        pages = present.resident_bytes // present.page_bytes
    device = (int(row["major"]), int(row["minor"])) if row["inode"] else None
    return RegionMisses(
        kind=kind,
        code=row["executable"] == "yes" and kind in ("file", "segment"),
        name=str(row["name"]) if kind in ("file", "segment", "memfd", "shared") else None,
        variable=None,
        stack=(),
        device=device,
        most_bytes=size,
        touched_pages=pages,
        touched_huge_pages=huge_pages,
        base=_sided(row, "base"),
        huge=_sided(row, "huge"),
        modelled_base=_modelled(row, "base"),
        modelled_huge=_modelled(row, "huge"),
    )


def _misses(row: Mapping[str, Any], size: str, side: str) -> Misses:
    return Misses(round(row[f"{size}_{side}_hits"]), round(row[f"{size}_{side}_walks"]))


def _sided(row: Mapping[str, Any], size: str) -> SidedMisses:
    return SidedMisses(_misses(row, size, "data"), _misses(row, size, "fetch"))


def _modelled(row: Mapping[str, Any], size: str) -> ModelledMisses:
    # All of its misses are in windows, scaled alike.
    return ModelledMisses(_misses(row, size, "data"), round(row[f"{size}_waited_cycles"]))


def _lines(tables: CopyTables, weights: pd.DataFrame, program: str) -> tuple[Line, ...]:
    code = tables.code.merge(weights, on=_KEY)
    if code.empty:
        return ()
    for column in _MISSES:
        code[column] = code[column] * code["weight"]
    places = _placed(code, tables.mappings)
    sums = places.groupby(_PLACE)[_MISSES].sum().reset_index()
    addresses = places.drop_duplicates(_PLACE).set_index(_PLACE)["address"]
    sites = _sites(sums, tables.mappings)
    found = []
    for row, site in zip(_rows(sums), sites, strict=True):
        address = int(addresses[(row["pid"], row["object"], row["place"])])
        found.append(Line(program, address, site, _sided(row, "base"), _sided(row, "huge")))
    return tuple(found)


def _placed(code: pd.DataFrame, mappings: pd.DataFrame) -> pd.DataFrame:
    places = code.merge(mappings, on=_MAPPING)
    named = places["name"].astype(str).str.startswith("/")
    # Code without a file is known by its address.
    places["place"] = (
        places["address"] - places["start"].where(named, 0) + places["offset"].where(named, 0)
    )
    places["object"] = places["name"].where(named, "")
    return places


def _stacks(tables: CopyTables, weights: pd.DataFrame) -> tuple[Stack, ...]:
    walks = tables.stacks.merge(weights, on=_KEY)
    if walks.empty:
        return ()
    for column in _WALKS:
        walks[column] = walks[column] * walks["weight"]
    where = ["run", "worker", "window", "address"]
    walks = walks.merge(tables.code[[*where, "mapping"]], on=where)
    leaves = walks.groupby([*_MAPPING, "address", "stack"])[_WALKS].sum().reset_index()
    # A call is before the address that it returns to.
    callers = tables.frames.assign(address=tables.frames["address"] - 1)
    code = [*_MAPPING, "address"]
    both = pd.concat([leaves[code], callers[code]]).drop_duplicates()
    places = _placed(both, tables.mappings)
    keys = zip(*(places[column] for column in code), strict=True)
    sites = dict(zip(keys, _sites(places, tables.mappings), strict=True))
    below = {
        (row["run"], row["worker"], row["stack"]): (row["below"], _site_of(row, sites))
        for row in _rows(callers)
    }
    sums: dict[tuple[SourceLocation, ...], tuple[float, float]] = {}
    for row in _rows(leaves):
        frames, stack = [_site_of(row, sites)], row["stack"]
        while stack:
            stack, site = below[row["run"], row["worker"], stack]
            frames.append(site)
        base, huge = sums.get(tuple(frames), (0.0, 0.0))
        sums[tuple(frames)] = base + row["base_walks"], huge + row["huge_walks"]
    return tuple(Stack(frames, round(base), round(huge)) for frames, (base, huge) in sums.items())


def _site_of(
    row: Mapping[str, Any], sites: Mapping[tuple[Any, ...], SourceLocation]
) -> SourceLocation:
    return sites[row["run"], row["worker"], row["mapping"], row["address"]]


def _sites(places: pd.DataFrame, mappings: pd.DataFrame) -> list[SourceLocation]:
    files: dict[tuple[int, str], str] = {}
    mapped = mappings[mappings["executable"] == "yes"].drop_duplicates(["pid", "name"])
    for row in _rows(mapped):
        pid, name = int(row["pid"]), str(row["name"])
        if name.startswith("/"):
            where = int(row["inode"]), int(row["start"]), int(row["end"])
            files[pid, name] = mapped_file(pid, name, *where)
    names, code = [], []
    for row in _rows(places):
        pid, name = int(row["pid"]), str(row["object"])
        path = files.get((pid, name), name)
        names.append(name)
        code.append(CodePlace(pid, path if path.startswith("/") else None, int(row["place"])))
    resolver = Resolver()
    found = zip(names, code, resolver.names(code), resolver.sources(code), strict=True)
    sites = []
    for name, place, symbol, source in found:
        function, file, line = source or (symbol, None, None)
        # Its links are another system's.
        here = os.path.realpath(name) if place.path == name else name
        sites.append(SourceLocation(name and here, function, file, line))
    return sites
