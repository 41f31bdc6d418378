# SPDX-License-Identifier: GPL-2.0-or-later
"""The report for people: 80 columns, plain where it is not a terminal."""

from __future__ import annotations

import shlex
from statistics import median
from typing import TYPE_CHECKING, TextIO

from tlbcost.answer.record import Estimate
from tlbcost.answer.regions_text import print_regions, print_sampled
from tlbcost.answer.remedies_text import print_what_to_do
from tlbcost.answer.tables import (
    modelled_sentence,
    print_comparison,
    print_counts,
    print_misses,
    print_tlbs,
)
from tlbcost.answer.words import placement_sentence, verdict_sentence
from tlbcost.common import units
from tlbcost.common.console import grid, print_whole, section, table
from tlbcost.common.interval import Interval
from tlbcost.model.gain import run_time_ns, speedup_ratio

if TYPE_CHECKING:
    from rich.console import Console

_BACKENDS = {
    "pmu": "hardware counters",
    "sim": "simulation",
    "both": "hardware counters, and simulation for comparison",
}


def print_report(estimate: Estimate, file: TextIO) -> None:
    """Print the report on `file`; in bold, and up to 100 columns wide, only on a terminal."""
    print_whole(lambda console: _fill(console, estimate), file)


def _fill(console: Console, estimate: Estimate) -> None:
    _head(console, estimate)
    if estimate.simulated is not None:
        print_tlbs(console, estimate.simulated)
    if estimate.given.runs:
        _program(console, estimate)
    if estimate.counted is not None:
        print_counts(console, estimate.counted)
    if estimate.simulated is not None:
        print_misses(console, estimate.simulated)
    if estimate.base_costs is not None and estimate.huge_costs is not None:
        _costs(console, estimate)
    print_comparison(console, estimate)
    _results(console, estimate)
    if estimate.simulated is not None:
        print_regions(console, estimate.simulated)
    if estimate.sampled is not None:
        print_sampled(console, estimate.sampled)
    _ending(console, estimate)


def _head(console: Console, estimate: Estimate) -> None:
    rows = grid()
    machine = estimate.given.machine
    if machine is not None:
        where = "bare metal" if machine.hypervisor is None else f"virtual ({machine.hypervisor})"
        sizes = f"{units.size(machine.base_page_bytes)} pages"
        huge = units.size(estimate.given.huge_page_bytes)
        thp = machine.thp_mode or "not in this kernel"
        rows.add_row("machine", f"{machine.cpu_name or 'unknown CPU'}, {where}")
        rows.add_row("", f"Linux {machine.kernel or 'NA'}, {sizes}, huge {huge}, THP {thp}")
    backend = _BACKENDS[estimate.backend]
    if estimate.backend == "sim" and estimate.gain.model is not None:
        backend += f", {estimate.gain.model} model"
    if estimate.counted is not None:
        counted = estimate.counted.counted
        backend += f": {estimate.counted.pmu.name}, {_mode(counted.mode)}"
        rows.add_row("counts", counted.source)
    rows.add_row("backend", backend)
    if estimate.given.calibrated is not None:
        calibrated = estimate.given.calibrated
        rows.add_row("costs", f"{calibrated.source}, {calibrated.calibration.date}")
    for note in estimate.notes:
        rows.add_row("note", note)
    console.print(f"tlbcost {estimate.version}: {shlex.join(estimate.given.argv)}\n", style="bold")
    console.print(rows)


def _mode(mode: str | None) -> str:
    return {"user": "user mode", "kernel": "kernel mode", "both": "user and kernel mode"}.get(
        mode or "", "mode not known"
    )


def _program(console: Console, estimate: Estimate) -> None:
    runs = estimate.given.runs
    shown = table("program", "wall", "user", "system", "minor faults", "peak memory")
    shown.add_row(
        f"median of {len(runs)}" if len(runs) > 1 else "one run",
        units.time(median([run.wall_ns for run in runs])),
        units.time(median([run.user_ns for run in runs])),
        units.time(median([run.system_ns for run in runs])),
        units.count(int(median([run.minor_faults for run in runs]))),
        units.size(max(run.max_rss_bytes for run in runs)),
    )
    if len(runs) > 1:
        shown.add_row(
            "range",
            _spread([run.wall_ns for run in runs]),
            _spread([run.user_ns for run in runs]),
            _spread([run.system_ns for run in runs]),
        )
    section(console, shown)
    simulated = estimate.simulated.run if estimate.simulated is not None else None
    if simulated is not None:
        wall_ns = median([run.wall_ns for run in runs])
        console.print(
            f"Simulated in {units.time(simulated.wall_ns)}, "
            f"{simulated.wall_ns / wall_ns:.1f} times as long."
        )


def _spread(values: list[int]) -> str:
    return units.times(min(values), max(values))


def _costs(console: Console, estimate: Estimate) -> None:
    assert estimate.base_costs is not None
    assert estimate.huge_costs is not None
    both = (estimate.base_costs, estimate.huge_costs)
    shown = table("cost in ns", *(f"{units.size(costs.page_size_bytes)} pages" for costs in both))
    rows = {
        "STLB hit, waited for": [costs.stlb_hit_serial_ns for costs in both],
        "STLB hit, overlapped": [costs.stlb_hit_overlapped_ns for costs in both],
        "page walk, waited for": [costs.walk_serial_ns for costs in both],
        "page walk, overlapped": [costs.walk_overlapped_ns for costs in both],
        "... with cached tables": [costs.walk_cached_ns for costs in both],
        "page fault": [costs.fault_ns for costs in both],
        "page given back": [costs.unmap_ns for costs in both],
    }
    for label, intervals in rows.items():
        shown.add_row(label, *(_cost(interval) for interval in intervals))
    section(console, shown)
    base = estimate.base_costs
    footprint = units.size(base.footprint_entries * base.page_size_bytes)
    whose = "the largest process" if estimate.simulated is not None else "the peak memory"
    console.print(f"Taken at the footprint of {whose}, {footprint}.")


def _cost(interval: Interval | None) -> str:
    if interval is None:
        return units.NOT_OBTAINED
    low, high = units.nanoseconds(interval.low), units.nanoseconds(interval.high)
    return f"{units.nanoseconds(interval.value)} ({low} to {high})"


def _results(console: Console, estimate: Estimate) -> None:
    gain = estimate.gain
    wall = gain.wall_ns
    shown = table("result", "share", "interval", "time saved", "speed-up")
    bound = gain.bound_fraction.value
    shown.add_row(
        "bound (capped)" if gain.bound_capped else "bound",
        units.percent(bound),
        "at most",
        units.NOT_OBTAINED if wall is None else units.time(bound * wall),
        units.speedup(speedup_ratio(bound)),
    )
    shown.add_row("expected gain", *_saving(gain.expected_fraction, wall))
    if gain.fault_fraction is None:
        shown.add_row("page faults", *[units.NOT_OBTAINED] * 4)
    else:
        shown.add_row("page faults", *_saving(gain.fault_fraction, wall))
    section(console, shown)
    parallel = any(run_time_ns(run) > run.wall_ns for run in estimate.given.runs)
    time = "CPU time" if parallel else "run time"
    if gain.run_time_ns is None:
        time = "cycles counted, since no times are known"
    sentence = f"Shares of the {time}."
    if gain.code_fraction is not None:
        sentence += (
            " Of it, code (not in the expected gain) takes "
            f"{units.range_of(gain.code_fraction)} for its own translation."
        )
    console.print(sentence)
    if estimate.simulated is not None and estimate.simulated.gain.model == "overlap":
        console.print(modelled_sentence(estimate.simulated))
    tried = estimate.track_record
    if tried is not None:
        where = "this machine" if tried.here else "a machine with this CPU"
        console.print(
            f"Of {tried.programs} programs run on {where}, the expected gain was off by "
            f"{_points(tried.mean_error_fraction)} points on average and "
            f"{_points(tried.largest_error_fraction)} at most; {tried.inside} were within the "
            "interval (tlbcost validate)."
        )


def _points(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


def _saving(share: Interval, wall_ns: float | None) -> list[str]:
    return [
        units.percent(share.value),
        units.range_of(share),
        units.NOT_OBTAINED if wall_ns is None else units.time(share.value * wall_ns),
        units.speedup(speedup_ratio(share.value)),
    ]


def _ending(console: Console, estimate: Estimate) -> None:
    console.print()
    console.print(verdict_sentence(estimate.gain, estimate.given.huge_page_bytes), style="bold")
    placement = placement_sentence(estimate)
    if placement is not None:
        console.print(placement, style="bold")
    if estimate.caveats:
        console.print()
        rows = grid()
        for caveat in estimate.caveats:
            rows.add_row(f"{caveat.code}:", f"{caveat.sentence}; {caveat.remedy}.")
        console.print(rows)
    print_what_to_do(console, estimate)
