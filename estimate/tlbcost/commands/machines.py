# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost machines: whose TLBs are known, from which sources, and what of it is unverified?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tlbcost.common.document import to_json
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.output import check_writable, write
from tlbcost.machines.list_document import machine_list
from tlbcost.machines.list_report import listing, one
from tlbcost.machines.plan import named
from tlbcost.processors.published import PublishedCore, cores, published
from tlbcost.system.machine import current_machine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = "tlbcost machines [options] [NAME]"
    parser.epilog = (
        "Exit codes: 0 done, 1 failed, 2 usage or no such machine, 4 the core of this machine is "
        "not known."
    )
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="write it for programs to this file as well"
    )
    parser.add_argument(
        "name", nargs="?", help="show all that is known of this machine; here: the one at hand"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print what is known; returns 0, raises TlbcostError."""
    if arguments.json is not None:
        check_writable(arguments.json)
    found = cores()
    if arguments.name == "here":
        found = [_here()]
    elif arguments.name:
        found = [named(arguments.name)]
    if arguments.json is not None:
        write(arguments.json, to_json(machine_list(found)))
    if arguments.name:
        one(found[0], sys.stdout)
    else:
        listing(found, sys.stdout)
    return 0


def _here() -> PublishedCore:
    machine = current_machine()
    core = published(machine)
    if core is None:
        name = machine.cpu_name or "this CPU"
        hint = "tlbcost calibrate measures it"
        raise TlbcostError(f"{name} is not among the machines", hint, CANNOT_MEASURE)
    return core
