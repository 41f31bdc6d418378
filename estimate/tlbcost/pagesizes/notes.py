# SPDX-License-Identifier: GPL-2.0-or-later
"""What to know when reading times on pages of several sizes: this machine's TLBs, and its host."""

from __future__ import annotations

from tlbcost.calibration.costs import cost_at
from tlbcost.calibration.records import Calibration
from tlbcost.common import units
from tlbcost.common.units import NOT_OBTAINED
from tlbcost.pagesizes.patterns import ARTICLE_GIB, GIB
from tlbcost.pagesizes.runs import PageTimes
from tlbcost.processors.geometry import Geometry, Level, TlbLevel
from tlbcost.simulator.geometry import geometry_for
from tlbcost.system.machine import Machine


def tlbs(machine: Machine, calibration: Calibration | None, times: PageTimes) -> tuple[str, ...]:
    """Entries of the data TLBs by page size, where measured or published."""
    words = []
    pieces = None
    for size in times.sizes:
        geometry = geometry_for(calibration, machine, size.page_size_bytes)
        served = geometry.base if size.way == "base" else geometry.huge
        # What a host holds in 4 KiB pieces is in such pieces on larger pages, too.
        pieces = served.entry_bytes or pieces
        if pieces is not None:
            words.append(f"{size.name}: as for {units.size(pieces)} pages, split into these")
            continue
        first = _entries(geometry, "dtlb", size.page_size_bytes, served.dtlb)
        second = _entries(geometry, "stlb", size.page_size_bytes, served.stlb)
        if (first, second) != (NOT_OBTAINED, NOT_OBTAINED):
            words.append(f"{size.name}: {first} entries, and {second} in the second level")
    return tuple(words)


def _entries(geometry: Geometry, level: Level, size: int, tlb: TlbLevel | None) -> str:
    source = geometry.sources.get((level, size))
    if source is None or source.kind == "assumed":
        return NOT_OBTAINED
    return "none" if tlb is None else str(tlb.entries)


def notes(machine: Machine, calibration: Calibration | None, times: PageTimes) -> tuple[str, ...]:
    """Sentences, without their full stop, on what limits the figures."""
    found = []
    if any(pattern.scaled for pattern in times.patterns):
        found.append(
            "only the pages that are read are resident, whereas the article fills all "
            f"{ARTICLE_GIB} GiB; their frames are closer together on small pages"
        )
        if times.gib < ARTICLE_GIB:
            found.append(
                f"patterns 1 to 6 have {times.gib} pages of 1 GiB, all that this machine provided: "
                "the strides of 2 to 6 are the article's, that of pattern 1 is "
                f"{units.size(times.gib * GIB // 512)} instead of 48 MiB"
            )
    return (*found, *_host(machine, calibration, times))


def _host(machine: Machine, calibration: Calibration | None, times: PageTimes) -> list[str]:
    """The host's pages for the guest's; T21 of doc/caveats.md."""
    if machine.hypervisor is None:
        return []
    base = units.size(machine.base_page_bytes)
    pieces = [
        size.page_size_bytes
        for size in times.sizes[1:]
        if (found := _covered(calibration, size.page_size_bytes)) is not None
        and found < size.page_size_bytes
    ]
    if pieces:
        return [
            f"the host holds this guest's memory in pieces: the calibration found that one TLB "
            f"entry covers {base} of a page of {units.size(pieces[0])}. Larger pages then save no "
            "misses here, nor have fewer entries; they make each walk shorter (T21)"
        ]
    if any(_covered(calibration, size.page_size_bytes) is not None for size in times.sizes[1:]):
        return []
    return [
        "whether the host holds this guest's memory in pieces of its own, so that larger pages "
        "have no TLB entries of their size, is not known: 'tlbcost calibrate' finds out (T21)"
    ]


def _covered(calibration: Calibration | None, size: int) -> float | None:
    found = None if calibration is None else cost_at(calibration, "tlb_entry_bytes", size)
    return None if found is None else found.value
