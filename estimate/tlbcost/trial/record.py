# SPDX-License-Identifier: GPL-2.0-or-later
"""Which record of predictions and runs (the table `trials`) do a program's trials make?"""

from __future__ import annotations

import shlex
from pathlib import Path

from tlbcost.accuracy.checks import (
    PairedRun,
    PairOfRuns,
    Prediction,
    Program,
    Record,
    prediction_of,
)
from tlbcost.accuracy.record import format_record
from tlbcost.measured.pairs import Pair
from tlbcost.run.outcome import Run
from tlbcost.trial.comparison import ProgramTrials, Trial


def to_table(found: ProgramTrials) -> str:
    """The pairs as the text of a table, one program for each method."""
    prediction = None if found.estimate is None else prediction_of(found.estimate)
    programs = tuple(program_of(trial, found.argv, prediction) for trial in found.trials)
    return format_record(Record(found.machine, found.date, found.version, programs))


def program_of(trial: Trial, argv: tuple[str, ...], prediction: Prediction | None) -> Program:
    """A trial, for a record; without the pairs that are not proven."""
    return Program(
        Path(argv[0]).name,
        shlex.join(argv),
        trial.method.name,
        prediction,
        tuple(_pair_of_runs(pair) for pair in trial.proven_pairs),
        None if trial.proven else trial.why_not,
        trial.in_turns,
    )


def _pair_of_runs(pair: Pair) -> PairOfRuns:
    seen = pair.backing
    return PairOfRuns(
        _half(pair.base),
        _half(pair.huge),
        None if seen is None else seen.resident_bytes,
        None if seen is None else seen.huge_bytes,
    )


def _half(run: Run) -> PairedRun:
    return PairedRun(run.wall_ns, run.user_ns, run.system_ns, run.minor_faults, run.max_rss_bytes)
