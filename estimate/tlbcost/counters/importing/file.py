# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts that another tool took, perhaps on another machine.

Reads what `perf stat` prints (for people, with -x, with -j), opreport's listings, our own table of
counts, and the samples of perf.data. The content decides which format it is.

An event's count is its samples times the events that one sample stands for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tlbcost.common.errors import FAILED, USAGE, TlbcostError
from tlbcost.common.reading import read_file
from tlbcost.counters import event_counts
from tlbcost.counters.event_counts import EventCount, EventCounts, merge_sources
from tlbcost.counters.importing import perf_fields, perf_text
from tlbcost.counters.importing.perf_fields import separator
from tlbcost.counters.importing.printed_counts import Output, PrintedCount, add_up, meaning, refused
from tlbcost.counters.profile import Hits, is_recording, read_hits
from tlbcost.processors.events import Pmu, generic_pmu, load_pmu, named

_COUNTED = re.compile(
    r"Counted (?P<event>\S+) events\b(?:(?!Counted ).)*?\bcount (?P<period>[0-9]{1,18})\b", re.ASCII
)
START = re.compile(r"(?:CPU: .*|Counted \S+ events\b.*)")
_COLUMNS = re.compile(r"\s*(?:samples\s*\|?\s*%\s*\|?\s*)+(?:image name|app name)?\s*")
_RULE = re.compile(r"\s*-+\s*")


class _Listing:
    """One listing: the lines above its columns, then samples of each object."""

    def __init__(self) -> None:
        self.head: list[str] = []
        self.events: list[tuple[str, int]] = []
        self.columns = False
        self.rows: list[tuple[str, list[int]]] = []


def parse(
    name: str, lines: Sequence[tuple[int, str]], pmu: Pmu | None, object_name: str | None
) -> list[EventCounts]:
    """The counts of one object, from each listing in the file.

    `object_name` None: the object with the most samples of cycles. Raises TlbcostError naming the
    first bad line, or (usage) if there is no such object.
    """
    listings: list[_Listing] = []
    for line, text in lines:
        if START.match(text) and (not listings or listings[-1].columns):
            listings.append(_Listing())
        if not listings:
            raise refused(name, line, "expected 'CPU: ...' or 'Counted ... events'")
        _line(name, line, text, listings[-1])
    for listing in listings:
        if not listing.rows:
            raise TlbcostError(f"cannot read counts from {name}: the listing has no rows")
    return [_object_counts(name, listing, pmu, object_name) for listing in listings]


def _line(name: str, line: int, text: str, listing: _Listing) -> None:
    if not listing.columns:
        if _COLUMNS.fullmatch(text):
            # The header's lines may have been broken anywhere.
            head = " ".join(listing.head)
            listing.events = [(m["event"], int(m["period"])) for m in _COUNTED.finditer(head)]
            listing.columns = True
            if len(listing.events) != text.count("samples"):
                why = f"{text.count('samples')} columns, but {len(listing.events)} events above"
                raise refused(name, line, why)
        elif re.match(r".*\bsamples\b.*%", text):
            raise refused(
                name, line, "expected a listing of objects: samples and %, for each event"
            )
        listing.head.append(text)
    elif not text.strip() or _RULE.fullmatch(text) or text.startswith("\t"):
        # Behind a tabulator: what the object above is made of.
        return
    else:
        listing.rows.append(_row(name, line, text, len(listing.events)))


def _row(name: str, line: int, text: str, events: int) -> tuple[str, list[int]]:
    words = text.split(None, 2 * events)
    if len(words) == 2 * events + 1:
        samples, shares = words[: 2 * events : 2], words[1 : 2 * events : 2]
        fine = all(re.fullmatch(r"[0-9]{1,18}", word, re.ASCII) for word in samples)
        if fine and all(re.fullmatch(r"[0-9]{1,3}(\.[0-9]+)?", w, re.ASCII) for w in shares):
            return words[-1].strip(), [int(word) for word in samples]
    raise refused(name, line, f"expected samples and % of {events} events, then an object")


def _object_counts(
    name: str, listing: _Listing, pmu: Pmu | None, object_name: str | None
) -> EventCounts:
    meanings = [meaning(event, pmu) for event, _ in listing.events]
    by = next((i for i, m in enumerate(meanings) if m.name == "cycles"), 0)
    chosen, samples = _choose(name, listing, object_name, by)
    notes = [
        f"{chosen} is taken, with {samples[by]} samples of {listing.events[by][0]}; "
        f"objects listed: {len(listing.rows)}"
    ]
    cpu = re.search(r"CPU: (.*?)(?: Counted |$)", " ".join(listing.head))
    if cpu:
        notes.append(f"the listing is of the CPU {cpu[1].strip()}")
    notes += [m.note for m in meanings if m.note]
    counts = tuple(
        EventCount(m.name, event, float(n * period), None, "counted")
        for m, (event, period), n in zip(meanings, listing.events, samples, strict=True)
    )
    return EventCounts(
        source=name,
        pmu=(pmu or generic_pmu()).key,
        # Samples of a program's own object were taken in user mode.
        mode="user",
        counts=counts,
        command=chosen,
        notes=tuple(notes),
    )


def _choose(
    name: str, listing: _Listing, object_name: str | None, by: int
) -> tuple[str, list[int]]:
    totals: dict[str, list[int]] = {}
    for row_name, samples in listing.rows:
        before = totals.get(row_name, [0] * len(samples))
        totals[row_name] = [a + b for a, b in zip(before, samples, strict=True)]
    if object_name is None:
        return max(totals.items(), key=lambda item: item[1][by])
    for found, samples in totals.items():
        if object_name in (found, found.rpartition("/")[2]):
            return found, samples
    hint = "it has " + ", ".join(list(totals)[:20])
    raise TlbcostError(f"no object '{object_name}' is listed in {name}", hint, USAGE)


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
) -> tuple[EventCounts, Pmu, Hits | None]:
    """The counts in files of one program, the events of its CPU, and the samples of a recording.

    `cpu`: the CPU that was counted on, if it is known. Where nothing was counted, the counts are
    what the samples stand for. Raises TlbcostError naming the file and its defect, or what keeps
    the files from being of one program.
    """
    asked = None if cpu is None else named(cpu)
    recordings = [file for file in files if is_recording(file)]
    if len(recordings) > 1:
        raise TlbcostError("--from takes one recording", "leave out all but one perf.data", USAGE)
    hits = read_hits(recordings[0]) if recordings else None
    if hits is not None and not hits.hits:
        raise TlbcostError(f"{recordings[0]} holds no samples", _HINT)
    if hits is not None and len(files) == 1:
        counts = sampled_counts(hits, str(recordings[0]), asked)
    else:
        counted = [file for file in files if file not in recordings]
        counts = merge_sources([import_file(file, asked, object_name) for file in counted])
    return counts, asked or (generic_pmu() if counts.pmu is None else load_pmu(counts.pmu)), hits


def sampled_counts(hits: Hits, name: str, pmu: Pmu | None) -> EventCounts:
    """The counts that samples in user mode stand for."""
    sums: Counter[str] = Counter()
    for hit in hits.hits:
        if hit.mode in ("user", None):
            sums[hit.event] += hit.weight
    meanings = {event: meaning(event, pmu) for event in sums}
    return EventCounts(
        source=name,
        pmu=(pmu or generic_pmu()).key,
        mode="user",
        counts=tuple(
            EventCount(meanings[event].name, event, float(n), None, "counted")
            for event, n in sums.items()
        ),
        notes=(
            f"the counts of {name} are what its samples in user mode stand for",
            *(each.note for each in meanings.values() if each.note),
        ),
    )


def import_file(path: Path, pmu: Pmu | None, object_name: str | None = None) -> EventCounts:
    """The counts in a file or a pipe, read once; several outputs in one file are merged.

    `pmu`: the events of the CPU it was counted on; None: not known. `object_name`: the row of an
    opreport listing, or what perf counted of several. Raises TlbcostError naming the file and the
    line, or why it cannot be read.
    """
    data = read_file(path, _MOST_BYTES)
    if b"\0" in data:
        raise TlbcostError(f"cannot read counts from {path}: it is a binary file", _HINT)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Thousands separators of French locales are not ASCII; this is for those of old systems.
        text = data.decode("latin-1")
    return import_text(text.replace("\r\n", "\n"), str(path), pmu, object_name)


def import_text(
    text: str, name: str, pmu: Pmu | None, object_name: str | None = None
) -> EventCounts:
    """As import_file, of a text; `name` stands for the file in messages."""
    if text.startswith(event_counts.START):
        return event_counts.parse(name, text)
    numbered = _lines(text)
    if any(perf_text.is_start(line) for _, line in numbered):
        outputs = perf_text.parse(name, numbered)
    elif numbered and START.match(numbered[0][1].lstrip()):
        return merge_sources(parse(name, numbered, pmu, object_name))
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
    is_perf = any(line.startswith("{") for _, line in bare) or separator(bare) is not None
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
    objects = any(line.lstrip().startswith("{") for _, line in rows[0])
    if not objects and separator(rows[0]) is None:
        raise TlbcostError(f"cannot read counts from {name}:{rows[0][0][0]}: {_FORMATS}")
    return [perf_fields.parse(name, output, objects=objects) for output in rows]


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
