# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of doc/format.md: read, written, and the columns that each kind has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common import names
from tlbcost.common.errors import TlbcostError
from tlbcost.common.reading import MOST_BYTES, read_file

Cell = str | int | float | None

# Counts are of 64 bits wherever they come from.
MOST_COUNT = (1 << 64) - 1
_KEY = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class TableFormat:
    """One of the tables of doc/format.md; the version is that of its columns."""

    name: str
    version: int
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table as text: cells are strings, `None` where the file says NA."""

    name: str
    header: Mapping[str, str]
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    complete: bool

    def records(self) -> list[dict[str, str | None]]:
        """The rows as dictionaries keyed by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def key(self, key: str) -> str:
        """The value of a header key; an error that names the file if it is missing."""
        try:
            return self.header[key]
        except KeyError:
            raise TlbcostError(f"{self.name}: no '# {key}:' line in the header") from None

    def known(self, key: str) -> str | None:
        """As key(), or None for NA."""
        text = self.key(key)
        return None if text == "NA" else text


def read_table(
    path: Path, expected: TableFormat, *, partial: bool = False, most_bytes: int = MOST_BYTES
) -> Table:
    """Read a table and check its kind, version, columns and end line.

    `partial` accepts a file that its writer did not finish (`Table.complete` is then False).
    Raises TlbcostError naming the file and line of the first defect.
    """
    text = read_file(path, most_bytes).decode(errors="surrogateescape")
    return parse_table(text, str(path), expected, partial=partial)


def parse_table(text: str, name: str, expected: TableFormat, *, partial: bool = False) -> Table:
    """Parse the text of a table; `name` stands for the file in messages. See read_table."""
    lines = text.split("\n")
    if lines[0] != f"# tlbcost {expected.name} {expected.version}":
        raise TlbcostError(
            f"{name}:1: not a tlbcost {expected.name} table of version {expected.version}"
        )
    header: dict[str, str] = {}
    columns: tuple[str, ...] | None = None
    rows: list[tuple[str | None, ...]] = []
    end: str | None = None
    for number, line in enumerate(lines[1:], start=2):
        if line.startswith("# "):
            key, separator, value = line[2:].partition(":")
            if not separator or not _KEY.fullmatch(key):
                raise TlbcostError(f"{name}:{number}: not a '# key: value' line")
            if key == "end":
                end = value.strip()
                break
            header[key] = names.read(value.strip())
        elif line == "":
            continue
        elif columns is None:
            columns = tuple(line.split("\t"))
            if columns != expected.columns:
                raise TlbcostError(
                    f"{name}:{number}: columns are {' '.join(columns)}, expected "
                    f"{' '.join(expected.columns)}"
                )
        else:
            cells = tuple(None if cell == "NA" else names.read(cell) for cell in line.split("\t"))
            if len(cells) != len(columns):
                raise TlbcostError(f"{name}:{number}: {len(cells)} cells, expected {len(columns)}")
            rows.append(cells)
    complete = columns is not None and end == str(len(rows))
    if not complete and not partial:
        raise TlbcostError(f"{name}: truncated: no '# end: {len(rows)}' line")
    return Table(name, header, expected.columns, tuple(rows), complete)


def count(cell: str | None) -> int | None:
    """Read a count; NA means that it was not counted, which is not the same as 0."""
    if cell is None:
        return None
    if not (cell.isascii() and cell.isdigit()):
        raise ValueError(f"not a count: {cell}")
    found = int(cell)
    if found > MOST_COUNT:
        raise ValueError(f"not a count of 64 bits: {cell}")
    return found


def required_count(cell: str | None) -> int:
    """Read a count. Raises ValueError for NA, too."""
    found = count(cell)
    if found is None:
        raise ValueError("a count is missing")
    return found


def counts_in(row: Mapping[str, str | None], *columns: str) -> list[int]:
    """The counts in these columns of a row. Raises ValueError if one is NA."""
    return [required_count(row[column]) for column in columns]


def number(cell: str | None) -> float | None:
    """Read a finite decimal number, or None for NA."""
    if cell is None:
        return None
    value = float(cell)
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"not a finite number: {cell}")
    return value


def format_table(
    table_format: TableFormat, header: Mapping[str, Cell], rows: Iterable[Sequence[Cell]]
) -> str:
    """The text of a table. None becomes NA."""
    lines = [f"# tlbcost {table_format.name} {table_format.version}"]
    lines += [f"# {key}: {_cell(value)}" for key, value in header.items()]
    lines.append("\t".join(table_format.columns))
    n = 0
    for row in rows:
        if len(row) != len(table_format.columns):
            raise ValueError(f"{len(row)} cells for {len(table_format.columns)} columns")
        lines.append("\t".join(_cell(cell) for cell in row))
        n += 1
    lines.append(f"# end: {n}")
    return "\n".join(lines) + "\n"


def _cell(value: Cell) -> str:
    if value is None:
        return "NA"
    if isinstance(value, float):
        return f"{value:.6g}"
    return names.written(str(value))


def _format(kind: str, columns: str) -> TableFormat:
    """`kind` as in the first line of the table: its name and version."""
    name, version = kind.split()
    return TableFormat(name, int(version), tuple(columns.split()))


SAMPLES = _format(
    "samples 2", "probe page_size_bytes layout spacing_bytes access lines repetition ns packed_ns"
)
CALIBRATION = _format(
    "calibration 2", "quantity page_size_bytes access pages value low high samples"
)
CURVE = _format(
    "curve 2", "probe page_size_bytes layout spacing_bytes access lines ns low_ns high_ns"
)
COUNTS = _format("counts 1", "page_size_bytes access l1_tlb_misses stlb_hits stlb_misses")
WINDOWS = _format("windows 1", "thread start references base_cycles huge_cycles")
PLACEMENT = _format(
    "placement 1",
    "page thread written accesses_0 accesses_1 accesses_2 accesses_3 accesses_4 accesses_5 "
    "accesses_6 accesses_7",
)
TOUCHES = _format("touches 1", "page thread kind")
MAPPINGS = _format(
    "mappings 1",
    "kind code name variable stack device most_bytes touched_pages touched_huge_pages "
    "base_stlb_hits base_stlb_misses huge_stlb_hits huge_stlb_misses base_fetch_stlb_hits "
    "base_fetch_stlb_misses huge_fetch_stlb_hits huge_fetch_stlb_misses modelled_base_stlb_hits "
    "modelled_base_stlb_misses waited_base_cycles modelled_huge_stlb_hits "
    "modelled_huge_stlb_misses waited_huge_cycles",
)
CODE = _format(
    "code 1",
    "program address object function file line base_stlb_hits base_stlb_misses huge_stlb_hits "
    "huge_stlb_misses base_fetch_stlb_hits base_fetch_stlb_misses huge_fetch_stlb_hits "
    "huge_fetch_stlb_misses",
)
STACKS = _format("stacks 1", "stack base_stlb_misses huge_stlb_misses")
FRAMES = _format("frames 1", "stack depth object function file line")
PHASES = _format(
    "phases 1", "start base_stlb_hits base_stlb_misses huge_stlb_hits huge_stlb_misses"
)
VIEWS = _format("views 1", "view access l1_tlb_misses stlb_hits stlb_misses")
TIMINGS = _format("timings 1", "window view references cycles")
COPIES = _format(
    "copies 1",
    "window pid tid at_ns at_cpu_ns stands_for_ns user_ns result error pause_ns clone_ns restarted "
    "rewound rseq_aborted resident_bytes faults lived_ns recorded added_faults",
)
COPY_WINDOWS = _format(
    "copy_windows 1",
    "window pid tid at_cpu_ns warm_references references instructions ended call stops translated "
    "stepped replayed timed_references base_cycles huge_cycles",
)
SLICES = _format(
    "slices 1",
    "window slice arm turn outcome call warm_ns time_ns faults stops anonymous_bytes huge_bytes "
    "changed_pages different_pages",
)
COPY_COUNTS = _format(
    "copy_counts 1", "window page_size_bytes side l1_misses stlb_hits stlb_misses unknown_misses"
)
COPY_MAPPINGS = _format(
    "copy_mappings 1",
    "mapping pid start end offset major minor inode writable executable shared",
)
COPY_MEMORY = _format(
    "copy_memory 1",
    "window mapping base_data_hits base_data_walks huge_data_hits huge_data_walks base_fetch_hits "
    "base_fetch_walks huge_fetch_hits huge_fetch_walks base_waited_cycles huge_waited_cycles",
)
COPY_BLOCKS = _format("copy_blocks 1", "window address resident_bytes base_walks huge_walks")
COPY_CODE = _format(
    "copy_code 1",
    "window mapping address base_data_hits base_data_walks huge_data_hits huge_data_walks "
    "base_fetch_hits base_fetch_walks huge_fetch_hits huge_fetch_walks",
)
COPY_STACKS = _format("copy_stacks 1", "window stack address base_walks huge_walks")
COPY_FRAMES = _format("copy_frames 1", "stack below mapping address")
COPY_DRAM = _format("copy_dram 1", "window page accesses")
COPY_CACHES = _format("copy_caches 1", "window l2_misses walk_l2_misses")
FIRST_TOUCHES = _format(
    "first_touches 3",
    "page_size_bytes touches huge_bytes median_ns p99_ns p999_ns worst_ns total_ns forked_touches "
    "forked_huge_bytes kept_huge_bytes forked_median_ns forked_p99_ns forked_p999_ns "
    "forked_worst_ns forked_total_ns",
)
RUN = _format(
    "run 2",
    "wall_ns user_ns system_ns minor_faults major_faults max_rss_bytes waited_ns exit_code signal "
    "exec_errno",
)
REGION = _format("region 1", "begins ends wall_ns user_ns system_ns minor_faults major_faults")
COUNTERS = _format(
    "counters 1",
    "end_ns event group count enabled_ns running_ns state errno encoded_by type config config1",
)
COUNTED = _format("counted 1", "role access page_size_bytes event count running_fraction run state")
PUBLISHED = _format(
    "published 1",
    "source machine sockets workload walk_share_4k walk_share_2m measured_fraction "
    "informed_fraction status",
)
SWITCHES = _format("switches 2", "program code memory owner needs form text words source")
SUITE = _format("suite 1", "program name method")
PUBLISHED_MACHINES = _format(
    "published_machines 2", "source cpu core reads size_bytes page_size_bytes quantity value"
)
PUBLISHED_PRODUCTS = _format("published_products 1", "source cpu ghz l3_bytes l3_cycles memory_ns")
MACHINE = _format("machine 2", "level page_size_bytes entries ways shared source verified range")
DESCRIPTORS = _format("descriptors 1", "descriptor level page_size_bytes entries ways")
ENCODING = _format("encoding 1", "spec type config config1 precise encoded_by error")
EVENTS = _format("events 1", "role access page_size_bytes event type code config1 libpfm4 source")
TRIALS = _format(
    "trials 1",
    "program method pair base_wall_ns base_user_ns base_system_ns base_minor_faults "
    "base_max_rss_bytes huge_wall_ns huge_user_ns huge_system_ns huge_minor_faults "
    "huge_max_rss_bytes resident_bytes huge_bytes",
)
PATTERN = _format(
    "pattern 1",
    "pattern page_size_bytes size_bytes chunks stride_bytes offset_bytes draws lines pages_4k "
    "pages_2m pages_1g resident_bytes proven_bytes accesses elapsed_ns cycles_per_ns",
)
THP = _format(
    "thp 1",
    "exit_code signal exec_errno anonymous_bytes huge_bytes processes requests filtered disabled "
    "ptraced left_processes",
)
THP_PROCESS = _format(
    "thp_process 1",
    "anonymous_before_bytes huge_before_bytes anonymous_bytes huge_bytes requests complete",
)
PAGE_SIZES = _format(
    "page_sizes 1", "source machine pattern page_size_bytes cycles time_ns accesses ratio status"
)

ALL = tuple(each for each in tuple(globals().values()) if isinstance(each, TableFormat))
