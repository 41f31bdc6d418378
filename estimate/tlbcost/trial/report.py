# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of trials, next to the prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Literal, TextIO

from tlbcost.common import names, units
from tlbcost.common.console import grid, print_whole, section, table
from tlbcost.common.interval import Interval
from tlbcost.measured.coverage import covered_fraction
from tlbcost.measured.pairs import Pair
from tlbcost.model.gain import total_interval
from tlbcost.run.outcome import region_words
from tlbcost.trial.comparison import ProgramTrials, Trial, base_huge_bytes

if TYPE_CHECKING:
    from rich.console import Console

# Where the measured share lies: within the expected interval, or not.
Verdict = Literal["inside", "outside"]
# Hugetlb pages are seen by samples, which may miss this share of the peak.
_SEEN_FRACTION = 0.1
_COMMAND_COLUMNS = 70


def print_trials(trials: ProgramTrials, file: TextIO, *, details: bool) -> None:
    print_whole(lambda console: _fill(console, trials, details=details), file)


def verdict(trial: Trial, trials: ProgramTrials) -> Verdict | None:
    """Position of the measured share in the expected interval, if both are of the same pages."""
    if trial.measured_fraction is None or trials.estimate is None:
        return None
    if trial.method.page_bytes != trials.huge_page_bytes:
        return None
    expected = total_interval(trials.estimate)
    inside = expected.low <= trial.measured_fraction.value <= expected.high
    return "inside" if inside else "outside"


def bloat_bytes(pairs: Sequence[Pair]) -> int | None:
    if not pairs:
        return None
    return round(median([pair.huge_peak_bytes - pair.base_peak_bytes for pair in pairs]))


def _fill(console: Console, trials: ProgramTrials, *, details: bool) -> None:
    for trial in trials.trials:
        first, *rest = sentences(trial, trials, details=details)
        console.print(f"{trial.method.name}: {first}", style="bold")
        for sentence in rest:
            console.print(sentence)
    _gains(console, trials, details=details)
    shown = trials.trials if details or len(trials.trials) == 1 else ()
    for trial in shown:
        _trial(console, trial)
    console.print()
    rows = grid()
    rows.add_row("program", units.middle(names.command_line(trials.argv), _COMMAND_COLUMNS))
    if trials.region is not None:
        rows.add_row("region", region_words(trials.region))
    if details:
        machine = trials.machine
        where = "bare metal" if machine.hypervisor is None else f"virtual ({machine.hypervisor})"
        rows.add_row("machine", f"{machine.cpu_name or 'unknown CPU'}, {where}")
        rows.add_row("runs", "base huge, huge base, base huge, ...")
    for note in trials.notes:
        rows.add_row("note", f"{note}.")
    console.print(rows)
    if not details:
        console.print("Details: --details")


def _trial(console: Console, trial: Trial) -> None:
    pairs = trial.proven_pairs if trial.proven else trial.pairs
    shown = table(trial.method.name, "base pages", "huge pages" if trial.proven else "asked for")
    for name, write, base, huge in _lines(pairs):
        shown.add_row(name, write(base), write(huge))
    shown.add_row("on huge pages", _covered(pairs, base=True), _covered(pairs, base=False))
    section(console, shown)


def _lines(pairs: Sequence[Pair]) -> list[tuple[str, Callable[[float], str], float, float]]:
    def both(value: Callable[[Pair, bool], int]) -> tuple[float, float]:
        return (
            median([value(pair, False) for pair in pairs]),
            median([value(pair, True) for pair in pairs]),
        )

    return [
        ("wall", units.time, *both(lambda p, h: (p.huge if h else p.base).wall_ns)),
        ("user", units.time, *both(lambda p, h: (p.huge if h else p.base).user_ns)),
        ("system", units.time, *both(lambda p, h: (p.huge if h else p.base).system_ns)),
        ("minor faults", _count, *both(lambda p, h: (p.huge if h else p.base).minor_faults)),
        ("peak memory", _size, *both(lambda p, h: p.huge_peak_bytes if h else p.base_peak_bytes)),
    ]


def _count(n: float) -> str:
    return units.count(round(n))


def _size(n_bytes: float) -> str:
    return units.size(round(n_bytes))


def _covered(pairs: Sequence[Pair], *, base: bool) -> str:
    seen = [pair.base_backing if base else pair.backing for pair in pairs]
    known = [backing for backing in seen if backing is not None]
    if not known:
        return units.NOT_OBTAINED
    huge = [base_huge_bytes(each) if base else each.huge_bytes for each in known]
    return units.size(round(median(huge)))


def _gains(console: Console, trials: ProgramTrials, *, details: bool) -> None:
    shown = table(f"saved of the {_time(trials)}", "value", "95 % interval")
    for trial in trials.trials:
        name = trial.method.name
        if trial.proven:
            _share(shown.add_row, name, trial.measured_fraction)
            _share(shown.add_row, "  in user mode", trial.measured_user_fraction)
            _share(shown.add_row, "  in the kernel", trial.measured_system_fraction)
        else:
            shown.add_row(name, units.NOT_OBTAINED, "not on huge pages")
    if trials.estimate is not None:
        estimate = trials.estimate
        _share(shown.add_row, "predicted: translation and faults", total_interval(estimate))
        _share(shown.add_row, "  cheaper translation", estimate.expected_fraction)
        if details:
            _share(shown.add_row, "  bound of translation", estimate.bound_fraction)
        _share(shown.add_row, "  fewer page faults", estimate.fault_fraction)
    section(console, shown)


def _time(trials: ProgramTrials) -> str:
    return "run time" if trials.region is None else "region's time"


def _share(add_row: Callable[..., None], name: str, share: Interval | None) -> None:
    if share is None:
        add_row(name, units.NOT_OBTAINED, "")
    else:
        add_row(name, units.percent(share.value), units.range_of(share))


def sentences(trial: Trial, trials: ProgramTrials, *, details: bool = True) -> list[str]:
    """What is to be said of one trial, the result first; with `details`, how it was done."""
    method = trial.method
    if not trial.proven or trial.measured_fraction is None:
        found = [f"huge pages not proven: {trial.why_not}."]
    else:
        found = [_result(trial, _time(trials))]
        where = verdict(trial, trials)
        if trials.estimate is not None and where is not None:
            expected = units.range_of(total_interval(trials.estimate))
            measured = units.percent(trial.measured_fraction.value)
            is_in = "within" if where == "inside" else "outside"
            found.append(f"Measured {measured} is {is_in} the predicted range, {expected}.")
        grown = bloat_bytes(trial.proven_pairs)
        base = median([pair.base_peak_bytes for pair in trial.proven_pairs])
        if grown is not None and abs(grown) >= _SEEN_FRACTION * base:
            less = "more" if grown > 0 else "less"
            found.append(f"It uses {units.size(abs(grown))} {less} memory on huge pages.")
    if details:
        how = "; both runs of a pair at the same time, in turns" if trial.in_turns else ""
        found.append(f"How: {method.words}{how}.")
    return found + [f"Note: {note}." for note in trial.notes]


def _result(trial: Trial, time: str) -> str:
    measured = trial.measured_fraction
    assert measured is not None
    fractions = [covered_fraction(trial.method, pair.backing) for pair in trial.proven_pairs]
    known = [fraction for fraction in fractions if fraction is not None]
    reach = _REACHES[trial.method.reach]
    pairs = f"{len(trial.proven_pairs)} pairs of runs"
    proof = f"{units.percent(min(known))} of {reach} was on huge pages"
    if not trial.difference_proven:
        return f"no difference proven, the interval holds 0; {proof} ({pairs})."
    saved = "saved" if measured.value > 0 else "cost"
    share = units.percent(abs(measured.value))
    return f"huge pages {saved} {share} of the {time}; {proof} ({pairs})."


_REACHES = {
    "malloc": "malloc's memory",
    "anonymous": "the anonymous memory",
    "all": "all memory",
    "segments": "the program's segments",
    "shared": "the shared memory",
}
