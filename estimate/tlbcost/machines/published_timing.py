# SPDX-License-Identifier: GPL-2.0-or-later
"""Published figures of a core besides its TLBs, and whether they suffice to time a program.

The `core_...` lines of data/machines/ (doc/format.md, "machine"), each with its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tlbcost.common import formats, paths
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import read_table
from tlbcost.processors.published import Figure, Pipeline, TlbLevel, assumed, figures_in
from tlbcost.simulator.core import Core, pipeline_options

_SOURCE = "source_"
_TICKS_PER_CYCLE = 64
# Figures that the overlap model needs.
NEEDED = (
    "walkers", "width", "reorder_buffer", "store_buffer", "mispredict_cycles", "ghz", "l1d_bytes",
    "l1d_ways", "l1d_cycles", "l2_bytes", "l2_ways", "l2_cycles", "l3_bytes", "l3_cycles",
    "memory_ns", "fill_buffers", "l3_line_cycles", "memory_line_cycles", "stlb_hit_cycles",
    "walk_cycles", "page_directories",
)  # fmt: skip
# The simulator's name of a figure that it uses unchanged.
_FIELDS = {
    "l1d_bytes": "l1-bytes", "l1d_ways": "l1-ways", "l1d_cycles": "l1-cycles",
    "l2_bytes": "l2-bytes", "l2_ways": "l2-ways", "l2_cycles": "l2-cycles",
    "l3_bytes": "l3-bytes", "l3_cycles": "l3-cycles", "fill_buffers": "fill-buffers",
    "l3_adaptive": "l3-adaptive", "l3_lifetime": "l3-lifetime", "forward_cycles": "forward",
    "stlb_hit_cycles": "stlb-cycles",
    "page_directories": "directories", "page_directory_ways": "directory-ways",
    "page_pointers": "pointers", "page_roots": "roots", "walk_latency_cycles": "walk-latency",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CoreFigures:
    """What a machine file has besides its rows. `code_stlb`: code has its own second level.

    `sources`: what each of its sources is, by key.
    """

    aliases: tuple[str, ...]
    figures: Mapping[str, Figure]
    code_stlb: TlbLevel | None
    sources: Mapping[str, str]

    def missing(self) -> tuple[str, ...]:
        return tuple(name for name in NEEDED if name not in self.figures)

    def of_product(self, product: Mapping[str, float]) -> CoreFigures:
        """With these figures of a product, which are known."""
        known = {
            name: Figure(value, "product", "the product's", True, value, value)
            for name, value in product.items()
        }
        return replace(self, figures={**self.figures, **known})


def figures_of(core: str) -> CoreFigures:
    """Figures of a core's file, the missing ones assumed if it can be timed then."""
    path = paths.data("machines", f"{core}.tsv")
    table = read_table(path, formats.MACHINE)
    try:
        figures = dict(figures_in(table))
        found = figures.pop("code_stlb", None)
        code = None
        if found is not None:
            entries, ways = table.key("core_code_stlb").split()[0].split(":")
            code = TlbLevel(int(entries), int(ways))
    except ValueError as error:
        raise TlbcostError(f"{path}: {error}") from error
    aliases = tuple(part for part in table.header.get("aliases", "").split(",") if part)
    sources = {
        key.removeprefix(_SOURCE): text
        for key, text in table.header.items()
        if key.startswith(_SOURCE)
    }
    if all(name in figures or name in assumed() for name in NEEDED):
        for name, figure in assumed().items():
            if figures.setdefault(name, figure) is figure:
                sources[figure.source] = figure.explanation
    return CoreFigures(aliases, figures, code, sources)


def published_core(known: CoreFigures) -> Core | None:
    """The core to time on, by published figures alone; None if they do not suffice."""
    if known.missing():
        return None
    return modelled({name: figure.value for name, figure in known.figures.items()})


def modelled(value: Mapping[str, float]) -> Core:
    pipeline = Pipeline(
        round(value["width"]),
        round(value["reorder_buffer"]),
        round(value["store_buffer"]),
        round(value["mispredict_cycles"]),
    )
    ghz = value["ghz"]
    memory = round(value["memory_ns"] * ghz)
    line = round(value["memory_line_cycles"] * _TICKS_PER_CYCLE)
    fields = {
        **pipeline_options(pipeline),
        **{field: round(value[name]) for name, field in _FIELDS.items() if name in value},
        # Bare metal: a huge page is one piece of memory; Intel's and AMD's L2 fetch lines in pairs.
        "huge-contiguous": 1,
        "pairs": 1,
        # Where a table shows it: random reads of 4 GiB on Tiger Lake, doc/accuracy-machines.md.
        "walks-first": 1,
        "l3-interval": round(value["l3_line_cycles"] * _TICKS_PER_CYCLE),
        "memory-cycles": memory,
        "memory-interval": line,
        # At best as many outstanding lines as there are buffers.
        "memory-apart": max(line, round(memory / value["fill_buffers"] * _TICKS_PER_CYCLE)),
        "walkers": round(value["walkers"]),
        "walk-cycles": round(value["walk_cycles"]),
        "huge-walk-cycles": round(value["walk_cycles"]),
        "read-cycles": 0,
        "huge-read-cycles": 0,
        "host-shift": 0,
    }
    if "row_ns" in value:
        fields["row-cycles"] = round(value["row_ns"] * ghz)
    return Core(tuple(fields.items()))
