# SPDX-License-Identifier: GPL-2.0-or-later
"""What does an estimate need to know of NUMA? A simulation of its own, where there are nodes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tlbcost.calibration.records import Calibration
from tlbcost.numa.locality import Placed
from tlbcost.numa.nodes import cache_sizes, choose_nodes, machine_nodes
from tlbcost.run.launch import Launcher, Outcome
from tlbcost.run.program import check_simulatable
from tlbcost.system.machine import Machine


def placed_on_nodes(
    launcher: Launcher,
    argv: Sequence[str],
    path: Path,
    native: Outcome,
    machine: Machine,
    calibrated: Calibration,
    *,
    asked: int | None,
    simulated: bool,
) -> Placed | None:
    """First touch on both page sizes; None: there is one node, or the program is not simulated.

    `asked`: nodes that the user asked for; None: those of the machine. Raises TlbcostError.
    """
    if asked is None and (len(machine_nodes()) < 2 or not simulated):
        return None
    # NumPy is loaded only where it is needed.
    from tlbcost.numa import accesses as numa
    from tlbcost.numa.placement_table import plan_for
    from tlbcost.numa.run import simulated as follow

    check_simulatable(path)
    nodes = choose_nodes(asked)
    assert native.run is not None
    plan = plan_for(native.run, *cache_sizes())
    images, _ = follow(launcher, argv, native, machine, calibrated, plan)
    pages = numa.gather(images, nodes.count)
    by = pages.totals
    scores = [numa.score(by, numa.first_touch(pages, huge=huge)) for huge in (False, True)]
    if scores[0].local_fraction is None:
        print(
            "tlbcost: nothing is told of NUMA nodes: the program's data stay in its caches",
            file=sys.stderr,
        )
        return None
    return Placed(nodes.count, nodes.sentence, *scores)
