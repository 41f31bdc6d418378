# SPDX-License-Identifier: GPL-2.0-or-later
"""How are caveats written: the worst few, or all of them?"""

from __future__ import annotations

from collections.abc import Sequence

from tlbcost.answer.record import Caveat
from tlbcost.report.lines import wrapped

# The second says more of what the first is about, and is written with it.
_RELATED = {"T02": "T03"}
_INDENT = 5


def caveat_items(caveats: Sequence[Caveat], width: int) -> list[list[str]]:
    """The lines of each caveat, in their order; related ones are one."""
    by_code = {caveat.code: caveat for caveat in caveats}
    merged = {second for first, second in _RELATED.items() if first in by_code}
    return [
        _lines(caveat, by_code.get(_RELATED.get(caveat.code, "")), width)
        for caveat in caveats
        if caveat.code not in merged
    ]


def _lines(caveat: Caveat, related: Caveat | None, width: int) -> list[str]:
    parts = [caveat.sentence, caveat.remedy]
    if related is not None:
        parts.append(f"{related.sentence.removesuffix('.')} ({related.code}).")
    return wrapped(" ".join(parts), width, f"{caveat.code:<{_INDENT}}", " " * _INDENT)
