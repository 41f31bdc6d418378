# SPDX-License-Identifier: GPL-2.0-or-later
"""Do predictions for other machines agree with what others published of them?

Writes doc/accuracy-machines.md: each row of data/published/machines.tsv, and the article's ten
patterns, simulated on the published core, with the interval that `tlbcost estimate` would give.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from simulated_pages import PATTERNS, later_half, simulated
from tlbcost.common import formats, paths, units
from tlbcost.common.gnuplot import draw_by
from tlbcost.common.interval import Interval
from tlbcost.common.table import read_table
from tlbcost.machines.effects import effect_of, spread, total
from tlbcost.machines.gain import MachineResult, results
from tlbcost.machines.one_pass import Pass, plan_pass
from tlbcost.machines.plan import BASE_BYTES, GIB, HUGE_BYTES, OtherMachine, machine_named
from tlbcost.pagesizes.published import published, ratio_of
from tlbcost.run.launch import Launcher, launcher_of
from tlbcost.simulator.run import Simulation, find_valgrind, simulate
from tlbcost.simulator.windows import WindowPlan

TREE = Path(__file__).resolve().parent.parent
PAGE = TREE / "doc" / "accuracy-machines.md"
PICTURE = TREE / "doc" / "accuracy-machines.png"
BEGIN, END = "<!-- rows: begin -->\n", "<!-- rows: end -->"
# Chains, and independent reads: enough that page tables and data have the shares of the caches that
# they have in a longer run.
CHAIN_READS, READS = 1 << 20, 1 << 21
_WINDOWS = WindowPlan(period=60_000, warm=16_000, measured=6_000, most=40)
# A read in L1, whose cycles beyond the cache's are the loop's own.
_IN_L1 = 16 << 10
# The model's own error of a latency.
_LATENCY = 0.1


@dataclass(frozen=True, slots=True)
class Row:
    """One published figure and its prediction; `interval` None: counts have none."""

    source: str
    cpu: str
    core: str
    what: str
    published: float
    predicted: float
    interval: Interval | None

    @property
    def inside(self) -> bool:
        """Counts count as such within 15 %, or if both are nearly nothing."""
        if self.interval is not None:
            return self.interval.low <= self.published <= self.interval.high
        both = max(self.published, self.predicted)
        return both < 0.001 or abs(self.predicted / self.published - 1) <= 0.15

    @property
    def error(self) -> float:
        """Relative; of what is nearly nothing on both sides, none."""
        if max(self.published, self.predicted) < 0.001:
            return 0.0
        return abs(self.predicted / self.published - 1)


def run(
    launcher: Launcher, machines: Sequence[OtherMachine], size: int, chain: int
) -> tuple[Pass, Simulation]:
    """One run of the reads for all these machines."""
    plan = plan_pass(machines)
    program = str(TREE / "build/workloads/unfilled-reads")
    argv = [program, "--size", str(size), "--chain", str(chain), "--count"]
    argv.append(str(CHAIN_READS if chain else READS))
    native = launcher.execute(argv, discard=True, environment=dict(os.environ))
    core = next(m.core.option for m in machines if m.core is not None)
    found = simulate(
        launcher, find_valgrind(), plan.geometry, argv, native, _WINDOWS,
        plan.core.option if plan.core is not None else core, plan.options,
    )  # fmt: skip
    return plan, later_half(found)


def cycles(
    m: int, plan: Pass, found: Simulation, overhead: Mapping[str, float]
) -> tuple[float, Interval]:
    """Of one read on the first size of machine `m`, less the loop's own, with its interval."""
    machine = plan.machines[m]
    image = found.views[0]
    cell = plan.cells.index((m, 0))
    references = [image.references]

    def per_read(view: int) -> float:
        column = [[(n, each[view]) for n, each in image.windows]]
        all_of_it = total(column, references)
        assert all_of_it is not None
        return all_of_it / image.references

    at = cell - (2 if plan.first else 0)
    assumed = per_read(at)
    effects = [
        effect_of(variant, assumed, per_read(plan.varied[m, v, 0]))
        for v, variant in enumerate(machine.variants)
        if (m, v, 0) in plan.varied
    ]
    value = assumed - overhead.get(machine.name, 0.0)
    below, above = spread(effects)
    own = _LATENCY * value
    return value, Interval(value, value - math.hypot(own, below), value + math.hypot(own, above))


def words(size: int, page: int, chain: int) -> str:
    """What was read."""
    how = "one after the other" if chain else "independent"
    return f"{units.size(size)} on {units.size(page)} pages, {how}"


def latencies(launcher: Launcher, rows: Sequence[Mapping[str, str]]) -> Iterable[Row]:
    """Each footprint once for all machines that have a figure of it."""
    pages = {int(row["page_size_bytes"]) for row in rows}
    for page in sorted(pages):
        of_page = [row for row in rows if int(row["page_size_bytes"]) == page]
        names = list(dict.fromkeys(row["core"] for row in of_page))
        machines = [machine_named(name, (page,), None, None) for name in names]
        # A second machine keeps the first from being the simulator's own.
        plan, found = run(launcher, machines, _IN_L1, 1)
        overhead = {}
        for m, machine in enumerate(machines):
            value, _ = cycles(m, plan, found, {})
            assert machine.core is not None
            overhead[machine.name] = value - float(dict(machine.core.fields)["l1-cycles"])  # type: ignore[arg-type]
        for size in sorted({int(row["size_bytes"]) for row in of_page}):
            print(f"{units.size(size)} on {units.size(page)} pages", file=sys.stderr)
            plan, found = run(launcher, machines, size, 1)
            for row in of_page:
                if int(row["size_bytes"]) == size:
                    value, interval = cycles(names.index(row["core"]), plan, found, overhead)
                    what = f"cycles of a read, {words(size, page, 1)}"
                    yield Row(row["source"], row["cpu"], row["core"], what,
                              float(row["value"]), value, interval)  # fmt: skip


def ratios(launcher: Launcher, rows: Sequence[Mapping[str, str]]) -> Iterable[Row]:
    """Independent reads: times relative to base pages, and walks."""
    for core in dict.fromkeys(row["core"] for row in rows):
        own = [row for row in rows if row["core"] == core]
        size = int(own[0]["size_bytes"])
        print(f"{core}, {units.size(size)}", file=sys.stderr)
        machine = machine_named(core, (BASE_BYTES, HUGE_BYTES, GIB), None, None)
        plan, found = run(launcher, [machine], size, 0)
        [result] = results([machine], plan, found)
        for row in own:
            yield _ratio_row(row, result, size)


def _ratio_row(row: Mapping[str, str], result: MachineResult, size: int) -> Row:
    page = int(row["page_size_bytes"])
    seen = next(each for each in result.sizes if each.size.page_bytes == page)
    value, interval = float(row["value"]), seen.time_ratio
    if row["quantity"] == "time_ratio":
        assert interval is not None
        what = f"time over that on 4 KiB pages, {words(size, page, 0)}"
        return Row(row["source"], row["cpu"], row["core"], what, value, interval.value, interval)
    assert seen.counts is not None
    walks = sum(each.stlb_misses for side, each in seen.counts.items() if side == "load")
    what = f"walks per read, {words(size, page, 0)}"
    return Row(row["source"], row["cpu"], row["core"], what, value, walks / READS, None)


def patterns(launcher: Launcher) -> Iterable[Row]:
    """The article's ten, on the E5-4617."""
    figures = [each for each in published() if each.machine == "E5-4617"]
    for pattern in PATTERNS:
        print(f"pattern {pattern}", file=sys.stderr)
        found = simulated(launcher, TREE / "build/workloads/page-patterns", pattern)
        for page in (HUGE_BYTES, GIB):
            figure = ratio_of(figures, pattern, page)
            size = next(each for each in found.sizes if each.size.page_bytes == page)
            assert figure is not None
            assert figure.ratio is not None
            assert size.time_ratio is not None
            what = f"time over that on 4 KiB pages, pattern {pattern} on {units.size(page)} pages"
            yield Row("khuong2014", "E5-4617", "snb", what, figure.ratio,
                      size.time_ratio.value, size.time_ratio)  # fmt: skip


def text_of(rows: Sequence[Row]) -> str:
    """The summary and the table."""
    lines = ["| of | rows | inside | median error |", "| --- | ---: | ---: | ---: |"]
    kinds = {
        "time ratios": [row for row in rows if row.what.startswith("time")],
        "cycles of a read": [row for row in rows if row.what.startswith("cycles")],
        "walks": [row for row in rows if row.what.startswith("walks")],
        "all": list(rows),
    }
    for name, own in kinds.items():
        if own:
            inside = sum(row.inside for row in own)
            error = median(row.error for row in own)
            lines.append(f"| {name} | {len(own)} | {inside} | {100 * error:.0f} % |")
    lines += [
        "",
        "| source | core | what | published | predicted | interval | inside |",
        "| --- | --- | --- | ---: | ---: | --- | --- |",
    ]
    for row in rows:
        between = (
            "" if row.interval is None else f"{row.interval.low:.3g} to {row.interval.high:.3g}"
        )
        lines.append(
            f"| {row.source}, {row.cpu} | {row.core} | {row.what} | {row.published:.3g} | "
            f"{row.predicted:.3g} | {between} | {'yes' if row.inside else 'no'} |"
        )
    return "\n".join(lines) + "\n"


def picture(rows: Sequence[Row]) -> None:
    """Predicted over published."""

    def settings(folder: Path) -> dict[str, str | int]:
        for kind, unit in (("time", "ratio"), ("cycles", "cycles")):
            lines = ["published\tpredicted\tlow\thigh"]
            for row in rows:
                if row.what.startswith(kind) and row.interval is not None:
                    cells = (row.published, row.predicted, row.interval.low, row.interval.high)
                    lines.append("\t".join(f"{cell:.6g}" for cell in cells))
            (folder / f"{unit}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return {"ratios": str(folder / "ratio.tsv"), "cycles": str(folder / "cycles.tsv")}

    draw_by("accuracy-machines.gp", settings, PICTURE)


def main() -> int:
    """Run everything; returns the exit code."""
    table = read_table(paths.data("published", "machines.tsv"), formats.PUBLISHED_MACHINES)
    known = [{key: str(cell) for key, cell in row.items()} for row in table.records()]
    with launcher_of(None) as launcher:
        rows = [
            *ratios(launcher, [row for row in known if row["chain"] == "0"]),
            *latencies(launcher, [row for row in known if row["chain"] == "1"]),
            *patterns(launcher),
        ]
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN, 1)
    _, after = rest.split(END, 1)
    PAGE.write_text(f"{before}{BEGIN}{text_of(rows)}{END}{after}", encoding="utf-8")
    picture(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
