# SPDX-License-Identifier: GPL-2.0-or-later
"""A watch as text, as JSON and as a figure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

from tlbcost.common import units
from tlbcost.common.document import Part, amount, doc
from tlbcost.common.errors import TlbcostError
from tlbcost.common.gnuplot import draw_by
from tlbcost.common.units import percent
from tlbcost.numa.locality import Score, placement_words
from tlbcost.numa.watch.decide import Figures, Kind, Thresholds
from tlbcost.numa.watch.sources import SamplingCost
from tlbcost.system.machine import Machine

if TYPE_CHECKING:
    from rich.text import Text


class Done(Part, frozen=True, kw_only=True):
    """One action, or what would have been one."""

    at_s: Annotated[float, amount("seconds since the watch began")]
    kind: Annotated[Kind, doc("what is done")]
    would: Annotated[bool, doc("it was only said: without --apply, or on assumed nodes")]
    taken_back: Annotated[bool, doc("it undoes an action that did not help")]
    reason: Annotated[str, doc("the figure that it follows from")]
    pages: Annotated[int, amount("base or huge pages to move")]
    regions: Annotated[int, amount("huge pages to split, or to make")]
    moved_pages: Annotated[
        int | None, amount("of `pages`, those that are where they should be; null: would")
    ]
    done_regions: Annotated[int | None, amount("of `regions`, those done; null: would")]
    refused: Annotated[Mapping[str, int], doc("the kernel's reasons, and how many pages")]
    failed: Annotated[str | None, doc("why all of it failed; null: it did not")]
    time_ns: Annotated[int | None, amount("how long it took; null: would")]


class Effect(Part, frozen=True, kw_only=True):
    """What the reactive actions of one moment changed."""

    at_s: Annotated[float, amount("when they were done")]
    kinds: Annotated[tuple[Kind, ...], doc("what was done")]
    before: Annotated[Score, doc("by the samples of the seconds before")]
    after: Annotated[Score, doc("by those since")]
    helped: Annotated[bool, doc("local accesses or balance improved by the threshold")]


class WatchInterval(Part, frozen=True, kw_only=True):
    """One interval. null: not known."""

    at_s: Annotated[float, amount("its end, in seconds since the watch began")]
    windows: Annotated[int, amount("windows in the evidence")]
    samples: Annotated[int, amount("accesses in the evidence")]
    figures: Annotated[Figures, doc("what they say")]
    walk_fraction: Annotated[
        float | None, amount("share of L2 misses that page walks on base pages cause")
    ]
    fault_fraction: Annotated[
        float | None, amount("of the time, page faults of the thread with most")
    ]
    huge_bytes: Annotated[int | None, amount("anonymous memory on huge pages")]
    reason: Annotated[str, doc("what decided")]


class WatchDocument(Part, frozen=True, kw_only=True):
    """A watch of a live process. null: not obtained."""

    schema: Annotated[
        Literal["tlbcost-numa-watch-1"], doc("form of this document and its version")
    ] = "tlbcost-numa-watch-1"
    tlbcost_version: Annotated[str, doc("version of tlbcost that wrote it")]
    date: Annotated[str, doc("UTC, ISO 8601", format="date-time")]
    machine: Annotated[Machine, doc("the machine")]
    pid: Annotated[int, doc("the process")]
    nodes: Annotated[int, doc("nodes, real or assumed", minimum=2)]
    assumed: Annotated[bool, doc("the nodes are not this machine's: --nodes")]
    applied: Annotated[bool, doc("actions were done: --apply")]
    interval_s: Annotated[float, amount("length of an interval, as asked for")]
    watched_s: Annotated[float, amount("how long it was watched")]
    ended: Annotated[str, doc("why the watch ended")]
    source: Annotated[
        Literal["copies", "ibs", "pebs"],
        doc("where samples are from: windows of copies, or the PMU of an AMD or Intel CPU"),
    ]
    l2_bytes: Annotated[int, amount("modelled L2 of a thread; DRAM is beyond the caches")]
    l3_share_bytes: Annotated[int, amount("modelled share of the L3")]
    cost: Annotated[SamplingCost, doc("what sampling cost")]
    overhead_fraction: Annotated[float | None, amount("the same, of the process's CPU time")]
    thresholds: Annotated[Thresholds, doc("from which figures on it acted")]
    intervals: Annotated[tuple[WatchInterval, ...], doc("the intervals, the last 10,000 at most")]
    actions: Annotated[tuple[Done, ...], doc("what was done, or would have been")]
    effects: Annotated[tuple[Effect, ...], doc("and what it changed")]
    left_alone: Annotated[int, amount("pages that cannot move, and are not tried again")]
    notes: Annotated[tuple[str, ...], doc("what to know about these figures")]


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
        f"{percent(document.overhead_fraction)} of its CPU time"
    )


def interval_line(each: WatchInterval) -> str:
    figures = each.figures
    counts = [units.known(count) for count in (figures.hot_pages, figures.shared_pages)]
    huge = units.size(each.huge_bytes)
    return (
        f"{each.at_s:6.1f} {percent(figures.now.local_fraction):>6} "
        f"{percent(figures.now.imbalance):>7} {percent(figures.moved_fraction):>6} "
        f"{percent(figures.split_fraction):>6} {counts[0]:>4} {counts[1]:>7} "
        f"{percent(each.walk_fraction):>6} {percent(each.fault_fraction):>7} {huge:>9} "
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
    return f"{effect.at_s:.1f} s: {word}: {placement_words(effect.before, effect.after)}"


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
    lines = [f"From the first evidence to the last: {placement_words(first.now, last.now)}."]
    if first.hot_pages or first.shared_pages:
        lines.append(
            f"At first {first.hot_pages} hot huge pages, and {first.shared_pages} that several "
            "nodes access."
        )
    return lines


def draw_watch(document: WatchDocument, picture: Path) -> None:
    """Draw its intervals and actions. Raises TlbcostError; then no file is left."""
    if not any(each.figures.now.local_fraction is not None for each in document.intervals):
        raise TlbcostError(f"cannot draw {picture}: no memory access was seen", None)
    rows = [_row(each) for each in document.intervals]
    # What is done at one moment is one line; huge pages are stopped only for what is split then.
    shown = [each for each in document.actions if each.kind != "stop_huge"]
    moments = [
        (at_s, " + ".join(each.kind for each in actions))
        for at_s, actions in groupby(shown, key=lambda each: round(each.at_s))
    ]
    lines = [(at_s, n, words) for n, (at_s, words) in enumerate(moments, start=1)]
    uneven = max((row[4] for row in rows if row[4] is not None), default=0.0)
    huge = max((row[5] for row in rows if row[5] is not None), default=0.0)
    settings = {
        "has_actions": len(lines),
        "title_words": head(document),
        "last": max(round(document.watched_s + 0.5), 1),
        "most": max(100, round(uneven + 5)),
        "huge_step": max(round(huge / 3), 1),
    }
    columns = ("at", "local", "moved", "split", "imbalance", "huge")
    actions = [("at", "number", "words"), *lines]
    intervals = [columns, *rows]
    draw_by("numa-watch.gp", picture, settings, {"intervals": intervals, "actions": actions})


def _row(each: WatchInterval) -> list[float | None]:
    now, moved, split = each.figures.now, each.figures.moved_fraction, each.figures.split_fraction
    fractions = (now.local_fraction, moved, split, now.imbalance)
    percent = [None if fraction is None else 100 * fraction for fraction in fractions]
    return [each.at_s, *percent, None if each.huge_bytes is None else each.huge_bytes / 2**20]
