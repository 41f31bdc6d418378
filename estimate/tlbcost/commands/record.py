# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost record: where in a program do TLB misses and page walks happen?"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.commands.annotate import DEFAULT_FILE, LIMIT
from tlbcost.common.cleanup import Stopped, signals_raise, temporary_folder
from tlbcost.common.errors import CANNOT_MEASURE, SIGNAL_BASE, TOOL_FAILED, USAGE, TlbcostError

if TYPE_CHECKING:
    from tlbcost.counters.counted import Mode
    from tlbcost.counters.hits import Hits
    from tlbcost.counters.record import Recording
    from tlbcost.counters.target import Target

_MOST = 1 << 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = "tlbcost record [options] [--] [COMMAND [ARG...]]"
    parser.epilog = (
        "COMMAND keeps its own standard input, output and error, and its exit code is ours. Other "
        "exit codes: 0 done, 2 usage, 4 this machine or this user cannot sample, 125 tlbcost "
        "failed, 126 or 127 COMMAND could not be started, 128 + signal."
    )
    parser.add_argument(
        "--addresses", action="store_true", help="note the address of the data too, where there is"
    )
    parser.add_argument(
        "-a", "--all-cpus", action="store_true", help="sample everything that runs on this system"
    )
    parser.add_argument(
        "-e", "--event", metavar="NAME", action="append", default=[],
        help="sample these events, separated by commas: names of 'tlbcost events', or libpfm4's",
    )  # fmt: skip
    parser.add_argument(
        "--frequency", metavar="N", type=_positive, help="take N samples a second of each event"
    )
    parser.add_argument(
        "--kernel", action="store_true", help="sample the kernel (with --user: it as well)"
    )
    parser.add_argument(
        "--output", metavar="FILE", type=Path, default=DEFAULT_FILE,
        help=f"write the samples to this file (default: {DEFAULT_FILE})",
    )  # fmt: skip
    parser.add_argument(
        "--period", metavar="N", type=_positive, help="take each Nth event of each kind"
    )
    parser.add_argument(
        "-p", "--pid", metavar="PID", type=_positive, help="sample this process and its children"
    )
    parser.add_argument(
        "--pmu", metavar="NAME", help="take the event names of this CPU: 'tlbcost events --list'"
    )
    parser.add_argument("--user", action="store_true", help="sample user mode (the default)")
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Record; returns the program's exit code, or 0 if there is none. Raises TlbcostError."""
    try:
        with signals_raise():
            return _record(arguments)
    except Stopped as stop:
        print(f"tlbcost: ended by {signal.Signals(stop.number).name}", file=sys.stderr)
        return SIGNAL_BASE + stop.number


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"not a number from 1: {text}")
    return int(text)


def _record(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import check_writable, write
    from tlbcost.run.program import resolve

    argv: list[str] = arguments.program
    if argv[:1] == ["--"]:
        argv = argv[1:]
    target = _target(arguments, argv)
    path = resolve(argv[0]) if argv else None
    check_writable(arguments.output, TOOL_FAILED)
    recording, notes = _plan(arguments, target)
    with temporary_folder() as folder:
        try:
            code, table, hits = _once(recording, folder, argv, path)
        except TlbcostError as error:
            instead = _instead(arguments, recording, error)
            if instead is None:
                raise
            recording, notes = instead, ()
            code, table, hits = _once(recording, folder, argv, path)
        write(arguments.output, table.read_text(encoding="utf-8"), TOOL_FAILED)
    _print(hits, notes, arguments.output)
    return code


def _target(arguments: argparse.Namespace, argv: list[str]) -> Target:
    from tlbcost.counters.target import PROGRAM_ITSELF, Target

    if arguments.pid is not None and (arguments.all_cpus or argv):
        raise TlbcostError(
            "--pid excludes --all-cpus and a COMMAND", "tlbcost record -p PID", USAGE
        )
    if arguments.period is not None and arguments.frequency is not None:
        raise TlbcostError("--period and --frequency exclude each other", "give one", USAGE)
    if arguments.pid is not None:
        return Target("process", pid=arguments.pid)
    if arguments.all_cpus:
        return Target("system")
    if not argv:
        raise TlbcostError("nothing to record", "tlbcost record -- ./app ARG..., or -p PID", USAGE)
    return PROGRAM_ITSELF


def _plan(arguments: argparse.Namespace, target: Target) -> tuple[Recording, tuple[str, ...]]:
    from tlbcost.counters.choice import choose_events, choose_pmu
    from tlbcost.counters.record import Pace, Recording, default_names

    pmu, notes = choose_pmu(arguments.pmu)
    names = [name for words in arguments.event for name in words.split(",")]
    names = names or default_names(pmu, addresses=arguments.addresses)
    mode: Mode = "user"
    if arguments.kernel:
        mode = "both" if arguments.user else "kernel"
    pace = Pace(arguments.period, arguments.frequency)
    wanted = choose_events(pmu, names)
    return Recording(wanted, mode, pace, target, addresses=arguments.addresses), notes


def _instead(
    arguments: argparse.Namespace, recording: Recording, error: TlbcostError
) -> Recording | None:
    """What the kernel knows by itself, if there are no counters and no event was asked for."""
    from dataclasses import replace

    from tlbcost.counters.pmu import find_pmu
    from tlbcost.counters.record import SOFTWARE
    from tlbcost.counters.tool import Wanted
    from tlbcost.processors.event_tables import generic_pmu, select

    if error.exit_code != CANNOT_MEASURE or arguments.event or find_pmu().answer != "absent":
        return None
    print(
        "tlbcost: no hardware counters here: the task's time and its page faults are recorded "
        "instead, no TLB misses",
        file=sys.stderr,
    )
    wanted = tuple(Wanted.of(event) for event in select(generic_pmu(), SOFTWARE))
    return replace(recording, wanted=wanted)


def _once(
    recording: Recording, folder: Path, argv: list[str], path: Path | None
) -> tuple[int, Path, Hits]:
    from tlbcost.counters.record import launcher_of, record
    from tlbcost.run.launch import Launcher
    from tlbcost.run.stdin import ProgramInput
    from tlbcost.system.sudo import calling_user

    if path is None:
        return record(recording, folder, None)
    before = signal.getsignal(signal.SIGINT)
    # Ctrl-C is the program's; what it hit until it ends is reported. A handler, and not SIG_IGN,
    # which the program would inherit.
    if before != signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda number, frame: None)  # noqa: ARG005
    try:
        with contextlib.closing(ProgramInput()) as stdin:
            launcher = Launcher(folder, stdin, calling_user())
            if launcher.user is not None:
                os.chown(folder, launcher.user.uid, launcher.user.gid)
            return record(recording, folder, launcher_of(launcher, argv, path))
    finally:
        signal.signal(signal.SIGINT, before)


def _print(hits: Hits, notes: tuple[str, ...], output: Path) -> None:
    from tlbcost.counters.profile import Profile, describe

    profile = Profile(hits, (None,) * len(hits.hits), "object", LIMIT, notes)
    file = "" if output == DEFAULT_FILE else f" {output}"
    print(describe(profile), end="", file=sys.stderr)
    print(
        f"tlbcost: the samples are in {output}; 'tlbcost annotate{file}' shows the functions",
        file=sys.stderr,
    )
