# SPDX-License-Identifier: GPL-2.0-or-later
"""What did another tool count, perhaps on another machine?

Reads what `perf stat` prints (for people, with -x, with -j), opreport's listings, and our own
table of counts. The content decides which format it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tlbcost.common.errors import TlbcostError
from tlbcost.common.reading import read_file
from tlbcost.counters import count_table
from tlbcost.counters.event_counts import EventCounts, merge_sources
from tlbcost.counters.importing import opreport, perf_csv, perf_json, perf_text
from tlbcost.counters.importing.printed_counts import add_up
from tlbcost.processors.event_tables import generic_pmu, load_pmu, named
from tlbcost.processors.events import Pmu

# Larger files are recordings, not counts.
_MOST_BYTES = 64 << 20
_HINT = "perf's own recordings are printed by 'perf stat report -i FILE'"
_FORMATS = (
    "it is none of: perf stat for people, with -x or with -j; opreport's listing of objects; "
    "a table of tlbcost count"
)


def import_files(
    files: Sequence[Path], cpu: str | None = None, object_name: str | None = None
) -> tuple[EventCounts, Pmu]:
    """The counts in several files of one program, and the events that they were understood with.

    `cpu`: the CPU that was counted on, if it is known. Raises TlbcostError naming the file and its
    defect, or what keeps the files from being of one program.
    """
    asked = None if cpu is None else named(cpu)
    counts = merge_sources([import_file(file, asked, object_name) for file in files])
    return counts, asked or (generic_pmu() if counts.pmu is None else load_pmu(counts.pmu))


def import_file(path: Path, pmu: Pmu | None, object_name: str | None = None) -> EventCounts:
    """The counts in a file or a pipe, read once; several outputs in one file are merged.

    `pmu`: the events of the CPU it was counted on; None: not known. `object_name`: the row of an
    opreport listing. Raises TlbcostError naming the file and the line, or why it cannot
    be read.
    """
    data = read_file(path, _MOST_BYTES)
    return import_text(_decoded(path, data), str(path), pmu, object_name)


def import_text(
    text: str, name: str, pmu: Pmu | None, object_name: str | None = None
) -> EventCounts:
    """As import_file, of a text; `name` stands for the file in messages."""
    if text.startswith(count_table.START):
        return count_table.parse(name, text)
    numbered = [(i, line) for i, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if any(perf_text.is_start(line) for _, line in numbered):
        parsed = perf_text.parse(name, numbered)
        return merge_sources([add_up(name, readings, rest, pmu) for readings, rest in parsed])
    # perf writes when it began above each output that goes to a file.
    starts = [i for i, (_, line) in enumerate(numbered) if line.startswith("# started on ")]
    outputs = [
        numbered[begin:end]
        for begin, end in zip([0, *starts], [*starts, len(numbered)], strict=True)
    ]
    rows = [[row for row in output if not row[1].startswith("#")] for output in outputs]
    rows = [output for output in rows if output]
    if not rows:
        raise TlbcostError(f"cannot read counts from {name}: it is empty")
    first = rows[0][0][1].lstrip()
    if opreport.START.match(first):
        return merge_sources(opreport.parse(name, numbered, pmu, object_name))
    if first.startswith("{"):
        reader = perf_json.parse
    elif perf_csv.separator(rows[0]) is not None:
        reader = perf_csv.parse
    else:
        raise TlbcostError(f"cannot read counts from {name}:{rows[0][0][0]}: {_FORMATS}")
    return merge_sources([add_up(name, *reader(name, output), pmu) for output in rows])


def _decoded(path: Path, data: bytes) -> str:
    """Thousands separators of French locales are not ASCII; Latin-1 is for those of old systems."""
    if b"\0" in data:
        raise TlbcostError(f"cannot read counts from {path}: it is a binary file", _HINT)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n")
