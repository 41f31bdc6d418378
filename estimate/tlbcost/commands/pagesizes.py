# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost pagesizes: how bad and how good larger pages can be here."""

from __future__ import annotations

import argparse
import functools

from tlbcost.common import arguments as options
from tlbcost.common.cleanup import until_stopped
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError

_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 1000
# Long enough for the clock, and for what interrupts: from 10 ms to 1 s on a core of 2023.
_ACCESSES = 1 << 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tlbcost pagesizes [options]"
    options.add_exit_codes(
        parser,
        {
            1: "failed",
            4: "no larger page size is available here or to this user",
            **options.TIMED_OUT,
        },
    )
    parser.add_argument(
        "--accesses", metavar="N", type=options.whole_number(1, 1 << 40), default=_ACCESSES,
        help="accesses of each run (default: 16777216; the article: 134217728)",
    )  # fmt: skip
    options.add_flag(parser, "--all", "the sizes of multi-size transparent pages, too")
    options.add_details(parser)
    options.add_reports(parser, json="the runs", output=None)
    parser.add_argument(
        "--only", metavar="NUMBERS", type=_numbers, default=None,
        help="only these patterns, separated by commas (1 to 11)",
    )  # fmt: skip
    options.add_file(parser, "--plot", "draw the ratios (.png or .svg)", options.to_picture)
    parser.add_argument(
        "--rounds", metavar="N", type=options.whole_number(_FEWEST_ROUNDS, _MOST_ROUNDS), default=5,
        help="run each pattern N times on each size (default: 5)",
    )  # fmt: skip
    parser.add_argument(
        "--size", metavar="SIZES", type=_sizes, action="extend", default=[],
        help="these sizes as well as base pages, separated by commas (default: 2M,1G)",
    )  # fmt: skip
    options.add_time_limit(parser)


def run(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import check_files

    check_files({"--json": arguments.json, "--plot": arguments.plot})
    return until_stopped(lambda: _measure(arguments), arguments.time_limit)


def _numbers(text: str) -> list[int]:
    read = options.whole_number(1, 11)
    return sorted({read(word) for word in text.split(",")})


def _sizes(text: str) -> list[int]:
    from tlbcost.system.huge_pages import parse_bytes

    sizes = []
    for word in text.split(","):
        n_bytes = parse_bytes(word)
        if not n_bytes or n_bytes & (n_bytes - 1):
            raise argparse.ArgumentTypeError(f"not a page size like 64K, 2M or 1G: {word}")
        sizes.append(n_bytes)
    return sizes


def _measure(arguments: argparse.Namespace) -> int:
    from tlbcost.calibration.file import look_up
    from tlbcost.common.output import give_report
    from tlbcost.common.progress import say
    from tlbcost.pagesizes.document import document_of, print_page_sizes
    from tlbcost.pagesizes.runner import PageSizesRequest, measure
    from tlbcost.system.machine import current_machine

    request = PageSizesRequest(
        accesses=arguments.accesses,
        rounds=arguments.rounds,
        patterns=tuple(arguments.only or ()),
        sizes=tuple(arguments.size),
        multi_size=arguments.all,
    )
    times = measure(request, say)
    cached, _ = look_up()
    report = document_of(times, current_machine(), cached.calibration if cached else None)
    give_report(
        arguments,
        report,
        functools.partial(print_page_sizes, details=arguments.details),
        stdout=True,
    )
    if arguments.plot is not None:
        from tlbcost.pagesizes.document import draw_page_sizes

        draw_page_sizes(report, arguments.plot)
    base = times.sizes[0].page_size_bytes
    if not any(run.page_size_bytes != base for run in times.runs):
        raise TlbcostError("nothing was run on larger pages: see above", None, CANNOT_MEASURE)
    return 0
