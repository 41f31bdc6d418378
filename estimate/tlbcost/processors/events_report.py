# SPDX-License-Identifier: GPL-2.0-or-later
"""How does the report of `tlbcost events` read?"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tlbcost.processors.events import Event, Pmu

_COLUMNS = 80
# The kernel's generic events, as perf spells them.
PERF_NAMES = {
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
            head = f"  {PERF_NAMES.get(name, name):<18}"
            counts = f"{generic.counts}: " if generic.counts else ""
            lines += _hanging(head, f"{counts}{generic.event}")
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
