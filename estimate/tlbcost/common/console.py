# SPDX-License-Identifier: GPL-2.0-or-later
"""How do tables for people look: plain, without lines, numbers to the right."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH = 80
_WIDEST = 100


def print_whole(fill: Callable[[Console], None], file: TextIO) -> None:
    """Print what `fill` writes, 80 columns wide; in bold, and up to 100 wide, on a terminal.

    All at once, since half a report is none; without the blanks that Rich fills lines with.
    """
    from rich.console import Console

    tty = file.isatty()
    text = io.StringIO()
    console = Console(
        file=text,
        force_terminal=tty,
        color_system="standard" if tty else None,
        width=WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )
    if tty:
        console.width = min(_WIDEST, max(WIDTH, Console(file=file).width))
    fill(console)
    file.write("".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines()))
    file.flush()


def grid() -> Table:
    """Two columns of text, the second one folded."""
    from rich.table import Table

    rows = Table.grid(padding=(0, 1))
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    return rows


def table(first: str, *names: str) -> Table:
    """A table with a column of words and columns of figures."""
    from rich.table import Table

    made = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    made.add_column(first, overflow="fold")
    for name in names:
        made.add_column(name, justify="right", overflow="fold")
    return made


def section(console: Console, content: Table) -> None:
    """Print a table with an empty line above."""
    console.print()
    console.print(content)
