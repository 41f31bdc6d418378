# SPDX-License-Identifier: GPL-2.0-or-later
"""How are the doctor's findings printed? Without Rich: that may be what is missing."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tlbcost.doctor.check import Check


def text_of(checks: Sequence[Check], width: int, *, details: bool) -> str:
    """The findings in lines of `width` columns; commands stand on one line, however long.

    Without `details` what is well is only named.
    """
    blocking = [check.name for check in checks if check.blocks_estimate]
    verdict = "'tlbcost estimate' works here."
    if blocking:
        verdict = f"'tlbcost estimate' cannot work here: fix {', '.join(blocking)} first."
    shown = [check for check in checks if details or check.state != "ok"]
    names = max((len(check.name) for check in shown), default=0)
    lines = [verdict, ""]
    for check in shown:
        head = f"{check.state:<8} {check.name:<{names}}  "
        lines += _wrapped(check.finding, head, width)
        if check.command:
            lines.append(f"{'':9}-> {check.command}")
    if not details:
        fine = [check.name for check in checks if check not in shown]
        lines += _wrapped(f"{', '.join(fine)} (--details)", f"{'ok':<8} ", width)
    return "\n".join(lines)


def _wrapped(text: str, head: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    )
