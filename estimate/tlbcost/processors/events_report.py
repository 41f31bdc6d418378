# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of `tlbcost events`, as text and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from tlbcost.common import document
from tlbcost.common.document import Part, doc
from tlbcost.processors.events import Access, Encoding, Event, GenericEvent, Pmu

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
    if pmu.perf_metrics:
        lines += ["", "The same by perf's own metrics (perf stat -M)"]
        for name, metrics in pmu.perf_metrics.items():
            lines += _hanging(f"  {name:<{width}} = ", " + ".join(metrics))
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


_HEXADECIMAL = "^0x[0-9a-f]+$"


class ListedEvent(Part, frozen=True, kw_only=True):
    """One event. null: there is none, or it is not known."""

    name: Annotated[
        str, doc("role[.access[.size]]", pattern="^[a-z0-9_]+(\\.[a-z]+(\\.[0-9]+[KMG])?)?$")
    ]
    role: Annotated[str, doc('what it counts, as in doc/format.md, "events"')]
    access: Annotated[Access | None, doc("of which accesses; null: implied by the role")]
    page_size_bytes: Annotated[int | None, doc("of which pages; null: of all")]
    event: Annotated[str | None, doc("libpfm4's string")]
    type: Annotated[str, doc("hardware, software, cache, raw, or the name of an event source")]
    code: Annotated[str | None, doc("config of perf_event_attr", pattern=_HEXADECIMAL)]
    config1: Annotated[str | None, doc("config1 of perf_event_attr", pattern=_HEXADECIMAL)]
    libpfm4: Annotated[str | None, doc("the first version of libpfm4 that encodes the string")]
    encoded_by: Annotated[
        Encoding | None, doc("how it is encoded on this machine; null: not at all, or not tested")
    ]
    sources: Annotated[tuple[str, ...], doc("keys of `sources`")]


class EventsDocument(Part, frozen=True, kw_only=True):
    """The events, formulas and notes of one CPU. null: there is none, or it is not known."""

    schema: Annotated[Literal["tlbcost-events-1"], doc("form of this document and its version")] = (
        "tlbcost-events-1"
    )
    pmu: Annotated[str, doc("the key of the table, the name of its file in data/events")]
    name: Annotated[str, doc("the CPUs that the table is for")]
    libpfm4_pmu: Annotated[str | None, doc("libpfm4's name of these counters")]
    aliases: Annotated[tuple[str, ...], doc("other names that --pmu takes")]
    architecture: Annotated[str, doc("x86_64, aarch64, ppc64le, s390x, riscv64, or any")]
    counters: Annotated[int | None, doc("programmable counters that one group can use")]
    fixed: Annotated[tuple[str, ...], doc("roles with their own counters")]
    walkers: Annotated[int | None, doc("page walks at once")]
    stlb_hit_cycles: Annotated[int | None, doc("cost of a hit of the second-level TLB")]
    here: Annotated[
        Sequence[str], doc("sentences on what can be counted and encoded on this machine")
    ]
    events: Annotated[list[ListedEvent], doc("the events that are shown")]
    formulas: Annotated[dict[str, str], doc("arithmetic over names of events, by name")]
    perf_metrics: Annotated[
        dict[str, tuple[str, ...]], doc("perf's own metrics whose sum is the formula of that name")
    ] = msgspec.field(default_factory=dict)
    generic: Annotated[dict[str, GenericEvent], doc("the kernel's generic events, by perf's name")]
    notes: Annotated[tuple[str, ...], doc("other remarks")]
    errata: Annotated[tuple[str, ...], doc("the manufacturer's errata for these events")]
    sources: Annotated[dict[str, str], doc("what each source is")]


def to_json(
    pmu: Pmu, events: Sequence[Event], encoded_by: Mapping[str, Encoding], here: Sequence[str]
) -> str:
    """The text of a JSON file; `encoded_by` has, by name, how an event is encoded here."""
    return document.to_json(
        EventsDocument(
            pmu=pmu.key,
            name=pmu.name,
            libpfm4_pmu=pmu.pmu,
            aliases=pmu.aliases,
            architecture=pmu.architecture,
            counters=pmu.counters,
            fixed=pmu.fixed,
            walkers=pmu.walkers,
            stlb_hit_cycles=pmu.stlb_hit_cycles,
            here=here,
            events=[_event(event, encoded_by.get(event.name)) for event in events],
            formulas=pmu.formulas,
            perf_metrics=pmu.perf_metrics,
            generic={PERF_NAMES.get(name, name): each for name, each in pmu.generic.items()},
            notes=pmu.notes,
            errata=pmu.errata,
            sources=pmu.sources,
        )
    )


def _event(event: Event, encoded_by: Encoding | None) -> ListedEvent:
    return ListedEvent(
        name=event.name,
        role=event.role,
        access=event.access,
        page_size_bytes=event.page_size_bytes,
        event=event.string,
        type=event.type,
        code=None if event.code is None else f"{event.code:#x}",
        config1=None if event.config1 is None else f"{event.config1:#x}",
        libpfm4=event.libpfm4,
        encoded_by=encoded_by,
        sources=event.sources,
    )
