# SPDX-License-Identifier: GPL-2.0-or-later
"""What is concluded from the tables of a program's placement?"""

from __future__ import annotations

import numpy as np
import pytest
from builders.answer import MACHINE, RUN
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.numa.nodes import Nodes
from tlbcost.numa.placement_table import ImagePlacement, PlacementPlan
from tlbcost.numa.study import conclude
from tlbcost.run.outcome import Outcome
from tlbcost.simulator.run import Simulation

BASE, HUGE = 4096, 2097152


def test_what_stays_in_the_caches_cannot_be_placed() -> None:
    nothing = np.zeros((0, 8), dtype=np.int64)
    image = ImagePlacement(
        BASE, HUGE, 1, 1, 50, 1, 0, 0, *[nothing[:, 0]] * 3, nothing,
        *[np.array([1])] * 2, np.array([0]),
    )  # fmt: skip
    plan = PlacementPlan(l2_bytes=1 << 20, l3_share_bytes=2 << 20, caches_source="made up")
    outcome = Outcome(RUN, "", None, 0, None, None)
    with pytest.raises(TlbcostError, match=r"nothing to place: .* 1 MiB and 2 MiB") as raised:
        conclude(
            MACHINE, ["x"], RUN, Simulation((), outcome), (image,), plan, Nodes(4, "assumed"),
            "blocks", None, "made up", None,
        )  # fmt: skip
    assert raised.value.exit_code == CANNOT_MEASURE
