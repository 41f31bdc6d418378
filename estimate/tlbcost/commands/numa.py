# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost numa: effects of large pages on a NUMA machine."""

from __future__ import annotations

import argparse
import functools
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from tlbcost.common import arguments as options
from tlbcost.common.cleanup import Stopped, until_stopped
from tlbcost.common.errors import FAILED, TOOL_FAILED, USAGE, TlbcostError
from tlbcost.common.names import program_only
from tlbcost.common.progress import say
from tlbcost.numa.placement import SPREADS, parse_count

if TYPE_CHECKING:
    from tlbcost.numa.watch.document import Done, WatchDocument, WatchInterval
    from tlbcost.numa.watch.session import Session, WatchRequest

_SUFFIXES = {"k": 10, "m": 20, "g": 30}
_MOST_CACHE = 1 << 31


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "tlbcost numa [options] [--] COMMAND [ARG...]\n"
        "       tlbcost numa --watch PID [--apply] [options]\n"
        "       tlbcost numa --watch PID --undo"
    )
    options.add_exit_codes(
        parser,
        {4: "this machine cannot simulate it", **options.TIMED_OUT},
        program=True,
        before="COMMAND keeps its own standard input, output and error; one that fails gives its "
        "own exit code.",
    )
    parser.add_argument(
        "--cache", metavar="SIZES", type=caches,
        help="bytes of the L2 cache that a thread has, and after a comma of its share of the L3, "
        "such as 512K,1M (default: those of this machine)",
    )  # fmt: skip
    options.add_calibration(parser, "use the cost of page faults in this calibration table")
    options.add_details(parser)
    options.add_redact(parser)
    options.add_run_options(parser, ignore_failure=True)
    options.add_reports(parser)
    parser.add_argument(
        "--nodes", metavar="N", type=parse_count,
        help="spread the threads over N nodes (default: those of this machine, or 4 if it has one)",
    )  # fmt: skip
    parser.add_argument(
        "--spread", metavar="HOW", choices=SPREADS, default=SPREADS[0],
        help="round-robin: a thread to each node in turn; blocks: the first ones to the first "
        "node (default: round-robin)",
    )  # fmt: skip
    options.add_time_limit(parser)
    _add_watch(parser)
    options.add_program(parser)


def _add_watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--watch", metavar="PID", type=options.process_id,
        help="watch this process, and say each second what its pages need",
    )  # fmt: skip
    options.add_flag(parser, "--apply", "with --watch: do it: move, split and make huge pages")
    parser.add_argument(
        "--interval", metavar="TIME", type=options.duration, default=1.0,
        help="with --watch: decide this often (default: 1s)",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", metavar="N", type=options.duration,
        help="with --watch: no longer than this (default: until the process ends, or Ctrl-C)",
    )  # fmt: skip
    parser.add_argument(
        "--samples", metavar="SOURCE", choices=("pmu", "copies"),
        help="with --watch: sample memory accesses with the PMU, or in windows of copies (default: "
        "with the PMU, if it can)",
    )  # fmt: skip
    parser.add_argument(
        "--threshold", metavar="LIMIT", type=threshold, action="append", default=[],
        help="with --watch: NAME=VALUE: change a threshold; tlbcost-numa(1) lists them",
    )  # fmt: skip
    options.add_flag(
        parser, "--undo", "with --watch: put back what a watch that was killed changed"
    )

    options.add_file(parser, "--plot", "with --watch: draw it (.png or .svg)", options.to_picture)


def threshold(text: str) -> tuple[str, float]:
    """An option's type, whose module is loaded only if it is used."""
    from tlbcost.numa.watch.decide import parse

    return parse(text)


def caches(text: str) -> tuple[int, int]:
    """Bytes of an L2 and of a share of the L3, 0 if left out; an option's type."""
    parts = text.split(",")
    sizes = [_size(part) for part in parts]
    known = [size for size in sizes if size is not None]
    if len(parts) > 2 or len(known) < len(parts) or not 64 <= known[0] <= _MOST_CACHE:
        raise argparse.ArgumentTypeError(f"not sizes of caches, such as 512K,1M: {text}")
    return known[0], known[1] if len(known) > 1 else 0


def _size(text: str) -> int | None:
    shift = _SUFFIXES.get(text[-1:].lower(), 0)
    digits = text[:-1] if shift else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    size = int(digits) << shift
    return size if size <= _MOST_CACHE else None


def run(arguments: argparse.Namespace) -> int:
    if arguments.watch is None:
        for name in ("apply", "undo", "seconds", "samples", "threshold", "plot"):
            if getattr(arguments, name):
                raise TlbcostError(
                    f"--{name} needs --watch", f"tlbcost numa --watch PID --{name}", USAGE
                )
        return until_stopped(lambda: _study(arguments), arguments.time_limit)
    if options.program_words(arguments.program):
        raise TlbcostError(
            "give either a process to watch, or a program to run", "tlbcost numa --watch PID", USAGE
        )
    if arguments.apply and arguments.nodes is not None:
        raise TlbcostError(
            "nothing can be applied to nodes that do not exist", "drop --apply, or --nodes", USAGE
        )
    return until_stopped(lambda: _watch(arguments), arguments.time_limit)


def _watch(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import check_files, give_report
    from tlbcost.numa.watch.document import draw_watch, print_summary
    from tlbcost.numa.watch.process import undo
    from tlbcost.numa.watch.session import Session

    if arguments.undo:
        return FAILED if undo(arguments.watch) else 0
    check_files(options.files_of(arguments, "--json", "--output", "--plot"), TOOL_FAILED)
    session = Session(_request(arguments))
    document, stopped = _shown(session)
    give_report(arguments, document, print_summary)
    if arguments.plot is not None:
        draw_watch(document, arguments.plot)
    if stopped is not None:
        raise stopped
    return 0


def _shown(session: Session) -> tuple[WatchDocument, Stopped | None]:
    from tlbcost.live.view import Screen, can_draw
    from tlbcost.numa.watch.document import action_line, picture

    if not can_draw() or not sys.stderr.isatty():

        def say_actions(_: WatchDocument, __: WatchInterval, actions: tuple[Done, ...]) -> bool:
            for done in actions:
                say(action_line(done))
            return False

        return session.run(say_actions)
    screen = Screen()

    def draw(document: WatchDocument, _: WatchInterval, __: tuple[Done, ...]) -> bool:
        screen.draw(functools.partial(picture, document))
        return "q" in screen.keys(0.0)

    with screen.open():
        return session.run(draw)


def _request(arguments: argparse.Namespace) -> WatchRequest:
    from tlbcost.calibration.records import cost_at
    from tlbcost.numa.placement import cache_sizes
    from tlbcost.numa.runs import calibration_here
    from tlbcost.numa.watch.decide import with_changes
    from tlbcost.numa.watch.session import WatchRequest
    from tlbcost.system.machine import current_machine

    machine = current_machine()
    calibrated, _ = calibration_here(arguments.calibration)
    fault = calibrated and cost_at(calibrated, "fault_ns", machine.base_page_bytes)
    l2, l3, source = cache_sizes()
    if arguments.cache is not None:
        (l2, l3), source = arguments.cache, "as asked for"
    return options.request_from(
        WatchRequest,
        arguments,
        pid=arguments.watch,
        interval_s=arguments.interval,
        limits=with_changes(arguments.threshold),
        caches=(l2, l3),
        caches_source=source,
        fault_ns=fault.value if fault else None,
        machine=machine,
    )


def _study(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import check_files, give_report
    from tlbcost.numa.report import print_study
    from tlbcost.numa.runs import NumaRequest, study_placement

    argv = options.program_words(arguments.program)
    if not argv:
        raise TlbcostError("no program to run", "tlbcost numa -- ./app ARG...", USAGE)
    # Whatever can be refused is refused before anything takes time.
    check_files({"--json": arguments.json, "--output": arguments.output}, TOOL_FAILED)
    request = options.request_from(NumaRequest, arguments, argv=argv, caches=arguments.cache)
    print_text = functools.partial(print_study, details=arguments.details)
    study = study_placement(request)
    if arguments.redact:
        study = replace(study, argv=program_only(argv))
    give_report(arguments, study, print_text)
    return 0
