# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the overlap model right where the overlap is known?

Times workloads/chases on base and on huge pages in turn, has the simulator model the same steps,
keeps both below data/samples, and writes the section and the figure of doc/overlap.md. Needs root,
a quiet machine, a calibration and two minutes. With --from FILE nothing is timed; with --model
as well, that table's modelled times are made anew and kept.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from overlap_table import Case, Row, draw, format_record, markdown, read_rows
from tlbcost.calibration.file import look_up
from tlbcost.calibration.records import cost_at
from tlbcost.common import formats, paths
from tlbcost.common.errors import CANNOT_MEASURE, FAILED, TlbcostError
from tlbcost.common.formats import Cell, Table, count, read_table
from tlbcost.common.output import write_file
from tlbcost.common.units import Interval
from tlbcost.memory.frames import isolated_pages
from tlbcost.processors.published import Geometry, record_name
from tlbcost.settings.change import system_settings
from tlbcost.simulator.core import Core, core_for
from tlbcost.simulator.geometry import geometry_for
from tlbcost.simulator.memory_tables import WindowPlan
from tlbcost.simulator.run import find_valgrind, simulator_command
from tlbcost.system.machine import current_machine, machine_of

TREE = Path(__file__).resolve().parent.parent

PAGE = TREE / "doc" / "overlap.md"
FIGURE = TREE / "doc" / "overlap.png"
RECORD = "overlap.tsv"
MARKS = ("<!-- this machine: begin -->", "<!-- this machine: end -->")
BASE_BYTES, HUGE_BYTES = 4096, 2 << 20
# In addition to the table itself: what malloc aligns, and the program's other memory.
SPARE_PAGES = 8
CHAINS = (1, 2, 4, 8, 16)
# User time of the steps that are timed; the kernel divides a run's time into user's and its own
# by ticks of some milliseconds.
TIMED_NS = 300e6
PILOT_STEPS = 1 << 20
# One round of the largest ring and more; the model takes minutes for what runs in a second.
MODELLED_STEPS = 800_000
# Warm long enough for the modelled caches to hold what they hold in the steady state.
PLAN = WindowPlan(period=120_000, warm=40_000, measured=20_000, most=16)
NO_WINDOWS = WindowPlan(period=1 << 40, most=2)


def cases() -> list[Case]:
    chases = [Case(pages, chains) for pages in (4096, 16384, 65536, 262144) for chains in CHAINS]
    computing = [Case(65536, compute=compute) for compute in (20, 100)]
    updates = [Case(pages, update=update) for update in (1, 2) for pages in (65536, 262144)]
    return [*chases, *computing, *updates]


@dataclass(frozen=True, slots=True)
class Model:
    """The simulator, and the core and the clock that it is to model."""

    valgrind: Path
    geometry: Geometry
    core: Core
    cycles_per_ns: float

    def on(self, isolated: int | None) -> Model:
        """The same with this many isolated base pages; None: as looked up."""
        known = dict(self.core.fields)
        if isolated is None or "isolated-pages" not in known:
            return self
        fields = tuple((known | {"isolated-pages": isolated}).items())
        return replace(self, core=replace(self.core, fields=fields))

    def step_ns(self, case: Case) -> tuple[float, float]:
        """Modelled ns per step on base and on huge pages, in the later half of the steps."""
        steps = MODELLED_STEPS + 4 * case.pages
        before = _references(self._windows(case, 0, NO_WINDOWS))
        table = self._windows(case, steps, PLAN)
        per_step = (_references(table) - before) / steps
        start = before + steps * per_step / 2
        rows = [row for row in table.records() if int(row["start"] or 0) >= start]
        references = _total(rows, "references")
        if not references:
            raise TlbcostError(f"{case.words}: no window was modelled in the later half", None)
        base, huge = (
            _total(rows, cycles) / references * per_step / self.cycles_per_ns
            for cycles in ("base_cycles", "huge_cycles")
        )
        return base, huge

    def _windows(self, case: Case, steps: int, plan: WindowPlan) -> Table:
        with tempfile.TemporaryDirectory(prefix="tlbcost-") as folder:
            command = simulator_command(
                self.valgrind, Path(folder), self.geometry, plan, self.core.option
            )
            done = subprocess.run(
                [*command, *case.command(steps)],
                env=environment(huge=False) | {"VALGRIND_LIB": str(paths.valgrind_lib())},
                capture_output=True,
                text=True,
                check=False,
            )
            found = list(Path(folder).glob("windows.*.tsv"))
            if done.returncode != 0 or len(found) != 1:
                last = done.stderr.strip().splitlines()[-1:]
                raise TlbcostError(f"{case.words}, simulated: {last or len(found)}", None)
            return read_table(found[0], formats.WINDOWS)


def _references(table: Table) -> int:
    return int(table.key("references"))


def _total(rows: Sequence[dict[str, str | None]], column: str) -> int:
    return sum(count(row[column]) or 0 for row in rows)


def model_here() -> Model:
    """The model of this machine. Raises TlbcostError without a sufficient calibration."""
    machine = current_machine()
    obtained, reason = look_up()
    if obtained is None:
        raise TlbcostError(f"cannot model: {reason}", "tlbcost calibrate", CANNOT_MEASURE)
    geometry = geometry_for(obtained.calibration, machine, HUGE_BYTES)
    core = core_for(obtained.calibration, machine, geometry)
    rate = cost_at(obtained.calibration, "cycles_per_ns", None)
    if core is None or rate is None:
        raise TlbcostError(
            "cannot model: the calibration does not say what loads cost",
            "tlbcost calibrate --recalibrate",
            CANNOT_MEASURE,
        )
    for note in core.notes:
        print(f"tlbcost: {note}", file=sys.stderr)
    return Model(find_valgrind(), geometry, core, rate.value)


def modelled(model: Model, rows: Sequence[Row]) -> list[Row]:
    """The rows with what is modelled; several at a time, since their time does not matter."""

    def one(row: Row) -> Row:
        base, huge = model.on(row.isolated_pages).step_ns(row.case)
        return replace(row, modelled_base=base, modelled_huge=huge)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, rows))


def environment(*, huge: bool) -> dict[str, str]:
    """This process's, with malloc() on the wanted pages."""
    ours = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    return ours | ({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"} if huge else {})


def user_ns(case: Case, steps: int, *, huge: bool) -> float:
    """User time of one run. Raises TlbcostError if it fails or had the other pages."""
    process = subprocess.Popen(
        case.command(steps), env=environment(huge=huge), stdout=subprocess.DEVNULL
    )
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        # It must not outlive the pool that it has pages of.
        process.kill()
        process.wait()
        raise
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise TlbcostError(f"{case.words}: exit code {process.returncode}", None)
    # Every page is touched, and has its fault unless a huge one held it.
    if huge != (usage.ru_minflt < case.pages / 2):
        kind = "huge" if huge else "base"
        raise TlbcostError(
            f"{case.words}: its memory was not on {kind} pages: {usage.ru_minflt} page faults",
            "needs glibc 2.35 or later, and transparent huge pages not set to always",
            CANNOT_MEASURE,
        )
    return usage.ru_utime * 1e9


def measured(case: Case, pairs: int) -> tuple[Interval, Interval]:
    """ns per step on base and on huge pages: what more steps take more, in turns."""
    # The first round is not timed, and counts are multiples of all numbers of chains.
    less = case.pages
    few = user_ns(case, less + PILOT_STEPS, huge=False) - user_ns(case, less, huge=False)
    guess_ns = max(1.0, few / PILOT_STEPS)
    more = less + max(CHAINS) * math.ceil(TIMED_NS / guess_ns / max(CHAINS))
    found: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(pairs):
        for huge, times in found.items():
            timed = [user_ns(case, steps, huge=huge) for steps in (less, more)]
            times.append((timed[1] - timed[0]) / (more - less))
    base, huge_ = (
        Interval(statistics.median(times), min(times), max(times)) for times in found.values()
    )
    return base, huge_


def run(pairs: int) -> tuple[Model, list[Row]]:
    """Measure and model every case."""
    model, chosen, rows = model_here(), cases(), []
    largest = max(case.pages for case in chosen) * BASE_BYTES // HUGE_BYTES
    with system_settings() as settings:
        settings.reserve(HUGE_BYTES, largest + SPARE_PAGES)
        for case in chosen:
            # Which frames are free changes from minute to minute.
            isolated = isolated_pages() if "isolated-pages" in dict(model.core.fields) else None
            base, huge = measured(case, pairs)
            rows.append(Row(case, base, huge, math.nan, math.nan, isolated))
            print(f"{case.words}: {base.value:.1f} ns, {huge.value:.1f} ns", flush=True)
    return model, modelled(model, rows)


def header_of(model: Model, pairs: int, date: str) -> dict[str, Cell]:
    return {
        "date": date,
        "version": paths.version(),
        "pairs": pairs,
        "core": model.core.option,
        "cycles_per_ns": model.cycles_per_ns,
    }


def write_page(path: Path) -> None:
    """Write the section of the page and its figure from a record."""
    table = read_table(path, formats.OVERLAP)
    try:
        rows, machine = read_rows(table), machine_of(table.header)
    except (KeyError, ValueError) as error:
        raise TlbcostError(f"{path}: not a record of overlap: {error}") from error
    name = machine.cpu_name or "NA"
    said = (
        f"ns per step; in brackets the smallest and the largest of {table.key('pairs')} pairs. "
        f"Machine: {name}, hypervisor {machine.hypervisor or 'none'}, kernel {machine.kernel}; "
        f"{table.key('date')[:10]}, tlbcost {table.key('version')}."
    )
    draw(rows, name, FIGURE)
    text = PAGE.read_text(encoding="utf-8")
    head, begin, rest = text.partition(MARKS[0])
    _, end, tail = rest.partition(MARKS[1])
    if not begin or not end:
        raise TlbcostError(f"{PAGE}: no section between {' and '.join(MARKS)}")
    section = "\n".join(markdown(rows, said))
    figure = f"![chains side by side, measured and modelled]({FIGURE.name})"
    PAGE.write_text(f"{head}{begin}\n{section}\n\n{figure}\n{end}{tail}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Judge the overlap model by known overlap.")
    parser.add_argument("--from", type=Path, dest="record", help="time nothing; read this record")
    parser.add_argument("--model", action="store_true", help="with --from: model its steps anew")
    parser.add_argument("--pairs", type=int, default=3, help="pairs of runs of each case (3)")
    arguments = parser.parse_args()
    path: Path | None = arguments.record
    if arguments.pairs < 1 or (arguments.model and path is None):
        parser.error("--pairs must be at least 1, and --model goes with --from")
    try:
        if path is None:
            machine = current_machine()
            path = TREE / "data" / "samples" / record_name(machine) / RECORD
            path.parent.mkdir(parents=True, exist_ok=True)
            model, rows = run(arguments.pairs)
            date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            header = header_of(model, arguments.pairs, date)
            write_file(path, format_record(machine, header, rows))
        elif arguments.model:
            table = read_table(path, formats.OVERLAP)
            model = model_here()
            rows = modelled(model, read_rows(table))
            header = header_of(model, int(table.key("pairs")), table.key("date"))
            write_file(path, format_record(machine_of(table.header), header, rows))
        write_page(path)
    except TlbcostError as error:
        print(f"tlbcost: {error}", file=sys.stderr)
        if error.hint:
            print(f"tlbcost: hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"tlbcost: cannot judge the overlap model: {error}", file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
