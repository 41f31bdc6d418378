# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost numa: what would large pages do to this program on a NUMA machine?"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from tlbcost.common.cleanup import Stopped, signals_raise
from tlbcost.common.errors import SIGNAL_BASE, TOOL_FAILED, USAGE, TlbcostError
from tlbcost.numa.nodes import MOST_NODES, SPREADS

_SUFFIXES = {"k": 10, "m": 20, "g": 30}
_MOST_CACHE = 1 << 31


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = "tlbcost numa [options] [--] COMMAND [ARG...]"
    parser.epilog = (
        "COMMAND keeps its own standard input, output and error. Exit codes: 0 done, 2 usage, "
        "4 this machine cannot tell, 125 tlbcost failed, 126 or 127 COMMAND could not be "
        "started; a COMMAND that fails gives its own code, or 128 + its signal."
    )
    parser.add_argument(
        "--cache",
        metavar="SIZES",
        type=caches,
        help="bytes of the L2 cache that a thread has, and after a comma of its share of the L3, "
        "such as 512K,1M (default: those of this machine)",
    )
    parser.add_argument(
        "--calibration", metavar="FILE", type=Path, help="price page faults by this calibration"
    )
    parser.add_argument(
        "--ignore-failure", action="store_true", help="go on with a COMMAND that fails, too"
    )
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="write the report for programs to this file"
    )
    parser.add_argument(
        "--nodes",
        metavar="N",
        type=nodes,
        help="spread the threads over so many nodes (default: those of this machine, or 4 if it "
        "has one)",
    )
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="write the report to this file, not stderr"
    )
    parser.add_argument(
        "--prepare", metavar="CMD", help="run this shell command before each run of COMMAND"
    )
    parser.add_argument(
        "--spread",
        metavar="HOW",
        choices=SPREADS,
        default=SPREADS[0],
        help="round-robin: a thread to each node in turn; blocks: the first ones to the first "
        "node (default: round-robin)",
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def nodes(text: str) -> int:
    """A number of nodes. Raises argparse.ArgumentTypeError."""
    if not (text.isascii() and text.isdigit()) or not 2 <= int(text) <= MOST_NODES:
        raise argparse.ArgumentTypeError(f"not a number of nodes from 2 to {MOST_NODES}: {text}")
    return int(text)


def caches(text: str) -> tuple[int, int]:
    """Bytes of an L2 and of a share of the L3, 0 if that is left out. Raises as `nodes` does."""
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
    try:
        with signals_raise():
            _study(arguments)
    except Stopped as stop:
        print(f"tlbcost: ended by {signal.Signals(stop.number).name}", file=sys.stderr)
        return SIGNAL_BASE + stop.number
    return 0


def _study(arguments: argparse.Namespace) -> None:
    from tlbcost.common.output import check_writable, give_report
    from tlbcost.numa.json import to_json
    from tlbcost.numa.nodes import choose_nodes
    from tlbcost.numa.report import print_study
    from tlbcost.numa.run import study
    from tlbcost.run.launch import launcher_of

    argv: list[str] = arguments.program
    if argv[:1] == ["--"]:
        argv = argv[1:]
    if not argv:
        raise TlbcostError("no program to look at", "tlbcost numa -- ./app ARG...", USAGE)
    # Whatever can be refused is refused before anything takes time.
    for file in (arguments.json, arguments.output):
        if file is not None:
            check_writable(file, TOOL_FAILED)
    with launcher_of(arguments.prepare) as launcher:
        found = study(
            launcher,
            argv,
            choose_nodes(arguments.nodes),
            arguments.spread,
            caches=arguments.cache,
            calibration=arguments.calibration,
            ignore_failure=arguments.ignore_failure,
        )
    give_report(found, print_study, to_json, arguments.output, arguments.json)
