# SPDX-License-Identifier: GPL-2.0-or-later
"""How much of a program's memory came onto huge pages, as text and for programs?"""

from __future__ import annotations

from typing import Annotated, Literal, TextIO

from tlbcost.common import units
from tlbcost.common.document import Part, doc


class Reached(Part, frozen=True, kw_only=True):
    """What `tlbcost run --json FILE` writes: the memory that asked for transparent huge pages, and
    what it got. Units are in the keys; null means that a figure was not obtained, or is not of
    this kind of run.
    """

    schema: Annotated[Literal["tlbcost-run-1"], doc("form of this document and its version")] = (
        "tlbcost-run-1"
    )
    tlbcost_version: Annotated[str, doc("version of tlbcost that wrote it")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    argv: Annotated[tuple[str, ...] | None, doc("the program; null: a process that was running")]
    pid: Annotated[int | None, doc("the process that was running; null: a program")]
    exit_code: Annotated[int | None, doc("the program's; 128 + N: killed by signal N")]
    anonymous_bytes: Annotated[
        int | None,
        doc("anonymous memory, at the program's peak or of the process now; of two processes "
            "that share it, twice", minimum=0),
    ]  # fmt: skip
    huge_bytes: Annotated[int | None, doc("what of it was on huge pages", minimum=0)]
    huge_before_bytes: Annotated[
        int | None, doc("of the process: what was on huge pages before", minimum=0)
    ]
    processes: Annotated[int | None, doc("of the program, at the peak", minimum=1)]
    requests: Annotated[int, doc("areas of memory that asked for huge pages", minimum=0)]
    notes: Annotated[tuple[str, ...], doc("what kept memory from it, or is to be known besides")]


def print_reached(reached: Reached, file: TextIO) -> None:
    for line in (_summary(reached), *reached.notes):
        print(f"tlbcost: {line}", file=file)


def _summary(reached: Reached) -> str:
    if reached.anonymous_bytes is None or reached.huge_bytes is None:
        return "the program ended before its memory could be measured"
    amount = f"{units.size(reached.huge_bytes)} of {units.size(reached.anonymous_bytes)}"
    if reached.pid is None:
        return f"{amount} of anonymous memory were on huge pages at the peak"
    assert reached.huge_before_bytes is not None
    return (
        f"{amount} of process {reached.pid}'s anonymous memory are on huge pages now; before, "
        f"{units.size(reached.huge_before_bytes)} were"
    )
