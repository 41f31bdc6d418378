# SPDX-License-Identifier: GPL-2.0-or-later
"""What did another tool count, perhaps on another machine?

Reads what `perf stat` prints (for people, with -x, with -j), opreport's listings, and our own
table of counts. The format is told by the content.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tlbcost.common.errors import TlbcostError
from tlbcost.counters.counted import AGREE_FRACTION, Counted
from tlbcost.processors.events import Pmu

# Larger files are recordings, not counts.
_MOST_BYTES = 64 << 20
_FORMATS = (
    "it is none of: perf stat for people, with -x or with -j; opreport's listing of objects; "
    "a table of tlbcost count"
)


def import_file(path: Path, pmu: Pmu | None, object_name: str | None = None) -> Counted:
    """The counts in a file; several outputs in one file are merged.

    `pmu`: the events of the CPU it was counted on; None: not known. `object_name`: the row of an
    opreport listing. Raises TlbcostError naming the file and the line.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise TlbcostError(f"cannot read {path}: {error.strerror or error}") from error
    if len(data) > _MOST_BYTES:
        raise TlbcostError(f"cannot read counts from {path}: larger than {_MOST_BYTES >> 20} MiB")
    return import_text(_decoded(path, data), str(path), pmu, object_name)


def import_text(text: str, name: str, pmu: Pmu | None, object_name: str | None = None) -> Counted:
    """As import_file, of a text; `name` stands for the file in messages."""
    from tlbcost.counters.importing import counted_table, opreport, perf_csv, perf_json, perf_text
    from tlbcost.counters.importing.readings import counted

    if text.startswith(counted_table.START):
        return counted_table.parse(name, text)
    numbered = [(i, line) for i, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if any(perf_text.is_start(line) for _, line in numbered):
        parsed = perf_text.parse(name, numbered)
        return merge([counted(name, readings, told, pmu) for readings, told in parsed])
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
        return merge(opreport.parse(name, numbered, pmu, object_name))
    if first.startswith("{"):
        reader = perf_json.parse
    elif perf_csv.separator(rows[0]) is not None:
        reader = perf_csv.parse
    else:
        raise TlbcostError(f"cannot read counts from {name}:{rows[0][0][0]}: {_FORMATS}")
    return merge([counted(name, *reader(name, output), pmu) for output in rows])


def merge(parts: Sequence[Counted]) -> Counted:
    """The counts of several runs of one program as one.

    Raises TlbcostError if their modes or CPUs differ, or their cycles by more than 4 %: then they
    are not of the same work; and if a run has no cycles to see it by. ValueError: no parts.
    """
    if not parts:
        raise ValueError("no parts")
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    cycles = [part.values().get("cycles") for part in parts]
    for part, found in zip(parts, cycles, strict=True):
        if part.pmu != first.pmu:
            raise _apart(first, part, "they are of different CPUs")
        if None not in (part.mode, first.mode) and part.mode != first.mode:
            raise _apart(first, part, f"one is of mode {first.mode}, the other of {part.mode}")
        if found is None:
            raise TlbcostError(
                f"cannot put the counts of {part.source} with others: it has no cycles, which "
                "would show that the runs were alike",
                "count cycles in every run",
            )
    known = [found for found in cycles if found is not None]
    low, high = min(known), max(known)
    if high > (1 + AGREE_FRACTION) * low:
        one, other = parts[known.index(low)], parts[known.index(high)]
        by = f"by {100 * (high / low - 1):.1f} %, more than 4 %" if low else "and one is 0"
        raise _apart(one, other, f"their cycles differ {by}: {low:.0f} and {high:.0f}")
    counts = []
    runs = 0
    for part in parts:
        counts += [replace(count, run=count.run + runs) for count in part.counts]
        runs += max((count.run for count in part.counts), default=0) + 1
    notes = [note for part in parts for note in part.notes]
    notes.append(
        f"the counts are of {len(parts)} runs, whose cycles agree within "
        f"{100 * (high / low - 1) if low else 0:.1f} %"
    )
    return Counted(
        source=", ".join(dict.fromkeys(part.source for part in parts)),
        pmu=first.pmu,
        mode=next((part.mode for part in parts if part.mode is not None), None),
        counts=tuple(counts),
        wall_ns=_mean([part.wall_ns for part in parts]),
        user_ns=_mean([part.user_ns for part in parts]),
        system_ns=_mean([part.system_ns for part in parts]),
        minor_faults=_mean([part.minor_faults for part in parts]),
        command=next((part.command for part in parts if part.command is not None), None),
        machine=next((part.machine for part in parts if part.machine is not None), None),
        notes=tuple(dict.fromkeys(notes)),
    )


def _apart(one: Counted, other: Counted, why: str) -> TlbcostError:
    return TlbcostError(
        f"cannot put the counts of {one.source} and {other.source} together: {why}",
        "count runs of the same program on the same input",
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _decoded(path: Path, data: bytes) -> str:
    """Thousands separators of French locales are not ASCII; Latin-1 is for those of old systems."""
    if b"\0" in data:
        raise TlbcostError(
            f"cannot read counts from {path}: it is a binary file",
            "perf's own recordings are printed by 'perf stat report -i FILE'",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n")
