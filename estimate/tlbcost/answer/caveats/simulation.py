# SPDX-License-Identifier: GPL-2.0-or-later
"""Caveats about the simulation: its blind spots and assumptions."""

from __future__ import annotations

from collections.abc import Iterator

from tlbcost.answer.record import Estimate, Simulated, Told
from tlbcost.common import units
from tlbcost.measured.record import WORTHWHILE_FRACTION
from tlbcost.processors.published import SourceKind
from tlbcost.simulator.counts import ProcessCounts

FILE_FRACTION = 0.25


def of_simulation(estimate: Estimate) -> Iterator[Told]:
    simulated = estimate.simulated
    if simulated is None:
        return
    yield from _of_processes(estimate, simulated)
    yield from _of_tlbs(estimate, simulated)
    yield from _of_files(estimate, simulated)
    yield from _of_models(estimate, simulated)


def _of_processes(estimate: Estimate, simulated: Simulated) -> Iterator[Told]:
    left = 0 if estimate.given.simulation is None else estimate.given.simulation.left_behind
    if left:
        which = "a process" if left == 1 else f"{left} processes"
        yield (
            "T42",
            f"The program ended while {which} that it started still ran: what they do afterwards "
            "is neither timed nor simulated.",
            "To estimate it, have the program wait for them.",
        )
    killed = [process for process in simulated.processes if process.counts is None]
    untold = [process for process in simulated.processes if process.touched is None]
    if killed:
        yield (
            "T04",
            f"{_number_of(killed)} ended without reporting any counts; those misses are not in "
            f"the sums: {_names(killed)}.",
            "Let the program end its helpers with SIGTERM instead of SIGKILL.",
        )
    elif untold and estimate.given.copied is None:
        yield (
            "T04",
            f"The memory that {_number_of(untold)} touched could not be recorded, and is missing "
            f"from the footprint: {_names(untold)}.",
            "Try ulimit -v unlimited, or give the program less to do.",
        )
    most = max((process.threads or 0 for process in simulated.processes), default=0)
    if most >= 2 and estimate.given.copied is None:
        yield (
            "T05",
            f"{most} threads ran one at a time in the simulator: their misses are each thread's "
            "own, but work that depends on timing (spinning, stealing) differs.",
            "If its threads spin or steal work, compare with one thread.",
        )
    if simulated.code != estimate.given.codes[0]:
        yield (
            "T14",
            f"The program exited with {estimate.given.codes[0]} natively but with "
            f"{simulated.code} in the simulator: the counts may be of a different run.",
            "Restore what it changes (--prepare CMD), or raise its own time limits.",
        )


def _number_of(processes: list[ProcessCounts]) -> str:
    return f"{len(processes)} process{'es' if len(processes) > 1 else ''}"


def _names(processes: list[ProcessCounts]) -> str:
    return ", ".join(f"{process.program} (pid {process.pid})" for process in processes[:3])


def _of_tlbs(estimate: Estimate, simulated: Simulated) -> Iterator[Told]:
    huge, base_costs, huge_costs = simulated.geometry.huge, estimate.base_costs, estimate.huge_costs
    unmeasured: dict[SourceKind, list[str]] = {"published": [], "assumed": []}
    for (level, size), source in simulated.geometry.sources.items():
        # Code stays on base pages, and no calibration measures the instruction side.
        ignored = level == "itlb" and (size == huge.page_size_bytes or source.kind == "published")
        if source.kind in unmeasured and not source.confirmed and not ignored:
            unmeasured[source.kind].append(f"{level} {units.size(size)}")
    parts = [f"{', '.join(levels)} {kind}" for kind, levels in unmeasured.items() if levels]
    if parts:
        yield (
            "T06",
            f"The size of some TLBs was not measured here: {'; '.join(parts)}.",
            "tlbcost calibrate --recalibrate on a quiet machine may find them.",
        )
    if huge.entry_bytes is None or huge.entry_bytes == huge.page_size_bytes:
        return
    if estimate.gain.bound_fraction.value < WORTHWHILE_FRACTION:
        return
    before, after = (each.walk_serial_ns if each else None for each in (base_costs, huge_costs))
    cheaper = ""
    # A calibration on a busy machine may have them the other way round.
    if before is not None and after is not None and after.value < before.value:
        costs = f"{units.nanoseconds(before.value)} -> {units.nanoseconds(after.value)}"
        cheaper = f" ({costs} ns)"
    yield (
        "T21",
        f"The host backs this VM with {units.size(huge.entry_bytes)} pages. Huge pages make a "
        f"walk cheaper{cheaper} but remove none: {units.count(simulated.base_walks)} walks either "
        "way.",
        "Huge pages on the host, too, give more.",
    )


def _of_files(estimate: Estimate, simulated: Simulated) -> Iterator[Told]:
    stlb = simulated.geometry.base.stlb or simulated.geometry.base.dtlb
    # What fits into the TLBs causes no walks to speak of; any process has libraries.
    other = sum(
        process.touched.other_pages
        for process in simulated.processes
        if process.touched is not None and process.touched.other_pages > stlb.entries
    )
    assert estimate.footprint is not None
    total = estimate.footprint.anonymous_pages + estimate.footprint.other_pages
    if other == 0 or other / total <= FILE_FRACTION:
        return
    measured = estimate.given.measured
    if measured is None or "shared memory" in measured.also:
        what = "the gain expects huge pages for these too, but malloc's switch does not reach them."
    else:
        what = "they stayed on base pages when the gain was measured."
    part = units.percent(other / total)
    yield (
        "T15",
        f"{part} of the pages touched are of files or shared memory: {what}",
        "Put them on hugetlbfs, or on tmpfs with huge=advise.",
    )


def _of_models(estimate: Estimate, simulated: Simulated) -> Iterator[Told]:
    if simulated.no_overlap is not None:
        unasked = simulated.sample is None
        yield (
            "T35",
            f"The simple model was used, misses times their costs: {simulated.no_overlap}.",
            "Run tlbcost calibrate --recalibrate." if unasked else "Give the program more to do.",
        )
    if estimate.given.measured is None:
        return
    found, expected = estimate.given.measured.user_fraction, simulated.gain.expected_fraction
    if found.low > expected.high or expected.low > found.high:
        yield (
            "T56",
            f"The model expected {units.percent(expected.value)} ({units.range_of(expected)}) in "
            f"user mode, and {units.percent(found.value)} was measured: the parts of memory and "
            "code are the model's, scaled to that.",
            "tlbcost trial with the method in question decides.",
        )
