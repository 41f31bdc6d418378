#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What would a report advise for memory of one kind that pays for translation? Printed as JSON.

    PYTHONPATH=tests/python build/venv/bin/python advise.py KIND NAME PROGRAM COMMAND [ARG...]

For tests that follow a remedy: the memory is made up, the system is the one it runs on. KIND may be
`code`. The simulation's figures are those of a program that touches all of 96 MiB.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import cast, get_args

from builders.answer import altered, estimated
from tlbcost.answer.record import surroundings
from tlbcost.attribution.document import Attribution, RegionShare
from tlbcost.common.document import to_json
from tlbcost.common.units import Interval
from tlbcost.memory.eligibility import MemoryKind
from tlbcost.remedies.advice import advice_part
from tlbcost.run.outcome import Run

SIZE = 96 << 20


def main() -> int:
    """Print the advice."""
    kind, name, program, *argv = sys.argv[1:]
    code = kind == "code"
    kind = "segment" if code else kind
    assert kind in get_args(MemoryKind)
    region = RegionShare(
        program, cast(MemoryKind, kind), name, SIZE, SIZE, SIZE, code,
        0.9, 0.1, 0.9, 0.1, Interval(0.2, 0.1, 0.3),
    )  # fmt: skip
    run = Run(10**9, 9 * 10**8, 10**8, SIZE >> 12, 0, SIZE + (2 << 20))
    made = altered(
        estimated(40_000_000),
        argv=tuple(argv),
        surroundings=surroundings(None),
        runs=(run,),
        codes=(0,),
    )
    assert made.simulated is not None
    attribution = Attribution((region,), (), (), "prices", 0.0)
    made = altered(made, simulated=replace(made.simulated, attribution=attribution))
    print(to_json([advice_part(advice) for advice in made.advice]), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
