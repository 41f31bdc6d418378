# SPDX-License-Identifier: GPL-2.0-or-later
"""All caveats by severity, those that apply to an estimate, and those about the machine."""

from __future__ import annotations

import re
from statistics import median

from tlbcost.answer import words
from tlbcost.answer.caveats import counters, simulation
from tlbcost.answer.record import Caveat, CaveatRule, Estimate, Severity
from tlbcost.answer.words import poor_because
from tlbcost.calibration.records import POOR
from tlbcost.common import units
from tlbcost.common.units import spread_fraction
from tlbcost.model.gain import already_huge, fraction
from tlbcost.system.machine import HUGETLB_TUNABLE, tunable

SHORT_RUN_NS = 50_000_000
KERNEL_FRACTION = 0.20
MOST_NOTES = 2
# A request notices this; and it is the huge page's, not what any touch may wait for here.
_STALL_NS, _MUCH_LONGER = 10_000_000, 10
# With defer+madvise, what asks for huge pages would wait as before.
_IN_THE_BACKGROUND = (
    "Let the kernel compact in the background (echo defer | sudo tee "
    "/sys/kernel/mm/transparent_hugepage/defrag). "
)


def _virtual_machine(estimate: Estimate) -> tuple[str, str] | None:
    if estimate.given.machine is None or estimate.given.machine.hypervisor is None:
        return None
    return (
        "This is a virtual machine: a huge page of the guest need not be one of the host, and "
        "other tenants change the costs.",
        "Calibrate where the program will run (tlbcost calibrate --recalibrate).",
    )


def _short_run(estimate: Estimate) -> tuple[str, str] | None:
    shortest = min((run.wall_ns for run in estimate.given.runs), default=None)
    if shortest is None or shortest >= SHORT_RUN_NS:
        return None
    return (
        f"The run is short ({units.time(shortest)}), and much of it is start-up.",
        "Give the program more work.",
    )


def _spread(estimate: Estimate) -> tuple[str, str] | None:
    measured = estimate.given.measured
    # What pairs vary by is in the interval.
    if not estimate.given.runs or (measured is not None and measured.source != "copies"):
        return None
    spread = spread_fraction([run.cpu_ns for run in estimate.given.runs])
    if spread is None or spread <= words.SPREAD_FRACTION:
        return None
    return (
        f"The CPU times of the runs vary by {units.percent(spread)}, and the shares with them.",
        "Repeat on a quiet machine.",
    )


def _busy(estimate: Estimate) -> tuple[str, str] | None:
    waited = words.waited_fraction(estimate.given.runs)
    if waited is None or waited <= words.WORTH_SAYING_FRACTION:
        return None
    return (
        f"The machine was busy: the program waited for a CPU {units.percent(waited)} of the time. "
        "Shares are of its CPU time, which other load also changes.",
        "Repeat when the machine is quiet, or on a CPU of its own (taskset).",
    )


def _idle(estimate: Estimate) -> tuple[str, str] | None:
    idle = words.idle_fraction(estimate.given.runs)
    if idle is None or idle <= words.WORTH_SAYING_FRACTION:
        return None
    return (
        f"The program was idle for {units.percent(idle)} of the elapsed time, which huge pages do "
        "not shorten: shares are of its CPU time.",
        "Estimate it under full load if that is what matters.",
    )


def _calibration_notes(estimate: Estimate) -> tuple[str, str] | None:
    if estimate.given.calibrated is None or not estimate.given.cost_notes:
        return None
    notes = estimate.given.cost_notes
    left = len(notes) - MOST_NOTES
    more = f"; {left} more" if left > 0 else ""
    return (
        f"About the calibration: {'; '.join(notes[:MOST_NOTES])}{more}.",
        "tlbcost calibrate shows all that was measured.",
    )


def _kernel(estimate: Estimate) -> tuple[str, str] | None:
    if not estimate.given.runs or not (
        estimate.backend == "sim"
        or (estimate.counted is not None and estimate.counted.counted.mode == "user")
    ):
        return None
    share = median([fraction(run.system_ns, run) for run in estimate.given.runs])
    if share <= KERNEL_FRACTION:
        return None
    unseen = "simulated" if estimate.counted is None else "counted"
    return (
        f"{units.percent(share)} of the CPU time is spent in the kernel, whose own memory "
        f"accesses are not {unseen}.",
        "The upper bound and the expected gain hold for the rest.",
    )


def _thp_always(estimate: Estimate) -> tuple[str, str] | None:
    if estimate.given.machine is None or estimate.given.machine.thp_mode != "always":
        return None
    return (
        'THP is "always" here: the program may have run on huge pages already.',
        "Write madvise to /sys/kernel/mm/transparent_hugepage/enabled, and repeat.",
    )


def _pmu(estimate: Estimate) -> tuple[str, str] | None:
    if estimate.given.surroundings is None or not estimate.given.surroundings.has_pmu:
        return None
    if estimate.backend != "sim":
        return None
    return (
        "This machine has hardware counters, but only the simulation was used.",
        "Compare both (--backend both); tlbcost doctor shows whether the counters can be read.",
    )


def _tunables(estimate: Estimate) -> tuple[str, str] | None:
    surroundings = estimate.given.surroundings
    tunables = (surroundings.glibc_tunables if surroundings else None) or ""
    value = tunable(tunables, HUGETLB_TUNABLE)
    if value in (None, "0"):
        return None
    return (
        f"GLIBC_TUNABLES already asks for huge pages ({HUGETLB_TUNABLE}={value}): the timed runs "
        "may have had them.",
        "Repeat with: env -u GLIBC_TUNABLES tlbcost estimate ...",
    )


def _failed(estimate: Estimate) -> tuple[str, str] | None:
    failed = [code for code in estimate.given.codes if code != 0]
    if not failed:
        return None
    return (
        f"The program failed in {len(failed)} of {len(estimate.given.codes)} runs (exit code "
        f"{failed[0]}): this is an estimate of the failing program.",
        "Fix it, and repeat without --ignore-failure.",
    )


def _single_run(estimate: Estimate) -> tuple[str, str] | None:
    if len(estimate.given.runs) != 1:
        return None
    if estimate.given.followed:
        return (
            "The process was followed once: what it does varies over time.",
            "Follow it again, under the load that matters.",
        )
    return (
        "The program was timed once: how much its run time varies is not in the intervals.",
        "Use --runs 3 if it is short enough.",
    )


def _other_machine(estimate: Estimate) -> tuple[str, str] | None:
    if estimate.given.calibrated is None or estimate.given.machine in (
        None,
        estimate.given.calibrated.calibration.machine,
    ):
        return None
    name = estimate.given.calibrated.calibration.machine.cpu_name or "an unknown CPU"
    return (
        f"The calibration is from another machine, kernel or setting ({name}, "
        f"{estimate.given.calibrated.calibration.machine.kernel or 'unknown kernel'}).",
        "Leave --calibration out to measure this one.",
    )


def _already_huge(estimate: Estimate) -> tuple[str, str] | None:
    if not estimate.given.runs or estimate.footprint is None:
        return None
    if not already_huge(estimate.given.runs, estimate.footprint):
        return None
    faults = median([run.minor_faults for run in estimate.given.runs])
    pages = estimate.footprint.largest_anonymous_pages
    return (
        f"The program took only {faults:,.0f} page faults for {pages:,} pages of memory: it has "
        "huge pages already, and the shares are of its time with them.",
        "For its time without: echo never | sudo tee "
        "/sys/kernel/mm/transparent_hugepage/enabled; put it back afterwards.",
    )


def _fragmented(estimate: Estimate) -> tuple[str, str] | None:
    surroundings, machine = estimate.given.surroundings, estimate.given.machine
    if surroundings is None or machine is None or estimate.footprint is None:
        return None
    free, size = surroundings.free_huge_pages, estimate.given.huge_page_bytes
    wanted = estimate.footprint.anonymous_pages * machine.base_page_bytes // size
    if free is None or wanted <= free:
        return None
    compaction = None if surroundings.settings is None else surroundings.settings.compaction
    return (
        f"Of the {wanted:,} huge pages that its memory fills, {free:,} are free in one piece; for "
        f"the others: {compaction or 'the kernel compacts memory first'}.",
        "Free or compact memory first (echo 1 | sudo tee /proc/sys/vm/compact_memory).",
    )


def _stalls(estimate: Estimate) -> tuple[str, str] | None:
    around = estimate.given.surroundings
    if around is None or around.stalls is None or around.stalls.huge is None:
        return None
    huge, base = around.stalls.huge.worst_ns, around.stalls.base.worst_ns
    if huge < _STALL_NS or huge < _MUCH_LONGER * base:
        return None
    defrag = None if around.settings is None else around.settings.defrag
    return (
        f"The first touch of a huge page took up to {units.time(huge)} here just now, of a base "
        f"page {units.time(base)}: a request waits for it.",
        ("" if defrag in ("defer", "never") else _IN_THE_BACKGROUND)
        + "Touch memory at the start, or reserve a pool.",
    )


SYSTEM_RULES: dict[str, CaveatRule] = {
    "T01": _virtual_machine,
    "T02": _short_run,
    "T03": _spread,
    "T09": _calibration_notes,
    "T10": _kernel,
    "T11": _thp_always,
    "T12": _pmu,
    "T13": _tunables,
    "T17": _failed,
    "T18": _single_run,
    "T19": _other_machine,
    "T22": _already_huge,
    "T40": _busy,
    "T41": _idle,
    "T57": _fragmented,
    "T58": _stalls,
}


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


def caveats(estimate: Estimate) -> tuple[Caveat, ...]:
    found = (
        (code, severity, RULES[code](estimate))
        for severity, codes in SEVERITIES.items()
        for code in codes
    )
    return tuple(
        Caveat(code, severity, *map(_as_sentence, text)) for code, severity, text in found if text
    )


def _as_sentence(text: str) -> str:
    """With a capital, unless it begins with a command or an option, and a full stop."""
    text = text.strip()
    if not text:
        return ""
    if re.match(r"[a-z]+( |,)", text) and not text.startswith(_COMMANDS):
        text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?:" else f"{text}."


def _priced(estimate: Estimate) -> bool:
    return estimate.simulated is not None and estimate.simulated.gain.model == "simple"


def _huge_costs(estimate: Estimate) -> tuple[str, str] | None:
    huge = estimate.huge_costs
    # The counters' estimate takes no price of huge pages.
    if huge is None or estimate.base_costs is None or not _priced(estimate):
        return None
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
        f"The cost of {' and '.join(missing)} on {size} pages was not measured here; that on "
        f"{units.size(estimate.base_costs.page_size_bytes)} pages is used, an upper limit: the "
        "gain may be larger.",
        "Run tlbcost calibrate --recalibrate with more free memory.",
    )


def _capped(estimate: Estimate) -> tuple[str, str] | None:
    if not estimate.gain.bound_capped or estimate.backend != "sim":
        return None
    remedy = "Expect the gain in the lower half of its interval."
    if not _priced(estimate):
        remedy = "The expected gain is modelled without it."
    return (
        "The upper bound is capped at the user time: at the cost of dependent accesses "
        "translation alone would take longer, so the program's accesses overlap.",
        remedy,
    )


def _fault_cost(estimate: Estimate) -> tuple[str, str] | None:
    if estimate.gain.fault_fraction is not None or estimate.given.calibrated is None:
        return None
    return (
        "The cost of a page fault was not measured on both page sizes: what fewer page faults "
        "save is not known (NA).",
        'Run tlbcost calibrate --recalibrate; THP must not be "never".',
    )


def _overlapped(estimate: Estimate) -> tuple[str, str] | None:
    base = estimate.base_costs
    if base is None or not _priced(estimate):
        return None
    if base.walk_overlapped_ns is not None and base.stlb_hit_overlapped_ns is not None:
        return None
    return (
        "The cost of overlapped accesses was not measured: the lower end of the gain takes it as "
        "0.",
        "Run tlbcost calibrate --recalibrate on a quiet machine.",
    )


def _poor(estimate: Estimate) -> tuple[str, str] | None:
    reasons = poor_because(estimate)
    if not reasons:
        return None
    what, _, remedy = POOR.partition(": ")
    more = f"; {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return (
        f"{what}, so every time and share here is uncertain: {reasons[0]}{more}",
        f"{remedy}: tlbcost calibrate --recalibrate",
    )


_COST_RULES: dict[str, CaveatRule] = {
    "T07": _huge_costs,
    "T08": _capped,
    "T16": _fault_cost,
    "T20": _overlapped,
    "T45": _poor,
}
RULES: dict[str, CaveatRule] = {**SYSTEM_RULES, **_COST_RULES, **simulation.RULES, **counters.RULES}
