# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost machines: known TLBs, their sources, and unverified figures."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TextIO

from tlbcost.common.arguments import add_exit_codes, add_reports
from tlbcost.common.document import to_json
from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.common.output import check_files, give_report
from tlbcost.machines.list_document import comparison, listing, machine_list, one
from tlbcost.machines.plan import named
from tlbcost.processors.published import PublishedCore, cores, published
from tlbcost.system.machine import current_machine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tlbcost machines [options] [NAME | --compare NAME NAME]"
    add_exit_codes(
        parser,
        {
            1: "failed",
            2: "the command line is wrong, or there is no such machine",
            4: "the core of this machine is not known",
        },
    )
    add_reports(parser, json="it", output=None)
    parser.add_argument(
        "name", nargs="?", help="show all that is known of this machine; here: the one at hand"
    )
    parser.add_argument(
        "--compare",
        nargs=2,
        metavar="NAME",
        help="two machines alongside each other, figure by figure",
    )


def run(arguments: argparse.Namespace) -> int:
    check_files({"--json": arguments.json})
    if arguments.name and arguments.compare:
        raise TlbcostError(
            f"'{arguments.name}' and --compare exclude each other", "leave one of them out", USAGE
        )
    names = arguments.compare or ([arguments.name] if arguments.name else [])
    found = [_here() if name == "here" else named(name) for name in names] or cores()

    def text(cores: Sequence[PublishedCore], file: TextIO) -> None:
        if arguments.compare:
            comparison(cores[0], cores[1], file)
        elif arguments.name:
            one(cores[0], file)
        else:
            listing(cores, file)

    give_report(arguments, found, text, lambda cores: to_json(machine_list(cores)), stdout=True)
    return 0


def _here() -> PublishedCore:
    machine = current_machine()
    core = published(machine)
    if core is None:
        name = machine.cpu_name or "this CPU"
        hint = "tlbcost calibrate measures it"
        raise TlbcostError(f"{name} is not among the machines", hint, CANNOT_MEASURE)
    return core
