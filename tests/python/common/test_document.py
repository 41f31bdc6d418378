# SPDX-License-Identifier: GPL-2.0-or-later
"""Are documents written whatever computed their figures?"""

from __future__ import annotations

import json

import numpy as np
import pytest
from tlbcost.common.document import Part, to_json


class _Cost(Part):
    walk_ns: float


def test_a_figure_of_numpy_is_a_figure() -> None:
    assert json.loads(to_json(_Cost(walk_ns=np.float64(1.5)))) == {"walk_ns": 1.5}


def test_what_is_no_figure_is_refused() -> None:
    with pytest.raises(NotImplementedError):
        to_json({"walk_ns": object()})
