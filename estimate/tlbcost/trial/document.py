# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of trials, next to the prediction, as text and as JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

from tlbcost.common import names, units
from tlbcost.common.console import grid, print_whole, section, table
from tlbcost.common.document import Part, amount, doc, part_of, portion
from tlbcost.common.gnuplot import draw_gains
from tlbcost.common.units import Interval
from tlbcost.measured.method import covered_fraction
from tlbcost.measured.whole_runs import Pair, growth
from tlbcost.memory.peak import MemoryScope, PeakMemory
from tlbcost.model.gain import total_interval
from tlbcost.run.outcome import Run, region_words
from tlbcost.system.machine import Machine
from tlbcost.trial.session import ProgramTrials, Trial, base_huge_bytes

if TYPE_CHECKING:
    from rich.console import Console


# Where the measured share lies: within the expected interval, or not.
Verdict = Literal["inside", "outside"]
# Hugetlb pages are seen by samples, which may miss this share of the peak.
_SEEN_FRACTION = 0.1
_COMMAND_COLUMNS = 70
# libpfm4's amd64_fam17h_zen1 has the event; so do the families after it.
_ZEN = 0x17


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
    return round(growth(pairs).value) if pairs else None


def _fill(console: Console, trials: ProgramTrials, *, details: bool) -> None:
    for trial in trials.trials:
        first, *rest = sentences(trial, trials, details=details)
        console.print(f"{trial.method.name}: {first}", style="bold")
        for sentence in rest:
            console.print(sentence)
    if len(trials.trials) > 1:
        _compared(console, trials)
    else:
        _gains(console, trials, details=details)
    shown = trials.trials if details or len(trials.trials) == 1 else ()
    for trial in shown:
        _print_trial(console, trial)
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


def _print_trial(console: Console, trial: Trial) -> None:
    pairs = trial.proven_pairs if trial.proven else trial.pairs
    shown = table(trial.method.name, "base pages", "huge pages" if trial.proven else "asked for")

    runs = [pair.base for pair in pairs], [pair.huge for pair in pairs]
    for name, key in (("wall", "wall_ns"), ("user", "user_ns"), ("system", "system_ns")):
        medians = (median([getattr(run, key) for run in side]) for side in runs)
        shown.add_row(name, *map(units.time, medians))
    faults = (median([run.minor_faults for run in side]) for side in runs)
    shown.add_row("minor faults", *map(_count, faults))
    peaks = [pair.base_peak_bytes for pair in pairs], [pair.huge_peak_bytes for pair in pairs]
    shown.add_row("peak memory", *(units.size(round(median(each))) for each in peaks))
    shown.add_row("on huge pages", _covered(pairs, base=True), _covered(pairs, base=False))
    section(console, shown)


def _count(n: float) -> str:
    return units.count(round(n))


def _covered(pairs: Sequence[Pair], *, base: bool) -> str:
    seen = [pair.base_backing if base else pair.backing for pair in pairs]
    known = [backing for backing in seen if backing is not None]
    huge = [base_huge_bytes(each) if base else each.huge_bytes for each in known]
    return units.size(round(median(huge)) if huge else None)


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


def _compared(console: Console, trials: ProgramTrials) -> None:
    """A row for each method, and the one that saves as much as any with the least memory."""
    titles = ("95 % interval", "user", "kernel", "faults", "memory")
    shown = table(f"saved of the {_time(trials)}", "value", *titles)
    for trial in trials.trials:
        name, value = trial.method.name, trial.measured_fraction
        if value is None:
            shown.add_row(name, units.NOT_OBTAINED, "not on huge pages")
            continue
        parts = (trial.measured_user_fraction, trial.measured_system_fraction)
        faults = median([pair.huge.minor_faults for pair in trial.proven_pairs])
        shown.add_row(
            name, units.percent(value.value), units.range_of(value),
            *(units.percent(part and part.value) for part in parts),
            _count(faults), _grown(trial),
        )  # fmt: skip
    if trials.estimate is not None:
        _share(shown.add_row, "predicted", total_interval(trials.estimate))
    section(console, shown)
    console.print(best_sentence(trials.trials))
    if any(trial.method.name.startswith("mthp-") for trial in trials.trials):
        console.print(coalescing_sentence(trials.machine))


def coalescing_sentence(machine: Machine) -> str:
    """Whether contiguous pages share a TLB entry, and how that is known."""
    family = machine.cpu_family or ""
    # As /proc/cpuinfo of arm64 writes the implementer.
    if (machine.cpu_vendor or "").startswith("0x"):
        return "Linux 6.9 and later have one TLB entry for 16 contiguous pages on arm64 (contpte)."
    if machine.cpu_vendor == "AuthenticAMD" and family.isdecimal() and int(family) >= _ZEN:
        return (
            "This CPU has TLB entries for contiguous pages of 4 KiB (AMD's event "
            "TLB_RELOAD_COALESCED_PAGE), where host and guest have them in a row."
        )
    return (
        "No TLB entries between 4 KiB and 2 MiB are known of this CPU: page faults are saved alone."
    )


def _grown(trial: Trial) -> str:
    grown = bloat_bytes(trial.proven_pairs)
    if grown is None:
        return units.NOT_OBTAINED
    return f"{'-' if grown < 0 else '+'}{units.size(abs(grown))}"


def draw_trials(trials: ProgramTrials, picture: Path) -> None:
    """A line for each method, with the memory that it adds. Raises TlbcostError."""
    labels = [f"{trial.method.name}, {_grown(trial)}" for trial in trials.trials]
    gains = [trial.measured_fraction for trial in trials.trials]
    draw_gains(labels, gains, picture, whole=_time(trials))


def best_sentence(trials: Sequence[Trial]) -> str:
    known = [(trial, trial.measured_fraction) for trial in trials if trial.measured_fraction]
    most = max((share for _, share in known), key=lambda share: share.value, default=None)
    if most is None or most.low <= 0:
        return "None of them saves time for sure."
    alike = [trial for trial, share in known if share.low > 0 and share.high >= most.low]
    best = min(alike, key=lambda trial: growth(trial.proven_pairs).value)
    if len(alike) == 1:
        return f"Best: {best.method.name}."
    return f"Best: {best.method.name}; no other saves more for sure, or takes less memory."


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


Bytes = Annotated[int, amount("in bytes")]


class MemoryAtPeak(Part, frozen=True, kw_only=True):
    """The memory of all processes when they had most; pages of two of them count twice."""

    resident_bytes: Annotated[int, amount("in memory, with hugetlb pages")]
    huge_bytes: Annotated[int, amount("on pages larger than the base page, of any kind")]
    anonymous_huge_bytes: Annotated[int, amount("transparent huge pages")]
    hugetlb_bytes: Annotated[int, amount("pages from a pool")]
    shmem_huge_bytes: Annotated[int, amount("huge pages of shared memory")]
    file_huge_bytes: Annotated[int, amount("huge pages of files")]
    mthp_bytes: Annotated[
        dict[str, Bytes] | None, doc("by page size in bytes; counted for the whole system")
    ]
    samples: Annotated[int, amount("how often it was looked at")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWithMemory(Run):
    """One run, and its memory at the peak."""

    memory: Annotated[MemoryAtPeak | None, doc("at the peak, of all processes")]


class TrialPair(Part, frozen=True, kw_only=True):
    """One run on base pages and one on huge pages."""

    base: Annotated[RunWithMemory, doc("on base pages")]
    huge: Annotated[RunWithMemory, doc("on huge pages")]
    covered_fraction: Annotated[float | None, portion("of the memory that the method should reach")]


class TrialOfMethod(Part, frozen=True, kw_only=True):
    """What huge pages by one method gave; shares are of the time on base pages."""

    method: Annotated[str, doc("name of the method, as for --with")]
    words: Annotated[str, doc("what it does")]
    reach: Annotated[MemoryScope, doc("the memory that the method should get onto huge pages")]
    page_size_bytes: Annotated[int | None, doc("size of the pages")]
    environment: Annotated[dict[str, str], doc("what it adds to the environment")]
    prefix: Annotated[tuple[str, ...], doc("what goes before the program")]
    proven: Annotated[
        bool,
        doc(
            "in three pairs at least half of that memory was seen on huge pages; otherwise the "
            "shares are null"
        ),
    ]
    why_not: Annotated[str | None, doc("why it is not proven")]
    measured_fraction: Annotated[
        Interval | None, doc("1 - t_huge/t_base of wall time: median of the pairs, 95 % interval")
    ]
    measured_user_fraction: Annotated[
        Interval | None, doc("user time saved, over the CPU time on base pages")
    ]
    measured_system_fraction: Annotated[
        Interval | None, doc("system time saved, over the CPU time on base pages")
    ]
    difference_proven: Annotated[
        bool | None, doc("the interval of measured_fraction does not hold 0")
    ]
    verdict: Annotated[
        Verdict | None,
        doc(
            "whether measured_fraction is within total_fraction; null: no share, no estimate, or "
            "one of another page size"
        ),
    ]
    bloat_bytes: Annotated[
        int | None,
        doc(
            "what memory at the peak grew by; hugetlb pages are seen by samples, which may miss a "
            "tenth of the peak"
        ),
    ]
    in_turns: Annotated[
        bool, doc("the two runs of a pair took turns; wall_ns is the time of a run's turns")
    ] = False
    pairs: Annotated[list[TrialPair], doc("all pairs of runs")]
    notes: Annotated[tuple[str, ...], doc("what is to be known of the result")]
    sentences: Annotated[list[str], doc("what the report says of it")]


class TrialEstimate(Part, frozen=True, kw_only=True):
    """What `tlbcost estimate` says, of pages of `huge_page_bytes`."""

    bound_fraction: Annotated[Interval, doc("what cheaper translation could save at most")]
    expected_fraction: Annotated[Interval, doc("what it should save")]
    fault_fraction: Annotated[Interval | None, doc("what fewer page faults should save")]
    total_fraction: Annotated[Interval, doc("translation and page faults together")]


class TrialDocument(Part, frozen=True, kw_only=True):
    """The trials of one program. null: not obtained."""

    schema: Annotated[Literal["tlbcost-trial-2"], doc("form of this document and its version")] = (
        "tlbcost-trial-2"
    )
    tlbcost_version: Annotated[str, doc("version of tlbcost")]
    date: Annotated[str, doc("UTC, ISO 8601", format="date-time")]
    machine: Annotated[Machine, doc("the machine")]
    argv: Annotated[tuple[str, ...], doc("the program and its arguments")]
    region: Annotated[
        str | None, doc("the phase of it that times are of, START:END; null: all of it")
    ] = None
    estimate: Annotated[TrialEstimate | None, doc("the prediction")]
    huge_page_bytes: Annotated[int | None, doc("size of the kernel's huge page")]
    no_estimate: Annotated[str | None, doc("why there is no estimate")]
    notes: Annotated[tuple[str, ...], doc("what was left out of the environment")]
    trials: Annotated[list[TrialOfMethod], doc("one for each method", minItems=1)]


def trial_document(found: ProgramTrials) -> TrialDocument:
    return part_of(
        TrialDocument,
        found,
        tlbcost_version=found.version,
        estimate=None
        if found.estimate is None
        else part_of(TrialEstimate, found.estimate, total_fraction=total_interval(found.estimate)),
        trials=[_trial(trial, found) for trial in found.trials],
    )


def _trial(trial: Trial, found: ProgramTrials) -> TrialOfMethod:
    method = trial.method
    return part_of(
        TrialOfMethod,
        trial,
        method=method.name,
        words=method.words,
        reach=method.reach,
        page_size_bytes=method.page_bytes,
        environment=dict(method.environment),
        prefix=method.prefix,
        difference_proven=trial.difference_proven if trial.proven else None,
        verdict=verdict(trial, found),
        bloat_bytes=bloat_bytes(trial.proven_pairs) if trial.proven else None,
        pairs=[
            TrialPair(
                base=_run(pair.base, pair.base_backing),
                huge=_run(pair.huge, pair.backing),
                covered_fraction=covered_fraction(trial.method, pair.backing),
            )
            for pair in trial.pairs
        ],
        sentences=sentences(trial, found),
    )


def _run(run: Run, seen: PeakMemory | None) -> RunWithMemory:
    memory = None
    if seen is not None:
        sizes = seen.mthp_bytes
        by_size = None if sizes is None else {str(size): n for size, n in sizes.items()}
        memory = part_of(MemoryAtPeak, seen, mthp_bytes=by_size)
    return RunWithMemory(**asdict(run), memory=memory)


def hyperfine(found: ProgramTrials) -> str:
    """The runs in the form of hyperfine --export-json, for what reads that. Times are in s."""
    command = shlex.join(found.argv)
    results: list[dict[str, object]] = []
    for trial in found.trials:
        base, huge = [pair.base for pair in trial.pairs], [pair.huge for pair in trial.pairs]
        if not results and base:
            results.append(_benchmark(f"{command} (base pages)", base))
        if huge:
            results.append(_benchmark(f"{command} ({trial.method.name})", huge))
    return json.dumps({"results": results}, indent=2) + "\n"


def _benchmark(command: str, runs: Sequence[Run]) -> dict[str, object]:
    times = [run.wall_ns / 1e9 for run in runs]
    return {
        "command": command,
        "mean": fmean(times),
        "stddev": stdev(times) if len(times) > 1 else None,
        "median": median(times),
        "user": fmean(run.user_ns / 1e9 for run in runs),
        "system": fmean(run.system_ns / 1e9 for run in runs),
        "min": min(times),
        "max": max(times),
        "times": times,
        "memory_usage_byte": [run.max_rss_bytes for run in runs],
        "exit_codes": [0] * len(times),
    }
