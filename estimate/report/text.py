# SPDX-License-Identifier: GPL-2.0-or-later
"""The report for people: 80 columns, plain where it is not a terminal."""

from __future__ import annotations

import io
import shlex
from typing import TYPE_CHECKING, TextIO

from tlbcost import units
from tlbcost.caveats import caveats
from tlbcost.model import run_time_ns, speedup_ratio
from tlbcost.records import Interval, Level, LevelSource, ProcessCounts, Side, SideCounts, TlbLevel
from tlbcost.report.content import Content
from tlbcost.report.words import next_steps, range_of, verdict_sentence
from tlbcost.stats import median
from tlbcost.totals import CODE, DATA

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH = 80
_WIDEST = 100
_MOST_PROCESSES = 5


def print_report(content: Content, file: TextIO) -> None:
    """Print the report on `file`; in bold, and up to 100 columns wide, only on a terminal."""
    from rich.console import Console

    tty = file.isatty()
    # Printed as a whole: half a report is none. Rich fills lines with blanks, which a file does
    # not need.
    text = io.StringIO()
    console = Console(
        file=text,
        force_terminal=tty,
        color_system="standard" if tty else None,
        width=WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )
    if tty:
        console.width = min(_WIDEST, max(WIDTH, Console(file=file).width))
    _head(console, content)
    _program(console, content)
    _counts(console, content)
    _costs(console, content)
    _results(console, content)
    _ending(console, content)
    file.write("".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines()))
    file.flush()


def _head(console: Console, content: Content) -> None:
    machine = content.machine
    where = "bare metal" if machine.hypervisor is None else f"virtual ({machine.hypervisor})"
    sizes = f"{units.size(machine.base_page_bytes)} pages"
    huge = units.size(content.geometry.huge.page_size_bytes)
    thp = machine.thp_mode or "not in this kernel"
    rows = _grid()
    rows.add_row("machine", f"{machine.cpu_name or 'unknown CPU'}, {where}")
    rows.add_row("", f"Linux {machine.kernel or 'NA'}, {sizes}, huge {huge}, THP {thp}")
    rows.add_row("costs", f"{content.calibration.source}, {content.calibration.date}")
    console.print(f"tlbcost {content.version}: {shlex.join(content.argv)}\n", style="bold")
    console.print(rows)
    _tlbs(console, content)


def _tlbs(console: Console, content: Content) -> None:
    table = _table("TLB", "pages", "entries", "ways", "from")
    table.columns[-1].justify = "left"
    for level in (content.geometry.base, content.geometry.huge):
        size = level.page_size_bytes
        levels: tuple[tuple[Level, TlbLevel | None], ...] = (
            ("dtlb", level.dtlb), ("itlb", level.itlb), ("stlb", level.stlb)
        )  # fmt: skip
        for name, tlb in levels:
            source = _source(content.geometry.sources.get((name, size)))
            shape = ("none", "") if tlb is None else (str(tlb.entries), str(tlb.ways))
            table.add_row(name, units.size(size), *shape, source)
    _section(console, table)


def _source(source: LevelSource | None) -> str:
    if source is None:
        return units.NOT_OBTAINED
    return f"{source.kind}, confirmed" if source.confirmed else source.kind


def _program(console: Console, content: Content) -> None:
    runs = content.runs
    table = _table("program", "wall", "user", "system", "minor faults", "peak memory")
    table.add_row(
        f"median of {len(runs)}" if len(runs) > 1 else "one run",
        units.time(median([run.wall_ns for run in runs])),
        units.time(median([run.user_ns for run in runs])),
        units.time(median([run.system_ns for run in runs])),
        units.count(int(median([run.minor_faults for run in runs]))),
        units.size(max(run.max_rss_bytes for run in runs)),
    )
    if len(runs) > 1:
        table.add_row(
            "range",
            _spread([run.wall_ns for run in runs]),
            _spread([run.user_ns for run in runs]),
            _spread([run.system_ns for run in runs]),
        )
    _section(console, table)
    if content.simulated is not None:
        wall_ns = median([run.wall_ns for run in runs])
        console.print(
            f"Simulated in {units.time(content.simulated.wall_ns)}, "
            f"{content.simulated.wall_ns / wall_ns:.1f} times as long."
        )


def _spread(values: list[int]) -> str:
    return units.times(min(values), max(values))


def _counts(console: Console, content: Content) -> None:
    size = content.geometry.base.page_size_bytes
    huge = content.geometry.huge.page_size_bytes
    table = _table("misses", "pages", "L1 TLB", "STLB hits", "page walks")
    for page_size in (size, huge):
        for name, sides in (("loads", DATA[:1]), ("stores", DATA[1:]), ("code", CODE)):
            side: Side = sides[0]
            counts = content.counts.get((page_size, side))
            cells = [units.NOT_OBTAINED] * 3 if counts is None else _cells(counts)
            table.add_row(name, units.size(page_size), *cells)
    _section(console, table)
    if len(content.processes) > 1:
        _processes(console, content.processes, size, huge)


def _cells(counts: SideCounts) -> list[str]:
    return [units.count(n) for n in (counts.l1_tlb_misses, counts.stlb_hits, counts.stlb_misses)]


def _processes(
    console: Console, processes: tuple[ProcessCounts, ...], size: int, huge: int
) -> None:
    def walks(process: ProcessCounts, page_size: int) -> int | None:
        if process.counts is None:
            return None
        sides = [process.counts.get((page_size, side)) for side in (*DATA, *CODE)]
        return sum(side.stlb_misses for side in sides if side is not None)

    table = _table(
        "process", "pid", "threads", "memory",
        f"walks {units.size(size)}", f"walks {units.size(huge)}",
    )  # fmt: skip
    ordered = sorted(processes, key=lambda each: walks(each, size) or 0, reverse=True)
    for process in ordered[:_MOST_PROCESSES]:
        touched = process.touched
        n_walks = [walks(process, page_size) for page_size in (size, huge)]
        table.add_row(
            process.program.rpartition("/")[2],
            str(process.pid),
            units.NOT_OBTAINED if process.threads is None else str(process.threads),
            units.NOT_OBTAINED if touched is None else units.size(touched.pages * size),
            *(units.NOT_OBTAINED if n is None else units.count(n) for n in n_walks),
        )
    _section(console, table)
    left = len(processes) - _MOST_PROCESSES
    if left > 0:
        console.print(f"and {left} more, all in the sums and in the JSON.")


def _costs(console: Console, content: Content) -> None:
    both = (content.base_costs, content.huge_costs)
    table = _table("cost in ns", *(f"{units.size(costs.page_size_bytes)} pages" for costs in both))
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
        table.add_row(label, *(_cost(interval) for interval in intervals))
    _section(console, table)
    base = content.geometry.base.page_size_bytes
    footprint = units.size(content.base_costs.footprint_entries * base)
    console.print(f"Taken at the footprint of the largest process, {footprint}.")


def _cost(interval: Interval | None) -> str:
    if interval is None:
        return units.NOT_OBTAINED
    low, high = units.nanoseconds(interval.low), units.nanoseconds(interval.high)
    return f"{units.nanoseconds(interval.value)} ({low} to {high})"


def _results(console: Console, content: Content) -> None:
    estimate = content.estimate
    wall = estimate.wall_ns
    table = _table("result", "share", "interval", "time saved", "speed-up")
    bound = estimate.bound_fraction.value
    table.add_row(
        "bound (capped)" if estimate.bound_capped else "bound",
        units.percent(bound),
        "at most",
        units.time(bound * wall),
        units.speedup(speedup_ratio(bound)),
    )
    expected = estimate.expected_fraction
    table.add_row("expected gain", *_saving(expected, wall))
    if estimate.fault_fraction is None:
        table.add_row("page faults", *[units.NOT_OBTAINED] * 4)
    else:
        table.add_row("page faults", *_saving(estimate.fault_fraction, wall))
    _section(console, table)
    parallel = any(run_time_ns(run) > run.wall_ns for run in content.runs)
    console.print(
        f"Shares of the {'CPU' if parallel else 'run'} time. Of it, code (not in the expected "
        f"gain) takes {range_of(estimate.code_fraction)} for its own translation."
    )


def _saving(share: Interval, wall_ns: float) -> list[str]:
    return [
        units.percent(share.value),
        range_of(share),
        units.time(share.value * wall_ns),
        units.speedup(speedup_ratio(share.value)),
    ]


def _ending(console: Console, content: Content) -> None:
    console.print()
    sentence = verdict_sentence(content.estimate, content.geometry.huge.page_size_bytes)
    console.print(sentence, style="bold")
    found = caveats(content)
    if found:
        console.print()
        rows = _grid()
        for caveat in found:
            rows.add_row(f"{caveat.code}:", f"{caveat.sentence}; {caveat.remedy}.")
        console.print(rows)
    console.print("\nNext:", style="bold")
    for step in next_steps(content):
        # A command must stay one line, to be copied.
        console.print(f"  {step}", soft_wrap=True)


def _grid() -> Table:
    from rich.table import Table

    rows = Table.grid(padding=(0, 1))
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    return rows


def _table(first: str, *names: str) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    table.add_column(first, overflow="fold")
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _section(console: Console, table: Table) -> None:
    console.print()
    console.print(table)
