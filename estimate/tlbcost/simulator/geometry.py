# SPDX-License-Identifier: GPL-2.0-or-later
"""The TLBs to simulate: measured, published or assumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tlbcost.calibration.file import look_up, read_calibration
from tlbcost.calibration.records import Calibration, cost_at
from tlbcost.common import units
from tlbcost.common.units import Interval
from tlbcost.memory.areas import Reaches, reaches_of
from tlbcost.processors.published import (
    AGREEMENT_FRACTION,
    LEVELS,
    Geometry,
    Level,
    LevelSource,
    PageSizeGeometry,
    PublishedCore,
    TlbLevel,
    published,
)
from tlbcost.system.machine import Machine, huge_page_or_assumed

# Measured entries may be changed by this share to make whole sets.
_ROUNDING_FRACTION = 0.05
# Used where nothing is measured or published: common to most x86 cores since 2011.
ASSUMED_BASE: dict[Level, TlbLevel] = {
    "dtlb": TlbLevel(64, 4),
    "itlb": TlbLevel(64, 8),
    "stlb": TlbLevel(1536, 12),
}
ASSUMED_HUGE: dict[Level, TlbLevel] = {
    "dtlb": TlbLevel(32, 4),
    "itlb": TlbLevel(8, 8),
    "stlb": TlbLevel(1536, 12),
}
# Ways to aim for if they are not published.
_USUAL_WAYS: dict[Level, int] = {"dtlb": 8, "itlb": 8, "stlb": 12}
# Arrays as small as this are usually fully associative.
_SMALL_ENTRIES = 16


def geometry_for(
    calibration: Calibration | None, machine: Machine, huge_page_bytes: int
) -> Geometry:
    """The TLBs to simulate for the base page and for `huge_page_bytes`, each with its source.

    A published level that the measurement confirms is used as published (ways cannot be measured
    well); a measurement that contradicts it wins; without either, stated defaults are assumed. If a
    hypervisor splits huge pages, `huge` has the TLBs of base pages: see `entry_bytes`.
    """
    core = published(machine)
    folded = core is not None and core.stlb_folded
    sources: dict[tuple[Level, int], LevelSource] = {}

    def level(name: Level, size: int, assumed: dict[Level, TlbLevel]) -> TlbLevel | None:
        interval = cost_at(calibration, f"{name}_entries", size) if calibration else None
        # Less than one entry is not a TLB: the knee was not found.
        by_ways = cost_at(calibration, f"{name}_ways", size) if calibration else None
        measured, ways = (
            (interval if interval and interval.value >= 1 else None),
            round(by_ways.value) if by_ways and by_ways.value >= 1 else None,
        )
        chosen, sources[name, size] = choose_level(name, size, core, measured, ways, assumed[name])
        return chosen

    def page_size(size: int, assumed: dict[Level, TlbLevel]) -> PageSizeGeometry:
        dtlb, itlb = level("dtlb", size, assumed), level("itlb", size, assumed)
        assert dtlb is not None
        assert itlb is not None
        return PageSizeGeometry(size, dtlb, itlb, level("stlb", size, assumed))

    base = page_size(machine.base_page_bytes, ASSUMED_BASE)
    pieces = cost_at(calibration, "tlb_entry_bytes", huge_page_bytes) if calibration else None
    if pieces is None or pieces.value != machine.base_page_bytes:
        return Geometry(base, page_size(huge_page_bytes, ASSUMED_HUGE), sources, folded)
    # A TLB entry covers the smaller of the guest's page and the host's.
    covered, whole = units.size(machine.base_page_bytes), units.size(huge_page_bytes)
    pieces_source = LevelSource(
        "measured",
        f"measured: one entry covers {covered} of a {whole} page in this virtual machine: "
        f"this level is as for {covered} pages",
    )
    for name in LEVELS:
        if (name, machine.base_page_bytes) in sources:
            sources[name, huge_page_bytes] = pieces_source
    huge = replace(base, page_size_bytes=huge_page_bytes, entry_bytes=machine.base_page_bytes)
    return Geometry(base, huge, sources, folded)


def reaches_here(machine: Machine, calibration: Path | None) -> Reaches:
    """This machine's TLB reach by a table, the cache or published figures; nothing is measured."""
    if calibration is not None:
        known: Calibration | None = read_calibration(calibration)
    else:
        cached, _ = look_up()
        known = cached.calibration if cached else None
    return reaches_of(geometry_for(known, machine, huge_page_or_assumed(machine)[0]))


def choose_level(
    name: Level,
    size: int,
    core: PublishedCore | None,
    measured: Interval | None,
    measured_ways: int | None,
    assumed: TlbLevel,
) -> tuple[TlbLevel | None, LevelSource]:
    row = core.levels.get((name, size)) if core else None
    origin = f"for {core.name}" if core else "for this CPU"
    if core and row and row.entries is not None:
        chosen = _with_ways(name, row.entries, row.ways or measured_ways)
        sentence = f"published {origin} ({row.explanation})"
        if row.ways is None and measured_ways is None:
            sentence += f"; ways not published, {chosen.ways} assumed"
        elif row.ways is None:
            sentence += f"; ways not published, {chosen.ways} as measured"
        elif measured_ways not in (None, row.ways):
            sentence += f"; {measured_ways} ways measured"
        if measured is None:
            return chosen, LevelSource("published", sentence)
        near = abs(row.entries - measured.value) <= AGREEMENT_FRACTION * measured.value
        if near or measured.low <= row.entries <= measured.high:
            sentence += f", confirmed by measurement ({_entries(measured)})"
            return chosen, LevelSource("published", sentence, confirmed=True)
        fitted = _fit(measured, row.ways if row.ways != row.entries else None, name)
        if row.ways == row.entries:
            entries = round(measured.value)
            fitted = TlbLevel(entries, entries)
        return fitted, LevelSource(
            "measured",
            f"measured ({_entries(measured)}, modelled as {_text(fitted)}); "
            f"this contradicts the {row.entries} entries published {origin} ({row.explanation})",
        )
    if measured is not None:
        fitted = _fit(measured, measured_ways, name)
        return fitted, LevelSource(
            "measured",
            f"measured ({_entries(measured)}, modelled as {_text(fitted)}); "
            f"nothing is published {origin}",
        )
    if core and name == "stlb" and core.lacks(name, size):
        sentence = f"published {origin}: this level holds no {units.size(size)} pages"
        return None, LevelSource("published", sentence)
    sentence = f"assumed ({_text(assumed)}): not measured, and nothing is published {origin}"
    return assumed, LevelSource("assumed", sentence)


def _with_ways(name: Level, entries: int, ways: int | None) -> TlbLevel:
    if ways is not None and entries % ways == 0:
        return TlbLevel(entries, ways)
    if entries <= _SMALL_ENTRIES:
        return TlbLevel(entries, entries)
    return _shape(entries, ways or _USUAL_WAYS[name], 0)


def _fit(measured: Interval, ways: int | None, name: Level) -> TlbLevel:
    entries = round(measured.value)
    if ways is None and entries <= _SMALL_ENTRIES:
        return TlbLevel(entries, entries)
    return _shape(entries, ways or _USUAL_WAYS[name], _ROUNDING_FRACTION)


def _shape(entries: int, ways: int, rounding_fraction: float) -> TlbLevel:
    """A power of two of whole sets, with about these entries and nearly these ways."""
    shapes: list[TlbLevel] = []
    sets = 1
    while sets <= entries:
        per_set = round(entries / sets)
        if abs(sets * per_set - entries) <= rounding_fraction * entries:
            shapes.append(TlbLevel(sets * per_set, per_set))
        sets *= 2
    return min(shapes, key=lambda shape: (abs(shape.ways - ways), -shape.ways))


def _text(level: TlbLevel) -> str:
    if level.ways == level.entries:
        return f"{level.entries} entries, fully associative"
    return f"{level.entries} entries, {level.ways}-way"


def _entries(measured: Interval) -> str:
    return f"{measured.value:.0f} entries"
