# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost worker: let reviews estimate services on this host."""

from __future__ import annotations

import argparse

from tlbcost.common.arguments import add_exit_codes, add_quiet, whole_number
from tlbcost.review.scheduler import add_scheduler, scheduler_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tlbcost worker [options] --scheduler ADDRESS --machine NAME"
    add_exit_codes(
        parser,
        {1: "the scheduler cannot be reached, or went away", 125: "Dask is not installed"},
        before="A plan's commands run as the user who runs this.",
    )
    parser.add_argument(
        "--host", metavar="ADDRESS",
        help="listen on this address of this host (default: the one that reaches the scheduler)",
    )  # fmt: skip
    parser.add_argument(
        "--machine", metavar="NAME", action="append", required=True,
        help="this host is one of [machines.NAME] of the plans; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--port", metavar="N", type=whole_number(1, 65535), default=0,
        help="listen on this port (default: any)",
    )  # fmt: skip
    add_scheduler(parser, required=True)
    add_quiet(parser)


def run(arguments: argparse.Namespace) -> int:
    from tlbcost.review.worker import Offer, work

    scheduler = scheduler_of(arguments)
    assert scheduler is not None
    return work(scheduler, Offer(arguments.machine, arguments.host, arguments.port))
