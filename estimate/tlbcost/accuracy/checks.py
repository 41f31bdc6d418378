# SPDX-License-Identifier: GPL-2.0-or-later
"""Predictions checked by trials, and the errors of each and of all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, cast

from tlbcost.common.interval import Interval
from tlbcost.measured.record import MeasuredGain
from tlbcost.model.gain import MODELS, ModelName, PredictedGain, VerdictCode
from tlbcost.system.machine import Machine

# How an estimate came to a gain: measured, or by one of the models of a simulation.
Way = ModelName | Literal["measured"]
WAYS: tuple[Way, ...] = ("measured", *MODELS)
# Of a normal distribution, half of a 95 % interval.
_Z95 = 1.96
# "expected": the reported gain, by whichever way; "total": with page faults.
Predicted = Literal["expected", "bound", "total"] | Way


@dataclass(frozen=True, slots=True)
class Prediction:
    """What `tlbcost estimate` predicted; shares of the base run time. `fault_fraction` None: NA.

    `ways`: what it measured, and what a simulation's models predict, where known; one of them is
    the reported expected gain, unless that is from counters. `null_fraction`: what two runs on base
    pages differed by when it measured; `not_measured`: why it did not; None: not recorded.
    """

    bound_fraction: float
    expected_fraction: Interval
    fault_fraction: float | None
    ways: Mapping[Way, Interval] = field(default_factory=dict)
    null_fraction: float | None = None
    not_measured: str | None = None
    verdict: VerdictCode | None = None

    def of(self, way: Way | None) -> Interval | None:
        """The gain by one way; None: the reported one."""
        return self.expected_fraction if way is None else self.ways.get(way)

    @property
    def total_fraction(self) -> float | None:
        """Translation and page faults together."""
        if self.fault_fraction is None:
            return None
        return self.expected_fraction.value + self.fault_fraction


@dataclass(frozen=True, slots=True)
class PairedRun:
    """One run of a pair; times in ns."""

    wall_ns: int
    user_ns: int
    system_ns: int
    minor_faults: int
    max_rss_bytes: int

    @property
    def cpu_ns(self) -> int:
        """The time that shares refer to, as in `run.outcome.Run`."""
        return self.user_ns + self.system_ns


@dataclass(frozen=True, slots=True)
class PairOfRuns:
    """A run on base pages, one on huge pages, and the memory at the peak of the latter.

    `resident_bytes`, `huge_bytes` None: not sampled.
    """

    base: PairedRun
    huge: PairedRun
    resident_bytes: int | None
    huge_bytes: int | None


@dataclass(frozen=True, slots=True)
class TriedProgram:
    """One program of a record. `excluded`: why its runs, if any, do not measure huge pages.

    `in_turns`: the two runs of each pair took turns; None: not recorded.
    """

    name: str
    command: str
    method: str
    prediction: Prediction | None
    pairs: tuple[PairOfRuns, ...]
    excluded: str | None = None
    in_turns: bool | None = None


@dataclass(frozen=True, slots=True)
class Gain:
    """What huge pages saved: 1 - t_huge / t_base of CPU time, whole and its user and system parts.

    `bootstrap.median` of the pairs' differences, with 95 % intervals.
    """

    whole: Interval
    user: Interval
    system: Interval

    @property
    def user_error(self) -> float:
        return (self.user.high - self.user.low) / 2 / _Z95


@dataclass(frozen=True, slots=True)
class CheckedPrediction:
    """A prediction and the gain measured; errors are predicted less measured, shares of base time.

    Translation is compared with the user part; `total_error` is of the prediction with its page
    faults, and compared with the whole.
    """

    program: TriedProgram
    prediction: Prediction
    gain: Gain

    @property
    def bound_error(self) -> float:
        return self.prediction.bound_fraction - self.gain.user.value

    def expected_error(self, way: Way | None = None) -> float | None:
        """Of the expected gain, as in Prediction.of; None if there is none by that way."""
        expected = self.prediction.of(way)
        return None if expected is None else expected.value - self.gain.user.value

    @property
    def total_error(self) -> float | None:
        """Of expected gain and page faults together; None if the latter were not obtained."""
        total = self.prediction.total_fraction
        return None if total is None else total - self.gain.whole.value

    def inside(self, way: Way | None = None) -> bool:
        expected = self.prediction.of(way)
        return expected is not None and expected.low <= self.gain.user.value <= expected.high

    @property
    def above_bound(self) -> bool:
        """Whether the gain exceeds the bound, and not by chance: its whole interval does."""
        return self.gain.user.low > self.prediction.bound_fraction


@dataclass(frozen=True, slots=True)
class Record:
    """The programs that were run on one machine; see `checks` and `left_out`."""

    machine: Machine
    date: str
    version: str
    programs: tuple[TriedProgram, ...]

    @property
    def checks(self) -> tuple[CheckedPrediction, ...]:
        found = (check_of(program) for program in self.programs)
        return tuple(check for check in found if check is not None)

    @property
    def left_out(self) -> tuple[tuple[TriedProgram, str], ...]:
        return tuple((p, _why(p)) for p in self.programs if check_of(p) is None)

    @property
    def ways(self) -> tuple[Way, ...]:
        """Those with any known prediction; () in records from before there were two models."""
        return tuple(way for way in WAYS if any(way in c.prediction.ways for c in self.checks))


def prediction_of(gain: PredictedGain, measured: MeasuredGain | str | None = None) -> Prediction:
    ways: dict[Way, Interval] = dict(gain.models.items())
    fault, null, why = gain.fault_fraction, None, None
    if isinstance(measured, MeasuredGain):
        ways["measured"] = measured.user_fraction
        null = None if measured.null_fraction is None else measured.null_fraction.value
    else:
        why = measured
    return Prediction(
        gain.bound_fraction.value,
        gain.expected_fraction,
        None if fault is None else fault.value,
        ways,
        null,
        why,
        gain.verdict,
    )


def gain_of(pairs: Sequence[PairOfRuns]) -> Gain | None:
    import numpy as np

    from tlbcost.common import bootstrap

    def share(values: Sequence[float]) -> Interval | None:
        return bootstrap.median(np.array(values, dtype=np.float64))

    whole = share([1 - p.huge.cpu_ns / p.base.cpu_ns for p in pairs])
    user = share([(p.base.user_ns - p.huge.user_ns) / p.base.cpu_ns for p in pairs])
    system = share([(p.base.system_ns - p.huge.system_ns) / p.base.cpu_ns for p in pairs])
    if whole is None or user is None or system is None:
        return None
    return Gain(whole, user, system)


def check_of(program: TriedProgram) -> CheckedPrediction | None:
    if program.excluded is not None or program.prediction is None:
        return None
    gain = gain_of(program.pairs)
    return None if gain is None else CheckedPrediction(program, program.prediction, gain)


def _why(program: TriedProgram) -> str:
    if program.excluded is not None:
        return program.excluded
    if program.prediction is None:
        return "not estimated"
    return f"{len(program.pairs)} pairs of runs are too few for an interval"


def covered_fraction(program: TriedProgram) -> float | None:
    shares = [
        pair.huge_bytes / pair.resident_bytes
        for pair in program.pairs
        if pair.huge_bytes is not None and pair.resident_bytes
    ]
    return median(shares) if shares else None


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Sizes of the errors of one figure over several programs, as shares of the run time.

    `inside`: programs whose measured gain was within the expected interval. `worst` names the
    program of the largest error. `square`: root mean square; `beyond`: of that, what the trials'
    own standard error does not explain.
    """

    programs: int
    inside: int
    mean: float
    largest: float
    worst: str
    square: float
    beyond: float


def accuracy(checks: Sequence[CheckedPrediction]) -> dict[Predicted, Accuracy]:
    # Not at the top: pandas takes a while to load.
    import pandas as pd

    rows = [row for check in checks for row in _rows(check)]
    table = pd.DataFrame(rows, columns=["predicted", "program", "size", "inside", "trial"])
    found: dict[Predicted, Accuracy] = {}
    for predicted, group in table.groupby("predicted", sort=False):
        worst = group.sort_values("size", ascending=False, kind="stable").iloc[0]
        square = float((group["size"] ** 2).mean())
        explained = float((group["trial"] ** 2).mean())
        found[cast(Predicted, predicted)] = Accuracy(
            programs=len(group),
            inside=int(group["inside"].sum()),
            mean=float(group["size"].mean()),
            largest=float(worst["size"]),
            worst=str(worst["program"]),
            square=math.sqrt(square),
            beyond=math.sqrt(max(0.0, square - explained)),
        )
    return found


def _rows(check: CheckedPrediction) -> Iterator[tuple[Predicted, str, float, bool, float]]:
    errors: dict[Predicted, float | None] = {
        "expected": check.expected_error(),
        "bound": check.bound_error,
        "total": check.total_error,
    }
    errors |= {way: check.expected_error(way) for way in WAYS}
    for predicted, error in errors.items():
        if error is not None:
            way = next((way for way in WAYS if way == predicted), None)
            name, trial = check.program.name, check.gain.user_error
            yield predicted, name, abs(error), check.inside(way), trial
