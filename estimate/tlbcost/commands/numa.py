# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost numa: what would large pages do to this program on a NUMA machine?"""

from __future__ import annotations

import argparse
import functools

from tlbcost.common.arguments import (
    TIMED_OUT,
    add_calibration,
    add_details,
    add_exit_codes,
    add_program,
    add_reports,
    add_run_options,
    add_time_limit,
    program_words,
)
from tlbcost.common.cleanup import until_stopped
from tlbcost.common.errors import TOOL_FAILED, USAGE, TlbcostError
from tlbcost.numa.nodes import SPREADS, parse_count

_SUFFIXES = {"k": 10, "m": 20, "g": 30}
_MOST_CACHE = 1 << 31


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = "tlbcost numa [options] [--] COMMAND [ARG...]"
    add_exit_codes(
        parser,
        {4: "this machine cannot simulate it", **TIMED_OUT},
        program=True,
        before="COMMAND keeps its own standard input, output and error; one that fails gives its "
        "own exit code.",
    )
    parser.add_argument(
        "--cache", metavar="SIZES", type=caches,
        help="bytes of the L2 cache that a thread has, and after a comma of its share of the L3, "
        "such as 512K,1M (default: those of this machine)",
    )  # fmt: skip
    add_calibration(parser, "use the cost of page faults in this calibration table")
    add_details(parser)
    add_run_options(parser, ignore_failure=True)
    add_reports(parser)
    parser.add_argument(
        "--nodes", metavar="N", type=parse_count,
        help="spread the threads over N nodes (default: those of this machine, or 4 if it has one)",
    )  # fmt: skip
    parser.add_argument(
        "--spread", metavar="HOW", choices=SPREADS, default=SPREADS[0],
        help="round-robin: a thread to each node in turn; blocks: the first ones to the first "
        "node (default: round-robin)",
    )  # fmt: skip
    add_time_limit(parser)
    add_program(parser)


def caches(text: str) -> tuple[int, int]:
    """Bytes of an L2 and of a share of the L3, 0 if left out; an option's type."""
    parts = text.split(",")
    sizes = [_size(part) for part in parts]
    known = [size for size in sizes if size is not None]
    if len(parts) > 2 or len(known) < len(parts) or not 64 <= known[0] <= _MOST_CACHE:
        raise argparse.ArgumentTypeError(f"not sizes of caches, such as 512K,1M: {text}")
    return known[0], known[1] if len(known) > 1 else 0


def _size(text: str) -> int | None:
    shift = _SUFFIXES.get(text[-1:].lower(), 0)
    digits = text[:-1] if shift else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    size = int(digits) << shift
    return size if size <= _MOST_CACHE else None


def run(arguments: argparse.Namespace) -> int:
    """Study the program; returns 0, raises TlbcostError."""
    return until_stopped(lambda: _study(arguments), arguments.time_limit)


def _study(arguments: argparse.Namespace) -> int:
    from tlbcost.common.document import to_json
    from tlbcost.common.output import check_files, give_report
    from tlbcost.numa.report import print_study
    from tlbcost.numa.runs import NumaRequest, study_placement

    argv = program_words(arguments.program)
    if not argv:
        raise TlbcostError("no program to run", "tlbcost numa -- ./app ARG...", USAGE)
    # Whatever can be refused is refused before anything takes time.
    check_files({"--json": arguments.json, "--output": arguments.output}, TOOL_FAILED)
    request = NumaRequest(
        argv=argv,
        nodes=arguments.nodes,
        spread=arguments.spread,
        caches=arguments.cache,
        calibration=arguments.calibration,
        prepare=arguments.prepare,
        ignore_failure=arguments.ignore_failure,
    )
    print_text = functools.partial(print_study, details=arguments.details)
    give_report(study_placement(request), print_text, to_json, arguments.output, arguments.json)
    return 0
