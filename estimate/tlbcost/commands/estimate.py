# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost estimate: the gain of huge pages for a program."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tlbcost.answer.request import EstimateRequest
from tlbcost.common import arguments as options
from tlbcost.common.cleanup import until_stopped
from tlbcost.common.errors import TOOL_FAILED, USAGE, TlbcostError
from tlbcost.common.names import program_only

if TYPE_CHECKING:
    from tlbcost.answer.record import Estimate
    from tlbcost.copies.run import Also


def run(arguments: argparse.Namespace) -> int:
    return until_stopped(lambda: _estimate(arguments), arguments.time_limit)


def _estimate(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import check_files
    from tlbcost.report.condition import parse_comparison

    request = request_of(arguments)
    conditions = [parse_comparison(text) for text in arguments.fail_if]
    files = options.files_of(arguments, "--code", "--folded", "--plan", "--plot", "--pprof")
    asked = [option for option, file in files.items() if file is not None]
    if asked and request.unsimulated is not None:
        raise TlbcostError(
            f"{asked[0]} needs a simulation, which {request.unsimulated} excludes",
            f"leave {asked[0]} out, or {request.unsimulated}",
            USAGE,
        )
    others = "--machine" if arguments.machine else "--page-size" if arguments.page_size else None
    if others is not None:
        _check_others(request, others)
        if conditions:
            raise TlbcostError(f"{others} excludes --fail-if", "leave one out", USAGE)
    request.check()
    # Whatever can be refused is refused before anything takes time.
    check_files(
        options.files_of(arguments, "--json", "--output", *files),
        TOOL_FAILED,
        {"--from": request.imported, "--calibration": [c for c in [request.calibration] if c]},
    )
    if others is not None:
        _estimate_machines(request, arguments)
        return 0
    from tlbcost.answer.document import estimate_document
    from tlbcost.answer.estimate import estimate, with_words
    from tlbcost.common.output import give_report
    from tlbcost.report.condition import exit_code
    from tlbcost.report.details import print_report

    found = estimate(request)
    if arguments.redact:
        given = replace(found.given, argv=program_only(found.given.argv))
        found = with_words(replace(found, given=given))
    document = estimate_document(found)
    give_report(arguments, document, partial(print_report, details=arguments.details))
    attribution = [each for each in asked if each != "--plot"]
    if attribution:
        _write_attribution(found, arguments, attribution[0])
    if arguments.plot is not None:
        from tlbcost.answer.figure import draw

        draw(found, arguments.plot)
    return exit_code(conditions, document)


def _estimate_machines(request: EstimateRequest, arguments: argparse.Namespace) -> None:
    from tlbcost.common.output import give_report
    from tlbcost.machines.document import print_report, to_json
    from tlbcost.machines.estimate import MachinesRequest, estimate_machines

    found = estimate_machines(
        options.request_from(
            MachinesRequest,
            arguments,
            argv=request.argv,
            names=arguments.machine,
            page_sizes=arguments.page_size or (),
        )
    )
    if arguments.redact:
        found = replace(found, argv=program_only(found.argv))
    text = partial(print_report, details=arguments.details)
    give_report(arguments, found, text, to_json)


def _check_others(request: EstimateRequest, option: str) -> None:
    of_copies = {
        "--pid": request.pid is not None,
        "--engine copies": request.engine == "copies",
        "--copies": request.copies is not None,
        "--overhead": request.overhead is not None,
    }
    for what, given in of_copies.items():
        if given:
            raise TlbcostError(
                f"{option} simulates a whole run in Valgrind, which {what} excludes",
                f"leave {option} out, or {what}",
                USAGE,
            )
    if request.backend in ("pmu", "both") or request.imported:
        raise TlbcostError(
            f"{option} applies only to a simulation",
            "leave --backend and --from out",
            USAGE,
        )


def _write_attribution(found: Estimate, arguments: argparse.Namespace, asked: str) -> None:
    """The files about attribution. Raises TlbcostError if nothing was simulated after all."""
    from tlbcost.common.output import write

    simulated = found.simulated
    if simulated is None or simulated.attribution is None:
        raise TlbcostError(
            f"nothing to write for {asked}: no simulation found which code misses",
            "--backend sim",
            TOOL_FAILED,
        )
    argv, images = found.given.argv, simulated.attribution.images
    if arguments.code is not None:
        from tlbcost.attribution.code_profile import code_text

        write(arguments.code, code_text(shlex.join(argv), images), TOOL_FAILED)
    if arguments.folded is not None:
        from tlbcost.attribution.code_profile import folded

        write(arguments.folded, folded(images), TOOL_FAILED)
    if arguments.pprof is not None:
        from tlbcost.attribution.pprof import pprof

        parts = (simulated.gain.base_data_ns, simulated.gain.base_code_ns)
        known = [part.value for part in parts if part is not None]
        stall_ns = sum(known) if len(known) == len(parts) else None
        write(arguments.pprof, pprof(images, stall_ns), TOOL_FAILED)
    if arguments.plan is not None:
        from tlbcost.attribution.sites import plan_of
        from tlbcost.common.document import to_json

        sites = [site for image in images for site in image.sites]
        if not sites or found.given.path is None:
            raise TlbcostError(
                "no plan: no allocation with page walks was recorded",
                "that needs copies of the program, and its malloc in a library",
                TOOL_FAILED,
            )
        write(
            arguments.plan, to_json(plan_of(sites, os.path.realpath(found.given.path))), TOOL_FAILED
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "tlbcost estimate [options] [--] COMMAND [ARG...]\n"
        "       tlbcost estimate [options] --pid PID\n"
        "       tlbcost estimate [options] --from FILE [--from FILE]..."
    )
    options.add_exit_codes(
        parser,
        {
            **options.FAIL_IF_CODES,
            4: "this machine cannot measure it, or the counts do not suffice (also --fail-if)",
            **options.TIMED_OUT,
        },
        program=True,
        before="COMMAND keeps its own standard input, output and error; one that fails gives its "
        "own exit code.",
    )
    parser.add_argument(
        "--backend",
        metavar="NAME",
        choices=("auto", "pmu", "sim", "both"),
        default="auto",
        help="count misses with hardware counters (pmu), by simulation (sim), or both; auto: "
        "counters where they can be read, else simulation (default: auto)",
    )
    options.add_engine(parser)
    parser.add_argument(
        "--overhead",
        metavar="PERCENT",
        type=options.percent,
        help="the share of the program's CPU time that copies of it may cost (default: 5%%)",
    )
    parser.add_argument(
        "--copies", metavar="N", type=_positive, help="make this many copies, whatever they cost"
    )
    options.add_calibration(parser, "use the costs in this calibration table")
    parser.add_argument(
        "--canary", action="store_true",
        help="with --pid: a few copies first, and no more if the process waits or faults more",
    )  # fmt: skip
    options.add_file(
        parser, "--code", "write which code misses, by the simulation, for tlbcost annotate to show"
    )
    parser.add_argument(
        "--cpu", metavar="MODEL", help="with --from: the CPU that was counted on (tlbcost events)"
    )
    options.add_details(parser)
    options.add_fail_if(parser)
    parser.add_argument(
        "--folded", metavar="FILE", type=options.to_file,
        help="write the calls that lead to page walks, for tools that draw flame graphs",
    )  # fmt: skip
    parser.add_argument(
        "--from",
        metavar="FILE",
        type=options.from_file,
        action="append",
        dest="imported",
        help="estimate from counts taken elsewhere: perf stat's output (text, -x or -j), an "
        "opreport listing, or tlbcost count --table; a perf.data, or its perf script, says which "
        "memory misses; several files are of one program",
    )
    options.add_redact(parser)
    options.add_region(parser)
    options.add_run_options(parser, ignore_failure=True)
    options.add_reports(parser)
    parser.add_argument(
        "--machine",
        metavar="NAMES",
        help="estimate for these machines instead, separated by commas (tlbcost machines)",
    )
    parser.add_argument(
        "--most-pause", metavar="TIME", type=options.duration,
        help="with --pid: make no copy that would stop a thread for longer, such as 5ms",
    )  # fmt: skip
    options.add_no_measure(parser)
    parser.add_argument(
        "--nodes",
        metavar="N",
        type=_nodes,
        help="also predict what huge pages do to placement on N NUMA nodes, by a simulation of "
        "its own (default: those of this machine, if it has several and the program is simulated)",
    )
    parser.add_argument(
        "--no-system", action="store_true",
        help="as root: do not set transparent huge pages to always while runs are measured",
    )  # fmt: skip
    parser.add_argument(
        "--object", metavar="NAME", help="with --from: a command or cgroup, or a line of a profile"
    )
    parser.add_argument(
        "--page-size",
        metavar="SIZES",
        type=page_sizes,
        help="estimate for these page sizes, separated by commas: 4K,64K,2M,1G",
    )
    options.add_file(
        parser, "--plot", "draw page walks and page faults (.png or .svg)", options.to_picture
    )
    parser.add_argument(
        "--plan", metavar="FILE", type=options.to_file,
        help="write which allocations have most of the gain for the least memory: what run --plan "
        "gives huge pages; implies --sites",
    )  # fmt: skip
    parser.add_argument(
        "--pprof", metavar="FILE", type=options.to_file,
        help="write the calls that lead to page walks, for go tool pprof and others that read it",
    )  # fmt: skip
    options.add_flag(parser, "--recalibrate", "measure this machine's costs again first")
    parser.add_argument(
        "-p", "--pid", metavar="PID", type=options.process_id,
        help="a process that already runs: follow copies of its threads",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", metavar="N", type=options.duration,
        help="with --pid: for how long; Ctrl-C ends it earlier (default: 30)",
    )  # fmt: skip
    parser.add_argument("--children", action="store_true", help="with --pid: its descendants, too")
    options.add_runs(
        parser, None, "time COMMAND", "3; one that takes over 10 s and is followed in copies: once"
    )
    parser.add_argument(
        "--shared-memory", action="store_true",
        help="measure shared memory on huge pages, too: in copies, which have it for themselves",
    )  # fmt: skip
    parser.add_argument(
        "--sites", action="store_true",
        help="say which code allocated the memory, by a library that the program is started with",
    )  # fmt: skip
    options.add_flag(
        parser, "--text", "measure the code of the program and of its libraries on huge pages, too"
    )
    parser.add_argument(
        "--time-budget", metavar="TIME", type=options.duration,
        help="for pairs of runs on base and on huge pages, such as 3m (default: 60 s, or the time "
        "of two pairs; twice that next to other load); a program that is longer is measured in "
        "copies",
    )  # fmt: skip
    options.add_time_limit(parser)
    parser.add_argument(
        "--walk-cycles",
        metavar="N",
        type=_cycles,
        help="with --from: what one page walk costs, in cycles",
    )
    options.add_program(parser)


def request_of(arguments: argparse.Namespace) -> EstimateRequest:
    """What is asked for. Raises TlbcostError for options about measuring, where nothing is."""
    if arguments.no_measure:
        of_measuring = {
            "--time-budget": arguments.time_budget is not None,
            "--no-system": arguments.no_system,
            "--shared-memory": arguments.shared_memory,
            "--text": arguments.text,
        }
        for option, given in of_measuring.items():
            if given:
                raise TlbcostError(
                    f"{option} is about measuring on huge pages, which --no-measure excludes",
                    "leave one of them out",
                    USAGE,
                )
    text: tuple[Also, ...] = ("text",) if arguments.text else ()
    return options.request_from(
        EstimateRequest,
        arguments,
        argv=options.program_words(arguments.program),
        sites=arguments.sites or arguments.plan is not None,
        imported=tuple(arguments.imported or ()),
        object_name=arguments.object,
        measured=options.measuring(arguments),
        system=not arguments.no_system,
        also=((*text, "shared memory") if arguments.shared_memory else text),
    )


def _nodes(text: str) -> int:
    from tlbcost.numa.placement import parse_count

    return parse_count(text)


def page_sizes(text: str) -> tuple[int, ...]:
    """Page sizes of a list such as 4K,2M,1G with that of base pages, ascending."""
    from tlbcost.machines.plan import BASE_BYTES

    powers = {"K": 10, "M": 20, "G": 30}
    sizes = []
    for word in text.split(","):
        number, unit = word[:-1], word[-1:].upper()
        bytes_ = int(number) << powers[unit] if number.isdigit() and unit in powers else 0
        if bytes_ < BASE_BYTES or bytes_ & (bytes_ - 1):
            raise argparse.ArgumentTypeError(f"not a page size as 4K, 64K, 2M or 1G: {word}")
        sizes.append(bytes_)
    return tuple(sorted({BASE_BYTES, *sizes}))


def _positive(text: str) -> int:
    if not re.fullmatch("[0-9]+", text) or not 0 < int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"not a number of copies: {text}")
    return int(text)


def _cycles(text: str) -> float:
    cycles = options.as_number(text)
    if not 0 < cycles < 1e6:
        raise argparse.ArgumentTypeError(f"not a number of cycles: {text}")
    return cycles
