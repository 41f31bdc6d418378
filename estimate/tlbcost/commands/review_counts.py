# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost review --counts, --convert: how many hosts of a fleet would gain, by their counts?"""

from __future__ import annotations

import argparse
import sys

from tlbcost.common.arguments import from_file, to_file
from tlbcost.common.errors import FAILED, USAGE, TlbcostError


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of both."""
    parser.add_argument(
        "--convert", metavar="LOG", type=from_file, action="append",
        help="make rows for --counts of a log of perf stat -j -I",
    )  # fmt: skip
    parser.add_argument(
        "--counts", metavar="FILES", action="append",
        help="review a fleet by the counts in all files of this pattern: Parquet, CSV, or lines "
        "of perf stat -j -I; PLAN has the policy and the machines",
    )  # fmt: skip
    parser.add_argument(
        "--cpu", metavar="MODEL", help="with --convert: the CPU of the log (tlbcost events --list)"
    )
    parser.add_argument(
        "--host", metavar="NAME", help="with --convert: the host that the log is from"
    )
    parser.add_argument(
        "--hosts", metavar="FILE", type=to_file,
        help="with --counts: write the figures of each host as CSV to FILE",
    )  # fmt: skip
    parser.add_argument(
        "--service", metavar="NAME",
        help="with --convert: what the log counts (default: the cgroup of each line)",
    )  # fmt: skip


def check_options(arguments: argparse.Namespace) -> None:
    """Options that --counts or --convert have alone, or have not."""
    convert, counts = bool(arguments.convert), bool(arguments.counts)
    for option in ("cpu", "host", "service"):
        if getattr(arguments, option) is not None and not convert:
            raise TlbcostError(f"--{option} needs --convert", None, USAGE)
    if arguments.hosts is not None and not counts:
        raise TlbcostError("--hosts needs --counts", None, USAGE)
    of_plans = ["baseline", "gate", "html", "junit", "redact", "resume", "state"]
    if convert:
        of_plans += ["csv", "json", "markdown"]
    for option in of_plans:
        if getattr(arguments, option) and (counts or convert):
            what = "--convert" if convert else "--counts"
            raise TlbcostError(f"{what} and --{option} exclude each other", None, USAGE)


def convert(arguments: argparse.Namespace) -> int:
    """Make rows of logs; returns 0, raises TlbcostError."""
    from tlbcost.common.output import check_files
    from tlbcost.common.progress import say
    from tlbcost.fleet.convert import convert_logs
    from tlbcost.fleet.perf_log import Origin

    check_files({"--output": arguments.output}, FAILED, {"--convert": arguments.convert})
    origin = Origin(arguments.host, arguments.service, arguments.cpu)
    say(f"{convert_logs(arguments.convert, origin, arguments.output):,} rows")
    return 0


def review_counts(arguments: argparse.Namespace) -> int:
    """Review a fleet; returns 0, raises TlbcostError."""
    from tlbcost.common.document import to_json
    from tlbcost.common.output import check_files, give_report, write
    from tlbcost.fleet.report import hosts_csv, print_report, to_csv, to_markdown
    from tlbcost.fleet.review import review_counts as review
    from tlbcost.fleet.sources import matching
    from tlbcost.review.plan import read_plan

    if arguments.plan is not None and arguments.plan.suffix in (".parquet", ".csv", ".json"):
        hint = "--counts 'stats/*.parquet', in quotes"
        raise TlbcostError(f"{arguments.plan} is no plan but counts", hint, USAGE)
    counts = matching(arguments.counts)
    files = ("--csv", "--hosts", "--json", "--markdown", "--output")
    written = {option: getattr(arguments, option[2:]) for option in files}
    read = [] if arguments.plan is None else [arguments.plan]
    check_files(written, FAILED, {"PLAN": read, "--counts": counts})
    plan = None if arguments.plan is None else read_plan(arguments.plan, services=False)
    found = review(counts, plan)
    give_report(
        found.document, print_report, to_json, arguments.output, arguments.json,
        stream=sys.stdout, exit_code=FAILED,
    )  # fmt: skip
    others = (
        (arguments.csv, to_csv(found.document)),
        (arguments.markdown, to_markdown(found.document)),
        (arguments.hosts, hosts_csv(found.hosts)),
    )
    for file, text in others:
        if file is not None:
            write(file, text, FAILED)
    if not found.hosts:
        raise TlbcostError("no host has an estimate: see what was left out", None, FAILED)
    return 0
