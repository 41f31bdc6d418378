# SPDX-License-Identifier: GPL-2.0-or-later
"""How large are the errors of predictions, by model and by what was predicted?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from tlbcost.accuracy.checks import WAYS, CheckedPrediction, Way

# "expected": the reported gain, by whichever way; "total": with page faults.
Predicted = Literal["expected", "bound", "total"] | Way


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
    """The accuracy of each figure that was predicted at all."""
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
