# SPDX-License-Identifier: GPL-2.0-or-later
"""Do predictions for other machines agree with what others published of them?

Writes doc/accuracy-machines.md: each row of data/published/machines.tsv, and the article's ten
patterns, simulated on the published core, with the interval that `tlbcost estimate` would give.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from accuracy_rows import Row, text_of
from kept import kept
from simulated_pages import PATTERNS, later_half, simulated
from tlbcost.common import formats, paths, units
from tlbcost.common.formats import read_table
from tlbcost.common.gnuplot import draw_by
from tlbcost.common.units import Interval
from tlbcost.machines.estimate import MachineResult, effect_of, results, spread, total
from tlbcost.machines.plan import (
    BASE_BYTES,
    GIB,
    HUGE_BYTES,
    OtherMachine,
    Pass,
    machine_named,
    plan_pass,
)
from tlbcost.pagesizes.published import published, ratio_of
from tlbcost.run.launch import Launcher, launcher_of
from tlbcost.simulator.memory_tables import WindowPlan
from tlbcost.simulator.run import Simulation

TREE = Path(__file__).resolve().parent.parent
PAGE = TREE / "doc" / "accuracy-machines.md"
PICTURE = TREE / "doc" / "accuracy-machines.png"
BEGIN, END = "<!-- rows: begin -->\n", "<!-- rows: end -->"
# Enough that page tables and data have the shares of the caches that they have in a longer run.
READS = {
    "chain": 1 << 20,
    "drawn": 1 << 21,
    "independent": 1 << 21,
    "product": 1 << 21,
    "update": 1 << 22,
}
CHAINS = ("chain", "drawn")
_WINDOWS = WindowPlan(period=60_000, warm=16_000, measured=6_000, most=40)
# A read in L1, whose cycles beyond the cache's are the loop's own.
_IN_L1 = 16 << 10
# The model's own error of a latency.
_LATENCY = 0.1
_WORDS = {
    "chain": "one after the other", "drawn": "one after the other at random",
    "independent": "independent",
    "product": "gathered by a sparse product", "update": "changed",
}  # fmt: skip
Published = Mapping[str, str]


def run(
    launcher: Launcher, machine: OtherMachine, size: int, reads: str
) -> tuple[Pass, Simulation]:
    """The reads on this machine."""
    plan = plan_pass([machine])
    name = "random-read" if reads == "drawn" else "unfilled-reads"
    program = str(TREE / "build/workloads" / name)
    argv = [program, "--size", str(size), "--count", str(READS[reads])]
    option = "chain" if reads == "drawn" else reads
    how = [] if reads == "independent" else [f"--{option}", "1"]
    windows = replace(_WINDOWS, period=22_000) if reads == "update" else _WINDOWS
    return plan, later_half(kept(launcher, plan, windows, [*argv, *how]))


def cycles(plan: Pass, found: Simulation, overhead: float) -> Interval:
    """Of one read on the machine's only size, less the loop's own."""
    [machine] = plan.machines
    image = found.views[0]
    references = [image.references]

    def per_read(view: int) -> float:
        column = [[(n, each[view]) for n, each in image.windows]]
        all_of_it = total(column, references)
        assert all_of_it is not None
        return all_of_it / image.references

    assumed = per_read(plan.cells.index((0, 0)))
    effects = [
        effect_of(variant, assumed, per_read(plan.varied[0, v, 0]))
        for v, variant in enumerate(machine.variants)
        if (0, v, 0) in plan.varied
    ]
    value = assumed - overhead
    below, above = spread(effects)
    own = _LATENCY * value
    return Interval(value, value - math.hypot(own, below), value + math.hypot(own, above))


def words(row: Published) -> str:
    """What was read."""
    size, page = (units.size(int(row[key])) for key in ("size_bytes", "page_size_bytes"))
    return f"{size} on {page} pages, {_WORDS[row['reads']]}"


def products() -> dict[tuple[str, str], dict[str, float]]:
    """What is known of the machines of some sources besides their cores."""
    table = read_table(paths.data("published", "products.tsv"), formats.PUBLISHED_PRODUCTS)
    return {
        (str(row["source"]), str(row["cpu"])): {
            key: float(str(row[key])) for key in table.columns[2:]
        }
        for row in table.records()
    }


def latencies(launcher: Launcher, rows: Sequence[Published]) -> Iterable[Row]:
    """Chains, of each machine."""
    known = products()
    for key in dict.fromkeys((row["source"], row["cpu"]) for row in rows):
        own = [row for row in rows if (row["source"], row["cpu"]) == key]
        sizes = (int(own[0]["page_size_bytes"]),)
        machine = machine_named(own[0]["core"], sizes, None, None, known.get(key))
        assert machine.core is not None
        reads = own[0]["reads"]
        first = cycles(*run(launcher, machine, _IN_L1, reads), 0).value
        in_l1 = dict(machine.core.fields)["l1-cycles"]
        assert isinstance(in_l1, int)
        for row in own:
            print(f"{row['core']}, {words(row)}", file=sys.stderr)
            seen = cycles(*run(launcher, machine, int(row["size_bytes"]), reads), first - in_l1)
            what = f"cycles of a read, {words(row)}"
            value = float(row["value"])
            yield Row(row["source"], row["cpu"], row["core"], what, value, seen.value, seen)


def ratios(launcher: Launcher, rows: Sequence[Published]) -> Iterable[Row]:
    """Reads that do not wait for each other: times relative to base pages, and walks."""
    known = products()
    seen: dict[tuple[str, ...], MachineResult] = {}
    for row in rows:
        key = tuple(row[name] for name in ("source", "cpu", "size_bytes", "reads"))
        if key not in seen:
            print(f"{row['core']}, {words(row)}", file=sys.stderr)
            larger = (HUGE_BYTES,) if row["reads"] == "product" else (HUGE_BYTES, GIB)
            machine = machine_named(
                row["core"],
                (BASE_BYTES, *larger),
                None,
                None,
                known.get((row["source"], row["cpu"])),
            )
            plan, found = run(launcher, machine, int(row["size_bytes"]), row["reads"])
            [seen[key]] = results([machine], plan, found)
        yield _ratio_row(row, seen[key])


def _ratio_row(row: Published, result: MachineResult) -> Row:
    page = int(row["page_size_bytes"])
    seen = next(each for each in result.sizes if each.size.page_bytes == page)
    value, interval = float(row["value"]), seen.time_ratio
    if row["quantity"] == "time_ratio":
        assert interval is not None
        what = f"time over that on 4 KiB pages, {words(row)}"
        return Row(row["source"], row["cpu"], row["core"], what, value, interval.value, interval)
    assert seen.counts is not None
    walks = sum(each.stlb_misses for side, each in seen.counts.items() if side == "load")
    predicted = walks / READS[row["reads"]]
    what = f"walks per read, {words(row)}"
    return Row(row["source"], row["cpu"], row["core"], what, value, predicted, None)


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


def picture(rows: Sequence[Row]) -> None:
    """Predicted over published."""
    tables = {
        name: [
            ("published", "predicted", "low", "high"),
            *(
                (row.published, row.predicted, row.interval.low, row.interval.high)
                for row in rows
                if row.what.startswith(kind) and row.interval is not None
            ),
        ]
        for kind, name in (("time", "ratios"), ("cycles", "cycles"))
    }
    draw_by("accuracy-machines.gp", PICTURE, {}, tables)


def main() -> int:
    """Run what was not run before; returns the exit code."""
    table = read_table(paths.data("published", "machines.tsv"), formats.PUBLISHED_MACHINES)
    known = [{key: str(cell) for key, cell in row.items()} for row in table.records()]
    with launcher_of(None) as launcher:
        rows = [
            *ratios(launcher, [row for row in known if row["reads"] not in CHAINS]),
            *patterns(launcher),
            *latencies(launcher, [row for row in known if row["reads"] in CHAINS]),
        ]
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN, 1)
    _, after = rest.split(END, 1)
    PAGE.write_text(f"{before}{BEGIN}{text_of(rows)}{END}{after}", encoding="utf-8")
    picture(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
