# SPDX-License-Identifier: GPL-2.0-or-later
"""What should a reader of an estimate know before relying on it? Paragraphs: doc/caveats.md.

One function for each code, all in this file, since a reader comes with a code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tlbcost import units
from tlbcost.glibc import HUGETLB, tunable
from tlbcost.model import already_huge, run_time_ns
from tlbcost.records import ProcessCounts, SourceKind
from tlbcost.report.content import Content
from tlbcost.stats import median, spread_fraction

SHORT_RUN_NS = 50_000_000
SPREAD_FRACTION = 0.10
KERNEL_FRACTION = 0.20
FILE_FRACTION = 0.25
MOST_NOTES = 2


@dataclass(frozen=True, slots=True)
class Caveat:
    """A numbered warning: what is so, and what to do about it."""

    code: str
    sentence: str
    remedy: str


# A rule returns the sentence and the remedy, or None where it does not apply.
Rule = Callable[[Content], tuple[str, str] | None]


def caveats(content: Content) -> list[Caveat]:
    """The caveats that apply, in the order of their codes."""
    found = []
    for code, rule in RULES.items():
        text = rule(content)
        if text is not None:
            found.append(Caveat(code, *text))
    return found


def _virtual_machine(content: Content) -> tuple[str, str] | None:
    if content.machine.hypervisor is None:
        return None
    return (
        "this is a virtual machine: a huge page of the guest need not be one of the host, and "
        "other guests change the costs",
        "calibrate where the program will run (tlbcost calibrate --recalibrate)",
    )


def _short_run(content: Content) -> tuple[str, str] | None:
    shortest = min(run.wall_ns for run in content.runs)
    if shortest >= SHORT_RUN_NS:
        return None
    return (
        f"a run takes only {units.time(shortest)}, of which starting the program is a large "
        "part: the interval is wide",
        "give the program more work",
    )


def _spread(content: Content) -> tuple[str, str] | None:
    spread = spread_fraction([run_time_ns(run) for run in content.runs])
    if spread is None or spread <= SPREAD_FRACTION:
        return None
    return (
        f"the run times differ by {units.percent(spread)}, and the shares with them",
        "repeat on a quieter machine, with --runs 10",
    )


def _killed_process(content: Content) -> tuple[str, str] | None:
    killed = [process for process in content.processes if process.counts is None]
    if killed:
        return (
            f"{_number_of(killed)} ended without reporting any counts, and what was missed there "
            f"is not in the sums: {_names(killed)}",
            "let the program end its helpers with SIGTERM instead of SIGKILL",
        )
    untold = [process for process in content.processes if process.touched is None]
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


def _threads(content: Content) -> tuple[str, str] | None:
    most = max((process.threads or 0 for process in content.processes), default=0)
    if most < 2:
        return None
    return (
        f"{most} threads ran one at a time in the simulator: their misses are each thread's own, "
        "but work that depends on timing (spinning, stealing) differs",
        "if its threads spin or steal work, compare with one thread (its own option for it, or "
        "OMP_NUM_THREADS=1)",
    )


def _geometry(content: Content) -> tuple[str, str] | None:
    huge = content.geometry.huge.page_size_bytes
    unmeasured: dict[SourceKind, list[str]] = {"published": [], "assumed": []}
    for (level, size), source in content.geometry.sources.items():
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


def _huge_costs(content: Content) -> tuple[str, str] | None:
    huge = content.huge_costs
    missing = [
        name
        for name, cost in (
            ("an STLB hit", huge.stlb_hit_serial_ns),
            ("a page walk", huge.walk_serial_ns),
        )
        if cost is None
    ]
    if not missing:
        return None
    size = units.size(huge.page_size_bytes)
    return (
        f"the cost of {' and '.join(missing)} on {size} pages was not measured here: priced like "
        f"one on {units.size(content.base_costs.page_size_bytes)} pages, an upper limit, so that "
        "the gain may be larger",
        "tlbcost calibrate --recalibrate with more free memory",
    )


def _capped(content: Content) -> tuple[str, str] | None:
    if not content.estimate.bound_capped:
        return None
    return (
        "the bound is capped at the user time: at the cost of dependent accesses translation "
        "alone would take longer, so the program's accesses overlap",
        "the gain is likely in the lower half of its interval",
    )


def _calibration_notes(content: Content) -> tuple[str, str] | None:
    notes = content.calibration.notes
    if not notes:
        return None
    left = len(notes) - MOST_NOTES
    more = f"; {left} more" if left > 0 else ""
    return (
        f"about the calibration: {'; '.join(notes[:MOST_NOTES])}{more}",
        "tlbcost calibrate shows all that was measured",
    )


def _kernel(content: Content) -> tuple[str, str] | None:
    share = median([run.system_ns / run_time_ns(run) for run in content.runs])
    if share <= KERNEL_FRACTION:
        return None
    return (
        f"{units.percent(share)} of the run time is spent in the kernel, whose own memory "
        "references are not simulated",
        "the bound and the expected gain hold for the rest",
    )


def _thp_always(content: Content) -> tuple[str, str] | None:
    if content.machine.thp_mode != "always":
        return None
    return (
        "transparent huge pages are always on: the program may have run on huge pages already, "
        "and have gained part of this",
        "set madvise in /sys/kernel/mm/transparent_hugepage/enabled, then repeat",
    )


def _pmu(content: Content) -> tuple[str, str] | None:
    if not content.surroundings.has_pmu:
        return None
    return (
        "this machine has hardware counters, which will be usable later; this estimate is from "
        "the simulation alone",
        "perf stat -e dTLB-load-misses,dTLB-loads counts some of the same events",
    )


def _tunables(content: Content) -> tuple[str, str] | None:
    tunables = content.surroundings.glibc_tunables or ""
    value = tunable(tunables, HUGETLB)
    if value in (None, "0"):
        return None
    return (
        f"GLIBC_TUNABLES already asks for huge pages ({HUGETLB}={value}): the runs "
        "that were timed may have had them",
        "env -u GLIBC_TUNABLES tlbcost estimate ...",
    )


def _other_exit(content: Content) -> tuple[str, str] | None:
    if content.simulated_code == content.codes[0]:
        return None
    return (
        f"the program exited with {content.codes[0]} natively but with {content.simulated_code} "
        "in the simulator: the counts may be of a different run",
        "--prepare CMD restores what the program changes; its time limits may need to be longer",
    )


def _files(content: Content) -> tuple[str, str] | None:
    stlb = content.geometry.base.stlb or content.geometry.base.dtlb
    # What fits into the TLBs causes no walks to speak of; any process has libraries.
    other = sum(
        process.touched.other_pages
        for process in content.processes
        if process.touched is not None and process.touched.other_pages > stlb.entries
    )
    total = content.footprint.anonymous_pages + content.footprint.other_pages
    if other == 0 or other / total <= FILE_FRACTION:
        return None
    return (
        f"{units.percent(other / total)} of the pages touched are of files or "
        "shared memory: the expected gain takes huge pages for these too, but malloc's switch "
        "does not give them any",
        "hugetlbfs, or tmpfs with huge=advise, can hold them",
    )


def _fault_cost(content: Content) -> tuple[str, str] | None:
    if content.estimate.fault_fraction is not None:
        return None
    return (
        "the cost of a page fault was not measured on both page sizes: the saving in page faults "
        "is not known (NA)",
        "tlbcost calibrate --recalibrate; THP must not be 'never'",
    )


def _failed(content: Content) -> tuple[str, str] | None:
    failed = [code for code in content.codes if code != 0]
    if not failed:
        return None
    return (
        f"the program failed in {len(failed)} of {len(content.codes)} runs (exit code "
        f"{failed[0]}): this is an estimate of the failing program",
        "mend the program, then repeat without --ignore-failure",
    )


def _single_run(content: Content) -> tuple[str, str] | None:
    if len(content.runs) > 1:
        return None
    return (
        "the program was timed once: how much its run time varies is not known, nor in the "
        "intervals",
        "--runs 3, if it is short enough",
    )


def _other_machine(content: Content) -> tuple[str, str] | None:
    if content.calibration.machine == content.machine:
        return None
    name = content.calibration.machine.cpu_name or "an unknown CPU"
    return (
        f"the calibration is from a machine in another state ({name}, "
        f"{content.calibration.machine.kernel or 'unknown kernel'})",
        "leave --calibration out to measure this one",
    )


def _overlapped(content: Content) -> tuple[str, str] | None:
    base = content.base_costs
    if base.walk_overlapped_ns is not None and base.stlb_hit_overlapped_ns is not None:
        return None
    return (
        "the cost of overlapped accesses was not measured: the low end of the gain takes it as "
        "nothing",
        "tlbcost calibrate --recalibrate on a quiet machine",
    )


def _splintered(content: Content) -> tuple[str, str] | None:
    huge = content.geometry.huge
    if huge.entry_bytes in (None, huge.page_size_bytes):
        return None
    assert huge.entry_bytes is not None
    small, large = units.size(huge.entry_bytes), units.size(huge.page_size_bytes)
    return (
        f"the host backs this virtual machine with {small} pages, so that {large} pages save no "
        "TLB misses here (their counts are shown alike) but make each walk cheaper",
        "where the host has huge pages too, the gain is larger",
    )


def _already_huge(content: Content) -> tuple[str, str] | None:
    if not already_huge(content.runs, content.footprint):
        return None
    faults = median([run.minor_faults for run in content.runs])
    pages = content.footprint.largest_anonymous_pages
    return (
        f"the program took only {faults:,.0f} page faults for {pages:,} pages of memory: it has "
        "huge pages already, by its own request or the system's, and the shares are of that time",
        "to see the time without: echo never | sudo tee "
        "/sys/kernel/mm/transparent_hugepage/enabled, and put it back afterwards",
    )


RULES: dict[str, Rule] = {
    "T01": _virtual_machine,
    "T02": _short_run,
    "T03": _spread,
    "T04": _killed_process,
    "T05": _threads,
    "T06": _geometry,
    "T07": _huge_costs,
    "T08": _capped,
    "T09": _calibration_notes,
    "T10": _kernel,
    "T11": _thp_always,
    "T12": _pmu,
    "T13": _tunables,
    "T14": _other_exit,
    "T15": _files,
    "T16": _fault_cost,
    "T17": _failed,
    "T18": _single_run,
    "T19": _other_machine,
    "T20": _overlapped,
    "T21": _splintered,
    "T22": _already_huge,
}
