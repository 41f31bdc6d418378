# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost top: effects of huge pages on this host now."""

from __future__ import annotations

import argparse
import functools
import sys
from typing import TYPE_CHECKING, get_args

from tlbcost.common import arguments as options
from tlbcost.common.cleanup import until_stopped
from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.live.keys import SortKey

if TYPE_CHECKING:
    from tlbcost.live.view import TopRequest

_INTERVAL_S = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tlbcost top [options]"
    options.add_exit_codes(
        parser,
        {
            1: "there is no terminal to draw on, or a file could not be written",
            4: "this kernel does not report the pages of processes",
        },
        before="On a terminal: q quits, and letters choose what to sort by; the last line has "
        "them. Elsewhere --once or --openmetrics is needed.",
    )
    options.add_calibration(parser, "take the TLB's size from this calibration table")
    parser.add_argument("--cgroup", action="store_true", help="by cgroup instead of by process")
    parser.add_argument(
        "--interval", metavar="TIME", type=options.duration, default=_INTERVAL_S,
        help="refresh this often, and count faults over this long (default: 2s)",
    )  # fmt: skip
    parser.add_argument("--once", action="store_true", help="report once, on every process")
    parser.add_argument(
        "--openmetrics", metavar="FILE", type=options.to_file,
        help="write metrics to FILE at each refresh, for node_exporter's textfile collector",
    )  # fmt: skip
    parser.add_argument(
        "--sort", metavar="KEY", choices=get_args(SortKey), default="memory",
        help=f"sort by {', '.join(get_args(SortKey))} (default: memory)",
    )  # fmt: skip
    options.add_reports(parser, output="stdout")


def run(arguments: argparse.Namespace) -> int:
    return until_stopped(lambda: _top(arguments))


def _top(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import check_files
    from tlbcost.live.view import Screen, can_draw, watch

    files = options.files_of(arguments, "--json", "--output", "--openmetrics")
    for option in ("--json", "--output"):
        if files[option] is not None and not arguments.once:
            raise TlbcostError(f"{option} reports once", f"tlbcost top --once {option} FILE", USAGE)
    check_files(files)
    if arguments.once:
        from tlbcost.common.output import give_report
        from tlbcost.live.view import once, print_once

        document = once(_request(arguments))
        if arguments.openmetrics is None or arguments.json or arguments.output:
            give_report(
                arguments, document, functools.partial(print_once, sort=arguments.sort), stdout=True
            )
        return 0
    drawn = can_draw()
    if not drawn and arguments.openmetrics is None:
        what = "TERM does not name one that can be drawn on"
        why = what if sys.stdout.isatty() else "standard output is not one"
        raise TlbcostError(f"top needs a terminal: {why}", "tlbcost top --once")
    watch(_request(arguments), Screen() if drawn else None)
    return 0


def _request(arguments: argparse.Namespace) -> TopRequest:
    from tlbcost.live.view import TopRequest
    from tlbcost.simulator.geometry import reaches_here
    from tlbcost.system.machine import current_machine

    machine = current_machine()
    return TopRequest(
        by="cgroup" if arguments.cgroup else "process",
        sort=arguments.sort,
        interval_s=arguments.interval,
        machine=machine,
        reaches=reaches_here(machine, arguments.calibration),
        openmetrics=arguments.openmetrics,
    )
