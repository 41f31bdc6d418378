# SPDX-License-Identifier: GPL-2.0-or-later
"""All caveats by severity, those that apply to an estimate, and those about the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median

from tlbcost.answer import words
from tlbcost.answer.caveats.counters import noted, of_counters
from tlbcost.answer.caveats.simulation import of_simulation
from tlbcost.answer.record import Caveat, Estimate, Severity, Told
from tlbcost.calibration.records import POOR
from tlbcost.common import units
from tlbcost.common.units import spread_fraction
from tlbcost.model.gain import already_huge, fraction
from tlbcost.system.machine import HUGETLB_TUNABLE, tunable

SHORT_RUN_NS = 50_000_000
KERNEL_FRACTION = 0.20
# A request notices this; and it is the huge page's, not what any touch may wait for here.
_STALL_NS, _MUCH_LONGER = 10_000_000, 10
# With defer+madvise, what asks for huge pages would wait as before.
_IN_THE_BACKGROUND = (
    "Let the kernel compact in the background (echo defer | sudo tee "
    "/sys/kernel/mm/transparent_hugepage/defrag). "
)


def _of_machine(estimate: Estimate) -> Iterator[Told]:
    machine, around = estimate.given.machine, estimate.given.surroundings
    if machine is not None and machine.hypervisor is not None:
        yield (
            "T01",
            "This is a virtual machine: a huge page of the guest need not be one of the host, and "
            "other tenants change the costs.",
            "Calibrate where the program will run (tlbcost calibrate --recalibrate).",
        )
    if machine is not None and machine.thp_mode == "always":
        yield (
            "T11",
            'THP is "always" here: the program may have run on huge pages already.',
            "Write madvise to /sys/kernel/mm/transparent_hugepage/enabled, and repeat.",
        )
    if around is not None and around.has_pmu and estimate.backend == "sim":
        yield (
            "T12",
            "This machine has hardware counters, but only the simulation was used.",
            "Compare both (--backend both); tlbcost doctor shows whether the counters can be read.",
        )
    value = tunable((around.glibc_tunables if around else None) or "", HUGETLB_TUNABLE)
    if value not in (None, "0"):
        yield (
            "T13",
            f"GLIBC_TUNABLES already asks for huge pages ({HUGETLB_TUNABLE}={value}): the timed "
            "runs may have had them.",
            "Repeat with: env -u GLIBC_TUNABLES tlbcost estimate ...",
        )


def _of_times(estimate: Estimate) -> Iterator[Told]:
    runs, measured = estimate.given.runs, estimate.given.measured
    shortest = min((run.wall_ns for run in runs), default=None)
    if shortest is not None and shortest < SHORT_RUN_NS:
        yield (
            "T02",
            f"The run is short ({units.time(shortest)}), and much of it is start-up.",
            "Give the program more work.",
        )
    spread = spread_fraction([run.cpu_ns for run in runs]) if runs else None
    # What pairs vary by is in the interval.
    modelled = measured is None or measured.source == "copies"
    if modelled and spread is not None and spread > words.SPREAD_FRACTION:
        yield (
            "T03",
            f"The CPU times of the runs vary by {units.percent(spread)}, and the shares with them.",
            "Repeat on a quiet machine.",
        )
    waited, idle = words.waited_fraction(runs), words.idle_fraction(runs)
    if waited is not None and waited > words.WORTH_SAYING_FRACTION:
        yield (
            "T40",
            f"The machine was busy: the program waited for a CPU {units.percent(waited)} of the "
            "time. Shares are of its CPU time, which other load also changes.",
            "Repeat when the machine is quiet, or on a CPU of its own (taskset).",
        )
    if idle is not None and idle > words.WORTH_SAYING_FRACTION:
        yield (
            "T41",
            f"The program was idle for {units.percent(idle)} of the elapsed time, which huge "
            "pages do not shorten: shares are of its CPU time.",
            "Estimate it under full load if that is what matters.",
        )


def _of_runs(estimate: Estimate) -> Iterator[Told]:
    given, counted = estimate.given, estimate.counted
    user_only = counted is not None and counted.counted.mode == "user"
    if given.runs and (estimate.backend == "sim" or user_only):
        share = median([fraction(run.system_ns, run) for run in given.runs])
        unseen = "simulated" if counted is None else "counted"
        if share > KERNEL_FRACTION:
            yield (
                "T10",
                f"{units.percent(share)} of the CPU time is spent in the kernel, whose own memory "
                f"accesses are not {unseen}.",
                "The upper bound and the expected gain hold for the rest.",
            )
    failed = [code for code in given.codes if code != 0]
    if failed:
        yield (
            "T17",
            f"The program failed in {len(failed)} of {len(given.codes)} runs (exit code "
            f"{failed[0]}): this is an estimate of the failing program.",
            "Fix it, and repeat without --ignore-failure.",
        )
    if len(given.runs) == 1 and given.followed:
        yield (
            "T18",
            "The process was followed once: what it does varies over time.",
            "Follow it again, under the load that matters.",
        )
    elif len(given.runs) == 1:
        yield (
            "T18",
            "The program was timed once: how much its run time varies is not in the intervals.",
            "Use --runs 3 if it is short enough.",
        )
    footprint = estimate.footprint
    if given.runs and footprint is not None and already_huge(given.runs, footprint):
        faults = median([run.minor_faults for run in given.runs])
        yield (
            "T22",
            f"The program took only {faults:,.0f} page faults for "
            f"{footprint.largest_anonymous_pages:,} pages of memory: it has huge pages already, "
            "and the shares are of its time with them.",
            "For its time without: echo never | sudo tee "
            "/sys/kernel/mm/transparent_hugepage/enabled; put it back afterwards.",
        )


def _of_free_memory(estimate: Estimate) -> Iterator[Told]:
    around, machine = estimate.given.surroundings, estimate.given.machine
    if around is None:
        return
    settings, free, size = around.settings, around.free_huge_pages, estimate.given.huge_page_bytes
    if machine is not None and estimate.footprint is not None and free is not None:
        wanted = estimate.footprint.anonymous_pages * machine.base_page_bytes // size
        compaction = None if settings is None else settings.compaction
        if wanted > free:
            yield (
                "T57",
                f"Of the {wanted:,} huge pages that its memory fills, {free:,} are free in one "
                f"piece; for the others: {compaction or 'the kernel compacts memory first'}.",
                "Free or compact memory first (echo 1 | sudo tee /proc/sys/vm/compact_memory).",
            )
    if around.stalls is None or around.stalls.huge is None:
        return
    stalls = around.stalls
    huge, base = around.stalls.huge.worst_ns, stalls.base.worst_ns
    what, other = "The first touch of a huge page", "of a base page"
    if stalls.huge_faults is not None and stalls.base_faults is not None:
        huge, base = stalls.huge_faults.worst_ns, stalls.base_faults.worst_ns
        what, other = "A page fault of the program on huge pages", "on base pages"
    if huge >= _STALL_NS and huge >= _MUCH_LONGER * base:
        defrag = None if settings is None else settings.defrag
        yield (
            "T58",
            f"{what} took up to {units.time(huge)} here just now, {other} {units.time(base)}: a "
            "request waits for it.",
            ("" if defrag in ("defer", "never") else _IN_THE_BACKGROUND)
            + "Touch memory at the start, or reserve a pool.",
        )


def _of_calibration(estimate: Estimate) -> Iterator[Told]:
    calibrated, notes = estimate.given.calibrated, estimate.given.cost_notes
    if calibrated is None:
        return
    if notes:
        yield (
            "T09",
            f"About the calibration: {noted(notes)}.",
            "tlbcost calibrate shows all that was measured.",
        )
    machine = calibrated.calibration.machine
    if estimate.given.machine not in (None, machine):
        yield (
            "T19",
            "The calibration is from another machine, kernel or setting "
            f"({machine.cpu_name or 'an unknown CPU'}, {machine.kernel or 'unknown kernel'}).",
            "Leave --calibration out to measure this one.",
        )
    reasons = words.poor_because(estimate)
    if reasons:
        what, _, remedy = POOR.partition(": ")
        more = f"; {len(reasons) - 1} more" if len(reasons) > 1 else ""
        yield (
            "T45",
            f"{what}, so every time and share here is uncertain: {reasons[0]}{more}",
            f"{remedy}: tlbcost calibrate --recalibrate",
        )
    if estimate.gain.fault_fraction is None:
        yield (
            "T16",
            "The cost of a page fault was not measured on both page sizes: what fewer page faults "
            "save is not known (NA).",
            'Run tlbcost calibrate --recalibrate; THP must not be "never".',
        )


def _of_costs(estimate: Estimate) -> Iterator[Told]:
    base, huge, simulated = estimate.base_costs, estimate.huge_costs, estimate.simulated
    # The counters' estimate takes no price of huge pages.
    priced = simulated is not None and simulated.gain.model == "simple"
    if priced and base is not None and huge is not None:
        costs = {"an STLB hit": huge.stlb_hit_serial_ns, "a page walk": huge.walk_serial_ns}
        missing = [name for name, cost in costs.items() if cost is None]
        if missing:
            yield (
                "T07",
                f"The cost of {' and '.join(missing)} on {units.size(huge.page_size_bytes)} pages "
                f"was not measured here; that on {units.size(base.page_size_bytes)} pages is "
                "used, an upper limit: the gain may be larger.",
                "Run tlbcost calibrate --recalibrate with more free memory.",
            )
    if priced and base and None in (base.walk_overlapped_ns, base.stlb_hit_overlapped_ns):
        yield (
            "T20",
            "The cost of overlapped accesses was not measured: the lower end of the gain takes it "
            "as 0.",
            "Run tlbcost calibrate --recalibrate on a quiet machine.",
        )
    if estimate.gain.bound_capped and estimate.backend == "sim":
        yield (
            "T08",
            "The upper bound is capped at the user time: at the cost of dependent accesses "
            "translation alone would take longer, so the program's accesses overlap.",
            "Expect the gain in the lower half of its interval."
            if priced
            else "The expected gain is modelled without it.",
        )


# Worst first: a report shows the first three.
SEVERITIES: dict[Severity, tuple[str, ...]] = {
    "high": ("T45", "T17", "T14", "T22", "T40", "T11", "T13", "T19", "T04", "T34"),
    "medium": (
        "T58", "T57", "T41", "T42", "T03", "T21", "T02", "T55", "T56",
        "T25", "T27", "T26", "T28", "T07", "T20", "T35", "T15",
        "T16", "T10", "T18", "T29", "T33", "T32", "T06", "T09", "T30", "T24",
    ),
    "low": ("T05", "T08", "T12", "T23", "T31", "T01"),
}  # fmt: skip
_COMMANDS = ("tlbcost ", "ulimit ", "env ", "echo ")
_RULES = (
    _of_machine,
    _of_times,
    _of_runs,
    _of_free_memory,
    _of_calibration,
    _of_costs,
    of_simulation,
    of_counters,
)


def caveats(estimate: Estimate) -> tuple[Caveat, ...]:
    told = {code: text for rule in _RULES for code, *text in rule(estimate)}
    severities = {code: severity for severity, codes in SEVERITIES.items() for code in codes}
    return tuple(
        Caveat(code, severities[code], *map(_as_sentence, told[code]))
        for code in sorted(told, key=[*severities].index)
    )


def _as_sentence(text: str) -> str:
    """With a capital, unless it begins with a command or an option, and a full stop."""
    text = text.strip()
    if not text:
        return ""
    if re.match(r"[a-z]+( |,)", text) and not text.startswith(_COMMANDS):
        text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?:" else f"{text}."
