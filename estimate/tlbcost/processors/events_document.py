# SPDX-License-Identifier: GPL-2.0-or-later
"""What does `tlbcost events --json` write?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from tlbcost.common import document
from tlbcost.common.document import Part, doc
from tlbcost.processors.events import Access, Encoding, Event, GenericEvent, Pmu
from tlbcost.processors.events_report import PERF_NAMES

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
