# SPDX-License-Identifier: GPL-2.0-or-later
"""How are the doctor's findings printed? Without Rich: that may be what is missing."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tlbcost.doctor.check import Check

_COLUMNS = 80


def text_of(checks: Sequence[Check]) -> str:
    """The findings as text of 80 columns; commands stand alone on a line, however long."""
    width = max(len(check.name) for check in checks)
    lines: list[str] = []
    for check in checks:
        head = f"{check.state:<8} {check.name:<{width}}  "
        lines += textwrap.wrap(
            check.finding,
            _COLUMNS,
            initial_indent=head,
            subsequent_indent=" " * len(head),
            break_on_hyphens=False,
        )
        if check.command:
            lines.append(f"{'':9}-> {check.command}")
    blocking = [check.name for check in checks if check.blocks_estimate]
    if blocking:
        lines += ["", f"'tlbcost estimate' cannot work here: fix {', '.join(blocking)} first."]
    else:
        lines += ["", "'tlbcost estimate' works here."]
    return "\n".join(lines)
