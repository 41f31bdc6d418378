# SPDX-License-Identifier: GPL-2.0-or-later
"""Caveats about hardware counts: their meaning on this CPU, and missing ones."""

from __future__ import annotations

from collections.abc import Callable

from tlbcost.answer.record import CaveatRule, CountedPart, Estimate
from tlbcost.common import units
from tlbcost.common.units import Interval
from tlbcost.counters.count_tool import only_of_code

MOST_NOTES = 2
MOST_NAMES = 3
# Two ways to count the same walks that differ by more are not explained by speculation alone.
DISAGREE_FACTOR = 2.0

_COUNT_ALL = "'tlbcost events --perf-stat --pmu {}' prints the command that counts them all."

_Rule = Callable[[Estimate, CountedPart], tuple[str, str] | None]


def _where_counted(rule: _Rule) -> CaveatRule:
    return lambda estimate: None if estimate.counted is None else rule(estimate, estimate.counted)


def _notes(_estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    notes = part.counted.notes
    if not notes:
        return None
    left = len(notes) - MOST_NOTES
    more = f"; {left} more" if left > 0 else ""
    return (f"About the counts: {'; '.join(notes[:MOST_NOTES])}{more}.", "The JSON has all notes.")


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
        f"Some events were not obtained: {', '.join(missing[:MOST_NAMES])}{more}.",
        "tlbcost count -e NAME says why.",
    )


def _walks_times_cost(_estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    if part.witness.way != "walks_times_cost":
        return None
    counts_cycles = {"share", "pending_share"} & part.pmu.formulas.keys()
    count_them = _COUNT_ALL.format(part.pmu.key) if counts_cycles else None
    walks = part.figures.get("walks") or part.figures.get("data_walks")
    hits = part.figures.get("hits") or part.figures.get("data_hits")
    missed = f"{_count(walks)} walks (misses of both levels)"
    hit = f"{_count(hits)} first-level misses that hit the second level"
    if part.walk_cycles is not None:
        return (
            f"No cycles of page walks were counted: each of {missed} is taken to cost "
            f"{part.walk_cycles:g} cycles (--walk-cycles)"
            + (f"; {hit} are left out." if hits else "; hits of the second level are not known."),
            count_them or "Measure the cost on that machine with tlbcost calibrate.",
        )
    return (
        f"No cycles of page walks were counted: {missed}"
        + (f" and {hit}" if hits else " (hits of the second level are not known)")
        + " are multiplied by their calibrated costs, from overlapped to serialized, so that the "
        "interval is wide.",
        count_them or "A trial on huge pages gives the answer.",
    )


def _count(figure: Interval | None) -> str:
    return "the" if figure is None else units.count(round(figure.value))


def _pending(_estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    if part.witness.way != "pending_cycles":
        return None
    return (
        "Cycles with a walk in progress are not known. Their sum over all walks was divided by "
        f"the number of page walkers ({part.pmu.walkers or 'not known'}), which is right only if "
        "these are busy together.",
        "Count walk_active_cycles where the CPU has them.",
    )


def _stalls_only(_estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    if part.witness.way != "stall_cycles":
        return None
    return (
        "Only cycles stalled on translation were counted: that is the least it costs, so that "
        "the upper bound may be too low.",
        "Give --calibration, which has the cost of a walk.",
    )


def _capped(_estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    if not part.witness.capped:
        return None
    return (
        "Walks of loads, stores and code together fill all the cycles counted: they overlap, "
        "and the upper bound is capped there.",
        "Rely on the expected gain, not on the upper bound.",
    )


def _published(estimate: Estimate, _part: CountedPart) -> tuple[str, str] | None:
    if estimate.simulated is not None:
        return None
    return (
        "How much of the walk share huge pages save is taken from published pairs of runs on "
        "other machines (doc/accuracy.md).",
        "Use --backend both to simulate the program on huge pages, too.",
    )


def _fault_memory(estimate: Estimate, _part: CountedPart) -> tuple[str, str] | None:
    if estimate.simulated is not None or estimate.gain.fault_fraction is None:
        return None
    return (
        "How densely the program's memory lies was not seen: the lower end of the page-fault "
        "saving takes twice as many huge pages as would hold it.",
        "Use --backend both to see each page.",
    )


def _about_pmu(_estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    notes = part.pmu.notes
    if not notes:
        return None
    return (
        f"About the counters of {part.pmu.name}: {'; '.join(notes[:MOST_NOTES])}.",
        f"tlbcost events --pmu {part.pmu.key} shows all notes.",
    )


def _second_stage(estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    ept = part.witness.ept
    if ept is not None and ept.high > 0:
        return (
            f"The second stage of translation (EPT) takes another {units.percent(ept.value)} of "
            "the cycles, which only huge pages on the host make cheaper.",
            "Back the virtual machine with huge pages, too.",
        )
    machine = estimate.given.machine
    if machine is None or machine.hypervisor is None:
        return None
    return (
        "In a virtual machine it depends on the CPU whether a walk's cycles include the host's "
        "part.",
        "Compare with --backend sim, whose costs are measured in here.",
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
        f"The counts are from a file, with {', '.join(missing)}.",
        "Give --calibration FILE, made there by tlbcost calibrate, and perf stat's whole output.",
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
        f"The counters and the simulation differ by a factor of {factor:.1f} in page walks.",
        "Trust the counters, unless the program does other work in the simulator.",
    )


def _part_of_the_walks(_estimate: Estimate, part: CountedPart) -> tuple[str, str] | None:
    missing = part.witness.missing
    if not missing:
        return None
    effect = (
        "the shares are those of loads and stores, without the misses of code."
        if only_of_code(missing)
        else "the shares leave out part of the loads or stores, so the gain may be larger."
    )
    return (f"The counts lack {', '.join(missing)}: {effect}", _COUNT_ALL.format(part.pmu.key))


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
        "T55": _part_of_the_walks,
    }.items()
}
