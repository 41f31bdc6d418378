# SPDX-License-Identifier: GPL-2.0-or-later
"""Caveats about hardware counts: their meaning on this CPU, and missing ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tlbcost.answer.record import CountedPart, Estimate, Told
from tlbcost.common import units
from tlbcost.common.units import Interval
from tlbcost.counters.count_tool import only_of_code

MOST_NOTES = 2
MOST_NAMES = 3
# Two ways to count the same walks that differ by more are not explained by speculation alone.
DISAGREE_FACTOR = 2.0

_COUNT_ALL = "'tlbcost events --perf-stat --pmu {}' prints the command that counts them all."


def noted(notes: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    left = len(notes) - MOST_NOTES
    return "; ".join(notes[:MOST_NOTES]) + (f"; {left} more" if left > 0 else "")


def of_counters(estimate: Estimate) -> Iterator[Told]:
    part = estimate.counted
    if part is None:
        return
    yield from _of_events(part)
    yield from _of_ways(part)
    yield from _of_others(estimate, part)
    if estimate.simulated is None:
        yield (
            "T29",
            "How much of the walk share huge pages save is taken from published pairs of runs on "
            "other machines (doc/accuracy.md).",
            "Use --backend both to simulate the program on huge pages, too.",
        )
        if estimate.gain.fault_fraction is not None:
            yield (
                "T30",
                "How densely the program's memory lies was not seen: the lower end of the "
                "page-fault saving takes twice as many huge pages as would hold it.",
                "Use --backend both to see each page.",
            )


def _of_events(part: CountedPart) -> Iterator[Told]:
    if part.counted.notes:
        yield "T23", f"About the counts: {noted(part.counted.notes)}.", "The JSON has all notes."
    obtained = part.counted.values()
    missing = sorted(
        {
            f"{count.name or count.event} ({count.state.replace('_', ' ')})"
            for count in part.counted.counts
            if count.value is None and (count.name or "") not in obtained
        }
    )
    if missing:
        left = len(missing) - MOST_NAMES
        more = f" and {left} more" if left > 0 else ""
        yield (
            "T24",
            f"Some events were not obtained: {', '.join(missing[:MOST_NAMES])}{more}.",
            "tlbcost count -e NAME says why.",
        )
    if part.pmu.notes:
        yield (
            "T31",
            f"About the counters of {part.pmu.name}: {'; '.join(part.pmu.notes[:MOST_NOTES])}.",
            f"tlbcost events --pmu {part.pmu.key} shows all notes.",
        )
    lacking = part.witness.missing
    if lacking:
        effect = (
            "the shares are those of loads and stores, without the misses of code."
            if only_of_code(lacking)
            else "the shares leave out part of the loads or stores, so the gain may be larger."
        )
        what = f"The counts lack {', '.join(lacking)}: {effect}"
        yield "T55", what, _COUNT_ALL.format(part.pmu.key)


def _of_ways(part: CountedPart) -> Iterator[Told]:
    way = part.witness.way
    if way == "walks_times_cost":
        yield "T25", *_walks_times_cost(part)
    if way == "pending_cycles":
        yield (
            "T26",
            "Cycles with a walk in progress are not known. Their sum over all walks was divided "
            f"by the number of page walkers ({part.pmu.walkers or 'not known'}), which is right "
            "only if these are busy together.",
            "Count walk_active_cycles where the CPU has them.",
        )
    if way == "stall_cycles":
        yield (
            "T27",
            "Only cycles stalled on translation were counted: that is the least it costs, so that "
            "the upper bound may be too low.",
            "Give --calibration, which has the cost of a walk.",
        )
    if part.witness.capped:
        yield (
            "T28",
            "Walks of loads, stores and code together fill all the cycles counted: they overlap, "
            "and the upper bound is capped there.",
            "Rely on the expected gain, not on the upper bound.",
        )


def _walks_times_cost(part: CountedPart) -> tuple[str, str]:
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


def _of_others(estimate: Estimate, part: CountedPart) -> Iterator[Told]:
    ept, machine = part.witness.ept, estimate.given.machine
    if ept is not None and ept.high > 0:
        yield (
            "T32",
            f"The second stage of translation (EPT) takes another {units.percent(ept.value)} of "
            "the cycles, which only huge pages on the host make cheaper.",
            "Back the virtual machine with huge pages, too.",
        )
    elif machine is not None and machine.hypervisor is not None:
        yield (
            "T32",
            "In a virtual machine it depends on the CPU whether a walk's cycles include the "
            "host's part.",
            "Compare with --backend sim, whose costs are measured in here.",
        )
    lacks = {
        "no run times (shares are of the cycles counted)": estimate.gain.cpu_ns is None,
        "no calibration (page faults are NA)": estimate.given.calibrated is None,
        "nothing on whether the kernel was counted": part.counted.mode is None,
    }
    if any(lacks.values()) and not estimate.given.runs:
        yield (
            "T33",
            f"The counts are from a file, with {', '.join(w for w in lacks if lacks[w])}.",
            "Give --calibration FILE, made there by tlbcost calibrate, and perf stat's whole "
            "output.",
        )
    figure = part.figures.get("walks")
    simulated = 0 if estimate.simulated is None else estimate.simulated.base_walks
    if figure is not None and figure.value > 0 and simulated:
        factor = max(figure.value / simulated, simulated / figure.value)
        if factor > DISAGREE_FACTOR:
            yield (
                "T34",
                f"The counters and the simulation differ by a factor of {factor:.1f} in page "
                "walks.",
                "Trust the counters, unless the program does other work in the simulator.",
            )
