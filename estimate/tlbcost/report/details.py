# SPDX-License-Identifier: GPL-2.0-or-later
"""The whole report: the summary, and the sections of --details."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, TextIO

from tlbcost.answer import estimate_document
from tlbcost.common import names, units
from tlbcost.common.console import grid, print_whole, section, table
from tlbcost.common.units import Interval
from tlbcost.copies.estimator import CopiesRecord
from tlbcost.counters.count_report import print_events, print_figures
from tlbcost.counters.event_counts import EventCounts
from tlbcost.measured.record import grown_words
from tlbcost.report.facts import mode_words, page_sizes
from tlbcost.report.regions import command_of, print_regions, print_remedies
from tlbcost.report.summary import caveat_items, measured_words, summary
from tlbcost.simulator.counts import CODE, DATA, Side, SideCounts

if TYPE_CHECKING:
    from rich.console import Console

_BACKENDS = {
    "pmu": "hardware counters",
    "sim": "simulation",
    "both": "hardware counters, and simulation for comparison",
    "pairs": "pairs of runs alone",
}
_MOST_PROCESSES = 5


def print_details(console: Console, document: estimate_document.EstimateDocument) -> None:
    _head(console, document)
    _program(console, document)
    _results(console, document)
    _measured(console, document)
    print_regions(console, document)
    if document.simulation is not None:
        print_tlbs(console, document.simulation)
    if document.counters is not None:
        print_counts(console, document.counters)
    print_misses(console, document)
    print_comparison(console, document)
    _costs(console, document)
    if document.caveats:
        console.print("\nCaveats:", style="bold")
        for lines in caveat_items(document.caveats, console.width):
            console.print("\n".join(lines))
    print_remedies(console, document)


def _head(console: Console, document: estimate_document.EstimateDocument) -> None:
    rows = grid()
    machine = document.machine
    rows.add_row("program", command_of(document))
    if machine is not None:
        where = "bare metal" if machine.hypervisor is None else f"virtual ({machine.hypervisor})"
        sizes = f"{units.size(machine.base_page_bytes)} pages"
        huge = units.size(document.huge_page_bytes)
        thp = machine.thp_mode or "not in this kernel"
        rows.add_row("machine", f"{machine.cpu_name or 'unknown CPU'}, {where}")
        rows.add_row("", f"Linux {machine.kernel or 'NA'}, {sizes}, huge {huge}, THP {thp}")
    backend, simulation = _BACKENDS[document.backend], document.simulation
    if document.backend == "sim" and simulation is not None and simulation.model is not None:
        backend += f", {simulation.model} model"
    if document.counters is not None:
        backend += f": {document.counters.pmu_name}, {mode_words(document.counters.mode)}"
        rows.add_row("counts", document.counters.source)
    rows.add_row("backend", backend)
    if document.calibration is not None:
        rows.add_row("costs", f"{document.calibration.source}, {document.calibration.date}")
    for note in document.notes:
        rows.add_row("note", note)
    rows.add_row("made by", f"tlbcost {document.tlbcost_version}, {document.date}")
    section(console, rows)


def _program(console: Console, document: estimate_document.EstimateDocument) -> None:
    runs = document.program.runs
    if not runs:
        return
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
    simulated = document.simulation.wall_ns if document.simulation is not None else None
    copies = document.simulation.copies if document.simulation is not None else None
    if copies is not None:
        console.print(_copies_sentence(copies))
    elif simulated is not None:
        wall_ns = median([run.wall_ns for run in runs])
        console.print(
            f"Simulated in {units.time(simulated)}, {simulated / wall_ns:.1f} times as long."
        )


def _copies_sentence(copies: CopiesRecord) -> str:
    tried = sum(copies.attempts.values())
    text = f"{copies.windows} of {tried} copies of its threads were followed"
    if copies.seen_fraction is not None:
        text += f"; they stand for {units.percent(copies.seen_fraction)} of its CPU time"
    if copies.median_pause_ns is not None and copies.longest_pause_ns is not None:
        p99 = "" if copies.p99_pause_ns is None else f"{units.time(copies.p99_pause_ns)} (p99), "
        text += (
            f". It was stopped {copies.pauses} times, for {units.time(copies.median_pause_ns)} "
            f"(median), {p99}{units.time(copies.longest_pause_ns)} at most"
        )
    if copies.added_cpu_fraction is not None:
        text += (
            f"; this and copying pages added {units.percent(copies.added_cpu_fraction)} CPU time, "
            "which is taken off what is above"
        )
    if copies.ended:
        often = sorted(copies.ended.items(), key=lambda each: -each[1])
        text += f". Their windows ended by: {', '.join(f'{what} {n}' for what, n in often)}"
    return text + "."


def _spread(values: list[int]) -> str:
    return units.times(min(values), max(values))


def _costs(console: Console, document: estimate_document.EstimateDocument) -> None:
    both = document.costs
    if not both:
        return
    shown = table("cost in ns", *(f"{units.size(costs.page_size_bytes)} pages" for costs in both))
    rows = {
        "STLB hit, serialized": [costs.stlb_hit_serial_ns for costs in both],
        "STLB hit, overlapped": [costs.stlb_hit_overlapped_ns for costs in both],
        "page walk, serialized": [costs.walk_serial_ns for costs in both],
        "page walk, overlapped": [costs.walk_overlapped_ns for costs in both],
        "... with cached tables": [costs.walk_cached_ns for costs in both],
        "page fault": [costs.fault_ns for costs in both],
        "unmapping a page": [costs.unmap_ns for costs in both],
    }
    for label, intervals in rows.items():
        shown.add_row(label, *(_cost(interval) for interval in intervals))
    section(console, shown)
    footprint = units.size(both[0].footprint_entries * both[0].page_size_bytes)
    whose = "the largest process" if document.simulation is not None else "the peak memory"
    console.print(f"At the footprint of {whose}, {footprint}.")


def _cost(interval: Interval | None) -> str:
    if interval is None:
        return units.NOT_OBTAINED
    low, high = units.nanoseconds(interval.low), units.nanoseconds(interval.high)
    return f"{units.nanoseconds(interval.value)} ({low} to {high})"


def _results(console: Console, document: estimate_document.EstimateDocument) -> None:
    shown = table("saving", "share", "interval", "time saved", "speed-up")
    bound = document.bound_saved_ns
    shown.add_row(
        "upper bound (capped)" if document.bound_capped else "upper bound",
        units.percent(document.bound_fraction.value),
        "at most",
        units.time(bound and bound.value),
        units.speedup(document.bound_speedup_ratio.value),
    )
    for label, share, saved, speedup in (
        ("cheaper TLB misses", document.expected_fraction, document.expected_saved_ns,
         document.expected_speedup_ratio),
        ("fewer page faults", document.fault_fraction, document.fault_saved_ns,
         document.fault_speedup_ratio),
        ("total", document.total_fraction, document.total_saved_ns,
         document.total_speedup_ratio),
    ):  # fmt: skip
        shown.add_row(
            label,
            units.percent(share and share.value),
            units.range_of(share),
            units.time(saved and saved.value),
            units.NOT_OBTAINED if speedup is None else units.speedup(speedup.value),
        )
    section(console, shown)
    unknown = ", since no CPU time is known" if document.program.cpu_ns is None else ""
    console.print(f"Shares of the {document.fractions_of}{unknown}.")
    if document.code_fraction is not None:
        console.print(
            f"Translation of code: {units.range_of(document.code_fraction)}; it stays on base "
            "pages, and is in the upper bound alone."
        )
    modelled = None if document.simulation is None else modelled_sentence(document.simulation)
    if modelled is not None:
        console.print(modelled)
    tried = document.tried
    if tried is not None:
        where = "this machine" if tried.here else "a machine with this CPU"
        simulation = document.simulation
        copies = simulation is not None and simulation.copies is not None
        where += ", and in Valgrind," if copies and not tried.by_copies else ""
        part = "the expected gain of cheaper TLB misses"
        if document.measured is not None:
            part = "the user time saved, as measured,"
        console.print(
            f"On {tried.programs} programs run on {where} {part} "
            f"was off by {_points(tried.mean_error_fraction)} points on average and "
            f"{_points(tried.largest_error_fraction)} at most; {tried.inside} were within the "
            "interval (tlbcost validate)."
        )


def _measured(console: Console, document: estimate_document.EstimateDocument) -> None:
    measured = document.measured
    if measured is None:
        if document.not_measured is not None:
            console.print(f"Not measured on huge pages: {document.not_measured}.")
        return
    shown = table("measured", "saved", "90 % interval")
    for label, share in (
        ("user time", measured.user_fraction),
        ("kernel time", measured.system_fraction),
        ("total", measured.total_fraction),
        ("between two on base pages", measured.null_fraction),
    ):
        if share is not None:
            shown.add_row(label, units.percent(share.value), units.range_of(share))
    section(console, shown)
    text = f"{measured_words(measured).capitalize()}"
    if measured.huge_part is not None:
        text += f"; {units.percent(measured.huge_part)} of the memory was on huge pages"
    if measured.seen_fraction < 1:
        text += f"; they stand for {units.percent(measured.seen_fraction)} of the time"
    if measured.growth_bytes is not None:
        text += f"; at the peak {grown_words(measured.growth_bytes)}"
    for other in measured.others:
        share = other.total_fraction
        said = other.why_not if share is None else units.range_of(share)
        text += f". {other.name}: {said or units.NOT_OBTAINED}"
    if measured.dropped:
        left = ", ".join(f"{word} {n}" for word, n in sorted(measured.dropped.items()))
        text += f". Not used: {left}"
    console.print(f"{text}.")


def _points(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


def print_tlbs(console: Console, simulation: estimate_document.SimulationPart) -> None:
    shown = table("TLB", "pages", "entries", "ways", "from")
    shown.columns[-1].justify = "left"
    for each in simulation.geometry:
        for name, tlb in (("dtlb", each.dtlb), ("itlb", each.itlb), ("stlb", each.stlb)):
            shape = ("none", "") if tlb is None else (str(tlb.entries), str(tlb.ways))
            shown.add_row(
                name,
                units.size(each.page_size_bytes),
                *shape,
                units.NOT_OBTAINED if tlb is None or tlb.source_kind is None else tlb.source_kind,
            )
    section(console, shown)


def print_misses(console: Console, document: estimate_document.EstimateDocument) -> None:
    """The misses by page size and access, and those of each process; nothing if not simulated."""
    simulation = document.simulation
    if simulation is None:
        return
    size, huge = page_sizes(document)
    counts = _by_access(simulation.counts)
    shown = table("misses", "pages", "L1 TLB", "STLB hits", "page walks")
    for page_size in (size, huge):
        for name, sides in (("loads", DATA[:1]), ("stores", DATA[1:]), ("code", CODE)):
            side: Side = sides[0]
            seen = counts.get((page_size, side))
            cells = [units.NOT_OBTAINED] * 3 if seen is None else _cells(seen)
            shown.add_row(name, units.size(page_size), *cells)
    section(console, shown)
    if len(simulation.processes) > 1:
        _processes(console, simulation.processes, size, huge)


def _by_access(
    counts: Sequence[estimate_document.AccessMisses],
) -> dict[tuple[int, Side], estimate_document.AccessMisses]:
    return {(each.page_size_bytes, each.access): each for each in counts}


def modelled_sentence(simulation: estimate_document.SimulationPart) -> str | None:
    """What the overlap model's gain rests on, and what the other says; None: it was not used."""
    sample, simple = simulation.modelled, simulation.expected_simple_fraction
    if simulation.model != "overlap" or sample is None or simple is None:
        return None
    part = units.percent(sample.sampled_references / sample.references)
    return (
        f"The expected gain is modelled in {units.count(sample.windows)} windows with {part} of "
        f"the references; misses times their costs give "
        f"{units.percent(simple.value)}, {units.range_of(simple)}."
    )


def _cells(counts: SideCounts) -> list[str]:
    return [units.count(n) for n in (counts.l1_tlb_misses, counts.stlb_hits, counts.stlb_misses)]


def _processes(
    console: Console, processes: Sequence[estimate_document.ProcessPart], size: int, huge: int
) -> None:
    def walks(process: estimate_document.ProcessPart, page_size: int) -> int | None:
        if process.counts is None:
            return None
        return sum(each.stlb_misses for each in process.counts if each.page_size_bytes == page_size)

    shown = table(
        "process", "pid", "threads", "memory",
        f"walks {units.size(size)}", f"walks {units.size(huge)}",
    )  # fmt: skip
    ordered = sorted(processes, key=lambda each: walks(each, size) or 0, reverse=True)
    for process in ordered[:_MOST_PROCESSES]:
        touched = process.touched
        n_walks = [walks(process, page_size) for page_size in (size, huge)]
        shown.add_row(
            names.shown(process.program.rpartition("/")[2]),
            str(process.pid),
            units.known(process.threads),
            units.size(None if touched is None else touched.pages * size),
            *map(units.count, n_walks),
        )
    section(console, shown)
    left = len(processes) - _MOST_PROCESSES
    if left > 0:
        console.print(f"and {left} more, all in the sums and in the JSON.")


def print_counts(console: Console, part: estimate_document.CountersPart) -> None:
    print_events(console, EventCounts(part.source, part.pmu, part.mode, part.counts))
    formulas = part.formulas.items()
    print_figures(console, {name: each.value for name, each in formulas if each.value is not None})


def print_comparison(console: Console, document: estimate_document.EstimateDocument) -> None:
    """What both backends found, side by side; nothing if there is one."""
    counters, simulation = document.counters, document.simulation
    if counters is None or simulation is None:
        return
    shown = table("compared", "counters", "simulation")
    size, counts = page_sizes(document)[0], _by_access(simulation.counts)
    for label, formula, sides in (
        ("page walks", "walks", (*DATA, *CODE)),
        ("... for loads and stores", "data_walks", DATA),
    ):
        found = counters.formulas.get(formula)
        figure = None if found is None else found.value
        walks = [counts.get((size, side)) for side in sides]
        shown.add_row(
            label,
            units.count(None if figure is None else round(figure.value)),
            units.count(sum(each.stlb_misses for each in walks if each is not None)),
        )
    both = (counters, simulation)
    shown.add_row("bound", *(units.percent(each.bound_fraction.value) for each in both))
    shown.add_row("expected gain", *(units.range_of(each.expected_fraction) for each in both))
    section(console, shown)


def print_report(
    document: estimate_document.EstimateDocument, file: TextIO, *, details: bool = False
) -> None:
    """Print it whole, as wide as the terminal; 80 columns where there is none."""

    def fill(console: Console) -> None:
        verdict, rest = summary(document, console.width)
        for lines, style in ((verdict, "bold"), (rest, None)):
            for line in lines:
                console.print(line, style=style, soft_wrap=True)
        if details:
            print_details(console, document)

    print_whole(fill, file)
