# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost estimate: what would huge pages give this program?"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.common.cleanup import Stopped, signals_raise
from tlbcost.common.errors import SIGNAL_BASE, TOOL_FAILED, USAGE, TlbcostError

if TYPE_CHECKING:
    from tlbcost.answer.content import Content

_MOST_RUNS = 1000
# Options for files that a simulation alone can fill.
_SIMULATED = ("code", "folded", "plot")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = (
        "tlbcost estimate [options] [--] COMMAND [ARG...]\n"
        "       tlbcost estimate [options] --from FILE [--from FILE]..."
    )
    parser.epilog = (
        "COMMAND keeps its own standard input, output and error. Exit codes: 0 done, 2 usage, "
        "4 this machine cannot measure it, 125 tlbcost failed, 126 or 127 COMMAND could not be "
        "started; a COMMAND that fails gives its own code, or 128 + its signal."
    )
    parser.add_argument(
        "--backend",
        metavar="NAME",
        choices=("auto", "pmu", "sim", "both"),
        default="auto",
        help="count misses with hardware counters (pmu), by simulation (sim), or both; auto: "
        "counters where they can be read, else simulation (default: auto)",
    )
    parser.add_argument(
        "--calibration", metavar="FILE", type=Path, help="use the costs in this calibration table"
    )
    parser.add_argument(
        "--code", metavar="FILE", type=Path,
        help="write which code misses, by the simulation, for tlbcost annotate to show",
    )  # fmt: skip
    parser.add_argument(
        "--cpu", metavar="MODEL", help="with --from: the CPU that was counted on (tlbcost events)"
    )
    parser.add_argument(
        "--folded", metavar="FILE", type=Path,
        help="write the calls that lead to page walks, for tools that draw flame graphs",
    )  # fmt: skip
    parser.add_argument(
        "--from",
        metavar="FILE",
        type=Path,
        action="append",
        dest="imported",
        help="estimate from counts taken elsewhere: perf stat's output (text, -x or -j), an "
        "opreport listing, or tlbcost count --table; several files are of one program",
    )
    parser.add_argument(
        "--ignore-failure", action="store_true", help="estimate a COMMAND that fails, too"
    )
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="write the report for programs to this file"
    )
    parser.add_argument(
        "--machine",
        metavar="NAMES",
        help="estimate for these machines instead, separated by commas (tlbcost machines)",
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        choices=("auto", "overlap", "simple"),
        default="auto",
        help="what a simulation expects: by modelling how translation overlaps with other work in "
        "sampled windows of the program (overlap), or by misses times their costs (simple); auto: "
        "overlap where enough windows can be modelled (default: auto)",
    )
    parser.add_argument(
        "--nodes",
        metavar="N",
        type=_nodes,
        help="tell what huge pages do to placement on so many NUMA nodes, too, by a simulation of "
        "its own (default: those of this machine, if it has several and the program is simulated)",
    )
    parser.add_argument(
        "--object", metavar="NAME", help="with --from of a profile: the program's line in it"
    )
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="write the report to this file, not stderr"
    )
    parser.add_argument(
        "--page-size",
        metavar="SIZES",
        type=_sizes,
        help="estimate for these page sizes, separated by commas: 4K,64K,2M,1G",
    )
    parser.add_argument(
        "--plot", metavar="FILE", type=Path,
        help="draw the page walks over the run (.png or .svg)",
    )  # fmt: skip
    parser.add_argument(
        "--prepare", metavar="CMD", help="run this shell command before each run of COMMAND"
    )
    parser.add_argument(
        "--recalibrate", action="store_true", help="measure this machine's costs again first"
    )
    parser.add_argument(
        "--runs", metavar="N", type=_runs, default=3, help="time COMMAND N times (default: 3)"
    )
    parser.add_argument(
        "--walk-cycles",
        metavar="N",
        type=_cycles,
        help="with --from: what one page walk costs, in cycles",
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Estimate; returns 0, raises TlbcostError."""
    try:
        with signals_raise():
            _estimate(arguments)
    except Stopped as stop:
        print(f"tlbcost: ended by {signal.Signals(stop.number).name}", file=sys.stderr)
        return SIGNAL_BASE + stop.number
    return 0


def _runs(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= _MOST_RUNS:
        raise argparse.ArgumentTypeError(f"not a number from 1 to {_MOST_RUNS}: {text}")
    return int(text)


def _nodes(text: str) -> int:
    from tlbcost.numa.nodes import parse_count

    return parse_count(text)


def _sizes(text: str) -> tuple[int, ...]:
    from tlbcost.machines.estimate import parse_sizes

    return parse_sizes(text)


def _cycles(text: str) -> float:
    try:
        cycles = float(text)
    except ValueError:
        cycles = 0.0
    if not 0 < cycles < 1e6:
        raise argparse.ArgumentTypeError(f"not a number of cycles: {text}")
    return cycles


def _estimate(arguments: argparse.Namespace) -> None:
    from tlbcost.answer.conclude import assemble
    from tlbcost.answer.json import to_json
    from tlbcost.answer.obtain import imported, measured
    from tlbcost.answer.text import print_report
    from tlbcost.common.output import check_writable, give_report

    argv: list[str] = arguments.program
    if argv[:1] == ["--"]:
        argv = argv[1:]
    _check_usage(arguments, argv)
    # Whatever can be refused is refused before anything takes time.
    for file in (arguments.json, arguments.output, *(getattr(arguments, o) for o in _SIMULATED)):
        if file is not None:
            check_writable(file, TOOL_FAILED)
    if arguments.machine or arguments.page_size:
        from tlbcost.machines.estimate import run_others

        run_others(arguments, argv)
        return
    given = imported(arguments) if arguments.imported else measured(arguments, argv)
    content = assemble(given)
    give_report(content, print_report, to_json, arguments.output, arguments.json)
    _write_attribution(content, arguments)


def _check_simulated(arguments: argparse.Namespace) -> None:
    """Refuse options that only a simulation can serve where there is none."""
    from tlbcost.common.gnuplot import check_picture

    asked = [option for option in _SIMULATED if getattr(arguments, option) is not None]
    excluding = "--from" if arguments.imported else "--backend pmu"
    if asked and (arguments.imported or arguments.backend == "pmu"):
        raise TlbcostError(
            f"--{asked[0]} is of a simulation, which {excluding} excludes",
            f"leave --{asked[0]} out, or {excluding}",
            USAGE,
        )
    check_picture(arguments.plot, "--plot phases.png")


def _check_others(arguments: argparse.Namespace) -> None:
    option = "--machine" if arguments.machine else "--page-size"
    if arguments.backend in ("pmu", "both") or arguments.imported or arguments.model == "simple":
        raise TlbcostError(
            f"{option} is a matter of simulation and its overlap model alone",
            "leave --backend, --from and --model out",
            USAGE,
        )


def _check_usage(arguments: argparse.Namespace, argv: list[str]) -> None:
    _check_simulated(arguments)
    if arguments.machine or arguments.page_size:
        _check_others(arguments)
    if arguments.imported:
        if argv:
            raise TlbcostError(
                f"--from estimates what was counted before; {argv[0]} would not be run",
                "leave the command out, or --from",
                USAGE,
            )
        if arguments.backend == "sim" or arguments.recalibrate:
            raise TlbcostError(
                "--from excludes --backend sim and --recalibrate: nothing is run here",
                "tlbcost estimate --from FILE --cpu MODEL",
                USAGE,
            )
        if arguments.model != "auto":
            raise _no_simulation(arguments, "--from")
        if arguments.nodes is not None:
            raise TlbcostError(
                "--from excludes --nodes: placement is simulated, and nothing is run here",
                "tlbcost numa -- ./app ARG...",
                USAGE,
            )
        return
    if arguments.model != "auto" and arguments.backend == "pmu":
        raise _no_simulation(arguments, "--backend pmu")
    for option in ("cpu", "object", "walk_cycles"):
        if getattr(arguments, option) is not None:
            raise TlbcostError(
                f"--{option.replace('_', '-')} belongs to --from",
                "tlbcost estimate --from FILE --cpu MODEL",
                USAGE,
            )
    if not argv:
        raise TlbcostError("no program to estimate", "tlbcost estimate -- ./app ARG...", USAGE)


def _no_simulation(arguments: argparse.Namespace, option: str) -> TlbcostError:
    return TlbcostError(
        f"--model {arguments.model} is of a simulation, which {option} excludes",
        f"leave --model out, or {option}",
        USAGE,
    )


def _write_attribution(content: Content, arguments: argparse.Namespace) -> None:
    """The files about attribution; what was not simulated after all is said."""
    from tlbcost.common.output import write

    simulated = content.simulated
    attribution = simulated.attribution if simulated is not None else None
    asked = [option for option in _SIMULATED if getattr(arguments, option) is not None]
    if asked and (simulated is None or attribution is None):
        raise TlbcostError(
            f"nothing to write for --{asked[0]}: no simulation told which code misses",
            "--backend sim",
            TOOL_FAILED,
        )
    if not asked or attribution is None or simulated is None:
        return
    if arguments.code is not None:
        from tlbcost.attribution.code_table import code_text

        write(arguments.code, code_text(shlex.join(content.argv), attribution.images), TOOL_FAILED)
    if arguments.folded is not None:
        from tlbcost.attribution.folded import folded

        write(arguments.folded, folded(attribution.images), TOOL_FAILED)
    if arguments.plot is not None:
        from tlbcost.answer.phases_figure import draw_phases

        draw_phases(content.argv, simulated, arguments.plot)
