# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost validate: errors of estimates against real runs on huge pages."""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.common import arguments as options
from tlbcost.common.cleanup import until_stopped
from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError

if TYPE_CHECKING:
    from tlbcost.accuracy.record import Record


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "tlbcost validate [options]\n"
        "       tlbcost validate --stream [--size SIZE] [--pairs N] [-- OPTION...]\n"
        "       tlbcost validate --from FILE [--plot FILE]"
    )
    options.add_exit_codes(
        parser,
        {
            1: "a file could not be read or written",
            4: "this machine or this user cannot try huge pages",
            **options.TIMED_OUT,
        },
        before="Each OPTION is given to STREAM; a STREAM that fails gives its own exit code.",
    )
    options.add_details(parser)
    options.add_engine(parser)
    parser.add_argument(
        "--from", metavar="FILE", type=options.from_file, dest="recorded",
        help="run nothing: report on this record, written by --table",
    )  # fmt: skip
    parser.add_argument(
        "--only", metavar="NAMES", action="append", default=[],
        help="only these programs of the suite, separated by commas",
    )  # fmt: skip
    options.add_file(parser, "--output", "write the report to this file, not stdout")
    options.add_no_measure(parser)
    options.add_pairs(parser)
    options.add_file(
        parser, "--plot", "draw predicted against measured (.png or .svg)", options.to_picture
    )
    options.add_precision(parser)
    options.add_quiet(parser)
    options.add_flag(
        parser, "--recalibrate", "measure this machine's costs again before each program"
    )
    options.add_redact(parser)
    parser.add_argument(
        "--size", metavar="SIZE", type=_size,
        help="with --stream: bytes of its arrays (default: 1G)",
    )  # fmt: skip
    options.add_flag(
        parser, "--stream", "STREAM alone, on base pages and under hugectl, with its rates"
    )
    options.add_file(parser, "--table", "write all runs to this file as a table")
    options.add_time_limit(parser)
    options.add_program(parser)


def run(arguments: argparse.Namespace) -> int:
    given = _check_usage(arguments)
    return until_stopped(
        lambda: _stream(arguments, given) if arguments.stream else _suite(arguments),
        arguments.time_limit,
    )


def _size(text: str) -> str:
    """As STREAM itself takes it."""
    if not re.fullmatch(r"[1-9][0-9]{0,14}[kKmMgG]?", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"not a size: {text} (such as 512M or 1G)")
    return text


def _check_usage(arguments: argparse.Namespace) -> tuple[str, ...]:
    from tlbcost.common.output import check_files

    given = options.program_words(arguments.program)
    mode = "--stream" if arguments.stream else "--from" if arguments.recorded else "the suite"
    useless = {
        "--only": bool(arguments.only) and mode != "the suite",
        "--from": arguments.recorded is not None and mode == "--stream",
        "--table": arguments.table is not None and mode == "--from",
        "--plot": arguments.plot is not None and mode == "--stream",
        "--engine": arguments.engine != "auto" and mode != "the suite",
        "--recalibrate": arguments.recalibrate and mode != "the suite",
        "--no-measure": arguments.no_measure and mode != "the suite",
        "--precision": arguments.precision is not None and mode != "the suite",
        "--size": arguments.size is not None and mode != "--stream",
        "a program's options": bool(given) and mode != "--stream",
    }
    for what, used in useless.items():
        if used:
            raise TlbcostError(f"{what}: no meaning with {mode}", "tlbcost validate --help", USAGE)
    check_files(
        options.files_of(arguments, "--output", "--plot", "--table"),
        inputs={"--from": [path for path in [arguments.recorded] if path]},
    )
    return given


def _stream(arguments: argparse.Namespace, given: tuple[str, ...]) -> int:
    from tlbcost.accuracy.record import format_record
    from tlbcost.common.output import write
    from tlbcost.common.progress import say
    from tlbcost.validation.session import (
        StreamRequest,
        StreamResult,
        print_stream,
        record_of_programs,
        run_stream,
    )

    request = StreamRequest(arguments.size, given, arguments.pairs)
    text = io.StringIO()
    results: list[StreamResult] = []
    try:
        for result in run_stream(request, say):
            text.write("\n" if results else "")
            results.append(result)
            print_stream(result, text, details=arguments.details)
    finally:
        # Of two variants the first is not lost if the second one fails.
        if results:
            _print(text.getvalue(), arguments.output)
    programs = [result.program for result in results]
    if arguments.table is not None:
        write(
            arguments.table, format_record(record_of_programs(programs, redacted=arguments.redact))
        )
    if all(program.excluded is not None for program in programs):
        raise TlbcostError("STREAM was not on huge pages", None, CANNOT_MEASURE)
    return 0


def _suite(arguments: argparse.Namespace) -> int:
    from tlbcost.accuracy.report import draw_record, print_record

    record = _recorded(arguments)
    text = io.StringIO()
    print_record(record, text, details=arguments.details)
    _print(text.getvalue(), arguments.output)
    if arguments.plot is not None:
        draw_record(record, arguments.plot)
    if not record.checks:
        raise TlbcostError("nothing to compare: see above", None, CANNOT_MEASURE)
    return 0


def _recorded(arguments: argparse.Namespace) -> Record:
    if arguments.recorded is not None:
        from tlbcost.accuracy.record import read_record

        return read_record(arguments.recorded)
    from tlbcost.common.progress import say
    from tlbcost.validation.session import SuiteRequest, validate_suite

    request = options.request_from(
        SuiteRequest,
        arguments,
        only=tuple(name for words in arguments.only for name in words.split(",")),
        within=arguments.precision,
        measured=options.measuring(arguments),
        redacted=arguments.redact,
    )
    return validate_suite(request, say)


def _print(text: str, output: Path | None) -> None:
    from tlbcost.common.output import write

    if output is None:
        print(text, end="")
    else:
        write(output, text)
