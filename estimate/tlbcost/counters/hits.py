# SPDX-License-Identifier: GPL-2.0-or-later
"""Where in a program did sampled events happen? The table of hits that tlbcost-record writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from tlbcost.common import formats, units
from tlbcost.common.errors import TlbcostError
from tlbcost.common.table import Table, count, read_table, required_count
from tlbcost.counters.diagnosis import Refusal, Scope, explain
from tlbcost.counters.event_counts import Mode, State

CpuMode = Literal["user", "kernel", "hypervisor", "guest"]

# Where `tlbcost record` writes the hits unless a file is named.
DEFAULT_FILE = Path("tlbcost-hits.tsv")

_MOST_EVENTS = 10_000
# A counter that ran this share of the time ran always: what is missing is switching it on.
_ALWAYS = 0.99


@dataclass(frozen=True, slots=True)
class SampledEvent:
    """An event that was asked for, and what became of it.

    Exactly one of `period` (events from sample to sample) and `frequency` (samples a second) is
    not None. `count`: what the counter itself counted; None: not known. `running_fraction`
    is the share of the time that it had a counter; None: not known.
    """

    name: str
    state: State
    error: int
    period: int | None
    frequency: int | None
    count: int | None
    running_fraction: float | None

    def refusal(self) -> Refusal:
        """For diagnose() and explain()."""
        return Refusal(self.name, self.state, self.error or None)


@dataclass(frozen=True, slots=True)
class SampleHit:
    """Samples at one place.

    `object` is a path or a name in brackets; None: outside all mappings. `offset_bytes` is that in
    the file, or the address where there is no file. `data` names the mapping of the data, None: no
    address; `data_tlb` is as in doc/format.md. `weight`: the events that the samples stand for.
    """

    event: str
    pid: int | None
    object: str | None
    build_id: str | None
    mode: CpuMode | None
    offset_bytes: int
    data: str | None
    data_tlb: str | None
    samples: int
    weight: int


@dataclass(frozen=True, slots=True)
class Hits:
    """A recording. `lost`: records that did not fit; `throttled`: pauses by the kernel."""

    events: tuple[SampledEvent, ...]
    hits: tuple[SampleHit, ...]
    lost: int
    throttled: int
    duration_ns: int
    scope: Scope
    mode: Mode
    boot_id: str | None


def read_hits(path: Path) -> Hits:
    """Read a table of hits. Raises TlbcostError naming the file and the defect."""
    table = read_table(path, formats.HITS)
    try:
        return _hits(table)
    except ValueError as error:
        raise TlbcostError(f"{path}: {error}") from error


def doubts(hits: Hits) -> list[str]:
    """What makes the numbers less than exact."""
    found = [explain(event.refusal()) for event in hits.events if event.state != "counted"]
    if hits.lost:
        found.append(f"{hits.lost:,} records were lost: the program was faster than the recorder; "
                     "a longer --period loses fewer")  # fmt: skip
    if hits.throttled:
        found.append(f"the kernel paused the sampling {hits.throttled:,} times, because it took "
                     "too much time: the samples are too few; use a longer --period")  # fmt: skip
    for event in hits.events:
        fraction = event.running_fraction
        if event.state == "counted" and fraction is not None and fraction < _ALWAYS:
            found.append(f"{event.name} had a counter for {units.percent(fraction)} of the time: "
                         "its samples stand for that part alone")  # fmt: skip
    if not hits.hits:
        found.append("nothing was sampled: no counter reached its sampling period")
    return found


def _hits(table: Table) -> Hits:
    events = sampled_events(table)
    names = {event.name for event in events}
    hits = tuple(_hit(table, row) for row in table.records())
    for hit in hits:
        if hit.event not in names:
            raise ValueError(f"no event is called {hit.event}")
    return Hits(
        events=events,
        hits=hits,
        lost=required_count(table.key("lost")),
        throttled=required_count(table.key("throttled")),
        duration_ns=required_count(table.key("duration_ns")),
        scope=cast(Scope, _one_of(table.key("scope"), get_args(Scope))),
        mode=cast(Mode, _one_of(table.key("mode"), get_args(Mode))),
        boot_id=table.header.get("boot_id"),
    )


def sampled_events(table: Table) -> tuple[SampledEvent, ...]:
    """What became of each event. Raises ValueError naming the defect."""
    found: list[SampledEvent] = []
    while f"event_{len(found)}" in table.header and len(found) < _MOST_EVENTS:
        found.append(_event(table, len(found)))
    return tuple(found)


def _event(table: Table, i: int) -> SampledEvent:
    words = table.key(f"event_{i}").split()
    if len(words) < 3:
        raise ValueError(f"not an event: {' '.join(words)}")
    cells = {
        name: count(table.known(f"{name}_{i}"))
        for name in ("period", "frequency", "count", "enabled_ns", "running_ns")
    }
    enabled, running = cells["enabled_ns"], cells["running_ns"]
    return SampledEvent(
        name=words[0],
        state=cast(State, _one_of(words[1], get_args(State))),
        error=required_count(words[2]),
        period=cells["period"],
        frequency=cells["frequency"],
        count=cells["count"],
        running_fraction=min(1.0, running / enabled) if enabled and running is not None else None,
    )


def _hit(table: Table, row: dict[str, str | None]) -> SampleHit:
    obj, mode = row["object"], row["mode"]
    return SampleHit(
        event=row["event"] or "",
        pid=count(row["pid"]),
        object=None if obj is None else table.key(f"object_{required_count(obj)}"),
        build_id=table.header.get(f"build_id_{obj}"),
        mode=None if mode is None else cast(CpuMode, _one_of(mode, get_args(CpuMode))),
        offset_bytes=required_count(row["offset_bytes"]),
        data=None if row["data"] is None else table.key(f"data_{required_count(row['data'])}"),
        data_tlb=row["data_tlb"],
        samples=required_count(row["samples"]),
        weight=required_count(row["weight"]),
    )


def _one_of(word: str, known: tuple[str, ...]) -> str:
    if word not in known:
        raise ValueError(f"not one of {', '.join(known)}: {word}")
    return word
