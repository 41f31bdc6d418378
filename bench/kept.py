# SPDX-License-Identifier: GPL-2.0-or-later
"""Simulations that are made once: a benchmark that was stopped continues where it was.

Each is kept in build/simulations by all that it depends on: its options, the program's and the
simulator's bytes.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import cast

from tlbcost.common import paths
from tlbcost.machines.plan import Pass
from tlbcost.run.launch import Launcher
from tlbcost.simulator.memory_tables import WindowPlan
from tlbcost.simulator.run import Simulation, find_valgrind, simulate

TREE = Path(__file__).resolve().parent.parent
FOLDER = TREE / "build" / "simulations"


@cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def kept(
    launcher: Launcher,
    plan: Pass,
    windows: WindowPlan,
    argv: Sequence[str],
    native: Sequence[str] | None = None,
) -> Simulation:
    """The program's simulation, now or earlier; `native`: instead of it, to see how it ends.

    Raises TlbcostError as simulate() does.
    """
    core = next(m.core.option for m in plan.machines if m.core is not None)
    own = plan.core.option if plan.core is not None else core
    tools = sorted(paths.valgrind_lib().glob("tlbsim-*"))
    parts = (
        plan.geometry, plan.options, windows.option, own, [str(word) for word in argv],
        [_digest(path) for path in [*tools, Path(argv[0])]],
    )  # fmt: skip
    path = FOLDER / hashlib.sha256(repr(parts).encode()).hexdigest()
    if path.exists():
        return cast("Simulation", pickle.loads(path.read_bytes()))
    outcome = launcher.execute([*(native or argv)], discard=True, environment=dict(os.environ))
    found = simulate(
        launcher, find_valgrind(), plan.geometry, argv, outcome, windows, own, plan.options
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = path.with_suffix(f".{os.getpid()}")
    made.write_bytes(pickle.dumps(found))
    made.replace(path)
    return found
