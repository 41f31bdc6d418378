# SPDX-License-Identifier: GPL-2.0-or-later
"""What does a watch show of each interval, on a terminal and as lines, and what at its end?"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, TextIO

from tlbcost.common import units
from tlbcost.numa.locality import Score, share
from tlbcost.numa.watch.document import Done, Effect, WatchDocument, WatchInterval

if TYPE_CHECKING:
    from rich.text import Text

_WIDTH = 80
_TITLES = "    at  local  imbal.  moved  split  hot  shared  walks  faults      huge  samples"
_HELP = "q quit"
_WORDS = {
    "migrate": "move pages to their users",
    "interleave": "interleave pages",
    "split": "split huge pages, and move the pieces to their users",
    "split_hot": "split hot huge pages, and interleave the pieces",
    "promote": "make huge pages",
    "allocate_huge": "let page faults have huge pages",
    "stop_huge": "let page faults have base pages only",
}


def picture(document: WatchDocument, width: int, height: int) -> Text:
    from rich.text import Text

    # The titles, the reason of the last interval, an empty line, and the help.
    room = max(height - 5, 0)
    events = _event_lines(document)[-(room // 2) :] if room > 1 else []
    rows = document.intervals[-(room - len(events)) :] if room else ()
    why = document.intervals[-1].reason if document.intervals else ""
    lines = [head(document), _TITLES, *map(interval_line, rows), why, "", *events]
    text = Text(no_wrap=True, overflow="crop")
    for number, line in enumerate(lines[: height - 1]):
        text.append(f"{line[:width]}\n", style="bold" if number == 1 else "")
    text.append(_HELP, style="dim")
    return text


def head(document: WatchDocument) -> str:
    nodes = f"{document.nodes} {'assumed ' if document.assumed else ''}nodes"
    how = "" if document.applied else ", nothing is changed"
    return (
        f"process {document.pid}, {nodes}{how}, {document.watched_s:.0f} s; sampling costs "
        f"{share(document.overhead_fraction)} of its CPU time"
    )


def interval_line(each: WatchInterval) -> str:
    figures = each.figures
    counts = [
        units.NOT_OBTAINED if count is None else str(count)
        for count in (figures.hot_pages, figures.shared_pages)
    ]
    huge = units.NOT_OBTAINED if each.huge_bytes is None else units.size(each.huge_bytes)
    return (
        f"{each.at_s:6.1f} {share(figures.now.local_fraction):>6} "
        f"{share(figures.now.imbalance):>7} {share(figures.moved_fraction):>6} "
        f"{share(figures.split_fraction):>6} {counts[0]:>4} {counts[1]:>7} "
        f"{share(each.walk_fraction):>6} {share(each.fault_fraction):>7} {huge:>9} "
        f"{each.samples:>8}"
    )


def action_line(done: Done) -> str:
    """'12.3 s: would split hot huge pages ...: 1 huge page, 384 pages (more than 6 % ...)'."""
    what = _WORDS[done.kind]
    parts = []
    if done.regions:
        parts.append(f"{done.regions} huge page{'' if done.regions == 1 else 's'}")
    if done.pages:
        parts.append(f"{done.pages} page{'' if done.pages == 1 else 's'} to move")
    amount = ": " + ", ".join(parts) if parts else ""
    back = "taken back, " if done.taken_back else ""
    line = f"{done.at_s:.1f} s: {back}{'would ' if done.would else ''}{what}{amount}"
    if done.reason:
        line += f" ({done.reason})"
    if done.failed is not None:
        return f"{line}; failed: {done.failed}"
    if done.refused:
        line += "; refused: " + ", ".join(f"{n} x {why}" for why, n in done.refused.items())
    if done.moved_pages and done.time_ns is not None:
        line += f"; {done.moved_pages} moved, {done.time_ns / done.moved_pages / 1000:.1f} us each"
    return line


def effect_line(effect: Effect) -> str:
    word = "helped" if effect.helped else "did not help"
    return f"{effect.at_s:.1f} s: {word}: {_change(effect.before, effect.after)}"


def _change(before: Score, after: Score) -> str:
    return (
        f"local accesses {share(before.local_fraction)} to {share(after.local_fraction)}, "
        f"imbalance {share(before.imbalance)} to {share(after.imbalance)}"
    )


def _event_lines(document: WatchDocument) -> list[str]:
    events = [(done.at_s, action_line(done)) for done in document.actions]
    events += [(each.at_s, effect_line(each)) for each in document.effects]
    return [line for _, line in sorted(events, key=lambda each: each[0])]


def print_summary(document: WatchDocument, file: TextIO) -> None:
    lines = [head(document) + f"; {document.ended}.", *_wrong(document)]
    done = _event_lines(document)
    if done:
        lines += ["", "What was done:" if document.applied else "What would be done:", *done]
    else:
        lines.append("Nothing was to be done.")
    if document.left_alone:
        lines.append(f"{document.left_alone} pages cannot move, and were left alone.")
    lines += ["", *(f"Note: {note}" for note in document.notes)]
    for line in lines:
        print(textwrap.fill(line, _WIDTH, subsequent_indent="  ") if line else "", file=file)


def _wrong(document: WatchDocument) -> list[str]:
    judged = [each for each in document.intervals if each.figures.moved_fraction is not None]
    if not judged:
        why = document.intervals[-1].reason if document.intervals else "no interval ended"
        return [f"Nothing was seen that is enough to decide: {why}."]
    first, last = judged[0].figures, judged[-1].figures
    lines = [f"From the first evidence to the last: {_change(first.now, last.now)}."]
    if first.hot_pages or first.shared_pages:
        lines.append(
            f"At first {first.hot_pages} hot huge pages, and {first.shared_pages} that several "
            "nodes access."
        )
    return lines
