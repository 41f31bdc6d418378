# SPDX-License-Identifier: GPL-2.0-or-later
"""The result of one check; all of them as `tlbcost doctor --json` writes them, and as text.

The text is made without Rich: that may be what is missing.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from tlbcost.common.document import Part, doc

State = Literal["ok", "limited", "missing"]
Value = str | int | None


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked."""

    name: Annotated[str, doc("what was checked")]
    state: Annotated[State, doc("limited: it works in part")]
    finding: Annotated[str, doc("the finding, in words")]
    command: Annotated[
        str | None, doc("command that fixes it; null: nothing to fix, or no command does")
    ] = None
    blocks_estimate: Annotated[
        bool, doc("whether tlbcost estimate cannot work until it is fixed")
    ] = False
    values: Annotated[
        Mapping[str, Value], doc("figures; units are in the keys, null: not obtained")
    ] = field(default_factory=dict)


class Examination(Part, frozen=True, kw_only=True):
    """What `tlbcost doctor --json FILE` writes: what can be measured here."""

    format: Annotated[Literal["tlbcost doctor 1"], doc("form of this document and its version")] = (
        "tlbcost doctor 1"
    )
    tlbcost_version: Annotated[str, doc("version of tlbcost that wrote it")]
    estimate_works: Annotated[bool, doc("whether tlbcost estimate works here")]
    checks: Annotated[list[Check], doc("in the order of the report")]


def text_of(checks: Sequence[Check], width: int, *, details: bool) -> str:
    """The findings in `width` columns, except commands; without `details` the good ones by name."""
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
