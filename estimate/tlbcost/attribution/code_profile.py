# SPDX-License-Identifier: GPL-2.0-or-later
"""Which code walks, by the simulator: a profile as opreport prints one, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from tlbcost.common import units
from tlbcost.counters.profile import short_names
from tlbcost.simulator.memory_tables import Line, SidedMisses, SourceLocation

By = Literal["object", "symbol", "line"]

_WALKS, _PERCENT = 13, 8
_NARROWEST, _WIDEST = 12, 26


@dataclass(frozen=True, slots=True)
class CodeRow:
    """One object, function or line of a program; `site` has the line with most walks of it."""

    program: str
    site: SourceLocation
    walks: int
    huge_walks: int


def code_rows(lines: Sequence[Line], by: By) -> list[CodeRow]:
    """Rows by walks on base pages, most first."""
    sums: dict[
        tuple[str, SourceLocation], dict[SourceLocation, tuple[SidedMisses, SidedMisses]]
    ] = {}
    for line in lines:
        sites = sums.setdefault((line.program, _group(line.site, by)), {})
        base, huge = sites.get(line.site, (SidedMisses(), SidedMisses()))
        sites[line.site] = (base + line.base, huge + line.huge)
    rows = []
    for (program, group), sites in sums.items():
        most = max(sites, key=lambda site: sites[site][0].walks)
        rows.append(
            CodeRow(
                program,
                group if by == "object" else most,
                sum(base.walks for base, _ in sites.values()),
                sum(huge.walks for _, huge in sites.values()),
            )
        )
    return sorted(rows, key=lambda row: (-row.walks, row.program, str(row.site)))


def describe(lines: Sequence[Line], by: By, limit: int | None) -> str:
    """The profile as text."""
    rows = code_rows(lines, by)
    total, left = sum(row.walks for row in rows), sum(row.huge_walks for row in rows)
    text = [
        f"page walks on base pages, simulated: {units.count(total)}; on huge pages: "
        f"{units.count(left)}",
        "",
    ]
    if not total:
        return text[0] + "\n"
    short = short_names([row.site.object for row in rows] + [row.program for row in rows])
    names = [_names(row, by, short) for row in rows]
    widths = [
        min(_WIDEST, max(_NARROWEST, *(len(name[i]) for name in names[:limit]))) for i in (0, 1)
    ]
    head = f"{'walks':>{_WALKS}}{'%':>{_PERCENT}}{'% left':>{_PERCENT}}"
    titles = ["image name", "app name", "symbol name"][: 2 if by == "object" else 3]
    text.append(head + "  " + _joined(titles, widths))
    for row, name in list(zip(rows, names, strict=True))[:limit]:
        remaining = f"{100 * row.huge_walks / row.walks:.2f}" if row.walks else units.NOT_OBTAINED
        text.append(
            f"{row.walks:>{_WALKS},}{100 * row.walks / total:>{_PERCENT}.2f}{remaining:>{_PERCENT}}"
            f"  {_joined(name, widths)}"
        )
    if limit is not None and len(rows) > limit:
        text.append(f"({len(rows) - limit} more; --limit {len(rows)} shows all)")
    return "\n".join(text) + "\n"


def to_json(lines: Sequence[Line], by: By, limit: int | None) -> str:
    """The same for programs; null: not told."""
    document = {
        "format": "tlbcost code profile 1",
        "by": by,
        "rows": [
            {"program": row.program, **asdict(row.site), "walks": row.walks,
             "huge_walks": row.huge_walks}
            for row in code_rows(lines, by)[:limit]
        ],
    }  # fmt: skip
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _group(site: SourceLocation, by: By) -> SourceLocation:
    if by == "line":
        return site
    return SourceLocation(site.object, site.function if by == "symbol" else None, None, None)


def _names(row: CodeRow, by: By, short: dict[str, str]) -> list[str]:
    def named(name: str | None) -> str:
        return units.NOT_OBTAINED if name is None else short.get(name, name)

    names = [named(row.site.object), named(row.program)]
    if by == "object":
        return names
    symbol = row.site.function or units.NOT_OBTAINED
    if row.site.file is not None and row.site.line is not None:
        symbol += f"  {row.site.file}:{row.site.line}"
    return [*names, symbol]


def _joined(names: Sequence[str], widths: Sequence[int]) -> str:
    padded = [f"{name:<{width}}" for name, width in zip(names, widths, strict=False)]
    return "  ".join([*padded, *names[len(widths) :]]).rstrip()
