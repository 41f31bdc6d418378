# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost annotate: objects, functions and data that a recording or a simulation hit."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

from tlbcost.common.arguments import add_exit_codes, add_reports, as_number, from_file, whole_number
from tlbcost.common.errors import CONDITION_HOLDS, USAGE, TlbcostError
from tlbcost.common.output import check_files, give_report
from tlbcost.counters.profile import DEFAULT_FILE, DEFAULT_ROWS

_MOST_ROWS = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", type=from_file, default=DEFAULT_FILE,
        help="what 'tlbcost record', 'perf record' or 'tlbcost estimate --code' wrote (default: "
        f"{DEFAULT_FILE})",
    )  # fmt: skip
    parser.add_argument(
        "--annotations", action="store_true",
        help="with --since: print warnings for GitHub Actions, which shows them at their lines",
    )  # fmt: skip
    parser.add_argument(
        "--by", choices=("object", "symbol", "line", "mapping"), default="symbol",
        metavar="WHAT", help="a row for each object, symbol (the default), line of code (of a "
        "simulation), or mapping of data (of a recording)",
    )  # fmt: skip
    add_reports(parser, json="the rows", output="standard output")
    parser.add_argument(
        "--limit",
        type=whole_number(1, _MOST_ROWS),
        default=DEFAULT_ROWS,
        metavar="N",
        help=f"rows at most (default: {DEFAULT_ROWS})",
    )
    parser.add_argument(
        "--most", metavar="SHARE", type=_share, default=0.01,
        help="with --since: how many more page walks are no failure, such as 2%% (default: 1%%)",
    )  # fmt: skip
    parser.add_argument(
        "--since", metavar="BEFORE", type=from_file,
        help="functions with more page walks than in this file, of an earlier 'estimate --code'",
    )  # fmt: skip
    add_exit_codes(
        parser,
        {
            1: "the file cannot be read, or holds nothing of the kind",
            3: "--since: more page walks than --most allows",
        },
    )


def _share(text: str) -> float:
    share = as_number(text.removesuffix("%")) / 100
    if not 0 <= share < math.inf or not text.endswith("%"):
        raise argparse.ArgumentTypeError(f"not a share such as 2%: {text}")
    return share


def run(arguments: argparse.Namespace) -> int:
    from tlbcost.attribution.code_profile import is_code_table
    from tlbcost.counters.profile import Profile, describe, read_hits, to_json

    check_files(
        {"--json": arguments.json, "--output": arguments.output}, inputs={"FILE": [arguments.file]}
    )
    if not arguments.file.exists():
        raise TlbcostError(
            f"cannot read {arguments.file}: no such file", "tlbcost record -- ./app ARG..."
        )
    if arguments.since is not None:
        return _since(arguments)
    if arguments.annotations:
        why = "--annotations compares with an earlier file, and --since is missing"
        raise TlbcostError(why, "tlbcost annotate now.tsv --since before.tsv", USAGE)
    if is_code_table(arguments.file):
        return _code(arguments)
    if arguments.by == "line":
        raise TlbcostError(
            "--by line is of a simulation; recorded samples have symbols",
            "--by symbol, or tlbcost estimate --code FILE -- ./app",
            USAGE,
        )
    hits = read_hits(arguments.file)
    if arguments.by == "mapping" and not any(hit.data for hit in hits.hits):
        raise TlbcostError(
            f"{arguments.file} holds no addresses of data", "tlbcost record --addresses -- ./app"
        )
    profile = Profile(hits, arguments.by, arguments.limit)
    _report(arguments, describe(profile), lambda: to_json(profile))
    return 0


def _code(arguments: argparse.Namespace) -> int:
    from tlbcost.attribution.code_profile import describe, read_code, to_json

    if arguments.by == "mapping":
        raise TlbcostError(
            f"{arguments.file} is of code alone", "the report of tlbcost estimate has the memory",
            USAGE,
        )  # fmt: skip
    lines = read_code(arguments.file)
    by, limit = arguments.by, arguments.limit
    _report(arguments, describe(lines, by, limit), lambda: to_json(lines, by, limit))
    return 0


def _since(arguments: argparse.Namespace) -> int:
    from tlbcost.attribution.code_profile import (
        describe_since,
        github_warnings,
        read_code,
        walks_of,
    )

    if arguments.json is not None:
        raise TlbcostError("--since has no JSON", "leave --json out", USAGE)
    before, now = read_code(arguments.since), read_code(arguments.file)
    text = github_warnings(before, now) if arguments.annotations else describe_since(before, now)
    _report(arguments, text, str)
    return CONDITION_HOLDS if walks_of(now) > (1 + arguments.most) * walks_of(before) else 0


def _report(arguments: argparse.Namespace, text: str, to_json: Callable[[], str]) -> None:
    give_report(
        arguments,
        text,
        lambda whole, file: print(whole, end="", file=file),
        lambda _: to_json(),
        stdout=True,
    )
