# SPDX-License-Identifier: GPL-2.0-or-later
"""How large are the errors of predictions, by model and by what was predicted?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from tlbcost.accuracy.checks import CheckedPrediction
from tlbcost.model.gain import MODELS, ModelName

# "expected": the reported gain, by whichever model; "total": with page faults.
Predicted = Literal["expected", "bound", "total"] | ModelName


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Sizes of the errors of one figure over several programs, as shares of the run time.

    `inside`: programs whose measured gain was within the expected interval. `worst` names the
    program of the largest error.
    """

    programs: int
    inside: int
    mean: float
    largest: float
    worst: str


def accuracy(checks: Sequence[CheckedPrediction]) -> dict[Predicted, Accuracy]:
    """The accuracy of each figure that was predicted at all."""
    # Not at the top: pandas takes a while to load.
    import pandas as pd

    rows = [row for check in checks for row in _rows(check)]
    table = pd.DataFrame(rows, columns=["predicted", "program", "size", "inside"])
    found: dict[Predicted, Accuracy] = {}
    for predicted, group in table.groupby("predicted", sort=False):
        worst = group.sort_values("size", ascending=False, kind="stable").iloc[0]
        found[cast(Predicted, predicted)] = Accuracy(
            programs=len(group),
            inside=int(group["inside"].sum()),
            mean=float(group["size"].mean()),
            largest=float(worst["size"]),
            worst=str(worst["program"]),
        )
    return found


def _rows(check: CheckedPrediction) -> Iterator[tuple[Predicted, str, float, bool]]:
    errors: dict[Predicted, float | None] = {
        "expected": check.expected_error(),
        "bound": check.bound_error,
        "total": check.total_error,
    }
    errors |= {model: check.expected_error(model) for model in MODELS}
    for predicted, error in errors.items():
        if error is not None:
            model = next((model for model in MODELS if model == predicted), None)
            yield predicted, check.program.name, abs(error), check.inside(model)
