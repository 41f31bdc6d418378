# SPDX-License-Identifier: GPL-2.0-or-later
"""The access patterns of workloads/page-patterns, and what is published about them.

Sources: P. Khuong, "How bad can 1GB pages be?" (2014), in the order of its last table; the last one
is of E. Jones, "Huge Pages are a Good Idea" (2023). Pure arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

from tlbcost.common import formats, paths
from tlbcost.common.document import amount, doc
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
    accesses: Annotated[int | None, amount("how many there were")]
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
        about = source, table.key(f"source_{source}"), str(row["machine"]), pattern, size
        cycles, time_ns = number(row["cycles"]), number(row["time_ns"])
        accesses, ratio = count(row["accesses"]), number(row["ratio"])
        computed = row["status"] == "computed"
        found.append(PublishedFigure(*about, cycles, time_ns, accesses, ratio, computed))
    return found


def ratio_of(
    figures: Iterable[PublishedFigure], pattern: int, page_bytes: int
) -> PublishedFigure | None:
    """The first figure that has a ratio of this pattern on this size."""
    key = pattern, page_bytes
    of = (each for each in figures if (each.pattern, each.page_bytes) == key)
    return next((each for each in of if each.ratio is not None), None)


_KIB, _MIB, GIB = 1 << 10, 1 << 20, 1 << 30
# The article's memory for its first six patterns.
ARTICLE_GIB = 24
# The smallest number of chunks, one in each GiB, that exceeds its processor's entries for such
# pages.
LEAST_GIB = 5


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern: a byte at (x * stride + x * offset mod 1 GiB) mod size, x drawn below `chunks`.

    `size_bytes` None: as many GiB as are available, at most the article's 24. `chunks` None: one in
    each GiB; 0: nothing is drawn, all words are read at random.
    """

    number: int
    words: str
    size_bytes: int | None
    chunks: int | None
    offset_bytes: int = 0

    @property
    def scaled(self) -> bool:
        return self.size_bytes is None

    def size(self, gib: int) -> int:
        return gib * GIB if self.size_bytes is None else self.size_bytes

    def places(self, gib: int) -> Iterator[int]:
        """Every place that can be drawn, as an offset in bytes; nothing if all words can."""
        size = self.size(gib)
        chunks = size // GIB if self.chunks is None else self.chunks
        for x in range(chunks):
            yield (x * (size // chunks) + x * self.offset_bytes % GIB) % size

    def pages(self, page_bytes: int, gib: int) -> int:
        """Pages of this size that contain its places; no run touches more."""
        if self.chunks == 0:
            return -(-self.size(gib) // page_bytes)
        return len({place // page_bytes for place in self.places(gib)})


PATTERNS = (
    Pattern(1, "512 chunks", None, 512),
    Pattern(2, "a chunk in each GiB", None, None),
    Pattern(3, "... + 4 KiB", None, None, 4 * _KIB),
    Pattern(4, "... + 2 MiB", None, None, 2 * _MIB),
    Pattern(5, "... + 2 MiB + 4 KiB", None, None, 2 * _MIB + 4 * _KIB),
    Pattern(6, "... + 64 B, too", None, None, 2 * _MIB + 4 * _KIB + 64),
    Pattern(7, "4 GiB + 64 B", 4 * GIB, 4096, 64),
    Pattern(8, "4 GiB + 4 KiB, 64 B", 4 * GIB, 4096, 4 * _KIB + 64),
    Pattern(9, "64 MiB + 64 B", 64 * _MIB, 4096, 64),
    Pattern(10, "64 MiB + 4 KiB,64 B", 64 * _MIB, 4096, 4 * _KIB + 64),
    Pattern(11, "4 GiB, random words", 4 * GIB, 0),
)
