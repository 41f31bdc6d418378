# SPDX-License-Identifier: GPL-2.0-or-later
"""The counters of a CPU as text for people and as JSON for programs; decides nothing."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence

from tlbcost.processors.events import Event, Pmu

SCHEMA = "tlbcost-events-1"
_COLUMNS = 80
_GENERIC = {
    "dtlb_loads": "dTLB-loads",
    "dtlb_load_misses": "dTLB-load-misses",
    "dtlb_store_misses": "dTLB-store-misses",
    "itlb_load_misses": "iTLB-load-misses",
}


def text(pmu: Pmu, events: Sequence[Event], here: Sequence[str]) -> str:
    """The report, of 80 columns; `here` are sentences on this machine. Ends with a newline."""
    lines = [f"{pmu.name} ({pmu.key})", *_paragraphs(here), ""]
    lines += _events(pmu, events)
    if pmu.formulas:
        lines += ["", "Formulas"]
        width = max(len(name) for name in pmu.formulas)
        for name, formula in pmu.formulas.items():
            lines += _hanging(f"  {name:<{width}} = ", formula)
    if pmu.generic:
        lines += ["", "What the kernel's generic events count here"]
        for name, generic in pmu.generic.items():
            head = f"  {_GENERIC.get(name, name):<18}"
            counted = f"{generic.name}: " if generic.name else ""
            lines += _hanging(head, f"{counted}{generic.text}")
    if pmu.notes or pmu.errata:
        lines += ["", "Notes"]
        for note in pmu.notes:
            lines += _hanging("  - ", note)
        for erratum in pmu.errata:
            lines += _hanging("  - ", f"erratum {erratum}")
    lines += ["", "Sources"]
    for number, (key, sentence) in enumerate(pmu.sources.items(), start=1):
        lines += _hanging(f"  {number}  ", f"{key}: {sentence}")
    return "\n".join(lines) + "\n"


def _events(pmu: Pmu, events: Sequence[Event]) -> list[str]:
    """One line for each event, or two where libpfm4's string is long; without its PMU's name."""
    prefix = f"{pmu.pmu}::" if pmu.pmu else ""
    numbers = {key: str(number) for number, key in enumerate(pmu.sources, start=1)}
    rows = [
        (
            e.name,
            code(e),
            ",".join(numbers[key] for key in e.sources),
            (e.string or "-").removeprefix(prefix),
        )
        for e in events
    ]
    rows.insert(0, ("event", "code", "src", f"libpfm4, after '{prefix}'" if prefix else "libpfm4"))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines: list[str] = []
    for row in rows:
        head = "  ".join(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True))
        if len(head) + 2 + len(row[3]) <= _COLUMNS:
            lines.append(f"{head}  {row[3]}")
        else:
            lines += [head.rstrip(), *_broken(row[3])]
    return lines


def _broken(string: str) -> list[str]:
    """A string of libpfm4 in lines that end with the colon that they were broken at."""
    lines = [""]
    for word in string.replace(":", ":\0").split("\0"):
        if len(lines[-1]) + len(word) > _COLUMNS - 6:
            lines.append("")
        lines[-1] += word
    return [f"      {line}" for line in lines]


def code(event: Event) -> str:
    """Type and config of perf_event_attr in a word: `0x1001008`, `cache 0x10003`, `ibs_op 0x0`."""
    if event.code is None:
        return "-"
    kind = "" if event.type == "raw" else f"{event.type} "
    extra = "" if event.config1 is None else f"/{event.config1:#x}"
    return f"{kind}{event.code:#x}{extra}"


def listing(pmus: Sequence[Pmu]) -> str:
    """All tables, a line or two each. Ends with a newline."""
    width = max(len(pmu.key) for pmu in pmus)
    lines: list[str] = []
    for pmu in pmus:
        names = f" [{', '.join(pmu.aliases)}]" if pmu.aliases else ""
        lines += _hanging(f"{pmu.key:<{width}}  ", f"{pmu.name}{names}")
    return "\n".join(lines) + "\n"


def json_text(
    pmu: Pmu, events: Sequence[Event], encoded_by: Mapping[str, str], here: Sequence[str]
) -> str:
    """The same for programs, as data/schema/events.schema.json describes it.

    `encoded_by` tells by name how the event is encoded here; events that it lacks are null.
    """
    document = {
        "schema": SCHEMA,
        "pmu": pmu.key,
        "name": pmu.name,
        "libpfm4_pmu": pmu.pmu,
        "aliases": list(pmu.aliases),
        "architecture": pmu.architecture,
        "counters": pmu.counters,
        "fixed": list(pmu.fixed),
        "walkers": pmu.walkers,
        "stlb_hit_cycles": pmu.stlb_hit_cycles,
        "here": list(here),
        "events": [
            {
                "name": event.name,
                "role": event.role,
                "access": event.access,
                "page_size_bytes": event.page_size_bytes,
                "event": event.string,
                "type": event.type,
                "code": None if event.code is None else f"{event.code:#x}",
                "config1": None if event.config1 is None else f"{event.config1:#x}",
                "libpfm4": event.libpfm4,
                "encoded_by": encoded_by.get(event.name),
                "sources": list(event.sources),
            }
            for event in events
        ],
        "formulas": pmu.formulas,
        "generic": {
            _GENERIC.get(name, name): {"counts": generic.name, "event": generic.text}
            for name, generic in pmu.generic.items()
        },
        "notes": list(pmu.notes),
        "errata": list(pmu.errata),
        "sources": pmu.sources,
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _paragraphs(sentences: Sequence[str]) -> list[str]:
    return [line for sentence in sentences for line in textwrap.wrap(sentence, _COLUMNS)]


def _hanging(head: str, body: str) -> list[str]:
    return textwrap.wrap(
        body,
        _COLUMNS,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
        break_long_words=False,
    )
