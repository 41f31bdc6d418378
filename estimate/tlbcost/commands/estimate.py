# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost estimate: what would huge pages give this program?"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.answer.request import EstimateRequest
from tlbcost.commands.estimate_options import add_arguments, request_of
from tlbcost.common.cleanup import until_stopped
from tlbcost.common.errors import TOOL_FAILED, USAGE, TlbcostError
from tlbcost.common.names import program_only

if TYPE_CHECKING:
    from tlbcost.answer.record import Estimate
    from tlbcost.report.condition import Comparison

__all__ = ["add_arguments", "run"]


def run(arguments: argparse.Namespace) -> int:
    """Estimate; returns 0, raises TlbcostError."""
    return until_stopped(lambda: _estimate(arguments), arguments.time_limit)


def _estimate(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import check_files
    from tlbcost.report.condition import parse_comparison

    request = request_of(arguments)
    conditions = [parse_comparison(text) for text in arguments.fail_if]
    files = {"code": arguments.code, "folded": arguments.folded, "plot": arguments.plot}
    asked = [option for option, file in files.items() if file is not None]
    _check_simulated(request, asked, arguments.plot)
    others = "--machine" if arguments.machine else "--page-size" if arguments.page_size else None
    if others is not None:
        _check_others(request, others)
        if conditions:
            raise TlbcostError(f"{others} excludes --fail-if", "leave one out", USAGE)
    request.check()
    # Whatever can be refused is refused before anything takes time.
    written = {f"--{option}": file for option, file in files.items()}
    check_files(
        {"--json": arguments.json, "--output": arguments.output, **written},
        TOOL_FAILED,
        {"--from": request.imported, "--calibration": [c for c in [request.calibration] if c]},
    )
    if others is not None:
        _estimate_machines(request, arguments)
        return 0
    return _estimate_here(request, arguments, asked, conditions)


def _estimate_here(
    request: EstimateRequest,
    arguments: argparse.Namespace,
    asked: Sequence[str],
    conditions: Sequence[Comparison],
) -> int:
    from tlbcost.answer.document import estimate_document
    from tlbcost.answer.estimate import estimate, with_words
    from tlbcost.common.document import to_json
    from tlbcost.common.output import give_report
    from tlbcost.report.condition import exit_code
    from tlbcost.report.text import print_report

    found = estimate(request)
    if arguments.redact:
        given = replace(found.given, argv=program_only(found.given.argv))
        found = with_words(replace(found, given=given))
    document = estimate_document(found)
    give_report(
        document,
        partial(print_report, details=arguments.details),
        to_json,
        arguments.output,
        arguments.json,
    )
    if asked:
        _write_attribution(found, arguments, asked[0])
    return exit_code(conditions, document)


def _estimate_machines(request: EstimateRequest, arguments: argparse.Namespace) -> None:
    from tlbcost.common.output import give_report
    from tlbcost.machines.document import to_json
    from tlbcost.machines.estimate import MachinesRequest, estimate_machines
    from tlbcost.machines.report import print_report

    found = estimate_machines(
        MachinesRequest(
            argv=request.argv,
            names=arguments.machine,
            page_sizes=arguments.page_size or (),
            calibration=request.calibration,
            recalibrate=request.recalibrate,
            prepare=request.prepare,
            ignore_failure=request.ignore_failure,
            region=request.region,
        )
    )
    if arguments.redact:
        found = replace(found, argv=program_only(found.argv))
    text = partial(print_report, details=arguments.details)
    give_report(found, text, to_json, arguments.output, arguments.json)


def _check_simulated(request: EstimateRequest, asked: Sequence[str], plot: Path | None) -> None:
    """Refuse options that only a simulation can serve where there is none."""
    from tlbcost.common.gnuplot import check_picture

    if asked and request.unsimulated is not None:
        raise TlbcostError(
            f"--{asked[0]} needs a simulation, which {request.unsimulated} excludes",
            f"leave --{asked[0]} out, or {request.unsimulated}",
            USAGE,
        )
    check_picture(plot, "--plot phases.png")


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
    if request.backend in ("pmu", "both") or request.imported or request.model == "simple":
        raise TlbcostError(
            f"{option} applies only to a simulation and its overlap model",
            "leave --backend, --from and --model out",
            USAGE,
        )


def _write_attribution(found: Estimate, arguments: argparse.Namespace, asked: str) -> None:
    """The files about attribution. Raises TlbcostError if nothing was simulated after all."""
    from tlbcost.common.output import write

    simulated = found.simulated
    if simulated is None or simulated.attribution is None:
        raise TlbcostError(
            f"nothing to write for --{asked}: no simulation found which code misses",
            "--backend sim",
            TOOL_FAILED,
        )
    argv, images = found.given.argv, simulated.attribution.images
    if arguments.code is not None:
        from tlbcost.attribution.code_table import code_text

        write(arguments.code, code_text(shlex.join(argv), images), TOOL_FAILED)
    if arguments.folded is not None:
        from tlbcost.attribution.folded_stacks import folded

        write(arguments.folded, folded(images), TOOL_FAILED)
    if arguments.plot is not None:
        from tlbcost.answer.phases_figure import draw_phases

        draw_phases(argv, simulated, arguments.plot)
