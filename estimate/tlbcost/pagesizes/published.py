# SPDX-License-Identifier: GPL-2.0-or-later
"""What is published about the access patterns on pages of several sizes?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from tlbcost.common import formats, paths
from tlbcost.common.document import doc
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import count, number, read_table


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """One figure: the time on this size over that on 4 KiB pages; None for these."""

    source: Annotated[str, doc("key of its source")]
    explanation: Annotated[str, doc("what the source is")]
    machine: Annotated[str, doc("where it was measured")]
    pattern: Annotated[int, doc("number of the pattern", minimum=1)]
    page_bytes: Annotated[int, doc("size of the pages", minimum=1)]
    cycles: Annotated[float | None, doc("of all accesses")]
    time_ns: Annotated[float | None, doc("of all accesses")]
    accesses: Annotated[int | None, doc("how many there were", minimum=0)]
    ratio: Annotated[float | None, doc("time over that on 4 KiB pages; null on these")]
    computed: Annotated[bool, doc("computed from other figures of the source")]


def published() -> list[PublishedFigure]:
    """Figures of data/published/page-sizes.tsv, the article's first. Raises TlbcostError."""
    path = paths.data("published", "page-sizes.tsv")
    table = read_table(path, formats.PAGE_SIZES)
    found = []
    for row in table.records():
        pattern, size = count(row["pattern"]), count(row["page_size_bytes"])
        if pattern is None or size is None or row["status"] not in ("read", "computed"):
            raise TlbcostError(f"{path}: not a figure of a pattern on pages of one size: {row}")
        source = str(row["source"])
        found.append(
            PublishedFigure(
                source,
                table.key(f"source_{source}"),
                str(row["machine"]),
                pattern,
                size,
                number(row["cycles"]),
                number(row["time_ns"]),
                count(row["accesses"]),
                number(row["ratio"]),
                row["status"] == "computed",
            )
        )
    return found


def ratio_of(
    figures: Iterable[PublishedFigure], pattern: int, page_bytes: int
) -> PublishedFigure | None:
    """The first figure that has a ratio of this pattern on this size."""
    return next(
        (
            each
            for each in figures
            if (each.pattern, each.page_bytes) == (pattern, page_bytes) and each.ratio is not None
        ),
        None,
    )
