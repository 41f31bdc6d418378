# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost validate: how far are estimates from what huge pages really give on this machine?"""

from __future__ import annotations

import argparse
import io
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.common.cleanup import Stopped, signals_raise
from tlbcost.common.errors import CANNOT_MEASURE, SIGNAL_BASE, USAGE, TlbcostError

if TYPE_CHECKING:
    from tlbcost.accuracy.checks import Program, Record
    from tlbcost.validation.stream import StreamResult

_LEAST_PAIRS, _MOST_PAIRS = 3, 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = (
        "tlbcost validate [options]\n"
        "       tlbcost validate --stream [--size SIZE] [--pairs N] [-- OPTION...]\n"
        "       tlbcost validate --from FILE [--plot FILE]"
    )
    parser.epilog = (
        "Each OPTION is given to STREAM. Exit codes: 0 done, 1 a file could not be written, "
        "2 usage, 4 this machine or this user cannot try huge pages; a STREAM that fails gives its "
        "own code; 128 + signal."
    )
    parser.add_argument(
        "--from", metavar="FILE", type=Path, dest="recorded",
        help="run nothing: tell what this record, written by --table, comes to",
    )  # fmt: skip
    parser.add_argument(
        "--only", metavar="NAMES", action="append", default=[],
        help="only these programs of the suite, separated by commas",
    )  # fmt: skip
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="write the report to this file, not stdout"
    )
    parser.add_argument(
        "--pairs", metavar="N", type=_pairs, default=5,
        help="pairs of runs, on base and on huge pages, of each program (default: 5)",
    )  # fmt: skip
    parser.add_argument(
        "--plot", metavar="FILE", type=Path, help="draw predicted against measured (.png or .svg)"
    )
    parser.add_argument(
        "--recalibrate", action="store_true",
        help="measure this machine's costs again before each program",
    )  # fmt: skip
    parser.add_argument(
        "--size",
        metavar="SIZE",
        type=_size,
        help="with --stream: bytes of its arrays (default: 1G)",
    )
    parser.add_argument(
        "--stream", action="store_true",
        help="STREAM alone, on base pages and under hugectl, with its rates",
    )  # fmt: skip
    parser.add_argument(
        "--table", metavar="FILE", type=Path, help="write all runs to this file as a table"
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Validate; returns 0, raises TlbcostError."""
    options = _check_usage(arguments)
    try:
        with signals_raise():
            if arguments.stream:
                return _stream(arguments, options)
            return _suite(arguments)
    except Stopped as stop:
        print(f"tlbcost: ended by {signal.Signals(stop.number).name}", file=sys.stderr)
        return SIGNAL_BASE + stop.number


def _pairs(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not _LEAST_PAIRS <= int(text) <= _MOST_PAIRS:
        raise argparse.ArgumentTypeError(
            f"not a number from {_LEAST_PAIRS} to {_MOST_PAIRS}: {text}"
        )
    return int(text)


def _size(text: str) -> str:
    """As STREAM itself takes it."""
    if not re.fullmatch(r"[1-9][0-9]{0,14}[kKmMgG]?", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"not a size: {text} (such as 512M or 1G)")
    return text


def _check_usage(arguments: argparse.Namespace) -> list[str]:
    """Refuse what has no meaning, and files that cannot be written; STREAM's options."""
    from tlbcost.common.gnuplot import check_picture
    from tlbcost.common.output import check_writable

    options: list[str] = arguments.program
    if options[:1] == ["--"]:
        options = options[1:]
    mode = "--stream" if arguments.stream else "--from" if arguments.recorded else "the suite"
    useless = {
        "--only": bool(arguments.only) and mode != "the suite",
        "--from": arguments.recorded is not None and mode == "--stream",
        "--table": arguments.table is not None and mode == "--from",
        "--plot": arguments.plot is not None and mode == "--stream",
        "--recalibrate": arguments.recalibrate and mode != "the suite",
        "--size": arguments.size is not None and mode != "--stream",
        "a program's options": bool(options) and mode != "--stream",
    }
    for what, given in useless.items():
        if given:
            raise TlbcostError(f"{what}: no meaning with {mode}", "tlbcost validate --help", USAGE)
    check_picture(arguments.plot, "--plot accuracy.png")
    for file in (arguments.output, arguments.plot, arguments.table):
        if file is not None:
            check_writable(file)
    return options


def _announce(text: str) -> None:
    print(f"tlbcost: {text}", file=sys.stderr, flush=True)


def _stream(arguments: argparse.Namespace, options: list[str]) -> int:
    from tlbcost.validation.stream import run_stream, variants
    from tlbcost.validation.stream_report import print_stream
    from tlbcost.validation.suite import ask_for_no_huge_pages, check_rights

    found, missing = variants(arguments.size, options)
    check_rights([task.method for _, task in found], "tlbcost validate --stream")
    if missing:
        _announce(missing)
    ask_for_no_huge_pages(_announce)
    text = io.StringIO()
    results: list[StreamResult] = []
    try:
        for words, task in found:
            results.append(run_stream(words, task, arguments.pairs, _announce))
            text.write("\n" if len(results) > 1 else "")
            print_stream(results[-1], text)
    finally:
        # Of two variants the first is not lost if the second one fails.
        if results:
            _print(text.getvalue(), arguments.output)
    if arguments.table is not None:
        _write(arguments.table, _record([result.program for result in results]))
    if all(result.program.excluded is not None for result in results):
        raise TlbcostError("STREAM was not on huge pages", None, CANNOT_MEASURE)
    return 0


def _suite(arguments: argparse.Namespace) -> int:
    from tlbcost.accuracy.figure import draw_record
    from tlbcost.accuracy.report import print_record

    if arguments.recorded is not None:
        from tlbcost.accuracy.record import read_record

        record = read_record(arguments.recorded)
    else:
        record = _run_suite(arguments)
    text = io.StringIO()
    print_record(record, text)
    _print(text.getvalue(), arguments.output)
    if arguments.plot is not None:
        draw_record(record, arguments.plot)
    if not record.checks:
        raise TlbcostError("nothing to compare: see above", None, CANNOT_MEASURE)
    return 0


def _run_suite(arguments: argparse.Namespace) -> Record:
    from tlbcost.accuracy.record import save_record
    from tlbcost.validation.suite import ask_for_no_huge_pages, check_rights, read_suite, validate

    names = [name for words in arguments.only for name in words.split(",")]
    tasks = read_suite(names)
    check_rights([task.method for task in tasks], "tlbcost validate")
    ask_for_no_huge_pages(_announce)
    programs = []
    for n, task in enumerate(tasks, start=1):
        say = _numbered(n, len(tasks))
        programs.append(validate(task, arguments.pairs, say, recalibrate=arguments.recalibrate))
        # After each program: what was measured is not lost if a later one is stopped.
        if arguments.table is not None:
            _write(arguments.table, _record(programs))
    record = _record(programs)
    if not names:
        unsaved = save_record(record)
        if unsaved:
            _announce(unsaved)
    return record


def _numbered(n: int, of: int) -> Callable[[str], None]:
    return lambda text: _announce(f"{n} of {of}: {text}")


def _record(programs: list[Program]) -> Record:
    from datetime import UTC, datetime

    from tlbcost.accuracy.checks import Record
    from tlbcost.common.paths import version
    from tlbcost.system.machine import current_machine

    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Record(current_machine(), date, version(), tuple(programs))


def _write(path: Path, record: Record) -> None:
    from tlbcost.accuracy.record import format_record
    from tlbcost.common.output import write

    write(path, format_record(record))


def _print(text: str, output: Path | None) -> None:
    from tlbcost.common.output import write

    if output is None:
        print(text, end="")
    else:
        write(output, text)
