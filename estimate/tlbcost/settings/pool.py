# SPDX-License-Identifier: GPL-2.0-or-later
"""Pools of huge pages: filled, released, listed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from tlbcost.common import units
from tlbcost.common.console import print_whole, table
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.files import remove_left, temporary_place
from tlbcost.common.progress import say
from tlbcost.settings.change import system_settings
from tlbcost.settings.journal import Change, read_journal
from tlbcost.system import hints, huge_pages


@dataclass(frozen=True, slots=True)
class PoolRequest:
    """Pages to reserve: `pages`, or as many as hold `n_bytes`; one of the two is None.

    `page_size_bytes` None: the kernel's default.
    """

    page_size_bytes: int | None
    pages: int | None
    n_bytes: int | None


def reserve(request: PoolRequest, program: Callable[[], int] | None) -> int:
    """Reserve pages for `program`, or for good; returns its exit code. Raises TlbcostError."""
    size = request.page_size_bytes or huge_pages.default_page_bytes()
    if size is None:
        raise TlbcostError(
            "cannot reserve huge pages: this kernel has no pools", None, CANNOT_MEASURE
        )
    pages = request.pages if request.pages is not None else -(-(request.n_bytes or 0) // size)
    with system_settings() as settings:
        settings.reserve(size, pages)
        try:
            settings.mount_hugetlbfs(size)
        except TlbcostError as error:
            # Useful all the same: malloc and shared memory need no mount, libhugetlbfs does.
            if error.exit_code != CANNOT_MEASURE:
                raise
            say(f"{error}; hugectl will not find these pages")
        if program is not None:
            return program()
        settings.keep()
    restored_by = hints.as_root("tlbcost pool restore")
    what = f"{pages} page{' is' if pages == 1 else 's are'}"
    say(f"{what} reserved, {units.size(size)} each; they stay until: {restored_by}")
    return 0


def restore() -> int:
    """Undo all changes, remove folders of killed runs; how many are left. Raises TlbcostError."""
    with contextlib.suppress(OSError):
        remove_left(temporary_place())
    with system_settings() as settings:
        if not settings.found:
            say("nothing to restore: no change of tlbcost's is left")
        return settings.restore_left(kept=True)


def print_status(file: TextIO) -> None:
    """Print the pools, where hugetlbfs is mounted, and what tlbcost changed. Needs no root."""
    sizes = huge_pages.sizes()
    if not sizes:
        print("This kernel has no pools of huge pages.", file=file)
    else:
        rows = table("page size", "pages", "free", "reserved", "surplus")
        for size in sizes:
            pool = huge_pages.pool(size)
            counts = (pool.pages, pool.free, pool.reserved, pool.surplus)
            rows.add_row(units.size(size), *map(units.known, counts))
        print_whole(lambda console: console.print(rows), file)
    print(file=file)
    for mount in huge_pages.mounts():
        of = units.size(mount.page_size_bytes)
        print(f"hugetlbfs of {of} pages is mounted on {mount.folder}", file=file)
    if not huge_pages.mounts():
        print("No hugetlbfs is mounted.", file=file)
    try:
        changes = read_journal()
    except PermissionError:
        print(f"tlbcost has changed settings; to see which: {hints.again_as_root()}", file=file)
        return
    if not changes:
        print("No change of tlbcost's is in effect.", file=file)
    for change in changes:
        print(_words(change), file=file)


def _words(change: Change) -> str:
    if change.kind == "mount":
        what = f"mounted by tlbcost: {change.path}"
    else:
        what = f"changed by tlbcost: {change.path}: {change.before} -> {change.after}"
    if change.kept:
        state = "stays until 'tlbcost pool restore'"
    elif change.owner.alive():
        state = "which restores it when it ends"
    else:
        state = "which was killed; 'tlbcost pool restore' restores it"
    return f"{what}\n    by process {change.owner.pid} ({change.owner.command}), {state}"
