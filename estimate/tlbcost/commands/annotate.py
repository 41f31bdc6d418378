# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost annotate: objects, functions and data that a recording or a simulation hit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from tlbcost.common.arguments import add_exit_codes, add_reports, from_file, whole_number
from tlbcost.common.errors import FAILED, USAGE, TlbcostError
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
    add_exit_codes(parser, {1: "the file cannot be read, or holds nothing of the kind"})


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


def _report(arguments: argparse.Namespace, text: str, to_json: Callable[[], str]) -> None:
    give_report(
        text, lambda whole, file: print(whole, end="", file=file), lambda _: to_json(),
        arguments.output, arguments.json, stream=sys.stdout, exit_code=FAILED,
    )  # fmt: skip
