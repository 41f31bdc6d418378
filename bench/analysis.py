# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the calibrator's analysis find the TLB levels, and would another one find them better?

Analyses a thousand synthetic curves (bench/synthetic.py) with our segmentation and with
those of the ruptures library, reads the same curves as lmbench's and Calibrator's published
procedures would, and writes the tables to doc/calibrator.md. Takes about ten minutes. Exits 1 if
ours does not reach what it has to.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import ruptures
from synthetic import RECORDED, Outcome, draw_machine, measure_twice
from tlbcost.calibration.analysis import samples
from tlbcost.calibration.analysis.quantities import analyse
from tlbcost.calibration.analysis.samples import Curve
from tlbcost.common import formats
from tlbcost.common.bootstrap import Floats
from tlbcost.common.formats import Table, read_table

TREE = Path(__file__).resolve().parent.parent

PAGE = TREE / "doc" / "calibrator.md"
MARKS = ("<!-- {}: begin -->", "<!-- {}: end -->")
# What ours has to reach.
LEAST_FOUND, MOST_FALSE = 0.95, 0.02

# Of ruptures' Pelt for each step: of 1, 2, 3, 5 and 8 the best on forty machines.
PENALTY = 5.0

# lmbench: a chain over pages misses if it takes this many times as long as one that is packed.
LMBENCH_RATIO = 1.15
# Calibrator: this many neighbours within N cycles are a plateau, a level is N times
# as slow as the one before, and no chain has more than N times the L1 cache's lines.
PLATEAU_POINTS, PLATEAU_CYCLES, PLATEAU_RATIO, L1_LINES = 3, 1.0, 10**0.3, 1.25
CYCLES_PER_NS = 3.0
# Of the recorded machines.
L1_LINES_HERE = (48 << 10) / 64


@dataclass(frozen=True, slots=True)
class Reading:
    """What a procedure reports: entries of the levels (None: nothing), and the first one's cost."""

    first: float | None
    second: float | None
    cost_ns: float | None


def lmbench(lines: Floats, spread: Floats, packed: Floats) -> Reading:
    """Doubling from 8, then bisection: the first level alone, its cost at twice that."""

    def misses(n: float) -> bool:
        return float(np.interp(n, lines, spread) / np.interp(n, lines, packed)) > LMBENCH_RATIO

    high = 8.0
    while not misses(high):
        if high > lines[-1]:
            return Reading(None, None, None)
        high *= 2
    low = high / 2
    while high - low > 1:
        middle = math.floor((low + high) / 2)
        low, high = (low, middle) if misses(middle) else (middle, high)
    cost = np.interp(2 * high, lines, spread) - np.interp(2 * high, lines, packed)
    return Reading(high, None, float(cost))


def calibrator(lines: Floats, spread: Floats, l1_lines: float) -> Reading:
    """Plateaus over 2^k x {3, 4, 5} / 4 spots, which end with the L1 cache's lines."""
    spots = [2.0**k * part / 4 for k in range(3, 15) for part in (3, 4, 5)]
    spots = [n for n in spots if lines[0] <= n <= min(lines[-1], L1_LINES * l1_lines)]
    cycles = np.interp(spots, lines, spread) * CYCLES_PER_NS
    plateaus: list[tuple[int, int]] = []
    begin = 0
    for i in range(1, len(spots) + 1):
        if i == len(spots) or abs(cycles[i] - cycles[begin]) > PLATEAU_CYCLES:
            higher = not plateaus or cycles[begin] > PLATEAU_RATIO * cycles[plateaus[-1][0]]
            if i - begin >= PLATEAU_POINTS and higher:
                plateaus.append((begin, i - 1))
            begin = i
    ends = []
    for (_, last), (begin, _) in pairwise(plateaus):
        jumps = np.diff(np.log(cycles[last : begin + 1]))
        ends.append(spots[last + int(np.argmax(jumps))])
    height = [float(np.median(cycles[a : b + 1])) / CYCLES_PER_NS for a, b in plateaus]
    cost = height[1] - height[0] if len(height) > 1 else None
    first, second = [*ends, None, None][:2]
    return Reading(first, second, cost)


def fits() -> dict[str, Callable[[Curve, int], list[int]]]:
    """Segmentations of ruptures by name; they get the same values and checks as ours."""

    def values(curve: Curve) -> Floats:
        return np.log(np.maximum(curve.medians, 0) + samples._FLOOR_NS)

    def known_number(curve: Curve, most: int) -> list[int]:
        # How many steps there are is decided as ours does: by what each of them explains.
        found, cost = [0, len(curve.lines)], math.inf
        search = ruptures.Dynp(model="l1", min_size=2, jump=1).fit(values(curve))
        for number in range(most + 1):
            ends = search.predict(n_bkps=number) if number else [len(curve.lines)]
            total = search.cost.sum_of_costs(ends)
            if number == 0:
                cost = total
            elif total <= (1 - samples._LEAST_GAIN) * cost and samples._are_steps(
                curve, [0, *ends]
            ):
                found, cost = [0, *ends], total
        return found

    def penalised(model: str, penalty: float) -> Callable[[Curve, int], list[int]]:
        def fit(curve: Curve, most: int) -> list[int]:
            if len(curve.lines) < 4:
                return [0, len(curve.lines)]
            search = ruptures.Pelt(model=model, min_size=2, jump=1).fit(values(curve))
            cuts = [0, *search.predict(pen=penalty)]
            # The analysis takes the first ones.
            cuts = cuts if len(cuts) <= most + 2 else [*cuts[: most + 1], len(curve.lines)]
            return cuts if samples._are_steps(curve, cuts) else [0, len(curve.lines)]

        return fit

    return {"ruptures, Dynp, l1": known_number} | {
        f"ruptures, Pelt, {model}": penalised(model, PENALTY) for model in ("l1", "l2", "rbf")
    }


@dataclass(slots=True)
class Score:
    """How often a procedure was right."""

    there: dict[str, int]
    right: dict[str, int]
    absent: int = 0
    reported: int = 0
    seconds: float = 0.0

    def add(self, outcome: Outcome) -> None:
        """Count one level of one machine."""
        if outcome.entries is None:
            self.absent += 1
            self.reported += outcome.found is not None
        else:
            self.there[outcome.level] += 1
            self.right[outcome.level] += outcome.right

    def share(self, level: str) -> float:
        """Of the levels that are there, those found within 15 %."""
        return self.right[level] / max(1, self.there[level])

    def row(self, name: str, curves: int) -> str:
        """A line of the table."""
        took = f"{1000 * self.seconds / curves:.0f} ms" if self.seconds else "-"
        return (
            f"| {name} | {self.share('first'):.1%} | {self.share('second'):.1%} "
            f"| {self.reported / max(1, self.absent):.1%} | {took} |"
        )


def empty() -> Score:
    return Score({"first": 0, "second": 0}, {"first": 0, "second": 0})


def score(curves: int, policy: str, fit: Callable[[Curve, int], list[int]] | None) -> Score:
    """Two measurements of each machine, analysed with a segmentation; None: ours."""
    total, start = empty(), time.process_time()
    with mock.patch.object(samples, "_fit", fit or samples._fit):
        for seed in range(curves):
            for outcome in measure_twice(draw_machine(seed, policy), seed):
                total.add(outcome)
    total.seconds = time.process_time() - start
    return total


def score_others(curves: int) -> dict[str, Score]:
    """What the published procedures would report from the first measurement of each machine."""
    scores = {"lmbench's tlb": empty(), "Calibrator v0.9e": empty()}
    for seed in range(curves):
        machine = draw_machine(seed)
        curve = machine.curve(2 * seed)
        packed = machine.packed_ns(curve.lines)
        spread = packed + curve.medians
        readings = (
            lmbench(curve.lines, spread, packed),
            calibrator(curve.lines, spread, machine.l1d_bytes / 64),
        )
        for name, reading in zip(scores, readings, strict=True):
            for i, found in enumerate((reading.first, reading.second)):
                there = machine.levels[i].entries if i < len(machine.levels) else None
                scores[name].add(Outcome(("first", "second")[i], there, found))
    return scores


def side_by_side() -> Iterator[str]:
    """What each procedure reports from each recorded machine, as lines of a table."""
    for folder in sorted(path.parent for path in RECORDED.glob("*/samples.tsv")):
        table = read_table(folder / "samples.tsv", formats.SAMPLES)
        second = [read_table(p, formats.SAMPLES) for p in sorted(folder.glob("confirmation-*.tsv"))]
        lines, spread, packed = medians(table)
        costs = {(c.quantity, c.access, c.pages): c.interval for c in analyse([table], second).costs
                 if c.page_size_bytes == int(table.key("base_page_bytes"))}  # fmt: skip
        hit = next(v for (name, access, _), v in costs.items()
                   if name == "stlb_hit_ns" and access == "serial")  # fmt: skip
        walk = costs.get(("walk_ns", "serial", 8192))
        ours = [costs["dtlb_entries", None, None], costs["stlb_entries", None, None], hit, walk]
        yield row(folder.name, "tlbcost", [v.value if v else None for v in ours])
        found = lmbench(lines, spread, packed)
        yield row(folder.name, "lmbench's tlb", [found.first, found.second, found.cost_ns, None])
        found = calibrator(lines, spread, L1_LINES_HERE)
        yield row(folder.name, "Calibrator v0.9e",
                  [found.first, found.second, found.cost_ns, None])  # fmt: skip


def row(name: str, procedure: str, cells: list[float | None]) -> str:
    words = [
        "NA" if cell is None else f"{cell:.0f}" if i < 2 else f"{cell:.1f} ns"
        for i, cell in enumerate(cells)
    ]
    return f"| {name} | {procedure} | {' | '.join(words)} |"


def medians(table: Table) -> tuple[Floats, Floats, Floats]:
    """Lines, and the median times in ns of the chain over base pages and of the packed one."""
    times: dict[int, list[tuple[float, float]]] = {}
    for cells in table.records():
        kind = cells["probe"], cells["layout"], cells["access"], cells["page_size_bytes"]
        if kind == ("tlb", "spread", "serial", table.key("base_page_bytes")):
            pair = float(cells["ns"] or "nan"), float(cells["packed_ns"] or "nan")
            times.setdefault(int(cells["lines"] or 0), []).append(pair)
    lines = np.array(sorted(times), dtype=np.float64)
    both = np.array([np.median(times[int(n)], axis=0) for n in lines])
    return lines, both[:, 0], both[:, 1]


def write(name: str, text: str) -> None:
    """Put a text between the page's marks."""
    begin, end = (mark.format(name) for mark in MARKS)
    content = PAGE.read_text(encoding="utf-8")
    before, _, rest = content.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"bench-analysis: {PAGE}: no lines {begin} and {end}")
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Test the analysis on synthetic curves.")
    parser.add_argument("--curves", type=int, default=1000, metavar="N", help="(default 1000)")
    parser.add_argument("--show", action="store_true", help="print only; leave the page as it is")
    arguments = parser.parse_args()
    curves = arguments.curves
    head = ("| {} | first level within 15 % | second | reported though absent | per machine |\n"
            "| --- | --- | --- | --- | --- |").format  # fmt: skip
    ours = score(curves, "lru", None)
    lines = [head("segmentation"), ours.row("ours", curves)]
    print(lines[-1], flush=True)
    for name, fit in fits().items():
        lines.append(score(curves, "lru", fit).row(name, curves))
        print(lines[-1], flush=True)
    others = [head("procedure"), ours.row("tlbcost", curves)]
    others += [found.row(name, curves) for name, found in score_others(curves).items()]
    others.append(score(curves, "random", None).row("tlbcost, random replacement", curves))
    recorded = ["| recorded | procedure | first level | second | first one's miss | walk |",
              "| --- | --- | --- | --- | --- | --- |", *side_by_side()]  # fmt: skip
    tables = {"segmentations": lines, "procedures": others, "side by side": recorded}
    for name, table in tables.items():
        print("\n".join(table))
        if not arguments.show:
            write(name, "\n".join(table))
    good = min(ours.share("first"), ours.share("second")) >= LEAST_FOUND
    return 0 if good and ours.reported <= MOST_FALSE * ours.absent else 1


if __name__ == "__main__":
    sys.exit(main())
