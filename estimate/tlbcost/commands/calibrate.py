# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost calibrate: costs of address translation on this machine."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TextIO

from tlbcost.calibration.file import CalibrationRequest, cached_calibration, obtain
from tlbcost.common import arguments as options
from tlbcost.common.cleanup import until_stopped
from tlbcost.common.document import to_json
from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.common.output import check_files, give_report
from tlbcost.common.progress import Progress, say

_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LEAST_PAGE = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--quick", action="store_true", help="measure what an estimate needs (12 s at most)"
    )
    what.add_argument("--full", action="store_true", help="measure all there is (120 s at most)")
    what.add_argument(
        "--show", action="store_true", help="print the cached calibration, measure nothing"
    )
    what.add_argument(
        "--compare", nargs=2, type=Path, metavar="FILE", help="compare two written by --json"
    )
    options.add_reports(parser, json="the figures", output="standard output")
    options.add_exit_codes(parser, {1: "failed", 4: "this machine cannot be calibrated"})
    parser.add_argument(
        "--page-size", action="append", default=[], type=page_size, metavar="SIZE",
        help="measure this page size and the base page alone, e.g. 64K or 2M; may be repeated",
    )  # fmt: skip
    parser.add_argument("--details", action="store_true", help="print all figures")
    parser.add_argument(
        "--plot", type=options.to_picture, metavar="FILE", help="draw it (.png or .svg)"
    )
    options.add_flag(parser, "--recalibrate", "measure again, even if a calibration is cached")


def page_size(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,12})([KMG]?)(iB)?", text, re.IGNORECASE | re.ASCII)
    size = int(found[1]) * _FACTORS[found[2].upper()] if found else 0
    if size < _LEAST_PAGE or size & (size - 1):
        raise argparse.ArgumentTypeError(f"not a page size: {text} (such as 64K, 2M or 1G)")
    return size


def run(arguments: argparse.Namespace) -> int:
    mode = "--show" if arguments.show else "--compare" if arguments.compare else None
    useless = {"--page-size": arguments.page_size, "--recalibrate": arguments.recalibrate}
    if arguments.compare:
        useless |= {"--json": arguments.json, "--plot": arguments.plot}
        useless["--details"] = arguments.details
    for option, given in useless.items():
        if mode and given:
            raise TlbcostError(
                f"{option} has no meaning with {mode}", "tlbcost calibrate --help", USAGE
            )
    check_files(options.files_of(arguments, "--json", "--output", "--plot"))
    return until_stopped(lambda: _calibrate(arguments))


def _calibrate(arguments: argparse.Namespace) -> int:
    if arguments.compare:
        from tlbcost.calibration.document import compare_files

        give_report(arguments, compare_files(*arguments.compare), _print, str, stdout=True)
        return 0
    from tlbcost.calibration.document import calibration_document, draw
    from tlbcost.calibration.records import reported_figures, sysfs_caches
    from tlbcost.calibration.report import describe, summarize
    from tlbcost.common.console import WIDTH, width_of

    if arguments.show:
        obtained = cached_calibration(curve=arguments.plot is not None)
    else:
        with Progress("calibration") as progress:
            obtained = obtain(
                CalibrationRequest(
                    extent="full" if arguments.full else "quick" if arguments.quick else None,
                    recalibrate=arguments.recalibrate,
                    page_sizes=tuple(arguments.page_size),
                    curve=arguments.plot is not None,
                ),
                say,
                progress.calibrating,
            )
    reported = reported_figures(obtained.calibration, sysfs_caches())
    if arguments.details:
        text = describe(obtained, reported)
    else:
        width = width_of(sys.stdout) if arguments.output is None else WIDTH
        text = summarize(obtained, reported, width)
    give_report(
        arguments,
        text,
        _print,
        lambda _: to_json(calibration_document(obtained, reported)),
        stdout=True,
    )
    if arguments.plot is not None:
        draw(obtained, reported, arguments.plot)
    return 0


def _print(text: str, file: TextIO) -> None:
    print(text, end="", file=file)
