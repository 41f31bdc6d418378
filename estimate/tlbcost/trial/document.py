# SPDX-License-Identifier: GPL-2.0-or-later
"""The document of `tlbcost trial --json`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from tlbcost.common.document import Part, doc, part_of
from tlbcost.common.interval import Interval
from tlbcost.measured.coverage import covered_fraction
from tlbcost.memory.peak import MemoryScope, PeakMemory
from tlbcost.model.gain import total_interval
from tlbcost.run.outcome import Run
from tlbcost.system.machine import Machine
from tlbcost.trial.comparison import ProgramTrials, Trial
from tlbcost.trial.report import Verdict, bloat_bytes, sentences, verdict

Bytes = Annotated[int, doc("in bytes", minimum=0)]


class MemoryAtPeak(Part, frozen=True, kw_only=True):
    """The memory of all processes when they had most; pages of two of them count twice."""

    resident_bytes: Annotated[int, doc("in memory, with hugetlb pages", minimum=0)]
    huge_bytes: Annotated[int, doc("on pages larger than the base page, of any kind", minimum=0)]
    anonymous_huge_bytes: Annotated[int, doc("transparent huge pages", minimum=0)]
    hugetlb_bytes: Annotated[int, doc("pages from a pool", minimum=0)]
    shmem_huge_bytes: Annotated[int, doc("huge pages of shared memory", minimum=0)]
    file_huge_bytes: Annotated[int, doc("huge pages of files", minimum=0)]
    mthp_bytes: Annotated[
        dict[str, Bytes] | None, doc("by page size in bytes; counted for the whole system")
    ]
    samples: Annotated[int, doc("how often it was looked at", minimum=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWithMemory(Run):
    """One run, and its memory at the peak."""

    memory: Annotated[MemoryAtPeak | None, doc("at the peak, of all processes")]


class TrialPair(Part, frozen=True, kw_only=True):
    """One run on base pages and one on huge pages."""

    base: Annotated[RunWithMemory, doc("on base pages")]
    huge: Annotated[RunWithMemory, doc("on huge pages")]
    covered_fraction: Annotated[
        float | None, doc("of the memory that the method should reach", minimum=0, maximum=1)
    ]


class TrialOfMethod(Part, frozen=True, kw_only=True):
    """What huge pages by one method gave; shares are of the time on base pages."""

    method: Annotated[str, doc("name of the method, as for --with")]
    words: Annotated[str, doc("what it does")]
    reach: Annotated[MemoryScope, doc("the memory that the method should get onto huge pages")]
    page_size_bytes: Annotated[int | None, doc("size of the pages")]
    environment: Annotated[dict[str, str], doc("what it adds to the environment")]
    prefix: Annotated[tuple[str, ...], doc("what goes before the program")]
    proven: Annotated[
        bool,
        doc(
            "in three pairs at least half of that memory was seen on huge pages; otherwise the "
            "shares are null"
        ),
    ]
    why_not: Annotated[str | None, doc("why it is not proven")]
    measured_fraction: Annotated[
        Interval | None, doc("1 - t_huge/t_base of wall time: median of the pairs, 95 % interval")
    ]
    measured_user_fraction: Annotated[
        Interval | None, doc("user time saved, over the CPU time on base pages")
    ]
    measured_system_fraction: Annotated[
        Interval | None, doc("system time saved, over the CPU time on base pages")
    ]
    difference_proven: Annotated[
        bool | None, doc("the interval of measured_fraction does not hold 0")
    ]
    verdict: Annotated[
        Verdict | None,
        doc(
            "whether measured_fraction is within total_fraction; null: no share, no estimate, or "
            "one of another page size"
        ),
    ]
    bloat_bytes: Annotated[
        int | None,
        doc(
            "what memory at the peak grew by; hugetlb pages are seen by samples, which may miss a "
            "tenth of the peak"
        ),
    ]
    in_turns: Annotated[
        bool, doc("the two runs of a pair took turns; wall_ns is the time of a run's turns")
    ] = False
    pairs: Annotated[list[TrialPair], doc("all pairs of runs")]
    notes: Annotated[tuple[str, ...], doc("what is to be known of the result")]
    sentences: Annotated[list[str], doc("what the report says of it")]


class TrialEstimate(Part, frozen=True, kw_only=True):
    """What `tlbcost estimate` says, of pages of `huge_page_bytes`."""

    bound_fraction: Annotated[Interval, doc("what cheaper translation could save at most")]
    expected_fraction: Annotated[Interval, doc("what it should save")]
    fault_fraction: Annotated[Interval | None, doc("what fewer page faults should save")]
    total_fraction: Annotated[Interval, doc("translation and page faults together")]


class TrialDocument(Part, frozen=True, kw_only=True):
    """The trials of one program. null: not obtained."""

    schema: Annotated[Literal["tlbcost-trial-2"], doc("form of this document and its version")] = (
        "tlbcost-trial-2"
    )
    tlbcost_version: Annotated[str, doc("version of tlbcost")]
    date: Annotated[str, doc("UTC, ISO 8601", format="date-time")]
    machine: Annotated[Machine, doc("the machine")]
    argv: Annotated[tuple[str, ...], doc("the program and its arguments")]
    region: Annotated[
        str | None, doc("the phase of it that times are of, START:END; null: all of it")
    ] = None
    estimate: Annotated[TrialEstimate | None, doc("the prediction")]
    huge_page_bytes: Annotated[int | None, doc("size of the kernel's huge page")]
    no_estimate: Annotated[str | None, doc("why there is no estimate")]
    notes: Annotated[tuple[str, ...], doc("what was left out of the environment")]
    trials: Annotated[list[TrialOfMethod], doc("one for each method", minItems=1)]


def trial_document(found: ProgramTrials) -> TrialDocument:
    return part_of(
        TrialDocument,
        found,
        tlbcost_version=found.version,
        estimate=None
        if found.estimate is None
        else part_of(TrialEstimate, found.estimate, total_fraction=total_interval(found.estimate)),
        trials=[_trial(trial, found) for trial in found.trials],
    )


def _trial(trial: Trial, found: ProgramTrials) -> TrialOfMethod:
    method = trial.method
    return part_of(
        TrialOfMethod,
        trial,
        method=method.name,
        words=method.words,
        reach=method.reach,
        page_size_bytes=method.page_bytes,
        environment=dict(method.environment),
        prefix=method.prefix,
        difference_proven=trial.difference_proven if trial.proven else None,
        verdict=verdict(trial, found),
        bloat_bytes=bloat_bytes(trial.proven_pairs) if trial.proven else None,
        pairs=[
            TrialPair(
                base=_run(pair.base, pair.base_backing),
                huge=_run(pair.huge, pair.backing),
                covered_fraction=covered_fraction(trial.method, pair.backing),
            )
            for pair in trial.pairs
        ],
        sentences=sentences(trial, found),
    )


def _run(run: Run, seen: PeakMemory | None) -> RunWithMemory:
    memory = None
    if seen is not None:
        sizes = seen.mthp_bytes
        by_size = None if sizes is None else {str(size): n for size, n in sizes.items()}
        memory = part_of(MemoryAtPeak, seen, mthp_bytes=by_size)
    return RunWithMemory(**asdict(run), memory=memory)
