# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost events: counters of a CPU, and their meaning."""

from __future__ import annotations

import argparse
import sys

from tlbcost.common.arguments import add_exit_codes, add_flag, add_reports
from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.common.output import check_files, give_report
from tlbcost.counters.pmu import (
    EventsRequest,
    choose_pmu,
    estimate_from,
    event_support,
    perf_metrics,
    perf_stat,
)
from tlbcost.processors.events import all_pmus
from tlbcost.processors.events_report import listing, text, to_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pmu",
        metavar="NAME",
        help="of this CPU, as 'skl', 'zen4' or 'neoverse-n1', instead of the machine's own",
    )
    parser.add_argument("--role", metavar="ROLE", help="only the events of this role")
    add_flag(parser, "--list", "list the CPUs that are known, and stop")
    parser.add_argument(
        "--perf-stat",
        action="store_true",
        help="print the 'perf stat' command that counts what an estimate needs, and stop",
    )
    parser.add_argument(
        "--perf-metrics",
        action="store_true",
        help="print the 'perf stat' command of perf's own metrics that mean the same, and stop",
    )
    add_reports(parser, json="the events", output=None)
    add_exit_codes(parser, {1: "failed", 4: "the events of this machine's CPU are not known"})


def run(arguments: argparse.Namespace) -> int:
    if arguments.list:
        others = [arguments.pmu, arguments.role, arguments.json]
        printed = arguments.perf_stat or arguments.perf_metrics
        if printed or any(other is not None for other in others):
            raise TlbcostError("--list excludes all other options", exit_code=USAGE)
        sys.stdout.write(listing(all_pmus()))
        return 0
    if arguments.perf_stat or arguments.perf_metrics:
        option = "--perf-stat" if arguments.perf_stat else "--perf-metrics"
        both = arguments.perf_stat and arguments.perf_metrics
        if both or arguments.role is not None or arguments.json is not None:
            raise TlbcostError(f"{option} allows no other option but --pmu", exit_code=USAGE)
        pmu, _ = choose_pmu(arguments.pmu)
        if arguments.perf_metrics:
            sys.stdout.write(f"{perf_metrics(pmu)}\n")
            return 0
        sys.stdout.write(f"{perf_stat(pmu)}\n")
        print(f"tlbcost: then: {estimate_from(pmu)}", file=sys.stderr)
        return 0
    check_files({"--json": arguments.json})
    give_report(
        arguments,
        event_support(EventsRequest(arguments.pmu, arguments.role)),
        lambda found, file: print(text(found.pmu, found.events, found.here), end="", file=file),
        lambda found: to_json(found.pmu, found.events, found.encoded_by, found.here),
        stdout=True,
    )
    return 0
