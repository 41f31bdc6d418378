# SPDX-License-Identifier: GPL-2.0-or-later
"""What did bench/overlap.py find? Its `overlap` table, and how that is shown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from tlbcost.common import formats, paths
from tlbcost.common.formats import Cell, Table, count, format_table, number
from tlbcost.common.gnuplot import draw_by, word_list
from tlbcost.common.units import Interval
from tlbcost.system.machine import Machine


@dataclass(frozen=True, slots=True)
class Case:
    """Options of workloads/chases."""

    pages: int
    chains: int = 1
    compute: int = 0
    update: int = 0

    def command(self, steps: int) -> list[str]:
        words = [str(paths.workloads() / "chases"), "--count", str(steps)]
        for field in fields(Case):
            words += [f"--{field.name}", str(getattr(self, field.name))]
        return words

    @property
    def words(self) -> str:
        """'65536 pages, 4 chains'."""
        chains = f"{self.chains} chain{'' if self.chains == 1 else 's'}"
        compute = f", {self.compute} multiplications" if self.compute else ""
        updates = {1: "updates", 2: "updates in a row"}
        return f"{self.pages} pages, {updates.get(self.update, chains)}{compute}"


@dataclass(frozen=True, slots=True)
class Row:
    """ns per step: measured, with the least and the largest of the pairs, and modelled.

    `isolated_pages`: base pages that lay alone then, as the model takes it; None: it takes none.
    """

    case: Case
    base: Interval
    huge: Interval
    modelled_base: float
    modelled_huge: float
    isolated_pages: int | None


def format_record(machine: Machine, header: Mapping[str, Cell], rows: Sequence[Row]) -> str:
    """The text of the table."""
    known: dict[str, Cell] = {field.name: getattr(machine, field.name) for field in fields(Machine)}
    return format_table(
        formats.OVERLAP,
        known | dict(header),
        map(_cells, rows),
    )


def _cells(row: Row) -> tuple[Cell, ...]:
    return (
        *(getattr(row.case, field.name) for field in fields(Case)),
        *(row.base.value, row.base.low, row.base.high),
        *(row.huge.value, row.huge.low, row.huge.high),
        *(row.modelled_base, row.modelled_huge, row.isolated_pages),
    )


def read_rows(table: Table) -> list[Row]:
    """The rows of a record. Raises ValueError if one is not whole."""

    def cell(row: dict[str, str | None], column: str) -> float:
        found = number(row[column])
        if found is None:
            raise ValueError(f"{column} is missing: {row}")
        return found

    def interval(row: dict[str, str | None], size: str) -> Interval:
        return Interval(*(cell(row, f"{size}_{end}ns") for end in ("", "low_", "high_")))

    return [
        Row(
            Case(*(int(cell(row, field.name)) for field in fields(Case))),
            interval(row, "base"),
            interval(row, "huge"),
            cell(row, "modelled_base_ns"),
            cell(row, "modelled_huge_ns"),
            count(row["isolated_pages"]),
        )
        for row in table.records()
    ]


def ratios(row: Row) -> tuple[float, float]:
    return row.modelled_base / row.base.value, row.modelled_huge / row.huge.value


def savings(row: Row) -> tuple[float, float]:
    """Share of the time on base pages that huge pages save: measured, and modelled."""
    return 1 - row.huge.value / row.base.value, 1 - row.modelled_huge / row.modelled_base


def markdown(rows: Sequence[Row], said: str) -> Iterator[str]:
    yield "| pages | chains | compute | update | 4 KiB: measured | modelled | ratio " \
        "| 2 MiB: measured | modelled | ratio | saved: measured | modelled |"  # fmt: skip
    yield "| --- " * 12 + "|"
    for row in rows:
        case, (base, huge), saved = row.case, ratios(row), savings(row)
        yield (
            f"| {case.pages} | {case.chains} | {case.compute} | {case.update} "
            f"| {_ns(row.base)} | {row.modelled_base:.1f} | {base:.2f} "
            f"| {_ns(row.huge)} | {row.modelled_huge:.1f} | {huge:.2f} "
            f"| {100 * saved[0]:.0f} % | {100 * saved[1]:.0f} % |"
        )
    yield ""
    yield "| modelled / measured | median | within 15 % | worst | of |"
    yield "| --- | --- | --- | --- | --- |"
    for i, name in enumerate(("4 KiB", "2 MiB")):
        all_of = [ratios(row)[i] for row in rows]
        worst = max(rows, key=lambda row: abs(math.log(ratios(row)[i])))
        near = sum(1 / 1.15 <= ratio <= 1.15 for ratio in all_of)
        yield (
            f"| {name} | {statistics.median(all_of):.2f} | {near} of {len(rows)} "
            f"| {ratios(worst)[i]:.2f} | {worst.case.words} |"
        )
    errors = {row.case: 100 * (savings(row)[1] - savings(row)[0]) for row in rows}
    far = max(errors, key=lambda case: abs(errors[case]))
    mean = statistics.fmean(map(abs, errors.values()))
    yield ""
    yield f"The share saved is off by {mean:.1f} points on average, by " \
        f"{errors[far]:+.1f} at worst ({far.words})."  # fmt: skip
    yield ""
    yield said


def _ns(interval: Interval) -> str:
    return f"{interval.value:.1f} ({interval.low:.1f} to {interval.high:.1f})"


def draw(rows: Sequence[Row], title: str, picture: Path) -> None:
    """Chases without compute: one panel for each footprint. Raises TlbcostError."""
    chases = [row for row in rows if not row.case.compute and not row.case.update]
    footprints = sorted({row.case.pages for row in chases})
    values = [cell for row in chases for cell in (
        row.base.low, row.base.high, row.huge.low, row.huge.high,
        row.modelled_base, row.modelled_huge,
    )]  # fmt: skip

    def settings(folder: Path) -> dict[str, str | int]:
        text = format_table(formats.OVERLAP, {}, map(_cells, chases))
        (folder / "overlap.tsv").write_text(text, encoding="utf-8")
        return {
            "overlap": str(folder / "overlap.tsv"),
            "title_words": title,
            "footprints": word_list(footprints),
            "least": f"{0.8 * min(values):.3g}",
            "most": f"{1.25 * max(values):.3g}",
        }

    draw_by("overlap.gp", settings, picture)
