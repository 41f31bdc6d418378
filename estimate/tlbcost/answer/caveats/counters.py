# SPDX-License-Identifier: GPL-2.0-or-later
"""What to know about hardware counts: what they mean on this CPU, and what was not obtained."""

from __future__ import annotations

from collections.abc import Callable

from tlbcost.answer.record import CaveatRule, CountedPart, Estimate
from tlbcost.common import units

MOST_NOTES = 2
MOST_NAMES = 3
# Two ways to count the same walks that differ by more are not explained by speculation alone.
DISAGREE_FACTOR = 2.0

_Rule = Callable[[Estimate, CountedPart], tuple[str, str] | None]


def _where_counted(rule: _Rule) -> CaveatRule:
    return lambda estimate: None if estimate.counted is None else rule(estimate, estimate.counted)


def _notes(_estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    notes = part.counted.notes
    if not notes:
        return None
    left = len(notes) - MOST_NOTES
    more = f"; {left} more" if left > 0 else ""
    return (
        f"about the counts: {'; '.join(notes[:MOST_NOTES])}{more}",
        "the JSON has all of them",
    )


def _not_obtained(_estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    obtained = part.counted.values()
    missing = sorted(
        {
            f"{count.name or count.event} ({count.state.replace('_', ' ')})"
            for count in part.counted.counts
            if count.value is None and (count.name or "") not in obtained
        }
    )
    if not missing:
        return None
    left = len(missing) - MOST_NAMES
    more = f" and {left} more" if left > 0 else ""
    return (
        f"some events were not obtained: {', '.join(missing[:MOST_NAMES])}{more}",
        "tlbcost count -e NAME tells about each alone",
    )


def _walks_times_cost(_estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    if part.witness.way != "walks_times_cost":
        return None
    if part.walk_cycles is not None:
        return (
            "no cycles of page walks were counted: each walk is taken to cost "
            f"{part.walk_cycles:g} cycles, as was said",
            "tlbcost calibrate on that machine measures what it costs",
        )
    return (
        "no cycles of page walks were counted: walks are multiplied with what one costs by "
        "calibration, from overlapped to serial, so that the interval is wide",
        "only a trial on huge pages, or a CPU that counts them, tells more",
    )


def _pending(_estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    if part.witness.way != "pending_cycles":
        return None
    return (
        "cycles with a walk in progress are not known, only the sum over all walks: divided by "
        f"the number of page walkers ({part.pmu.walkers or 'not known'}), which is right only if "
        "these are busy together",
        "count walk_active_cycles where the CPU has them",
    )


def _stalls_only(_estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    if part.witness.way != "stall_cycles":
        return None
    return (
        "only cycles stalled on translation were counted: they are what it costs at least, so "
        "that the bound may be too low",
        "give --calibration, so that walks can be priced",
    )


def _capped(_estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    if not part.witness.capped:
        return None
    return (
        "walks of loads, stores and code together reach all the cycles counted: they overlap, "
        "and the bound is capped at that",
        "the expected gain says more than the bound",
    )


def _published(estimate: Estimate, _part: CountedPart) -> tuple[str, str] | None:
    if estimate.simulated is not None:
        return None
    return (
        "how much of the walk share huge pages give back is taken from published pairs of runs "
        "on other machines (doc/accuracy.md)",
        "--backend both simulates the program on huge pages too",
    )


def _fault_memory(estimate: Estimate, _part: CountedPart) -> tuple[str, str] | None:
    if estimate.simulated is not None or estimate.gain.fault_fraction is None:
        return None
    return (
        "how densely the program's memory lies was not seen: for the low end of the page faults "
        "twice as many huge pages are taken as would hold it",
        "--backend both sees each page",
    )


def _about_pmu(_estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    notes = part.pmu.notes
    if not notes:
        return None
    return (
        f"about the counters of {part.pmu.name}: {'; '.join(notes[:MOST_NOTES])}",
        f"tlbcost events --pmu {part.pmu.key} tells all",
    )


def _second_stage(estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    ept = part.witness.ept
    if ept is not None and ept.high > 0:
        return (
            f"the second stage of translation (EPT) takes {units.percent(ept.value)} of the "
            "cycles on top, which only huge pages of the host make cheaper",
            "give the virtual machine huge pages too",
        )
    machine = estimate.given.machine
    if machine is None or machine.hypervisor is None:
        return None
    return (
        "in a virtual machine it depends on the CPU whether a walk's cycles have the host's part",
        "compare with --backend sim, whose costs are measured in here",
    )


def _imported(estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    if estimate.given.runs:
        return None
    missing = []
    if estimate.gain.cpu_ns is None:
        missing.append("no run times (shares are of the cycles counted)")
    if estimate.given.calibrated is None:
        missing.append("no calibration (page faults are NA)")
    if part.counted.mode is None:
        missing.append("nothing on whether the kernel was counted")
    if not missing:
        return None
    return (
        f"the counts come from a file, with {', '.join(missing)}",
        "--calibration FILE, made there by tlbcost calibrate; perf stat's whole output",
    )


def _disagree(estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    if estimate.simulated is None:
        return None
    figure = part.figures.get("walks")
    size = estimate.simulated.geometry.base.page_size_bytes
    simulated = sum(
        seen.stlb_misses for (pages, _), seen in estimate.simulated.counts.items() if pages == size
    )
    if figure is None or figure.value <= 0 or simulated == 0:
        return None
    factor = max(figure.value / simulated, simulated / figure.value)
    if factor <= DISAGREE_FACTOR:
        return None
    return (
        f"the counters and the simulation differ by a factor of {factor:.1f} in page walks",
        "believe the counters, unless the program does other work in the simulator",
    )


RULES: dict[str, CaveatRule] = {
    code: _where_counted(rule)
    for code, rule in {
        "T23": _notes,
        "T24": _not_obtained,
        "T25": _walks_times_cost,
        "T26": _pending,
        "T27": _stalls_only,
        "T28": _capped,
        "T29": _published,
        "T30": _fault_memory,
        "T31": _about_pmu,
        "T32": _second_stage,
        "T33": _imported,
        "T34": _disagree,
    }.items()
}
