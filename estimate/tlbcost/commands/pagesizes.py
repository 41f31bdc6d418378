# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost pagesizes: how bad, and how good, can larger pages be here?"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.common.cleanup import Stopped, signals_raise
from tlbcost.common.errors import CANNOT_MEASURE, SIGNAL_BASE, TlbcostError

if TYPE_CHECKING:
    from tlbcost.pagesizes.backing import Lack, PageSize
    from tlbcost.pagesizes.patterns import Pattern
    from tlbcost.pagesizes.run import PageTimes
    from tlbcost.settings.change import Settings

_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 1000
# Long enough for the clock, and for what interrupts: from 10 ms to 1 s on a core of 2023.
_ACCESSES = 1 << 24
# For another tlbcost to put the settings back.
_WAIT_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = "tlbcost pagesizes [options]"
    parser.epilog = (
        "Exit codes: 0 done, 1 failed, 2 usage, 4 no larger page size is available here or to "
        "this user, 128 + signal."
    )
    parser.add_argument(
        "--accesses", metavar="N", type=_accesses, default=_ACCESSES,
        help="accesses of each run (default: 16777216; the article: 134217728)",
    )  # fmt: skip
    parser.add_argument(
        "--all", action="store_true", help="the sizes of multi-size transparent pages, too"
    )
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="write the runs for programs to this file"
    )
    parser.add_argument(
        "--only", metavar="NUMBERS", type=_numbers, default=None,
        help="only these patterns, separated by commas (1 to 11)",
    )  # fmt: skip
    parser.add_argument("--plot", metavar="FILE", type=Path, help="draw the ratios (.png or .svg)")
    parser.add_argument(
        "--rounds", metavar="N", type=_rounds, default=5,
        help="run each pattern N times on each size (default: 5)",
    )  # fmt: skip
    parser.add_argument(
        "--size", metavar="SIZES", type=_sizes, action="extend", default=[],
        help="these sizes beside base pages, separated by commas (default: 2M,1G)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Measure and report; returns the exit code, raises TlbcostError."""
    _check_files(arguments)
    try:
        with signals_raise():
            return _measure(arguments)
    except Stopped as stop:
        print(f"tlbcost: ended by {signal.Signals(stop.number).name}", file=sys.stderr)
        return SIGNAL_BASE + stop.number


def _whole(text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit()) or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"not a number from {least} to {most}: {text}")
    return int(text)


def _rounds(text: str) -> int:
    return _whole(text, _FEWEST_ROUNDS, _MOST_ROUNDS)


def _accesses(text: str) -> int:
    return _whole(text, 1, 1 << 40)


def _numbers(text: str) -> list[int]:
    return sorted({_whole(word, 1, 11) for word in text.split(",")})


def _sizes(text: str) -> list[int]:
    from tlbcost.system.hugetlb import parse_bytes

    sizes = []
    for word in text.split(","):
        n_bytes = parse_bytes(word)
        if not n_bytes or n_bytes & (n_bytes - 1):
            raise argparse.ArgumentTypeError(f"not a page size like 64K, 2M or 1G: {word}")
        sizes.append(n_bytes)
    return sizes


def _check_files(arguments: argparse.Namespace) -> None:
    from tlbcost.common.gnuplot import check_picture
    from tlbcost.common.output import check_writable

    check_picture(arguments.plot, "--plot pagesizes.png")
    for file in (arguments.json, arguments.plot):
        if file is not None:
            check_writable(file)


def _announce(text: str) -> None:
    print(f"tlbcost: {text}", file=sys.stderr, flush=True)


def _measure(arguments: argparse.Namespace) -> int:
    from tlbcost.pagesizes.patterns import PATTERNS

    patterns = [
        each for each in PATTERNS if arguments.only is None or each.number in arguments.only
    ]
    sizes, missing = _chosen_sizes(arguments)
    if len(sizes) == 1:
        reason, hint = next(
            ((m.reason, m.hint) for m in missing.values()), ("none asked for", None)
        )
        raise TlbcostError(f"no larger page size to measure: {reason}", hint, CANNOT_MEASURE)
    times = _run(arguments, patterns, sizes, missing)
    _report(arguments, times)
    if not any(run.page_bytes != sizes[0].n_bytes for run in times.timed):
        raise TlbcostError("nothing was run on larger pages: see above", None, CANNOT_MEASURE)
    return 0


def _chosen_sizes(arguments: argparse.Namespace) -> tuple[list[PageSize], dict[int, Lack]]:
    """Base pages and the larger sizes that can be tried, ascending; and why others cannot."""
    from tlbcost.common import units
    from tlbcost.pagesizes import backing as page_sizes
    from tlbcost.pagesizes.backing import Lack, way_to
    from tlbcost.system.machine import current_machine, huge_page_bytes

    base = current_machine().base_page_bytes
    asked: set[int] = set(arguments.size) or {huge_page_bytes() or 2 << 20, 1 << 30}
    if arguments.all:
        asked |= set(page_sizes.mthp_sizes())
    sizes, missing = [], {}
    for size in sorted({base} | asked):
        found = way_to(size, base)
        if isinstance(found, Lack):
            _announce(f"no pages of {units.size(size)}: {found.reason}")
            missing[size] = found
        else:
            sizes.append(found)
    return sizes, missing


def _run(
    arguments: argparse.Namespace,
    patterns: list[Pattern],
    sizes: list[PageSize],
    missing: dict[int, Lack],
) -> PageTimes:
    from tlbcost.pagesizes.run import PageTimes, Runner
    from tlbcost.system import hints
    from tlbcost.validation.suite import listener

    settings: Settings | None = None
    with contextlib.ExitStack() as stack:
        launcher = stack.enter_context(listener())
        # Our own program: as root it may look up the frames that prove small transparent pages.
        launcher.user = None
        launcher.transparent = None
        if hints.is_root():
            from tlbcost.settings.change import system_settings

            settings = stack.enter_context(system_settings(_announce))
        else:
            from tlbcost.settings.journal import undisturbed

            stack.enter_context(undisturbed(_announce, _WAIT_S))
        runner = Runner(launcher, settings, _announce, arguments.accesses)
        timed = runner.run(patterns, sizes, arguments.rounds)
    return PageTimes(
        tuple(patterns), tuple(sizes), missing, runner.gib, arguments.rounds, arguments.accesses,
        timed, runner.lacks,
    )  # fmt: skip


def _report(arguments: argparse.Namespace, times: PageTimes) -> None:
    from datetime import UTC, datetime

    from tlbcost.calibration.cache import look_up
    from tlbcost.common.output import write
    from tlbcost.common.paths import version
    from tlbcost.pagesizes.context import notes, tlbs
    from tlbcost.pagesizes.published import published
    from tlbcost.pagesizes.report import PageReport, print_page_sizes
    from tlbcost.system.machine import current_machine

    machine = current_machine()
    cached, _ = look_up()
    calibration = None if cached is None else cached.calibration
    report = PageReport(
        version(),
        datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        machine,
        times,
        tuple(published()),
        tlbs(machine, calibration, times),
        notes(machine, calibration, times),
    )
    print_page_sizes(report, sys.stdout)
    if arguments.json is not None:
        from tlbcost.pagesizes.json import to_json

        write(arguments.json, to_json(report))
    if arguments.plot is not None:
        from tlbcost.pagesizes.figure import draw_page_sizes

        draw_page_sizes(report, arguments.plot)
