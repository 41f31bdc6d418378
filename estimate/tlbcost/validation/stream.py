# SPDX-License-Identifier: GPL-2.0-or-later
"""What memory rates does STREAM report, on base and on huge pages?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from tlbcost.accuracy.checks import Program
from tlbcost.common import paths
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.measured.method import drop_huge_page_requests
from tlbcost.settings.journal import Announce
from tlbcost.system import hints
from tlbcost.validation.listener import listener
from tlbcost.validation.session import SuiteRequest, check_rights, predict_and_try
from tlbcost.validation.suite import Task

_ROW = re.compile(r"^(Copy|Scale|Add|Triad):\s+(\d+(?:\.\d+)?)\s", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rates:
    """MB/s of one function (10^6 bytes), medians over the runs; None: no run printed it."""

    function: str
    base: float | None
    huge: float | None


@dataclass(frozen=True, slots=True)
class StreamResult:
    """One variant of STREAM: `words` say which; `program` has its prediction and runs."""

    words: str
    program: Program
    rates: tuple[Rates, ...]


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """STREAM with arrays of `size` bytes, in its notation (None: 1G), and these options."""

    size: str | None = None
    options: tuple[str, ...] = ()
    pairs: int = 5


def rates_in(text: str) -> dict[str, float]:
    """The rate of each function in STREAM's output, in MB/s."""
    return {name: float(rate) for name, rate in _ROW.findall(text)}


def rates_heard(argv: Sequence[str], heard: Sequence[tuple[tuple[str, ...], str]]) -> list[Rates]:
    """Rates of the runs of `argv` itself, and of those behind a prefix (hugectl)."""
    base = [rates_in(text) for command, text in heard if command == tuple(argv)]
    huge = [rates_in(text) for command, text in heard if command != tuple(argv)]

    def middle(runs: list[dict[str, float]], name: str) -> float | None:
        known = [rates[name] for rates in runs if name in rates]
        return median(known) if known else None

    return [
        Rates(name, middle(base, name), middle(huge, name))
        for name in ("Copy", "Scale", "Add", "Triad")
    ]


def variants(size: str | None, options: Sequence[str]) -> tuple[list[tuple[str, Task]], str]:
    """Both ways to give STREAM huge pages, in words and as tasks; and why one is missing, if so.

    `size`: bytes of the arrays, in STREAM's notation; None: the default, that of the static ones.

    Raises TlbcostError with exit code 4 if not even the first one is.
    """
    folder = paths.workloads()
    if not (folder / "stream").is_file():
        raise TlbcostError(
            f"STREAM is not built: no {folder / 'stream'}",
            hints.build("workloads"),
            CANNOT_MEASURE,
        )
    sized = () if size is None else ("--size", size)
    found = [
        (
            "STREAM, arrays from malloc, hugectl --heap",
            Task("stream", (str(folder / "stream"), *sized, *options), "hugectl --heap"),
        )
    ]
    if size is not None:
        return found, "static arrays have a fixed size, and are left out with --size"
    if not (folder / "stream-static").is_file():
        return found, "no STREAM with static arrays: ld.hugetlbfs was not available to link it"
    static = Task(
        "stream-static", (str(folder / "stream-static"), *options), "hugectl --bss --data"
    )
    return [*found, ("STREAM, static arrays, hugectl --bss --data", static)], ""


def run_stream(request: StreamRequest, announce: Announce) -> Iterator[StreamResult]:
    """Predict and run each variant. Raises TlbcostError as `session.predict_and_try` does."""
    found, missing = variants(request.size, request.options)
    check_rights([task.method for _, task in found], "tlbcost validate --stream")
    if missing:
        announce(missing)
    drop_huge_page_requests(announce)
    asked = SuiteRequest(pairs=request.pairs, measured=False, turns=False)
    for words, task in found:
        with listener() as launcher:
            program = predict_and_try(launcher, task, asked, announce)
            rates = rates_heard(task.argv, launcher.heard)
        yield StreamResult(words, program, tuple(rates))
