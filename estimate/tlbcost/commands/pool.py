# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost pool: what is in the pools of huge pages, and how is one filled and given back?"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from tlbcost.common import units
from tlbcost.common.cleanup import (
    Stopped,
    sigint_left_to_the_program,
    signals_raise,
    temporary_folder,
)
from tlbcost.common.errors import (
    CANNOT_MEASURE,
    FAILED,
    SIGNAL_BASE,
    TOOL_FAILED,
    USAGE,
    TlbcostError,
)

if TYPE_CHECKING:
    from tlbcost.settings.change import Settings

_USAGE = "tlbcost pool reserve [--page-size SIZE] PAGES|SIZE [-- COMMAND [ARG...]]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = f"{_USAGE}\n       tlbcost pool status\n       tlbcost pool restore"
    parser.epilog = (
        "Exit codes: COMMAND's if there is one; otherwise 0 done, 1 failed, 2 usage, 4 these pages "
        "are not available here or not to this user, 125 tlbcost failed, 126 or 127 COMMAND could "
        "not be started, 128 + signal."
    )
    _add_page_size(parser)
    parser.add_argument("action", choices=("reserve", "status", "restore"))
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked; returns the program's exit code, or 0. Raises TlbcostError."""
    words: list[str] = arguments.words
    if arguments.action != "reserve":
        if words:
            raise TlbcostError(
                f"pool {arguments.action} takes no arguments: {words[0]}",
                f"tlbcost pool {arguments.action}",
                USAGE,
            )
        return _status() if arguments.action == "status" else _restore()
    split = words.index("--") if "--" in words else len(words)
    command = words[split + 1 :]
    parser = argparse.ArgumentParser(prog="tlbcost pool reserve", usage=_USAGE)
    _add_page_size(parser, arguments.page_size)
    parser.add_argument("amount", type=_amount, metavar="PAGES|SIZE")
    if split < len(words) and not command:
        parser.error("no COMMAND after --")
    asked = parser.parse_args(words[:split])
    try:
        with signals_raise():
            return _reserve(asked.page_size, asked.amount, command)
    except TlbcostError as error:
        if command and error.exit_code == FAILED:
            # 1 may be the program's own.
            raise TlbcostError(str(error), error.hint, TOOL_FAILED) from error
        raise
    except Stopped as stop:
        print(f"tlbcost: ended by {signal.Signals(stop.number).name}", file=sys.stderr)
        return SIGNAL_BASE + stop.number


def _add_page_size(parser: argparse.ArgumentParser, default: int | None = None) -> None:
    parser.add_argument(
        "--page-size", metavar="SIZE", type=_page_size, default=default,
        help="reserve pages of this size, e.g. 2M or 1G (default: the kernel's)",
    )  # fmt: skip


def _page_size(text: str) -> int:
    from tlbcost.system.hugetlb import parse_bytes

    n_bytes = parse_bytes(text)
    if not n_bytes:
        raise argparse.ArgumentTypeError(f"not a page size like 2M or 1G: {text}")
    return n_bytes


def _amount(text: str) -> tuple[int | None, int | None]:
    """(pages, None) or (None, bytes)."""
    from tlbcost.system.hugetlb import parse_bytes

    if text.isascii() and text.isdigit() and 0 < int(text) < 1 << 40:
        return int(text), None
    n_bytes = parse_bytes(text)
    if not n_bytes:
        raise argparse.ArgumentTypeError(f"neither pages like 16 nor a size like 1G: {text}")
    return None, n_bytes


def _reserve(
    page_size_bytes: int | None, amount: tuple[int | None, int | None], command: list[str]
) -> int:
    from tlbcost.run.program import resolve
    from tlbcost.settings.change import say, system_settings
    from tlbcost.system import hints
    from tlbcost.system.hugetlb import default_page_bytes

    page_size_bytes = page_size_bytes or default_page_bytes()
    if page_size_bytes is None:
        raise TlbcostError(
            "cannot reserve huge pages: this kernel has no pools", None, CANNOT_MEASURE
        )
    pages, n_bytes = amount
    if pages is None:
        assert n_bytes is not None
        pages = -(-n_bytes // page_size_bytes)
    if command:
        resolve(command[0])
    with system_settings() as settings:
        settings.reserve(page_size_bytes, pages)
        _mount(settings, page_size_bytes)
        if command:
            return _command(command)
        settings.keep()
    restore = hints.as_root("tlbcost pool restore")
    what = f"{pages} page{' is' if pages == 1 else 's are'}"
    say(f"{what} reserved, {units.size(page_size_bytes)} each; they stay until: {restore}")
    return 0


def _mount(settings: Settings, page_size_bytes: int) -> None:
    """Pages serve without one, too: malloc and shared memory need none, libhugetlbfs does."""
    from tlbcost.settings.change import say

    try:
        settings.mount_hugetlbfs(page_size_bytes)
    except TlbcostError as error:
        if error.exit_code != CANNOT_MEASURE:
            raise
        say(f"{error}; hugectl will find no place for these pages")


def _command(argv: list[str]) -> int:
    from tlbcost.run.launch import Launcher
    from tlbcost.run.program import resolve, start_failure
    from tlbcost.run.stdin import ProgramInput
    from tlbcost.system.sudo import calling_user

    with (
        temporary_folder() as folder,
        contextlib.closing(ProgramInput()) as stdin,
        sigint_left_to_the_program(),
    ):
        launcher = Launcher(folder, stdin, calling_user())
        if launcher.user is not None:
            os.chown(folder, launcher.user.uid, launcher.user.gid)
        outcome = launcher.execute(argv, discard=False)
    if outcome.exec_errno is not None:
        raise start_failure(argv[0], resolve(argv[0]), outcome.exec_errno)
    return outcome.code


def _restore() -> int:
    from tlbcost.settings.change import say, system_settings

    try:
        with signals_raise(), system_settings() as settings:
            if not settings.found:
                say("nothing to put back: no change of tlbcost's is left")
            left = settings.restore_left(kept=True)
    except Stopped as stop:
        print(f"tlbcost: ended by {signal.Signals(stop.number).name}", file=sys.stderr)
        return SIGNAL_BASE + stop.number
    return FAILED if left else 0


def _status() -> int:
    from tlbcost.settings.journal import read_journal
    from tlbcost.system import hugetlb

    sizes = hugetlb.sizes()
    if not sizes:
        print("This kernel has no pools of huge pages.")
    else:
        print(_row("page size", "pages", "free", "reserved", "surplus"))
    for size in sizes:
        pool = hugetlb.pool(size)
        counts = (pool.pages, pool.free, pool.reserved, pool.surplus)
        cells = ["NA" if each is None else str(each) for each in counts]
        print(_row(units.size(size), *cells))
    print()
    for mount in hugetlb.mounts():
        size_text = "NA" if mount.page_size_bytes is None else units.size(mount.page_size_bytes)
        print(f"hugetlbfs of {size_text} pages is mounted on {mount.folder}")
    if not hugetlb.mounts():
        print("No hugetlbfs is mounted.")
    changes = read_journal()
    if not changes:
        print("No change of tlbcost's is in effect.")
    for change in changes:
        if change.kind == "mount":
            print(f"mounted by tlbcost: {change.path}")
        else:
            print(f"changed by tlbcost: {change.path}: {change.before} -> {change.after}")
        if change.kept:
            state = "stays until 'tlbcost pool restore'"
        elif change.owner.alive():
            state = "which puts it back when it ends"
        else:
            state = "which was killed; 'tlbcost pool restore' puts it back"
        print(f"    by process {change.owner.pid} ({change.owner.command}), {state}")
    return 0


def _row(name: str, *cells: str) -> str:
    return f"{name:<9}" + "".join(f"{cell:>10}" for cell in cells)
