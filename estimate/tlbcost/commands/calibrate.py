# SPDX-License-Identifier: GPL-2.0-or-later
"""`tlbcost calibrate`: what does address translation cost on this machine?"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from tlbcost.calibration.cache import Obtained, look_up, obtain
from tlbcost.calibration.records import Extent
from tlbcost.common.errors import FAILED, USAGE, TlbcostError
from tlbcost.common.output import check_writable, write
from tlbcost.common.progress import Progress

_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LEAST_PAGE = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
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
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it there as JSON too")
    parser.add_argument("--output", type=Path, metavar="FILE", help="print to FILE")
    parser.add_argument(
        "--page-size", action="append", default=[], type=page_size, metavar="SIZE",
        help="measure this page size and the base page alone, e.g. 64K or 2M; may be repeated",
    )  # fmt: skip
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it (.png or .svg)")
    parser.add_argument(
        "--recalibrate", action="store_true", help="measure again, even if a calibration is cached"
    )


def page_size(text: str) -> int:
    """A page size in bytes from the command line. Raises ArgumentTypeError."""
    found = re.fullmatch(r"([0-9]{1,12})([KMG]?)(iB)?", text, re.IGNORECASE | re.ASCII)
    size = int(found[1]) * _FACTORS[found[2].upper()] if found else 0
    if size < _LEAST_PAGE or size & (size - 1):
        raise argparse.ArgumentTypeError(f"not a page size: {text} (such as 64K, 2M or 1G)")
    return size


def run(arguments: argparse.Namespace) -> int:
    """Measure or look up, print, and draw if asked; or compare."""
    _check(arguments)
    if arguments.compare:
        _print(_comparison(*arguments.compare), arguments.output)
        return 0
    from tlbcost.calibration.figure import draw
    from tlbcost.calibration.json import as_json
    from tlbcost.calibration.other_sources import sayings, sysfs_caches
    from tlbcost.calibration.report import describe

    obtained = _shown(arguments) if arguments.show else _obtain(arguments)
    known = sayings(obtained.calibration, sysfs_caches())
    _print(describe(obtained, known), arguments.output)
    if arguments.json is not None:
        write(arguments.json, json.dumps(as_json(obtained, known), indent=2) + "\n")
    if arguments.plot is not None:
        draw(obtained, known, arguments.plot)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Refuse at once what cannot end well."""
    from tlbcost.common.gnuplot import check_picture

    mode = "--show" if arguments.show else "--compare" if arguments.compare else None
    useless = {"--page-size": arguments.page_size, "--recalibrate": arguments.recalibrate}
    if arguments.compare:
        useless |= {"--json": arguments.json, "--plot": arguments.plot}
    for option, given in useless.items():
        if mode and given:
            raise TlbcostError(
                f"{option} has no meaning with {mode}", "tlbcost calibrate --help", USAGE
            )
    picture: Path | None = arguments.plot
    check_picture(picture, "--plot curve.png", FAILED)
    for path in (picture, arguments.json, arguments.output):
        if path is not None:
            check_writable(path)


def _comparison(first: Path, second: Path) -> str:
    from tlbcost.calibration.comparison import compare
    from tlbcost.calibration.json import read_document

    return compare(read_document(first), read_document(second), (str(first), str(second)))


def _shown(arguments: argparse.Namespace) -> Obtained:
    """The cached calibration as it is."""
    cached, reason = look_up()
    if cached is None:
        raise TlbcostError(f"nothing to show: {reason}", "tlbcost calibrate")
    if arguments.plot is not None and cached.curve is None:
        raise TlbcostError(
            "cannot plot: the curve behind the cached calibration is lost",
            "tlbcost calibrate --recalibrate",
        )
    return cached


def _obtain(arguments: argparse.Namespace) -> Obtained:
    extent: Extent | None = "full" if arguments.full else "quick" if arguments.quick else None
    recalibrate: bool = arguments.recalibrate
    with Progress() as progress:
        if arguments.plot is not None and not recalibrate and not arguments.page_size:
            cached, _ = look_up()
            if cached is not None and cached.curve is None:
                progress.announce("the curve behind the cached calibration is lost")
                recalibrate = True
        return obtain(
            recalibrate=recalibrate,
            extent=extent,
            page_sizes=arguments.page_size,
            announce=progress.announce,
            progress=progress.calibrating if progress.shown else None,
        )


def _print(text: str, output: Path | None) -> None:
    if output is None:
        print(text, end="")
    else:
        write(output, text)
