# SPDX-License-Identifier: GPL-2.0-or-later
"""The document of `tlbcost estimate --json`, and the meaning of its keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from tlbcost.accuracy.record import TrackRecord
from tlbcost.answer.record import Backend, Caveat, Decider, TimeName
from tlbcost.attribution.document import AttributionPart
from tlbcost.calibration.records import Grade, PageCosts
from tlbcost.common.document import Part, amount, doc, from_json, portion
from tlbcost.common.errors import TlbcostError
from tlbcost.common.reading import read_text
from tlbcost.common.units import Interval
from tlbcost.copies.estimator import CopiesRecord
from tlbcost.counters.event_counts import EventCount, Mode
from tlbcost.measured.record import MeasuredGain
from tlbcost.memory.first_touch import Stalls
from tlbcost.model.gain import ModelName, VerdictCode, Way
from tlbcost.numa.locality import Direction, Score
from tlbcost.processors.published import SourceKind, TlbLevel
from tlbcost.remedies.advice import AdvicePart
from tlbcost.run.outcome import Run
from tlbcost.simulator.counts import Side, SideCounts, Touched
from tlbcost.system.machine import Machine

SCHEMA = "tlbcost-estimate-4"
_NAME = "tlbcost-estimate-"
_HINT = "tlbcost estimate --json FILE writes one that tlbcost show and compare read"


class Ratios(Part, frozen=True, kw_only=True):
    """Speed-ups; null: no limit."""

    value: Annotated[float | None, doc("the best single figure")]
    low: Annotated[float | None, doc("lower bound")]
    high: Annotated[float | None, doc("upper bound")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMachine(Machine):
    """The machine that was counted on."""

    has_pmu: Annotated[bool | None, doc("it has hardware counters; null: not known")]


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeRun(Run):
    """One native run of the program."""

    exit_code: Annotated[int, amount("as a shell shows it")]


class ProgramPart(Part, frozen=True, kw_only=True):
    """The program and its native runs."""

    argv: Annotated[tuple[str, ...], doc("its command line", minItems=1)]
    path: Annotated[str | None, doc("the file that was run; null: nothing ran here")]
    runs: Annotated[list[NativeRun], doc("native runs, in their order")]
    cpu_ns: Annotated[
        float | None, doc("CPU time, median over the runs: what fractions and saved times refer to")
    ]
    wall_ns: Annotated[float | None, doc("elapsed time, median over the runs")]
    cpu_spread_fraction: Annotated[
        float | None, doc("largest less smallest CPU time, over the median")
    ]
    waited_fraction: Annotated[
        float | None,
        doc("of the time it could have run: waiting for a CPU; median; null: not known"),
    ]
    idle_fraction: Annotated[
        float | None,
        doc("of the elapsed time: neither running nor waiting for a CPU; median; null: not known"),
    ]


class CalibrationPart(Part, frozen=True, kw_only=True):
    """Where the costs are from."""

    source: Annotated[str, doc("measured now, cached, or from which file")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    grade: Annotated[Grade, doc("whether estimates may rely on them")]
    grade_reasons: Annotated[tuple[str, ...], doc("why they are poor")]
    notes: Annotated[tuple[str, ...], doc("what to know about them")]


class FootprintPart(Part, frozen=True, kw_only=True):
    """The memory that was touched."""

    anonymous_pages: Annotated[int, amount("base pages of anonymous memory")]
    anonymous_huge_pages: Annotated[int, amount("huge pages that hold any of them")]
    dense_huge_pages: Annotated[int, amount("as many as would hold them densely")]
    other_pages: Annotated[int, amount("base pages of files and shared memory")]
    source: Annotated[
        str,
        doc("seen page by page, or from page faults and peak memory", enum=("simulation", "runs")),
    ]


class FormulaValue(Part, frozen=True, kw_only=True):
    """One formula of the CPU."""

    expression: Annotated[str | None, doc("of events, as in data/events")]
    value: Annotated[Interval | None, doc("null: an event of it was not obtained")]


class CountersPart(Part, frozen=True, kw_only=True):
    """What the hardware counters alone say; shares are of cycles, but for the last two."""

    source: Annotated[str, doc("where the counts are from")]
    pmu: Annotated[str, doc("key of the table in data/events")]
    pmu_name: Annotated[str, doc("the counters' name there")]
    mode: Annotated[Mode | None, doc("the mode that was counted; null: not known")]
    notes: Annotated[tuple[str, ...], doc("what to know about the counts")]
    counts: Annotated[tuple[EventCount, ...], doc("one for each event and run")]
    formulas: Annotated[dict[str, FormulaValue], doc("the CPU's formulas by their names")]
    way: Annotated[Way, doc("how the share of translation was obtained")]
    translation_fraction: Annotated[Interval, doc("of data and code")]
    data_translation_fraction: Annotated[Interval, doc("of loads and stores")]
    exposed_fraction: Annotated[Interval | None, doc("stalled on translation: a lower bound")]
    ept_fraction: Annotated[
        Interval | None, doc("second stage of a virtual machine, where it is counted apart")
    ]
    missing_events: Annotated[
        tuple[str, ...], doc("events whose part the shares lack, since they were not counted")
    ]
    bound_fraction: Annotated[Interval, doc("of the CPU time, as in the whole document")]
    expected_fraction: Annotated[Interval, doc("of the CPU time, as in the whole document")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedLevel(TlbLevel):
    """One TLB level that was simulated."""

    source_kind: Annotated[SourceKind | None, doc("what its figures rest on")]
    source: Annotated[str | None, doc("where they come from, in a sentence")]


class GeometryPart(Part, frozen=True, kw_only=True):
    """The TLBs that were simulated for one page size; null: the level does not hold it."""

    page_size_bytes: Annotated[int, amount("size of the pages")]
    entry_bytes: Annotated[int, doc("what one TLB entry covers", minimum=1)]
    dtlb: Annotated[SourcedLevel | None, doc("first level of data")]
    itlb: Annotated[SourcedLevel | None, doc("first level of code")]
    stlb: Annotated[SourcedLevel | None, doc("second level")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessMisses(SideCounts):
    """Misses of one kind of access on one page size."""

    page_size_bytes: Annotated[int, amount("size of the pages")]
    access: Annotated[Side, doc("kind of access")]


class ProcessPart(Part, frozen=True, kw_only=True):
    """One process image; null: it was killed before it could report."""

    pid: Annotated[int, amount("process number")]
    parent_pid: Annotated[int, amount("of the process that started it")]
    program: Annotated[str, doc("what it ran")]
    threads: Annotated[int | None, amount("how many it had")]
    touched: Annotated[Touched | None, doc("the memory that it touched")]
    counts: Annotated[list[AccessMisses] | None, doc("its misses")]


class ModelledPart(Part, frozen=True, kw_only=True):
    """The windows that were modelled for the overlap model."""

    core: Annotated[str, doc("what was modelled, as given to the simulator")]
    windows: Annotated[int, amount("how many")]
    references: Annotated[int, amount("of all processes that finished")]
    sampled_references: Annotated[int, amount("of these, in windows")]
    modelled_fraction: Annotated[
        float, portion("part of the references that is in processes with windows")
    ]
    user_saved_fraction: Annotated[
        Interval | None,
        doc("share of user time saved by the model, with the 95 % interval of sampling"),
    ]


class SimulationPart(Part, frozen=True, kw_only=True):
    """What the simulation alone says."""

    wall_ns: Annotated[int | None, amount("how long it took")]
    exit_code: Annotated[int, amount("the program's, as a shell shows it")]
    geometry: Annotated[tuple[GeometryPart, GeometryPart], doc("on base and on huge pages")]
    processes: Annotated[list[ProcessPart], doc("process images", minItems=1)]
    counts: Annotated[list[AccessMisses], doc("the sums over all processes")]
    bound_fraction: Annotated[Interval, doc("as in the whole document")]
    expected_fraction: Annotated[Interval, doc("as in the whole document")]
    model: Annotated[ModelName | None, doc("whose expected gain expected_fraction is")]
    expected_overlap_fraction: Annotated[
        Interval | None,
        doc("null: too little of the program was modelled, or it was not asked for"),
    ]
    expected_simple_fraction: Annotated[Interval | None, doc("misses times their costs")]
    modelled: Annotated[ModelledPart | None, doc("windows of the overlap model; null: none")]
    no_overlap: Annotated[str | None, doc("why the overlap model, though wanted, says nothing")]
    engine: Annotated[
        Literal["copies", "valgrind"],
        doc("followed in copies while it ran natively, or run as a whole in Valgrind"),
    ] = "valgrind"
    copies: Annotated[
        CopiesRecord | None, doc("what was copied, and what that cost; null: in Valgrind")
    ] = None


class VerdictPart(Part, frozen=True, kw_only=True):
    """What it comes to."""

    code: Annotated[VerdictCode, doc("for programs")]
    sentence: Annotated[str, doc("for people")]
    decided_by: Annotated[
        Decider | None, doc("what would decide a verdict that is not proven; null: it is decided")
    ]
    service_sentence: Annotated[
        str | None, doc("what a program gains that runs on; null: as much, or not measured")
    ] = None


class PlacementPart(Part, frozen=True, kw_only=True):
    """First touch on base and on huge pages on several NUMA nodes."""

    nodes: Annotated[int, doc("how many nodes", minimum=2)]
    source: Annotated[str, doc("where their number is from")]
    base: Annotated[Score, doc("on base pages")]
    huge: Annotated[Score, doc("on huge pages")]
    direction: Annotated[Direction, doc("what huge pages do to placement")]
    sentence: Annotated[str | None, doc("in addition to what they do to translation")]


class EstimateDocument(Part, frozen=True, kw_only=True):
    """What `tlbcost estimate --json FILE` writes.

    The unit of a figure is the suffix of its key; shares are 0 to 1; null means that a figure was
    not obtained.
    """

    schema: Annotated[str, doc("form of this document and its version", const=SCHEMA)] = SCHEMA
    tlbcost_version: Annotated[str, doc("the version of tlbcost that made it")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    backend: Annotated[
        Backend,
        doc("what counted the misses: hardware counters, the simulation, both; pairs: nothing"),
    ]
    notes: Annotated[tuple[str, ...], doc("about the choice of the backend, and samples")]
    machine: Annotated[HostMachine | None, doc("null: counted elsewhere, and it is not known")]
    huge_page_bytes: Annotated[int, doc("size of a huge page", minimum=1)]
    program: Annotated[ProgramPart, doc("the program and its native runs")]
    calibration: Annotated[CalibrationPart | None, doc("where the costs are from; null: none")]
    costs: Annotated[list[PageCosts], doc("what one event costs on base and on huge pages")]
    footprint: Annotated[FootprintPart | None, doc("the memory that was touched")]
    counters: Annotated[CountersPart | None, doc("what the hardware counters alone say")]
    simulation: Annotated[SimulationPart | None, doc("what the simulation alone says")]
    attribution: Annotated[AttributionPart | None, doc("page walks by memory and by code")]
    sampled_attribution: Annotated[
        AttributionPart | None,
        doc("the same by samples of counters, where attribution is of a simulation"),
    ]
    measured: Annotated[
        MeasuredGain | None,
        doc(
            "what huge pages saved when they were tried: expected_fraction, fault_fraction and "
            "total_fraction are from it; null: they are modelled"
        ),
    ] = None
    stalls: Annotated[
        Stalls | None,
        doc("first touches of memory on this host now; null: not obtained, or not asked for"),
    ] = None
    not_measured: Annotated[str | None, doc("why not, where it was tried")] = None
    not_simulated: Annotated[str | None, doc("why not, where what was measured does without")] = (
        None
    )
    region: Annotated[
        str | None,
        doc("the phase of the program that times and misses are of, START:END; null: all of it"),
    ] = None
    fractions_of: Annotated[TimeName, doc("what fractions of time are of")]
    base_data_translation_ns: Annotated[
        Interval | None, doc("time in translation of data on base pages")
    ]
    base_code_translation_ns: Annotated[Interval | None, doc("the same of code")]
    huge_data_translation_ns: Annotated[Interval | None, doc("of data on huge pages")]
    bound_fraction: Annotated[
        Interval,
        doc(
            "what cheaper translation could save at most: value and high are the bound "
            "itself, low the share at the lowest costs; code is included"
        ),
    ]
    bound_saved_ns: Annotated[Interval | None, doc("the same as CPU time")]
    bound_speedup_ratio: Annotated[Ratios, doc("the same as a speed-up; null: no limit")]
    bound_capped: Annotated[bool, doc("the upper end was cut to the user time")]
    expected_fraction: Annotated[Interval, doc("what huge pages should save, of translation")]
    expected_saved_ns: Annotated[Interval | None, doc("the same as CPU time")]
    expected_speedup_ratio: Annotated[Ratios, doc("the same as a speed-up")]
    fault_fraction: Annotated[Interval | None, doc("what fewer page faults should save")]
    fault_saved_ns: Annotated[Interval | None, doc("the same as CPU time")]
    fault_speedup_ratio: Annotated[Ratios | None, doc("the same as a speed-up")]
    total_fraction: Annotated[
        Interval,
        doc("what the verdict is about: expected_fraction and, if obtained, fault_fraction"),
    ]
    total_saved_ns: Annotated[Interval | None, doc("the same as time")]
    total_speedup_ratio: Annotated[Ratios, doc("the same as a speed-up")]
    code_fraction: Annotated[Interval | None, doc("translation of code, which stays on base pages")]
    verdict: Annotated[VerdictPart, doc("what it comes to")]
    placement: Annotated[
        PlacementPart | None, doc("on NUMA nodes; null: not asked for, and the machine has one")
    ]
    tried: Annotated[
        TrackRecord | None,
        doc(
            "how far off predictions were on this machine or one of its CPU, as tlbcost validate "
            "found"
        ),
    ]
    caveats: Annotated[tuple[Caveat, ...], doc("what to know before relying on it, worst first")]
    next_steps: Annotated[list[str], doc("commands to type; lines with # explain")]
    what_to_do: Annotated[
        list[AdvicePart],
        doc(
            "what to do about the memory that misses, most first; empty: nothing, or it was not "
            "attributed"
        ),
    ]


class _Head(msgspec.Struct):
    schema: str


def read_estimate(path: Path) -> EstimateDocument:
    text = read_text(path, hint=_HINT)
    try:
        found = from_json(text, _Head).schema
    except msgspec.DecodeError as error:
        raise TlbcostError(f"{path}: not an estimate: {error}", _HINT) from error
    if found != SCHEMA:
        if not found.startswith(_NAME):
            raise TlbcostError(f"{path}: not an estimate, but {found[:40]}", _HINT)
        raise TlbcostError(
            f"{path}: an estimate of version {found.removeprefix(_NAME)[:8]}; this tlbcost reads "
            f"version {SCHEMA.removeprefix(_NAME)}",
            "estimate the program again; CHANGELOG.md says which keys changed",
        )
    try:
        return from_json(text, EstimateDocument)
    except msgspec.DecodeError as error:
        raise TlbcostError(f"{path}: an estimate with a defect: {error}", _HINT) from error
