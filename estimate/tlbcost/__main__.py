# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line: finds the subcommand, and is the only place that prints errors."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO, cast

from tlbcost.common import crash, names
from tlbcost.common.errors import (
    FAILED,
    INTERNAL_ERROR,
    SIGNAL_BASE,
    TOOL_FAILED,
    USAGE,
    TlbcostError,
)

if TYPE_CHECKING:
    from tlbcost.common.arguments import Parser

# Modules are imported only when chosen, so that --help answers at once.
COMMANDS = {
    "estimate": "predict what huge pages would give a program",
    "show": "print a saved estimate again, in full if asked",
    "compare": "compare two saved estimates",
    "review": "decide which services of a fleet should get huge pages on which hosts",
    "worker": "let reviews estimate services on this host",
    "calibrate": "measure what address translation costs on this machine",
    "count": "count what a program does in the TLBs, with hardware counters",
    "run": "run a program with transparent huge pages, or without",
    "trial": "run a program on base and on huge pages in turn, and compare",
    "numa": "predict what large pages would do to a program on a NUMA machine",
    "events": "list a CPU's counters, and what they mean",
    "record": "find where in a program TLB misses and page walks happen",
    "annotate": "show where a recording or a simulation found events",
    "maps": "show which pages memory is on, and what exceeds the TLB's reach",
    "top": "show what huge pages do on this host now, by process or cgroup",
    "validate": "check estimates against real runs on huge pages",
    "pagesizes": "measure how bad and how good pages of each size can be here",
    "machines": "list the known cores, and which of their figures are unverified",
    "pool": "reserve huge pages for a program, and restore the system's settings",
    "doctor": "report what can be measured here, and how to fix what cannot",
}

FIRST_STEPS = """\
tlbcost estimate ./app ARG...   would huge pages make this program faster?
tlbcost doctor                  what can be measured on this machine?
tlbcost help [COMMAND]          all commands, or one of them"""


class Command(Protocol):
    """What a module in tlbcost.commands offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work; returns the exit code, raises TlbcostError."""


def load(name: str) -> Command:
    """Import the module of one subcommand."""
    return cast(Command, importlib.import_module(f"tlbcost.commands.{name}"))


def front_parser() -> Parser:
    """What stands before the command's name."""
    from tlbcost.common.arguments import Parser

    parser = Parser(
        prog="tlbcost",
        description="What address translation costs a program, and what huge pages would give.",
        epilog="commands:\n"
        + "".join(f"  {name:<11}{text}\n" for name, text in COMMANDS.items())
        + "\n'tlbcost COMMAND --help' describes a command and its exit codes.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.misplaced = "options follow the command, as in tlbcost estimate --pid PID"
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    parser.add_argument("command", nargs="?", metavar="COMMAND")
    return parser


def command_parser(name: str) -> tuple[Command, Parser]:
    """A command, and the parser of what follows its name."""
    from tlbcost.common.arguments import Parser

    command = load(name)
    parser = Parser(
        prog=f"tlbcost {name}",
        description=COMMANDS[name],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    return command, parser


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    _stand_in_for_closed_streams()
    crash.keep_tracebacks_from_users(_crashed)
    arguments = sys.argv[1:] if argv is None else argv
    try:
        try:
            return _dispatch(arguments)
        finally:
            # Flush here: at exit a full disk would be reported without our message.
            if sys.stdout is not None and sys.exc_info()[0] in (None, SystemExit):
                sys.stdout.flush()
    except TlbcostError as error:
        return _tell(error)
    except KeyboardInterrupt:
        _say("tlbcost: interrupted")
        return SIGNAL_BASE + signal.SIGINT
    except BrokenPipeError:
        # The reader of our output went away; nothing is left to say to it.
        _give_up(sys.stdout)
        return FAILED
    except (MemoryError, ImportError) as error:
        return _tell(_unloadable(error))
    except OSError as error:
        return _tell(_refused(error))
    except Exception as error:
        _say(_crashed(error))
        return INTERNAL_ERROR
    finally:
        # What cannot be written would fail again at exit, with another code.
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                _give_up(stream)


def _stand_in_for_closed_streams() -> None:
    """Have standard streams that fail where we were given none.

    Else files that are opened later would get their numbers. Programs that are run still find them
    closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=names.ESCAPED)


def _unloadable(error: MemoryError | ImportError) -> TlbcostError:
    """A part of Python, or one of its packages, could not be loaded."""
    from tlbcost.common.errors import is_short_of_memory, memory_error

    if isinstance(error, MemoryError) or is_short_of_memory():
        return memory_error("cannot run tlbcost")
    from tlbcost.common.paths import source_tree

    tree = source_tree()
    hint = "install tlbcost again" if tree is None else f"make -C {tree} all"
    why = " ".join(str(error).split()) or type(error).__name__
    return TlbcostError(f"cannot load a part of tlbcost: {why}", hint, TOOL_FAILED)


def _refused(error: OSError) -> TlbcostError:
    """A refusal that no caller expected; a file without a name is standard output."""
    from tlbcost.common.errors import hint_for, memory_error

    if error.errno == errno.ENOMEM:
        return memory_error("cannot run tlbcost")
    writing = error.filename is None and error.errno not in (errno.EAGAIN, errno.EMFILE)
    if writing:
        _give_up(sys.stdout)
    what = error.filename or ("cannot write standard output" if writing else "cannot run tlbcost")
    return TlbcostError(f"{what}: {error.strerror or error}", hint_for(error.errno), FAILED)


def _crashed(error: BaseException) -> str:
    """The line to say. Under sudo the report is a file of the user who called it."""
    from tlbcost.common.sudo import as_calling_user, calling_user

    user = calling_user()
    home = user.home if user is not None else os.environ.get("HOME")
    with as_calling_user():
        return crash.describe(error, crash.state_folder(Path(home) if home else None))


def _tell(error: TlbcostError) -> int:
    lines = [f"tlbcost: {names.shown(str(error))}"]
    if error.hint:
        lines.append(f"tlbcost: hint: {error.hint}")
    _say(*lines)
    return error.exit_code


def _say(*lines: str) -> None:
    """On standard error; where that cannot be written, the exit code alone says so."""
    try:
        for line in lines:
            print(line, file=sys.stderr)
    except OSError:
        _give_up(sys.stderr)


def _give_up(stream: TextIO | None) -> None:
    """What is still buffered would fail again at exit."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _dispatch(arguments: list[str]) -> int:
    from tlbcost.common import errors
    from tlbcost.common.progress import be_quiet

    if not arguments and sys.stdout.isatty():
        print(FIRST_STEPS)
        return 0
    parser = front_parser()
    # Only what stands before the command's name is ours to parse.
    split = next((i for i, word in enumerate(arguments) if not word.startswith("-")), None)
    own = arguments if split is None else arguments[: split + 1]
    chosen = parser.parse_args(own)
    if chosen.version:
        from tlbcost.common.paths import version

        print(f"tlbcost {version()}")
        return 0
    rest = [] if split is None else arguments[split + 1 :]
    if chosen.command == "help":
        chosen.command, rest = (rest[0], ["--help"]) if rest else (None, [])
    if chosen.command is None:
        parser.print_help()
        return 0
    if chosen.command not in COMMANDS:
        raise _unknown(chosen.command)
    errors.check_stack()
    command, sub = command_parser(chosen.command)
    options = sub.parse_args(rest)
    if getattr(options, "quiet", False):
        be_quiet()
    return command.run(options)


def _unknown(name: str) -> TlbcostError:
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, 1)
    hint = f"tlbcost {near[0]}" if near else f"tlbcost estimate {name}, or tlbcost --help"
    return TlbcostError(f"there is no command {name}", hint, USAGE)


if __name__ == "__main__":
    sys.exit(main())
