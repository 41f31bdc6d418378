# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of the TLBs, and of a host that holds pages in pieces?"""

from __future__ import annotations

from builders.answer import MACHINE
from builders.page_times import times
from tlbcost.calibration.records import Calibration, Cost
from tlbcost.common.interval import Interval
from tlbcost.pagesizes.notes import notes, tlbs


def calibration(entry_bytes: float | None) -> Calibration:
    value = None if entry_bytes is None else Interval(entry_bytes, entry_bytes, entry_bytes)
    cost = Cost("tlb_entry_bytes", 2 << 20, None, None, value, 0)
    return Calibration(MACHINE, "2026-01-01T00:00:00Z", "0", 1.0, (cost,))


def test_a_host_that_holds_pages_in_pieces_is_reported() -> None:
    from dataclasses import replace

    result = times([])
    guest, metal = replace(MACHINE, hypervisor="kvm"), replace(MACHINE, hypervisor=None)
    words = " ".join(notes(guest, calibration(4096.0), result))
    assert "one TLB entry covers 4 KiB of a page of 2 MiB" in words
    assert "T21" in words
    assert tlbs(guest, calibration(4096.0), result)[1:] == (
        "2 MiB: as for 4 KiB pages, split into these",
        "1 GiB: as for 4 KiB pages, split into these",
    )
    assert "is not known" in " ".join(notes(guest, None, result))
    assert "T21" not in " ".join(notes(guest, calibration(2.0**21), result))
    assert "T21" not in " ".join(notes(metal, None, result))
