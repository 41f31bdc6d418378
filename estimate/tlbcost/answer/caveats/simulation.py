# SPDX-License-Identifier: GPL-2.0-or-later
"""What to know about the simulation: what it could not see, and what it assumed."""

from __future__ import annotations

from collections.abc import Callable

from tlbcost.answer.record import CaveatRule, Estimate, Simulated
from tlbcost.common import units
from tlbcost.processors.geometry import SourceKind
from tlbcost.simulator.counts import ProcessCounts

FILE_FRACTION = 0.25

_Rule = Callable[[Estimate, Simulated], tuple[str, str] | None]


def _where_simulated(rule: _Rule) -> CaveatRule:
    return lambda estimate: (
        None if estimate.simulated is None else rule(estimate, estimate.simulated)
    )


def _killed_process(_estimate: Estimate, simulated: Simulated) -> tuple[str, str] | None:
    killed = [process for process in simulated.processes if process.counts is None]
    if killed:
        return (
            f"{_number_of(killed)} ended without reporting any counts, and what was missed there "
            f"is not in the sums: {_names(killed)}",
            "let the program end its helpers with SIGTERM instead of SIGKILL",
        )
    untold = [process for process in simulated.processes if process.touched is None]
    if not untold:
        return None
    return (
        f"the memory that {_number_of(untold)} touched could not be noted, and is missing "
        f"from the footprint: {_names(untold)}",
        "ulimit -v unlimited, or give the program less to do",
    )


def _number_of(processes: list[ProcessCounts]) -> str:
    return f"{len(processes)} process{'es' if len(processes) > 1 else ''}"


def _names(processes: list[ProcessCounts]) -> str:
    return ", ".join(f"{process.program} (pid {process.pid})" for process in processes[:3])


def _threads(_estimate: Estimate, simulated: Simulated) -> tuple[str, str] | None:
    most = max((process.threads or 0 for process in simulated.processes), default=0)
    if most < 2:
        return None
    return (
        f"{most} threads ran one at a time in the simulator: their misses are each thread's own, "
        "but work that depends on timing (spinning, stealing) differs",
        "if its threads spin or steal work, compare with one thread (its own option for it, or "
        "OMP_NUM_THREADS=1)",
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
        f"the size of some TLBs was not measured here: {'; '.join(parts)}",
        "tlbcost calibrate --recalibrate on a quiet machine may find them",
    )


def _other_exit(estimate: Estimate, simulated: Simulated) -> tuple[str, str] | None:
    if simulated.code == estimate.given.codes[0]:
        return None
    return (
        f"the program exited with {estimate.given.codes[0]} natively but with {simulated.code} "
        "in the simulator: the counts may be of a different run",
        "--prepare CMD restores what the program changes; its time limits may need to be longer",
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
    return (
        f"{units.percent(other / total)} of the pages touched are of files or "
        "shared memory: the expected gain takes huge pages for these too, but malloc's switch "
        "does not give them any",
        "hugetlbfs, or tmpfs with huge=advise, can hold them",
    )


def _splintered(_estimate: Estimate, simulated: Simulated) -> tuple[str, str] | None:
    huge = simulated.geometry.huge
    if huge.entry_bytes in (None, huge.page_size_bytes):
        return None
    assert huge.entry_bytes is not None
    small, large = units.size(huge.entry_bytes), units.size(huge.page_size_bytes)
    return (
        f"the host backs this virtual machine with {small} pages, so that {large} pages save no "
        "TLB misses here (their counts are shown alike) but make each walk cheaper",
        "where the host has huge pages too, the gain is larger",
    )


def _no_overlap(_estimate: Estimate, simulated: Simulated) -> tuple[str, str] | None:
    if simulated.no_overlap is None:
        return None
    unasked = simulated.sample is None
    return (
        f"the simple model was used, misses times their costs: {simulated.no_overlap}",
        "tlbcost calibrate --recalibrate" if unasked else "give the program more to do",
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
    }.items()
}
