# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory and code that miss, by counter samples that have the data's address.

One more run of the program, under perf record, and pure functions of its samples. Samples show
how many misses belong to which memory. They show neither their cost nor what misses on huge pages.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.attribution.backing import Seen, file_kind, with_backed
from tlbcost.attribution.document import Attribution, CodeLine, RegionShare
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.units import Interval, share_interval
from tlbcost.counters.count_tool import PROGRAM_ITSELF
from tlbcost.counters.importing.printed_counts import meaning
from tlbcost.counters.pmu import EventRequest, addressed
from tlbcost.counters.profile import Hits, SampleHit, doubts, read_hits
from tlbcost.counters.recording import Pace, SamplingPlan, sampled_runs, take_samples
from tlbcost.memory import smaps
from tlbcost.memory.eligibility import MemoryKind, kind_of, name_of
from tlbcost.processors.events import Pmu
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome
from tlbcost.simulator.memory_tables import SourceLocation
from tlbcost.system.huge_pages import HugeSettings

# With fewer samples no share is given: it could as well be half or twice as large.
FEWEST = 10
# Samples operations of all kinds; each sample says whether it missed.
_OF_ALL = "ibs_op"
_NAMED: Mapping[str, tuple[MemoryKind, str]] = {
    "[heap]": ("heap", name_of("heap")),
    "[stack]": ("stack", name_of("stack")),
    smaps.BSS: ("segment", smaps.BSS),
}
# Samples have one name, smaps several; the first one is used if smaps was not read.
_NAMELESS: Mapping[str, tuple[MemoryKind, ...]] = {
    "[anonymous]": ("anonymous", "jit", "hugetlbfs"),
    "[shared]": ("shared", "memfd", "sysv"),
}

# Samples at one place, and the events that they stand for.
_Weights = list[tuple[SampleHit, float]]


@dataclass(frozen=True, slots=True)
class Sampled:
    """The run of the program at `path`, with samples of the events in `pmu`.

    `hits` None: there are none, and `why_not` says why.
    """

    path: Path
    pmu: Pmu
    hits: Hits | None
    why_not: str | None = None


def sample_misses(
    launcher: Launcher,
    argv: Sequence[str],
    path: Path,
    pmu: Pmu,
    before: Outcome,
    started: Callable[[int], None] | None = None,
) -> Sampled:
    """Run the program again as in `before`, and sample its misses. Raises TlbcostError."""
    wanted = tuple(EventRequest.of(event) for event in addressed(pmu))
    if not wanted:
        why = f"{pmu.name} has no event whose samples hold addresses of data"
        return Sampled(path, pmu, None, why)
    recording = SamplingPlan(wanted, "user", Pace(), PROGRAM_ITSELF, addresses=True)
    try:
        launch = sampled_runs(launcher, argv, path, started)
        code, file, _ = take_samples(recording, launcher.folder, launch)
    except TlbcostError as error:
        if error.exit_code != CANNOT_MEASURE:
            raise
        return Sampled(path, pmu, None, str(error).removeprefix("cannot count: "))
    if code != before.code:
        why = f"{argv[0]} gave {code} in the run with samples, and {before.code} before"
        return Sampled(path, pmu, None, why)
    return Sampled(path, pmu, read_hits(file))


def recorded(hits: Hits, pmu: Pmu) -> Sampled:
    """Samples of a recording; its program is the object with most of them that is no library."""
    weights = Counter[str]()
    for hit in hits.hits:
        if hit.object is not None and hit.object[0] == "/" and ".so" not in hit.object:
            weights[hit.object] += hit.weight
    most = max(weights, key=lambda name: weights[name], default="(unknown program)")
    return Sampled(Path(most), pmu, hits)


def sampled_attribution(
    sampled: Sampled | None, expected: Interval, seen: Seen, settings: HugeSettings | None
) -> tuple[Attribution | None, tuple[str, ...]]:
    """By memory region and code; and notes: why there is none, or what limits it.

    `settings` None: of another machine.
    """
    if sampled is None:
        return None, ()
    settings = settings or HugeSettings(None, None)
    found, why_not = attribute_samples(sampled, expected, seen, settings)
    if found is None:
        return None, (f"samples of counters do not show page walks by memory region: {why_not}",)
    assert sampled.hits is not None
    return found, tuple(f"samples: {doubt}" for doubt in doubts(sampled.hits))


def attribute_samples(
    sampled: Sampled, expected: Interval, seen: Seen, settings: HugeSettings
) -> tuple[Attribution | None, str | None]:
    """By memory and code, or why not. `expected`: the gain, divided among regions by misses."""
    if sampled.hits is None:
        return None, sampled.why_not
    weights = _misses(sampled.hits, sampled.pmu)
    samples = sum(hit.samples for hit, _ in weights)
    if samples < FEWEST:
        return None, f"{samples} misses of data were sampled: too few"
    if not any(hit.data for hit, _ in weights):
        return None, "the samples hold no addresses of data"
    regions = _regions(weights, sampled.path, expected, seen, settings)
    unknown = sum(weight for hit, weight in weights if _is_unknown(hit))
    events = {hit.event for hit, _ in weights}
    own = {event.name: EventRequest.of(event).event for event in addressed(sampled.pmu)}
    names = [own.get(name, name) for name in sampled.hits.events if name in events]
    return Attribution(
        regions=with_backed(regions, seen, settings),
        code=_code(weights),
        images=(),
        costed_by=None,
        other_fraction=unknown / sum(weight for _, weight in weights),
        source=f"samples of {' and '.join(names)}",
    ), None


def _misses(hits: Hits, pmu: Pmu) -> _Weights:
    misses = {event.name for event in addressed(pmu) if event.type != _OF_ALL}
    named = {name: {name, meaning(name, pmu).name} & misses for name in hits.events}
    return [
        (hit, float(hit.weight))
        for hit in hits.hits
        if hit.mode in ("user", None) and (named[hit.event] or hit.data_tlb == "walk")
    ]


def _is_unknown(hit: SampleHit) -> bool:
    return hit.data is None or not (
        hit.data in _NAMED or hit.data in _NAMELESS or hit.data.startswith("/")
    )


def _regions(
    weights: _Weights, path: Path, expected: Interval, seen: Seen, settings: HugeSettings
) -> list[RegionShare]:
    groups: dict[tuple[str, MemoryKind, str], _Weights] = {}
    programs = _programs(weights, path, seen)
    for hit, weight in weights:
        program = programs[hit.pid]
        kind, name = _memory(hit, program, seen, settings)
        groups.setdefault((program, kind, name), []).append((hit, weight))
    whole = sum(weight for _, weight in weights)
    samples = sum(hit.samples for hit, _ in weights)
    found = []
    for (program, kind, name), group in groups.items():
        own = sum(hit.samples for hit, _ in group)
        share = gain = None
        if own >= FEWEST:
            part = sum(weight for _, weight in group) / whole
            share = Interval(part, *share_interval(part, samples))
            # As if each miss cost the same.
            ends = [a * b for a in (expected.low, expected.high) for b in (share.low, share.high)]
            gain = Interval(expected.value * part, min(ends), max(ends))
        found.append(
            RegionShare(
                program=program,
                kind=kind,
                name=name,
                size_bytes=None,
                touched_bytes=None,
                touched_huge_bytes=None,
                code=False,
                misses_fraction=None if share is None else share.value,
                huge_misses_fraction=None,
                time_fraction=None,
                huge_time_fraction=None,
                gain_fraction=gain,
                samples=own,
                misses_interval=share,
            )
        )
    return sorted(found, key=lambda region: (-(region.misses_fraction or 0.0), region.name))


def _programs(weights: _Weights, path: Path, seen: Seen) -> dict[int, str]:
    """The executable of each process: of those sampled, the one with most code."""
    executables = {os.path.realpath(program): program for program, _ in seen}
    started = os.path.realpath(path)
    # A script's is its interpreter's.
    default = next(iter(executables.values())) if len(executables) == 1 else started
    found: dict[int, dict[str, float]] = {}
    for hit, weight in weights:
        own = found.setdefault(hit.pid, {default: 0.0})
        program = executables.get(os.path.realpath(hit.object)) if hit.object else None
        if program is not None:
            own[program] = own.get(program, 0.0) + weight
    return {pid: max(own, key=lambda name: own[name]) for pid, own in found.items()}


def _memory(
    hit: SampleHit, program: str, seen: Seen, settings: HugeSettings
) -> tuple[MemoryKind, str]:
    data = hit.data
    if data is None or _is_unknown(hit):
        return "unknown", name_of("unknown")
    if data in _NAMED:
        return _NAMED[data]
    if data in _NAMELESS:
        return _nameless(data, [each for name, each in seen if name == program], settings)
    if os.path.realpath(data) == os.path.realpath(program):
        return "segment", data
    return file_kind(settings.mounts, data), data


def _nameless(
    data: str, own: Sequence[smaps.Mapping], settings: HugeSettings
) -> tuple[MemoryKind, str]:
    """The largest kind of the memory that samples have one name for."""
    kinds = _NAMELESS[data]
    resident = {(kinds[0], name_of(kinds[0])): 0}
    for mapping in own:
        kind = kind_of(mapping, settings)
        if kind not in kinds or (kind == "hugetlbfs" and "/anon_hugepage" not in mapping.name):
            continue
        name = mapping.name if kind in ("memfd", "hugetlbfs") else name_of(kind)
        resident[kind, name] = resident.get((kind, name), 0) + mapping.resident_bytes
    return max(resident, key=lambda key: resident[key])


def _code(weights: _Weights) -> tuple[CodeLine, ...]:
    samples, events = Counter[SourceLocation](), dict[SourceLocation, float]()
    for hit, weight in weights:
        site = SourceLocation(hit.object, hit.symbol, None, None)
        samples[site] += hit.samples
        events[site] = events.get(site, 0.0) + weight
    whole = sum(events.values())
    found = []
    for site, own in samples.items():
        share = events[site] / whole if own >= FEWEST else None
        found.append(CodeLine(site, share, round(events[site]), None, own))
    return tuple(sorted(found, key=lambda line: -line.walks))
