# SPDX-License-Identifier: GPL-2.0-or-later
"""Estimates of all kinds, and how they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from unittest.mock import patch

from builders.answer import (
    MACHINE,
    RUN,
    altered,
    estimated,
    interval,
    killed,
    overlapped,
    process,
    rebuilt,
    simulated,
)
from builders.counted import SKL, ZEN4, both, counted, counted_estimate, imported
from builders.memory import SETTINGS, backed
from builders.tree import printed, there
from tlbcost.accuracy.record import TrackRecord
from tlbcost.allocators.recognise import Malloc, Program
from tlbcost.answer.document import estimate_document
from tlbcost.answer.record import Estimate, Surroundings
from tlbcost.attribution.document import AllocationSite, Attribution, RegionShare
from tlbcost.common.document import to_json
from tlbcost.counters.event_counts import EventCounts
from tlbcost.numa.locality import NodePlacement, Score
from tlbcost.remedies import advice
from tlbcost.report.details import print_report


def text_of(shown: Estimate, *, details: bool = True) -> str:
    return printed(print_report, estimate_document(shown), details=details)


def summary_of(shown: Estimate) -> list[str]:
    return text_of(shown, details=False).splitlines()


def json_of(shown: Estimate) -> str:
    return to_json(estimate_document(shown))


def bare() -> Estimate:
    """Nothing that may be missing is there."""
    c = estimated()
    kinds = ("stlb_hit_overlapped_ns", "walk_overlapped_ns", "walk_cached_ns", "fault_ns")
    none = dict.fromkeys(kinds)
    before = there(c.simulated)
    geometry = before.geometry
    geometry = replace(geometry, huge=replace(geometry.huge, stlb=None), sources={})
    processes = (process(), killed())
    huge = replace(there(c.huge_costs), stlb_hit_serial_ns=None, walk_serial_ns=None, **none)
    machine = replace(MACHINE, cpu_name=None, kernel=None, thp_mode=None, hypervisor="unknown")
    return rebuilt(
        altered(
            c,
            machine=machine,
            base_costs=replace(there(c.base_costs), **none),
            huge_costs=huge,
            surroundings=replace(there(c.given.surroundings), glibc=None),
            simulated=replace(before, geometry=geometry, processes=processes, run=None),
            runs=c.given.runs[:1],
            codes=(0,),
        )
    )


def advised(argv: tuple[str, ...], **changes: object) -> Estimate:
    """A program whose heap misses, and is not on huge pages since it does not ask for them."""
    made = altered(estimated(40_000_000), argv=argv)
    assert made.simulated is not None
    site = AllocationSite("/opt/app", "build_table(std::string)", "table.cc", 17, misses_fraction=1)
    region = RegionShare(
        "/opt/app", "anonymous", "anonymous memory", 96 << 20, 96 << 20, 96 << 20, False,
        0.95, 0.1, 0.9, 0.1, interval(0.2), (site,), backed(),
    )  # fmt: skip
    other = replace(region, kind="tmpfs", name="/dev/shm/table", misses_fraction=0.05, sites=())
    around = Surroundings(False, (2, 36), None, SETTINGS, hugectl=True)
    attribution = Attribution((region, other), (), (), "prices", 0.0)
    glibc = Malloc("glibc", "libc.so.6", "GLIBC_TUNABLES")
    with patch.object(advice, "program_of", lambda path, _: Program(path, glibc)):
        return altered(
            made,
            surroundings=around,
            simulated=replace(made.simulated, attribution=attribution),
            **changes,
        )


@cache
def made_up() -> Mapping[str, Estimate]:
    """Estimates of all kinds, by what is special about each."""
    worth = estimated()
    runs = tuple(replace(RUN, wall_ns=n, user_ns=n, system_ns=0) for n in (20_000_000, 40_000_000))
    placed = NodePlacement(4, "of this machine", Score(0.25, 0.08), Score(0.26, 0.52))
    long = ("/a/very/long/path/to/a/program", *(f"--option-{n}" for n in range(60)))
    return {
        "worth trying": worth,
        "nothing to gain": estimated(0),
        "not proven": estimated(1_000_000),
        "already huge": altered(
            worth,
            gain=replace(worth.gain, verdict="already_huge"),
            footprint=replace(worth.footprint, largest_anonymous_pages=200_000),
        ),
        "the overlap model": overlapped(worth),
        "nothing that may be missing": bare(),
        "several processes": rebuilt(
            simulated(worth, processes=tuple(process(n * 1000, pid=n) for n in range(1, 9)))
        ),
        "threads": simulated(worth, processes=(replace(process(), threads=4),)),
        "NUMA nodes": altered(worth, placed=placed),
        "one remedy": advised(("./app", "an argument")),
        "a long command line": advised(long),
        "odd characters": advised(("./app", "line\nline", "\x1b[1m")),
        "a track record": altered(
            worth, track_record=TrackRecord(True, "2026-01-01T00:00:00Z", 16, 12, 0.08, 0.26)
        ),
        "everything is wrong": advised(
            long,
            machine=replace(MACHINE, hypervisor="kvm", thp_mode="always"),
            runs=runs,
            codes=(3, 3),
            placed=placed,
            run_notes=tuple(f"a long note on the calibration, number {n}" for n in range(5)),
            track_record=TrackRecord(False, "2026-01-01T00:00:00Z", 16, 12, 0.08, 0.26),
        ),
        "counters": counted_estimate(),
        "counters without cycles of walks": counted_estimate(ZEN4, "amd64_fam19h_zen4"),
        "counters without a calibration": counted_estimate(
            {**SKL, "stlb_hits.load": None}, calibrated=None
        ),
        "both backends": both(),
        "counts of a file": imported(counted(SKL)),
        "counts of a file without times": imported(
            EventCounts("a file", "skl", None, counted(SKL).counts)
        ),
    }
