# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts that another tool took, perhaps on another machine.

Reads what `perf stat` prints (for people, with -x, with -j), opreport's listings, and our own
table of counts. The content decides which format it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tlbcost.common.errors import FAILED, USAGE, TlbcostError
from tlbcost.common.reading import read_file
from tlbcost.counters import count_table
from tlbcost.counters.event_counts import EventCounts, merge_sources
from tlbcost.counters.importing import opreport, perf_csv, perf_json, perf_text
from tlbcost.counters.importing.event_names import meaning
from tlbcost.counters.importing.printed_counts import Output, PrintedCount, add_up
from tlbcost.processors.event_tables import generic_pmu, load_pmu, named
from tlbcost.processors.events import Pmu

# Larger files are recordings, not counts.
_MOST_BYTES = 64 << 20
_HINT = "perf's own recordings are printed by 'perf stat report -i FILE'"
# A thread's name may begin like a comment.
_COMMENT = re.compile(r"#(?![^,;|\t]*-[0-9]+[,;|\t])")
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
    opreport listing, or what perf counted of several. Raises TlbcostError naming the file and the
    line, or why it cannot be read.
    """
    data = read_file(path, _MOST_BYTES)
    return import_text(_decoded(path, data), str(path), pmu, object_name)


def import_text(
    text: str, name: str, pmu: Pmu | None, object_name: str | None = None
) -> EventCounts:
    """As import_file, of a text; `name` stands for the file in messages."""
    if text.startswith(count_table.START):
        return count_table.parse(name, text)
    numbered = _lines(text)
    if any(perf_text.is_start(line) for _, line in numbered):
        outputs = perf_text.parse(name, numbered)
    elif numbered and opreport.START.match(numbered[0][1].lstrip()):
        return merge_sources(opreport.parse(name, numbered, pmu, object_name))
    else:
        outputs = _parsed(name, numbered)
    chosen = of_one_subject(name, outputs, pmu, object_name)
    return merge_sources([add_up(name, readings, facts, pmu) for readings, facts in chosen])


def _lines(text: str) -> list[tuple[int, str]]:
    written = [(i, line) for i, line in enumerate(text.split("\n"), start=1) if line.strip()]
    bare = [(i, re.sub("^# ?", "", line)) for i, line in written if line.strip(" #")]
    for lines in (written, bare):
        if any(perf_text.is_start(line) for _, line in lines):
            return lines
    is_perf = any(line.startswith("{") for _, line in bare) or perf_csv.separator(bare) is not None
    return bare if is_perf and all(line.startswith("#") for _, line in written) else written


def _parsed(name: str, numbered: Sequence[tuple[int, str]]) -> list[Output]:
    # perf writes when it began above each output that goes to a file.
    rows: list[list[tuple[int, str]]] = [[]]
    for line, text in numbered:
        if text.startswith("# started on "):
            rows.append([])
        elif not _COMMENT.match(text):
            rows[-1].append((line, text))
    rows = [output for output in rows if output]
    if not rows:
        raise TlbcostError(f"cannot read counts from {name}: it is empty")
    if any(line.lstrip().startswith("{") for _, line in rows[0]):
        reader = perf_json.parse
    elif perf_csv.separator(rows[0]) is not None:
        reader = perf_csv.parse
    else:
        raise TlbcostError(f"cannot read counts from {name}:{rows[0][0][0]}: {_FORMATS}")
    return [reader(name, output) for output in rows]


def _decoded(path: Path, data: bytes) -> str:
    """Thousands separators of French locales are not ASCII; Latin-1 is for those of old systems."""
    if b"\0" in data:
        raise TlbcostError(f"cannot read counts from {path}: it is a binary file", _HINT)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n")


def of_one_subject(
    name: str, outputs: Sequence[Output], pmu: Pmu | None, object_name: str | None
) -> list[Output]:
    """Counts of the one cgroup or command that `object_name` fits. Raises TlbcostError."""
    rows = [(reading, _subject(reading, o)) for o in outputs for reading in o[0]]
    known = {e for e in {row.event for row, _ in rows} if meaning(e, pmu).name is not None}
    subjects = list(dict.fromkeys(subject for row, subject in rows if row.event in known))
    wanted = object_name or ""
    fits = [wanted] if wanted in subjects else [each for each in subjects if wanted in each]
    if object_name is None and len(fits) < 2:
        return list(outputs)
    if len(fits) != 1:
        of = f"'{wanted}' is in {len(fits)} of the names" if wanted else "they are of several"
        raise TlbcostError(
            f"cannot use the counts of {name} as one program's: {of}: "
            + "; ".join((fits or subjects)[:10]),
            "choose one with --object NAME; a part of the name will do",
            USAGE if wanted else FAILED,
        )
    chosen = [([row for row in o[0] if _subject(row, o) == fits[0]], o[1]) for o in outputs]
    note = f"the counts are those of {fits[0]}"
    return [(rows, replace(f, notes=(*f.notes, note))) for rows, f in chosen if rows]


def _subject(reading: PrintedCount, output: Output) -> str:
    return reading.cgroup or " ".join((output[1].subject or "").split())
