# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions with more page walks than before, by the simulator's exact counts of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tlbcost.common import names, units
from tlbcost.simulator.memory_tables import Line, SourceLocation

# A function with less of the walks before is not named: one that moved, or a few walks.
_NAMED_FRACTION = 0.001
_MOST_NAMED = 10


@dataclass(slots=True)
class Regression:
    """A function; `before` and `now`: its page walks on base pages; `lines`: those of now."""

    name: str
    before: int = 0
    now: int = 0
    lines: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, int] | None:
        """File and line with most of them; None: not known."""
        return max(self.lines, key=lambda line: self.lines[line], default=None)


def regressions(before: Sequence[Line], now: Sequence[Line]) -> list[Regression]:
    """Those that have more walks now, the largest rise first."""
    found: dict[str, Regression] = {}
    for lines in (before, now):
        for line in lines:
            name, site = _name(line.site), line.site
            one = found.setdefault(name, Regression(name))
            if lines is before:
                one.before += line.base.walks
            else:
                one.now += line.base.walks
                if site.file is not None and site.line is not None:
                    place = site.file, site.line
                    one.lines[place] = one.lines.get(place, 0) + line.base.walks
    least = _NAMED_FRACTION * walks_of(before)
    grown = [one for one in found.values() if one.now - one.before > least]
    return sorted(grown, key=lambda one: one.before - one.now)


def walks_of(lines: Sequence[Line]) -> int:
    return sum(line.base.walks for line in lines)


def _name(site: SourceLocation) -> str:
    return site.function or PurePosixPath(site.object or "unknown code").name


def describe(before: Sequence[Line], now: Sequence[Line]) -> str:
    old, new = walks_of(before), walks_of(now)
    text = [f"page walks on base pages, simulated: {old:,} before, {new:,} now ({_rise(old, new)})"]
    for one in regressions(before, now)[:_MOST_NAMED]:
        place = "" if one.place is None else f"  {names.shown(one.place[0])}:{one.place[1]}"
        rise = _rise(one.before, one.now)
        text.append(f"{one.now - one.before:>+13,}  {rise:>8}  {names.shown(one.name)}{place}")
    return "\n".join(text) + "\n"


def github_warnings(before: Sequence[Line], now: Sequence[Line]) -> str:
    """Workflow commands of GitHub Actions, one a function; files below the working directory."""
    text = []
    for one in regressions(before, now)[:_MOST_NAMED]:
        words = f"{names.shown(one.name)}: {one.now - one.before:,} more page walks than before"
        words = f"{words} ({_rise(one.before, one.now)})".replace("%", "%25")
        place = ""
        if one.place is not None and (file := _below(one.place[0])) is not None:
            place = f" file={file},line={one.place[1]}"
        text.append(f"::warning{place}::{words}\n")
    return "".join(text)


def _below(name: str) -> Path | None:
    """The only file below the working directory with this name: debug information has no more."""
    found = [path for path in Path().rglob(PurePosixPath(name).name) if path.is_file()]
    return found[0] if len(found) == 1 else None


def _rise(before: int, now: int) -> str:
    return "new" if not before else f"{units.percent(now / before - 1)}"
