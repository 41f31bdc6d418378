# SPDX-License-Identifier: GPL-2.0-or-later
"""Which predictions were checked by trials, and how far off was each?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from tlbcost.common.interval import Interval
from tlbcost.model.gain import MODELS, ModelName, PredictedGain
from tlbcost.system.machine import Machine


@dataclass(frozen=True, slots=True)
class Prediction:
    """What `tlbcost estimate` predicted; shares of the base run time. `fault_fraction` None: NA.

    `models`: the predictions of a simulation's models, where known; one of them is the reported
    expected gain, unless that is from counters.
    """

    bound_fraction: float
    expected_fraction: Interval
    fault_fraction: float | None
    models: Mapping[ModelName, Interval] = field(default_factory=dict)

    def of(self, model: ModelName | None) -> Interval | None:
        """The expected gain by a model; None: the reported one."""
        return self.expected_fraction if model is None else self.models.get(model)

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
class Program:
    """One program of a record. `excluded`: why its runs, if any, do not measure huge pages."""

    name: str
    command: str
    method: str
    prediction: Prediction | None
    pairs: tuple[PairOfRuns, ...]
    excluded: str | None = None


@dataclass(frozen=True, slots=True)
class Gain:
    """What huge pages saved: 1 - t_huge / t_base of CPU time, whole and its user and system parts.

    `bootstrap.median` of the pairs' differences, with 95 % intervals.
    """

    whole: Interval
    user: Interval
    system: Interval


@dataclass(frozen=True, slots=True)
class CheckedPrediction:
    """A prediction and the gain measured; errors are predicted less measured, shares of base time.

    Translation is compared with the user part; `total_error` is of the prediction with its page
    faults, and compared with the whole.
    """

    program: Program
    prediction: Prediction
    gain: Gain

    @property
    def bound_error(self) -> float:
        """Of the bound."""
        return self.prediction.bound_fraction - self.gain.user.value

    def expected_error(self, model: ModelName | None = None) -> float | None:
        """Of the expected gain, as in Prediction.of; None if the model has no prediction."""
        expected = self.prediction.of(model)
        return None if expected is None else expected.value - self.gain.user.value

    @property
    def total_error(self) -> float | None:
        """Of expected gain and page faults together; None if the latter were not obtained."""
        total = self.prediction.total_fraction
        return None if total is None else total - self.gain.whole.value

    def inside(self, model: ModelName | None = None) -> bool:
        """Whether the gain lies in the expected interval, as in Prediction.of."""
        expected = self.prediction.of(model)
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
    programs: tuple[Program, ...]

    @property
    def checks(self) -> tuple[CheckedPrediction, ...]:
        """Those that were predicted and measured."""
        found = (check_of(program) for program in self.programs)
        return tuple(check for check in found if check is not None)

    @property
    def left_out(self) -> tuple[tuple[Program, str], ...]:
        """The others, each with the reason."""
        return tuple((p, _why(p)) for p in self.programs if check_of(p) is None)

    @property
    def models(self) -> tuple[ModelName, ...]:
        """The models with any known prediction; () in records from before there were two."""
        return tuple(m for m in MODELS if any(m in c.prediction.models for c in self.checks))


def prediction_of(estimate: PredictedGain) -> Prediction:
    """An estimate's prediction, for a record."""
    fault = estimate.fault_fraction
    return Prediction(
        estimate.bound_fraction.value,
        estimate.expected_fraction,
        None if fault is None else fault.value,
        estimate.models,
    )


def gain_of(pairs: Sequence[PairOfRuns]) -> Gain | None:
    """The gain that the pairs show; None if they are too few for an interval."""
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


def check_of(program: Program) -> CheckedPrediction | None:
    """The check of a program; None if it was not predicted, not measured, or is excluded."""
    if program.excluded is not None or program.prediction is None:
        return None
    gain = gain_of(program.pairs)
    return None if gain is None else CheckedPrediction(program, program.prediction, gain)


def _why(program: Program) -> str:
    if program.excluded is not None:
        return program.excluded
    if program.prediction is None:
        return "not estimated"
    return f"{len(program.pairs)} pairs of runs are too few for an interval"


def covered_fraction(program: Program) -> float | None:
    """The share of the memory that was on huge pages, median over the runs; None: not sampled."""
    shares = [
        pair.huge_bytes / pair.resident_bytes
        for pair in program.pairs
        if pair.huge_bytes is not None and pair.resident_bytes
    ]
    return median(shares) if shares else None
