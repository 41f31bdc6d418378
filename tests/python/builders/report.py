# SPDX-License-Identifier: GPL-2.0-or-later
"""A report with all that may be missing left out, and how it reads."""

from __future__ import annotations

import io
from dataclasses import replace

from builders.answer import (
    MACHINE,
    altered,
    estimated,
    killed,
    process,
    rebuilt,
)
from tlbcost.answer.document import estimate_document
from tlbcost.answer.record import Estimate
from tlbcost.common.document import to_json
from tlbcost.report.text import print_report


def text_of(shown: Estimate, *, details: bool = True) -> str:
    """The report; with all of its details unless told otherwise."""
    file = io.StringIO()
    print_report(estimate_document(shown), file, details=details)
    return file.getvalue()


def json_of(shown: Estimate) -> str:
    """The document."""
    return to_json(estimate_document(shown))


def bare() -> Estimate:
    """Nothing that may be missing is there."""
    c = estimated()
    kinds = ("stlb_hit_overlapped_ns", "walk_overlapped_ns", "walk_cached_ns", "fault_ns")
    none = dict.fromkeys(kinds)
    assert c.simulated is not None
    assert c.base_costs is not None
    assert c.huge_costs is not None
    assert c.given.surroundings is not None
    geometry = c.simulated.geometry
    geometry = replace(geometry, huge=replace(geometry.huge, stlb=None), sources={})
    processes = (process(), killed())
    huge = replace(c.huge_costs, stlb_hit_serial_ns=None, walk_serial_ns=None, **none)
    machine = replace(MACHINE, cpu_name=None, kernel=None, thp_mode=None, hypervisor="unknown")
    return rebuilt(
        altered(
            c,
            machine=machine,
            base_costs=replace(c.base_costs, **none),
            huge_costs=huge,
            surroundings=replace(c.given.surroundings, glibc=None),
            simulated=replace(c.simulated, geometry=geometry, processes=processes, run=None),
            runs=c.given.runs[:1],
            codes=(0,),
        )
    )
