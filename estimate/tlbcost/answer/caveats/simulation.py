# SPDX-License-Identifier: GPL-2.0-or-later
"""Caveats about the simulation: its blind spots and assumptions."""

from __future__ import annotations

from collections.abc import Callable

from tlbcost.answer.record import CaveatRule, Estimate, Simulated
from tlbcost.common import units
from tlbcost.measured.record import WORTHWHILE_FRACTION
from tlbcost.processors.published import SourceKind
from tlbcost.simulator.counts import ProcessCounts

FILE_FRACTION = 0.25

_Rule = Callable[[Estimate, Simulated], tuple[str, str] | None]


def _where_simulated(rule: _Rule) -> CaveatRule:
    return lambda estimate: (
        None if estimate.simulated is None else rule(estimate, estimate.simulated)
    )


def _left_behind(estimate: Estimate, _simulated: Simulated) -> tuple[str, str] | None:
    left = 0 if estimate.given.simulation is None else estimate.given.simulation.left_behind
    if not left:
        return None
    which = "a process" if left == 1 else f"{left} processes"
    return (
        f"The program ended while {which} that it started still ran: what they do afterwards is "
        "neither timed nor simulated.",
        "To estimate it, have the program wait for them.",
    )


def _killed_process(estimate: Estimate, simulated: Simulated) -> tuple[str, str] | None:
    killed = [process for process in simulated.processes if process.counts is None]
    if killed:
        return (
            f"{_number_of(killed)} ended without reporting any counts; those misses are not in "
            f"the sums: {_names(killed)}.",
            "Let the program end its helpers with SIGTERM instead of SIGKILL.",
        )
    untold = [process for process in simulated.processes if process.touched is None]
    if not untold or estimate.given.copied is not None:
        return None
    return (
        f"The memory that {_number_of(untold)} touched could not be recorded, and is missing "
        f"from the footprint: {_names(untold)}.",
        "Try ulimit -v unlimited, or give the program less to do.",
    )


def _number_of(processes: list[ProcessCounts]) -> str:
    return f"{len(processes)} process{'es' if len(processes) > 1 else ''}"


def _names(processes: list[ProcessCounts]) -> str:
    return ", ".join(f"{process.program} (pid {process.pid})" for process in processes[:3])


def _threads(estimate: Estimate, simulated: Simulated) -> tuple[str, str] | None:
    most = max((process.threads or 0 for process in simulated.processes), default=0)
    if most < 2 or estimate.given.copied is not None:
        return None
    return (
        f"{most} threads ran one at a time in the simulator: their misses are each thread's own, "
        "but work that depends on timing (spinning, stealing) differs.",
        "If its threads spin or steal work, compare with one thread.",
    )


def _geometry(_estimate: Estimate, simulated: Simulated) -> tuple[str, str] | None:
    huge = simulated.geometry.huge.page_size_bytes
    unmeasured: dict[SourceKind, list[str]] = {"published": [], "assumed": []}
    for (level, size), source in simulated.geometry.sources.items():
        # Code stays on base pages, and no calibration measures the instruction side.
        ignored = level == "itlb" and (size == huge or source.kind == "published")
        if source.kind in unmeasured and not source.confirmed and not ignored:
            unmeasured[source.kind].append(f"{level} {units.size(size)}")
    parts = [f"{', '.join(levels)} {kind}" for kind, levels in unmeasured.items() if levels]
    if not parts:
        return None
    return (
        f"The size of some TLBs was not measured here: {'; '.join(parts)}.",
        "tlbcost calibrate --recalibrate on a quiet machine may find them.",
    )


def _other_exit(estimate: Estimate, simulated: Simulated) -> tuple[str, str] | None:
    if simulated.code == estimate.given.codes[0]:
        return None
    return (
        f"The program exited with {estimate.given.codes[0]} natively but with {simulated.code} "
        "in the simulator: the counts may be of a different run.",
        "Restore what it changes (--prepare CMD), or raise its own time limits.",
    )


def _files(estimate: Estimate, simulated: Simulated) -> tuple[str, str] | None:
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
        return None
    measured = estimate.given.measured
    if measured is None or "shared memory" in measured.also:
        what = "the gain expects huge pages for these too, but malloc's switch does not reach them."
    else:
        what = "they stayed on base pages when the gain was measured."
    part = units.percent(other / total)
    return (
        f"{part} of the pages touched are of files or shared memory: {what}",
        "Put them on hugetlbfs, or on tmpfs with huge=advise.",
    )


def _splintered(estimate: Estimate, simulated: Simulated) -> tuple[str, str] | None:
    huge, base_costs, huge_costs = simulated.geometry.huge, estimate.base_costs, estimate.huge_costs
    if huge.entry_bytes in (None, huge.page_size_bytes):
        return None
    if estimate.gain.bound_fraction.value < WORTHWHILE_FRACTION:
        return None
    assert huge.entry_bytes is not None
    before, after = (each.walk_serial_ns if each else None for each in (base_costs, huge_costs))
    cheaper = ""
    # A calibration on a busy machine may have them the other way round.
    if before is not None and after is not None and after.value < before.value:
        costs = f"{units.nanoseconds(before.value)} -> {units.nanoseconds(after.value)}"
        cheaper = f" ({costs} ns)"
    walks = sum(
        seen.stlb_misses
        for (size, _), seen in simulated.counts.items()
        if size == simulated.geometry.base.page_size_bytes
    )
    return (
        f"The host backs this VM with {units.size(huge.entry_bytes)} pages. Huge pages make a "
        f"walk cheaper{cheaper} but remove none: {units.count(walks)} walks either way.",
        "Huge pages on the host, too, give more.",
    )


def _no_overlap(_estimate: Estimate, simulated: Simulated) -> tuple[str, str] | None:
    if simulated.no_overlap is None:
        return None
    unasked = simulated.sample is None
    return (
        f"The simple model was used, misses times their costs: {simulated.no_overlap}.",
        "Run tlbcost calibrate --recalibrate." if unasked else "Give the program more to do.",
    )


def _model_differs(estimate: Estimate, simulated: Simulated) -> tuple[str, str] | None:
    measured = estimate.given.measured
    if measured is None:
        return None
    found, expected = measured.user_fraction, simulated.gain.expected_fraction
    if found.low <= expected.high and expected.low <= found.high:
        return None
    return (
        f"The model expected {units.percent(expected.value)} ({units.range_of(expected)}) in user "
        f"mode, and {units.percent(found.value)} was measured: the parts of memory and code are "
        "the model's, scaled to that.",
        "tlbcost trial with the method in question decides.",
    )


RULES: dict[str, CaveatRule] = {
    code: _where_simulated(rule)
    for code, rule in {
        "T04": _killed_process,
        "T05": _threads,
        "T06": _geometry,
        "T14": _other_exit,
        "T15": _files,
        "T21": _splintered,
        "T35": _no_overlap,
        "T42": _left_behind,
        "T56": _model_differs,
    }.items()
}
