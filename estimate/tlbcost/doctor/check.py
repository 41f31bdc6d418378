# SPDX-License-Identifier: GPL-2.0-or-later
"""The result of one check, and the document that `tlbcost doctor --json` writes."""

from __future__ import annotations

from collections.abc import Mapping
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
