# SPDX-License-Identifier: GPL-2.0-or-later
"""Trials for programs: JSON (data/schema/trial.schema.json), and the table trials 1."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path

from tlbcost.accuracy.errors import Half, PairOfRuns, Prediction, Program, Record, prediction_of
from tlbcost.accuracy.record import format_record
from tlbcost.common.interval import Interval
from tlbcost.memory.peak import PeakMemory
from tlbcost.model.gain import PredictedGain, total_interval
from tlbcost.run.outcome import Run
from tlbcost.trial.report import Tried, bloat_bytes, sentences, verdict
from tlbcost.trial.run import Pair, Trial, covered_fraction

SCHEMA = "tlbcost-trial-1"

Value = dict[str, object]


def to_json(tried: Tried) -> str:
    """The trials as the text of a JSON file."""
    document = {
        "schema": SCHEMA,
        "tlbcost_version": tried.version,
        "date": tried.date,
        "machine": asdict(tried.machine),
        "argv": list(tried.argv),
        "estimate": None if tried.estimate is None else _estimate(tried.estimate),
        "huge_page_bytes": tried.huge_page_bytes,
        "no_estimate": tried.no_estimate,
        "notes": list(tried.notes),
        "trials": [_trial(trial, tried) for trial in tried.trials],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _estimate(estimate: PredictedGain) -> Value:
    return {
        "bound_fraction": asdict(estimate.bound_fraction),
        "expected_fraction": asdict(estimate.expected_fraction),
        "fault_fraction": _interval(estimate.fault_fraction),
        "total_fraction": asdict(total_interval(estimate)),
    }


def _trial(trial: Trial, tried: Tried) -> Value:
    method = trial.method
    return {
        "method": method.name,
        "words": method.words,
        "reach": method.reach,
        "page_size_bytes": method.page_bytes,
        "environment": dict(method.environment),
        "prefix": list(method.prefix),
        "proven": trial.proven,
        "why_not": trial.why_not,
        "measured_fraction": _interval(trial.measured_fraction),
        "measured_user_fraction": _interval(trial.measured_user_fraction),
        "measured_system_fraction": _interval(trial.measured_system_fraction),
        "difference_proven": trial.difference_proven if trial.proven else None,
        "verdict": verdict(trial, tried),
        "bloat_bytes": bloat_bytes(trial.proven_pairs) if trial.proven else None,
        "pairs": [_pair(trial, pair) for pair in trial.pairs],
        "notes": list(trial.notes),
        "sentences": sentences(trial, tried),
    }


def _pair(trial: Trial, pair: Pair) -> Value:
    return {
        "base": _run(pair.base, pair.base_backing),
        "huge": _run(pair.huge, pair.backing),
        "covered_fraction": covered_fraction(trial.method, pair.backing),
    }


def _run(run: Run, backing: PeakMemory | None) -> Value:
    return {**asdict(run), "memory": None if backing is None else _memory(backing)}


def _memory(backing: PeakMemory) -> Value:
    return {
        "resident_bytes": backing.resident_bytes,
        "huge_bytes": backing.huge_bytes,
        "anonymous_huge_bytes": backing.anonymous_huge_bytes,
        "hugetlb_bytes": backing.hugetlb_bytes,
        "shmem_huge_bytes": backing.shmem_huge_bytes,
        "file_huge_bytes": backing.file_huge_bytes,
        "mthp_bytes": None
        if backing.mthp_bytes is None
        else {str(size): n_bytes for size, n_bytes in backing.mthp_bytes.items()},
        "samples": backing.samples,
    }


def _interval(interval: Interval | None) -> Value | None:
    return None if interval is None else asdict(interval)


def to_table(tried: Tried) -> str:
    """The pairs as the text of a table, one program for each method."""
    prediction = None if tried.estimate is None else prediction_of(tried.estimate)
    programs = tuple(program_of(trial, tried.argv, prediction) for trial in tried.trials)
    return format_record(Record(tried.machine, tried.date, tried.version, programs))


def program_of(trial: Trial, argv: tuple[str, ...], prediction: Prediction | None) -> Program:
    """A trial, for a record; without the pairs that are not proven."""
    return Program(
        Path(argv[0]).name,
        shlex.join(argv),
        trial.method.name,
        prediction,
        tuple(_pair_of_runs(pair) for pair in trial.proven_pairs),
        None if trial.proven else trial.why_not,
    )


def _pair_of_runs(pair: Pair) -> PairOfRuns:
    seen = pair.backing
    return PairOfRuns(
        _half(pair.base),
        _half(pair.huge),
        None if seen is None else seen.resident_bytes,
        None if seen is None else seen.huge_bytes,
    )


def _half(run: Run) -> Half:
    return Half(run.wall_ns, run.user_ns, run.system_ns, run.minor_faults, run.max_rss_bytes)
