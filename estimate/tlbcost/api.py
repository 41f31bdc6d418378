# SPDX-License-Identifier: GPL-2.0-or-later
"""The library behind `import tlbcost`: nothing is printed but what the program prints.

Its functions raise TlbcostError, which has a hint and the exit code that the command would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from tlbcost.answer import estimate as answer
from tlbcost.answer.document import estimate_document
from tlbcost.answer.estimate_document import EstimateDocument, read_estimate
from tlbcost.answer.request import EstimateRequest
from tlbcost.common.files import temporary_folder
from tlbcost.common.progress import quietly
from tlbcost.common.units import Interval
from tlbcost.report.comparison import ComparisonDocument, compared
from tlbcost.review.document import ReviewDocument, review_document
from tlbcost.review.plan import read_plan
from tlbcost.review.session import run_review
from tlbcost.review.task import plan_tasks
from tlbcost.trial.document import TrialDocument, trial_document
from tlbcost.trial.session import TrialRequest, run_trials


@dataclass(frozen=True, slots=True)
class Estimated:
    """An estimate; `document` is what `tlbcost estimate --json` writes."""

    document: EstimateDocument

    @property
    def verdict(self) -> str:
        return self.document.verdict.code

    @property
    def gain(self) -> Interval:
        """What huge pages save, as a share of the CPU time: measured, or else modelled."""
        return self.document.total_fraction

    @property
    def growth(self) -> Interval | None:
        """Bytes that memory at the peak grows by; None: it was not measured in runs."""
        return None if self.document.measured is None else self.document.measured.growth_bytes

    @property
    def regions(self) -> pd.DataFrame:
        """The memory that misses, a row each; columns as in `attribution.memory` of the JSON."""
        found = self.document.attribution
        return pd.DataFrame([] if found is None else msgspec.to_builtins(found.memory))


def estimate(argv: Sequence[str] = (), *, measured: bool = True, **options: Any) -> Estimated:  # noqa: ANN401
    """Run a program, or follow the process `pid`, and estimate it.

    `measured`: also on huge pages, in pairs of runs. `options`: fields of
    answer.request.EstimateRequest, such as `time_budget` in seconds, `pid`, `calibration`.
    """
    request = EstimateRequest(argv=tuple(argv), measured=measured, **options)
    request.check()
    with quietly():
        return Estimated(estimate_document(answer.estimate(request)))


def trials(argv: Sequence[str], *methods: str, **options: Any) -> TrialDocument:  # noqa: ANN401
    """Pairs of runs with each of the methods of `tlbcost trial --with`, and their proof.

    `options`: fields of trial.session.TrialRequest, such as `pairs`.
    """
    with quietly():
        asked = TrialRequest(argv=tuple(argv), methods=methods, **options)
        return trial_document(run_trials(asked, lambda _: None))


def review_plan(plan: Path) -> ReviewDocument:
    """A capacity review of the services in a plan: see `tlbcost review`."""
    with quietly(), temporary_folder() as state:
        read = read_plan(plan)
        tasks = plan_tasks(read, fleet=False)
        return review_document(read, run_review(tasks, state, resume=False))


def compare(first: Estimated | Path, second: Estimated | Path) -> ComparisonDocument:
    """Two estimates, or the files that `tlbcost estimate --json` wrote."""
    documents = [
        each.document if isinstance(each, Estimated) else read_estimate(each)
        for each in (first, second)
    ]
    names = tuple(str(each) if isinstance(each, Path) else "" for each in (first, second))
    return compared(documents[0], documents[1], (names[0], names[1]))
