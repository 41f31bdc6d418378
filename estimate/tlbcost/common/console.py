# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables for people: plain, without lines, numbers to the right."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from tlbcost.common import names

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

WIDTH = 80
_NARROWEST, _WIDEST = 60, 120
# Blanks between columns, where there is room; else 1.
_GAP = 2


def width_of(file: TextIO) -> int:
    """Columns to fill: COLUMNS if it is set, else the terminal's; 80 where there is none."""
    columns = os.environ.get("COLUMNS", "")
    found = int(columns) if columns.isascii() and columns.isdigit() else 0
    if not found and file.isatty():
        try:
            found = os.get_terminal_size(file.fileno()).columns
        except OSError:
            found = 0
    return min(_WIDEST, max(_NARROWEST, found)) if found else WIDTH


def is_styled(file: TextIO) -> bool:
    """Whether to write bold: on a terminal, unless NO_COLOR or TERM=dumb; or by CLICOLOR_FORCE."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return file.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def print_whole(fill: Callable[[Console], None], file: TextIO) -> None:
    """Print what `fill` writes, as wide as the terminal (width_of), and bold where is_styled.

    All at once, since half a report is none; without the blanks that Rich fills lines with.
    """
    from rich.console import Console

    styled = is_styled(file)
    text = io.StringIO()
    console = Console(
        file=text,
        force_terminal=styled,
        color_system="standard" if styled else None,
        no_color=not styled,
        width=width_of(file),
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},
    )
    fill(console)
    lines = names.shown_text(text.getvalue()).splitlines()
    file.write("".join(f"{line.rstrip()}\n" for line in lines))
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

    class Whole(Table):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            _fit(self, options.max_width)
            return super().__rich_console__(console, options)

    made = Whole(box=None, padding=(0, _GAP, 0, 0), header_style="bold", pad_edge=False)
    made.add_column(first, overflow="fold")
    for name in names:
        made.add_column(name, justify="right", overflow="fold")
    return made


def _fit(rows: Table, width: int) -> None:
    """Give columns widths that cut no word, if there are any such; Rich would narrow the widest."""
    texts = ["\n".join([str(one.header), *map(str, one.cells)]) for one in rows.columns]
    widths = [max(map(len, text.split("\n"))) for text in texts]
    least = [max(map(len, text.split()), default=0) for text in texts]
    gap = next((gap for gap in (_GAP, 1) if sum(least) + gap * (len(least) - 1) <= width), None)
    if gap is None:
        return
    rows.padding = (0, gap, 0, 0)
    while sum(widths) + gap * (len(widths) - 1) > width:
        widest = max(range(len(widths)), key=lambda i: (widths[i] > least[i], widths[i]))
        widths[widest] -= 1
    for column, chosen in zip(rows.columns, widths, strict=True):
        column.width = chosen


def section(console: Console, content: Table) -> None:
    """Print a table with an empty line above."""
    console.print()
    console.print(content)
