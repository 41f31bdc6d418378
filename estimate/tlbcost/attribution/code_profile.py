# SPDX-License-Identifier: GPL-2.0-or-later
"""Code that walks, by the simulator: profile, JSON, table `code`, folded stacks, comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from tlbcost.common import document, formats, names, units
from tlbcost.common.document import Part, amount, doc
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import Cell, format_table, read_table
from tlbcost.counters.profile import short_names
from tlbcost.simulator.memory_tables import (
    ImageAttribution,
    Line,
    SourceLocation,
    read_lines,
)

By = Literal["object", "symbol", "line"]

_WALKS, _PERCENT = 13, 8
_NARROWEST, _WIDEST = 12, 26
# A function with less of the walks before is not named: one that moved, or a few walks.
_NAMED_FRACTION = 0.001
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRow(SourceLocation):
    """One object, function or line of a program; its source is the line with most walks of it."""

    program: Annotated[str, doc("what was run")]
    walks: Annotated[int, amount("page walks on base pages")]
    huge_walks: Annotated[int, amount("page walks on huge pages")]


class CodeProfileDocument(Part, frozen=True, kw_only=True):
    """Which code walks, by the simulator. null: not known."""

    format: Annotated[
        Literal["tlbcost code profile 1"], doc("form of this document and its version")
    ] = "tlbcost code profile 1"
    by: Annotated[By, doc("what the rows are")]
    rows: Annotated[list[CodeRow], doc("most walks on base pages first")]


def code_rows(lines: Sequence[Line], by: By) -> list[CodeRow]:
    sums: dict[tuple[str, SourceLocation], Counter[SourceLocation]] = {}
    huge_walks = Counter[tuple[str, SourceLocation]]()
    for line in lines:
        site = line.site
        if by != "line":
            function = site.function if by == "symbol" else None
            site = SourceLocation(site.object, function, None, None)
        sums.setdefault((line.program, site), Counter())[line.site] += line.base.walks
        huge_walks[line.program, site] += line.huge.walks
    rows = []
    for (program, group), walks in sums.items():
        where = asdict(group if by == "object" else max(walks, key=lambda site: walks[site]))
        huge = huge_walks[program, group]
        rows.append(CodeRow(**where, program=program, walks=walks.total(), huge_walks=huge))
    return sorted(rows, key=lambda row: (-row.walks, row.program, str(row)))


def describe(lines: Sequence[Line], by: By, limit: int | None) -> str:
    rows = code_rows(lines, by)
    total, left = sum(row.walks for row in rows), sum(row.huge_walks for row in rows)
    text = [
        f"page walks on base pages, simulated: {units.count(total)}; on huge pages: "
        f"{units.count(left)}",
        "",
    ]
    if not total:
        return text[0] + "\n"
    short = short_names([row.object for row in rows] + [row.program for row in rows])
    names = [_names(row, by, short) for row in rows]
    widths = [
        min(_WIDEST, max(_NARROWEST, *(len(name[i]) for name in names[:limit]))) for i in (0, 1)
    ]
    head = f"{'walks':>{_WALKS}}{'%':>{_PERCENT}}{'% left':>{_PERCENT}}"
    titles = ["image name", "app name", "symbol name"][: 2 if by == "object" else 3]
    text.append(head + "  " + _joined(titles, widths))
    for row, name in list(zip(rows, names, strict=True))[:limit]:
        remaining = f"{100 * row.huge_walks / row.walks:.2f}" if row.walks else units.NOT_OBTAINED
        text.append(
            f"{row.walks:>{_WALKS},}{100 * row.walks / total:>{_PERCENT}.2f}{remaining:>{_PERCENT}}"
            f"  {_joined(name, widths)}"
        )
    if limit is not None and len(rows) > limit:
        text.append(f"({len(rows) - limit} more; --limit {len(rows)} shows all)")
    return "\n".join(text) + "\n"


def to_json(lines: Sequence[Line], by: By, limit: int | None) -> str:
    return document.to_json(CodeProfileDocument(by=by, rows=code_rows(lines, by)[:limit]))


def _names(row: CodeRow, by: By, short: dict[str, str]) -> list[str]:
    def named(name: str | None) -> str:
        return units.NOT_OBTAINED if name is None else short.get(name, name)

    names = [named(row.object), named(row.program)]
    if by == "object":
        return names
    symbol = row.function or units.NOT_OBTAINED
    if row.file is not None and row.line is not None:
        symbol += f"  {row.file}:{row.line}"
    return [*names, symbol]


def _joined(names: Sequence[str], widths: Sequence[int]) -> str:
    padded = [f"{name:<{width}}" for name, width in zip(names, widths, strict=False)]
    return "  ".join([*padded, *names[len(widths) :]]).rstrip()


def is_code_table(path: Path) -> bool:
    """Does the file begin like a table of code? False also if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(64).startswith(b"# tlbcost code ")
    except OSError:
        return False


def read_code(path: Path) -> tuple[Line, ...]:
    """Instructions that missed, of all processes. Raises TlbcostError naming file and defect."""
    table = read_table(path, formats.CODE)
    try:
        return read_lines(table)
    except ValueError as error:
        raise TlbcostError(f"{path}: {error}") from error


def code_text(command: str, images: Sequence[ImageAttribution]) -> str:
    names: dict[str, int] = {}

    def number(name: str | None) -> int | None:
        return None if name is None else names.setdefault(name, len(names))

    rows: list[list[Cell]] = []
    for line in (line for image in images for line in image.lines):
        site, base, huge = line.site, line.base, line.huge
        texts = (line.program, site.object, site.function, site.file)
        program, *parts = map(number, texts)
        sides = (base.data, huge.data, base.fetch, huge.fetch)
        misses = [n for side in sides for n in (side.hits, side.walks)]
        rows.append([program, line.address, *parts, site.line, *misses])
    header: dict[str, Cell] = {"command": command}
    header |= {f"name_{i}": name for name, i in names.items()}
    return format_table(formats.CODE, header, rows)


def folded(images: Sequence[ImageAttribution]) -> str:
    """Stacks in Gregg's stackcollapse format, outermost first, and their base-page walks."""
    sums = Counter[str]()
    for image in images:
        program = _clean(image.program.rpartition("/")[2])
        for stack in image.stacks:
            frames = [_frame(frame) for frame in reversed(stack.frames)] or ["[unknown]"]
            sums[";".join([program, *frames])] += stack.base_walks
    return "".join(f"{line} {walks}\n" for line, walks in sorted(sums.items()) if walks)


def _frame(site: SourceLocation) -> str:
    if site.function is not None:
        return _clean(site.function)
    name = (site.object or "").rpartition("/")[2]
    return _clean(f"[{name}]") if name else "[unknown]"


def _clean(text: str) -> str:
    # A semicolon ends a frame, and a line's last blank begins the count.
    return names.shown(text).replace(";", ":").strip()


@dataclass(slots=True)
class Regression:
    """A function; `before` and `now`: its page walks on base pages; `lines`: those of now."""

    name: str
    before: int = 0
    now: int = 0
    lines: Counter[tuple[str, int]] = field(default_factory=Counter)

    @property
    def place(self) -> tuple[str, int] | None:
        """File and line with most of them; None: not known."""
        return max(self.lines, key=lambda line: self.lines[line], default=None)


def regressions(before: Sequence[Line], now: Sequence[Line]) -> list[Regression]:
    """Those that have more walks now, the largest rise first."""
    found: dict[str, Regression] = {}
    for lines in (before, now):
        for line in lines:
            site = line.site
            name = site.function or PurePosixPath(site.object or "unknown code").name
            one = found.setdefault(name, Regression(name))
            if lines is before:
                one.before += line.base.walks
            else:
                one.now += line.base.walks
                if site.file is not None and site.line is not None:
                    one.lines[site.file, site.line] += line.base.walks
    least = _NAMED_FRACTION * walks_of(before)
    grown = [one for one in found.values() if one.now - one.before > least]
    return sorted(grown, key=lambda one: one.before - one.now)


def walks_of(lines: Sequence[Line]) -> int:
    return sum(line.base.walks for line in lines)


def describe_since(before: Sequence[Line], now: Sequence[Line]) -> str:
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
        if one.place is not None:
            # Debug information has no more than the name.
            name, line = PurePosixPath(one.place[0]).name, one.place[1]
            found = [path for path in Path().rglob(name) if path.is_file()]
            place = f" file={found[0]},line={line}" if len(found) == 1 else ""
        text.append(f"::warning{place}::{words}\n")
    return "".join(text)


def _rise(before: int, now: int) -> str:
    return "new" if not before else f"{units.percent(now / before - 1)}"
