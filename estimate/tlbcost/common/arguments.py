# SPDX-License-Identifier: GPL-2.0-or-later
"""Command lines: the options that commands share, and messages about a wrong one."""

from __future__ import annotations

import argparse
import difflib
import math
import os
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, TypeVar

from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.common.output import STDIN, STDOUT

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _Request = TypeVar("_Request", bound=DataclassInstance)

_WIDTH = 79
_MOST_RUNS = 1000
_MOST_PID = (1 << 22) - 1
_SECONDS = {"": 1, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600}
_LONGEST_S = 30 * 24 * 3600

# What commands share of their exit codes.
_USAGE = {0: "done", 2: "the command line is wrong"}
PROGRAM_CODES = {
    125: "tlbcost itself failed",
    126: "COMMAND could not be started",
    127: "COMMAND was not found",
}
FAIL_IF_CODES = {
    3: "the condition of --fail-if holds",
    4: "it needs a value that was not obtained",
}
_SIGNALLED = {"128+N": "ended by signal N"}
TIMED_OUT = {142: "the time limit passed before there was an answer"}


class Parser(argparse.ArgumentParser):
    """Complains as all of tlbcost does, and says what an unknown option or choice is close to.

    `misplaced`: the hint if an option is close to none.
    """

    misplaced: str | None = None

    def error(self, message: str) -> NoReturn:
        """Raises TlbcostError, with exit code 2."""
        of = f"{self.prog}: ".removeprefix("tlbcost").lstrip(" :")
        near = self._nearest(message)
        hint = f"{near}, or {self.prog} --help" if near else f"{self.prog} --help"
        raise TlbcostError(of + message, hint, USAGE)

    def _nearest(self, message: str) -> str | None:
        """What was meant, if the message complains of an unknown option or choice."""
        if unknown := re.search(r"unrecognized arguments: (--?[^\s=]+)", message):
            options = [name for action in self._actions for name in action.option_strings]
            near = difflib.get_close_matches(unknown[1], options, 1)
            return near[0] if near else self.misplaced
        # Its quotes are those of repr() in some versions of Python.
        if wrong := re.match(r"argument (\S+): invalid choice: '?([^' ]*)", message):
            of = [a for a in self._actions if wrong[1] in ("/".join(a.option_strings), a.dest)]
            near = difflib.get_close_matches(wrong[2], [*(of[0].choices or ())] if of else [], 1)
            return " ".join([*of[0].option_strings[-1:], near[0]]) if near else None
        return None


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """A type for argparse: decimal digits that say a number from `low` to `high`."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"not a number from {low} to {high}: {text}")
        return int(text)

    return read


run_count = whole_number(1, _MOST_RUNS)
process_id = whole_number(1, _MOST_PID)


def as_number(text: str) -> float:
    """NaN, of which no comparison holds, for what is no number."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def percent(text: str) -> float:
    """A type for argparse: a share of CPU time."""
    share = as_number(text.removesuffix("%")) / 100
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"not a share of CPU time as 5%: {text}")
    return share


def duration(text: str) -> float:
    """A type for argparse: seconds, or a number with us, ms, s, m or h; 30 days at most."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)(us|ms|s|m|min|h|)", text, re.ASCII)
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0
    if not 0 < seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"not a duration such as 90, 90s or 5m: {text}")
    return seconds


def to_file(text: str) -> Path:
    """A type for argparse: a file to write; - is standard output."""
    return STDOUT if text == "-" else Path(text)


def to_picture(text: str) -> Path:
    """A type for argparse: a file that gnuplot can draw."""
    if not text.endswith((".png", ".svg")):
        raise argparse.ArgumentTypeError(f"not a .png or .svg file: {text}")
    return Path(text)


def from_file(text: str) -> Path:
    """A type for argparse: a file to read; - is standard input."""
    return STDIN if text == "-" else Path(text)


def program_words(words: Sequence[str]) -> tuple[str, ...]:
    """The program and its arguments, without the -- before them."""
    return tuple(words[1:] if words[:1] == ["--"] else words)


def add_flag(parser: argparse.ArgumentParser, option: str, help_: str) -> None:
    """An option without a value."""
    parser.add_argument(option, action="store_true", help=help_)


def add_file(
    parser: argparse.ArgumentParser,
    option: str,
    help_: str,
    kind: Callable[[str], Path] = to_file,
) -> None:
    """An option with a file."""
    parser.add_argument(option, metavar="FILE", type=kind, help=help_)


def files_of(arguments: argparse.Namespace, *options: str) -> dict[str, Path | None]:
    """The files that these options name, for common.output.check_files."""
    return {name: getattr(arguments, name[2:].replace("-", "_")) for name in options}


def request_from(kind: type[_Request], arguments: argparse.Namespace, **others: object) -> _Request:
    """A request whose fields are the options of the same names, but for `others`."""
    names = {field.name for field in fields(kind)} & vars(arguments).keys()
    return kind(**{name: getattr(arguments, name) for name in names} | others)


def add_exit_codes(
    parser: argparse.ArgumentParser,
    codes: Mapping[int, str],
    *,
    program: bool = False,
    before: str = "",
) -> None:
    """List the exit codes of a command at the end of its help, below `before`.

    `codes`: those besides success, usage and signals; `program`: it starts one.
    """
    listed: dict[int, str] = {**_USAGE, **codes, **(PROGRAM_CODES if program else {})}
    rows = {**{str(code): listed[code] for code in sorted(listed)}, **_SIGNALLED}
    lines = [f"  {code:<6} {meaning}" for code, meaning in rows.items()]
    above = [textwrap.fill(before, _WIDTH), ""] if before else []
    parser.epilog = "\n".join([*above, "exit codes:", *lines])


def add_reports(
    parser: argparse.ArgumentParser, *, json: str = "the report", output: str | None = "stderr"
) -> None:
    """--json, --output and --quiet. `json`: what is written; `output`: where text goes else."""
    how = "to standard output, instead of the text"
    add_file(parser, "--json", f"write {json} as JSON to FILE; -: {how}")
    if output is not None:
        what = f"write the text to FILE instead of {output}; -: to standard output"
        add_file(parser, "--output", what)
    add_quiet(parser)


def add_details(parser: argparse.ArgumentParser) -> None:
    add_flag(parser, "--details", "report everything, not the summary alone")


def add_redact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--redact", action="store_true",
        help="of command lines, write the program's name only: arguments may be secret",
    )  # fmt: skip


def add_fail_if(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fail-if", metavar="CONDITION", action="append", default=[],
        help="exit with 3 if the estimate meets this, such as 'gain>5%%' (tlbcost-show(1)); may be "
        "repeated: one of several is enough",
    )  # fmt: skip


def add_quiet(parser: argparse.ArgumentParser) -> None:
    add_flag(parser, "--quiet", "print only the answer and errors: no progress")


def add_time_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--time-limit", metavar="TIME", type=duration,
        help="stop after this long, such as 90s or 5m, with what is known by then",
    )  # fmt: skip


def add_runs(
    parser: argparse.ArgumentParser, default: int | None, what: str, words: str | None = None
) -> None:
    """--runs; `words` say what the default is if that is None."""
    parser.add_argument(
        "--runs", metavar="N", type=run_count, default=default,
        help=f"{what} N times (default: {words or default})",
    )  # fmt: skip


def add_pairs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pairs", metavar="N", type=whole_number(3, _MOST_RUNS), default=5,
        help="run it N times on base pages and N times on huge pages (default: 5)",
    )  # fmt: skip


def add_precision(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--precision", metavar="POINTS", type=points,
        help="more pairs, 30 at most, until the 95 %% interval of the user time saved is no wider "
        "than this many points of the run time to either side",
    )  # fmt: skip


def points(text: str) -> float:
    """A type for argparse: percentage points, as a share."""
    points = as_number(text)
    if not 0.1 <= points <= 50:
        raise argparse.ArgumentTypeError(f"not a number of points from 0.1 to 50: {text}")
    return points / 100


def add_no_measure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-measure", action="store_true",
        help="leave it at the model: do not also try huge pages, in more runs of the program or "
        "in copies of it",
    )  # fmt: skip


def measuring(arguments: argparse.Namespace) -> bool:
    """Estimates measure, too: neither --no-measure nor TLBCOST_MEASURE=no says otherwise."""
    return not arguments.no_measure and os.environ.get("TLBCOST_MEASURE") != "no"


def add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine", metavar="NAME", choices=("auto", "copies", "valgrind"), default="auto",
        help="what simulates: copies of the program, followed while it runs natively (copies), or "
        "the whole program in Valgrind, many times slower (valgrind); auto: copies where that is "
        "possible (default: auto)",
    )  # fmt: skip


def add_calibration(parser: argparse.ArgumentParser, help_: str) -> None:
    add_file(parser, "--calibration", help_, from_file)


def add_program(parser: argparse.ArgumentParser) -> None:
    """COMMAND and its arguments."""
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def add_run_options(parser: argparse.ArgumentParser, *, ignore_failure: bool = False) -> None:
    """--prepare and --ignore-failure, for commands that run COMMAND several times."""
    if ignore_failure:
        add_flag(parser, "--ignore-failure", "accept a COMMAND that fails")
    parser.add_argument(
        "--prepare", metavar="CMD", help="run this shell command before each run of COMMAND"
    )


def add_region(parser: argparse.ArgumentParser) -> None:
    """--region and --from-function."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--from-function", metavar="NAME", dest="region", type=lambda name: f"{name}:",
        help="look at the program only from its first call of this function on",
    )  # fmt: skip
    group.add_argument(
        "--region", metavar="START:END",
        help="look at the program only from START to END, each a function or a @MARKER of "
        "tlbcost-marker.h; without END, to its end",
    )  # fmt: skip


def add_counted(parser: argparse.ArgumentParser, verb: str) -> None:
    """What is counted or sampled (`verb`): which events, of which process, in which mode."""
    parser.add_argument(
        "-a", "--all-cpus", action="store_true", help=f"{verb} everything that runs on this system"
    )
    parser.add_argument(
        "-e", "--event", metavar="NAME", action="append", default=[],
        help=f"{verb} these events, separated by commas: names from 'tlbcost events' or libpfm4",
    )  # fmt: skip
    parser.add_argument(
        "--kernel", action="store_true",
        help=f"{verb} in kernel mode; with --user, in both modes",
    )  # fmt: skip
    parser.add_argument(
        "-p", "--pid", metavar="PID", type=process_id,
        help=f"{verb} this process, its threads and children",
    )  # fmt: skip
    parser.add_argument(
        "--pmu", metavar="NAME", help="use the event names of this CPU: 'tlbcost events --list'"
    )
    parser.add_argument("--user", action="store_true", help=f"{verb} in user mode (the default)")


def counted_mode(arguments: argparse.Namespace) -> Literal["user", "kernel", "both"]:
    """The mode of add_counted."""
    return ("both" if arguments.user else "kernel") if arguments.kernel else "user"


def event_names(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The events of add_counted."""
    return tuple(name for words in arguments.event for name in words.split(","))
