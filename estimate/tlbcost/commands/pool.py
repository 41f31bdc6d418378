# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost pool: pools of huge pages, filled and released."""

from __future__ import annotations

import argparse
import sys

from tlbcost.common.arguments import Parser, add_exit_codes, add_quiet
from tlbcost.common.cleanup import sigint_left_to_the_program, until_stopped
from tlbcost.common.errors import FAILED, TOOL_FAILED, USAGE, TlbcostError

_USAGE = "tlbcost pool reserve [--page-size SIZE] PAGES|SIZE [-- COMMAND [ARG...]]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{_USAGE}\n       tlbcost pool status\n       tlbcost pool restore"
    add_exit_codes(
        parser,
        {1: "failed", 4: "these pages are not available here, or not to this user"},
        program=True,
        before="COMMAND's exit code is ours.",
    )
    _add_page_size(parser)
    add_quiet(parser)
    parser.add_argument("action", choices=("reserve", "status", "restore"))
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    words: list[str] = arguments.words
    if arguments.action != "reserve":
        if words:
            raise TlbcostError(
                f"pool {arguments.action} takes no arguments: {words[0]}",
                f"tlbcost pool {arguments.action}",
                USAGE,
            )
        if arguments.action == "restore":
            from tlbcost.settings.pool import restore

            return until_stopped(lambda: FAILED if restore() else 0)
        from tlbcost.settings.pool import print_status

        print_status(sys.stdout)
        return 0
    split = words.index("--") if "--" in words else len(words)
    command = words[split + 1 :]
    parser = Parser(prog="tlbcost pool reserve", usage=_USAGE)
    _add_page_size(parser, arguments.page_size)
    parser.add_argument("amount", type=_amount, metavar="PAGES|SIZE")
    if split < len(words) and not command:
        parser.error("no COMMAND after --")
    asked = parser.parse_args(words[:split])
    try:
        return until_stopped(lambda: _reserve(asked.page_size, asked.amount, command))
    except TlbcostError as error:
        if command and error.exit_code == FAILED:
            # 1 may be the program's own.
            raise TlbcostError(str(error), error.hint, TOOL_FAILED) from error
        raise


def _add_page_size(parser: argparse.ArgumentParser, default: int | None = None) -> None:
    parser.add_argument(
        "--page-size", metavar="SIZE", type=_page_size, default=default,
        help="reserve pages of this size, e.g. 2M or 1G (default: the kernel's)",
    )  # fmt: skip


def _page_size(text: str) -> int:
    from tlbcost.system.huge_pages import parse_bytes

    n_bytes = parse_bytes(text)
    if not n_bytes:
        raise argparse.ArgumentTypeError(f"not a page size like 2M or 1G: {text}")
    return n_bytes


def _amount(text: str) -> tuple[int | None, int | None]:
    """(pages, None) or (None, bytes)."""
    from tlbcost.system.huge_pages import parse_bytes

    if text.isascii() and text.isdigit() and 0 < int(text) < 1 << 40:
        return int(text), None
    n_bytes = parse_bytes(text)
    if not n_bytes:
        raise argparse.ArgumentTypeError(f"neither pages like 16 nor a size like 1G: {text}")
    return None, n_bytes


def _reserve(
    page_size_bytes: int | None, amount: tuple[int | None, int | None], command: list[str]
) -> int:
    from tlbcost.run.launch import resolve
    from tlbcost.settings.pool import PoolRequest, reserve

    if command:
        resolve(command[0])
    request = PoolRequest(page_size_bytes, *amount)
    return reserve(request, (lambda: _command(command)) if command else None)


def _command(argv: list[str]) -> int:
    from tlbcost.run.launch import launcher_of, resolve, start_failure

    with launcher_of(None) as launcher, sigint_left_to_the_program():
        outcome = launcher.execute(argv, discard=False)
    if outcome.exec_errno is not None:
        raise start_failure(argv[0], resolve(argv[0]), outcome.exec_errno)
    return outcome.code
