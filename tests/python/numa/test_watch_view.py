# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a watch's document of its schema, and do its lines say what was wrong, done and changed?"""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.tree import TREE, needs_gnuplot, printed, valid
from tlbcost.common.document import to_json
from tlbcost.common.errors import TlbcostError
from tlbcost.numa.locality import Score
from tlbcost.numa.watch.decide import SOURCES, Figures, Thresholds, names, parse, with_changes
from tlbcost.numa.watch.document import (
    Done,
    Effect,
    WatchDocument,
    WatchInterval,
    action_line,
    draw_watch,
    effect_line,
    picture,
    print_summary,
)
from tlbcost.numa.watch.sources import SamplingCost
from tlbcost.system.machine import current_machine


def interval(at_s: float, figures: Figures) -> WatchInterval:
    return WatchInterval(
        at_s=at_s, windows=8, samples=900, figures=figures, walk_fraction=0.02, fault_fraction=None,
        huge_bytes=2 << 20, reason="hot huge pages",
    )  # fmt: skip


HOT = Figures(
    now=Score(0.7, 0.6), moved_fraction=0.7, split_fraction=0.71, hot_pages=1, shared_pages=1
)
EVEN = Figures(
    now=Score(0.7, 0.02), moved_fraction=0.7, split_fraction=0.7, hot_pages=0, shared_pages=0
)
SPLIT = Done(
    at_s=4.0, kind="split_hot", would=False, taken_back=False,
    reason="more than 6.0 % of the accesses go to each", pages=384, regions=1, moved_pages=380,
    done_regions=1, refused={"Device or resource busy": 4}, failed=None, time_ns=3_800_000,
)  # fmt: skip
EFFECT = Effect(
    at_s=4.0, kinds=("stop_huge", "split_hot"), before=HOT.now, after=EVEN.now, helped=True
)


def document(**others: object) -> WatchDocument:
    values: dict[str, object] = {
        "tlbcost_version": "0", "date": "2026-01-01T00:00:00Z", "machine": current_machine(),
        "pid": 7, "nodes": 4, "assumed": False, "applied": True, "interval_s": 1.0,
        "watched_s": 9.0, "ended": "the time is over", "source": "copies", "l2_bytes": 1 << 20,
        "l3_share_bytes": 0, "cost": SamplingCost(windows=8, own_ns=20, process_ns=1000),
        "overhead_fraction": 0.02, "thresholds": Thresholds(),
        "intervals": (interval(3.0, HOT), interval(9.0, EVEN)), "actions": (SPLIT,),
        "effects": (EFFECT,), "left_alone": 4, "notes": ("a note",),
    }  # fmt: skip
    return WatchDocument(**(values | others))  # type: ignore[arg-type]


def summary(of: WatchDocument) -> str:
    return " ".join(printed(print_summary, of).split())


def test_the_document_is_of_its_schema() -> None:
    valid(to_json(document()), "numa-watch")


def test_the_summary_says_what_was_wrong_done_and_changed() -> None:
    text = summary(document())
    assert (
        "process 7, 4 nodes, 9 s; sampling costs 2.0 % of its CPU time; the time is over." in text
    )
    assert "local accesses 70 % to 70 %, imbalance 60 % to 2.0 %." in text
    assert "At first 1 hot huge pages, and 1 that several nodes access." in text
    assert "4.0 s: split hot huge pages, and interleave the pieces: 1 huge page" in text
    assert "4 pages cannot move, and were left alone." in text
    assert "Note: a note" in text


def test_nothing_to_do_and_nothing_seen_are_said() -> None:
    assert "Nothing was to be done." in summary(document(actions=(), effects=()))
    unknown = interval(3.0, Figures(now=Score(None, None)))
    assert "Nothing was seen that is enough to decide" in summary(document(intervals=(unknown,)))
    assert "no interval ended" in summary(document(intervals=()))


def test_an_action_has_its_costs_and_refusals() -> None:
    line = action_line(SPLIT)
    assert line.endswith("refused: 4 x Device or resource busy; 380 moved, 10.0 us each")
    assert effect_line(EFFECT).startswith("4.0 s: helped: local accesses 70 % to 70 %")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (30, 5), (200, 60)])
def test_the_picture_fits(width: int, height: int) -> None:
    lines = picture(document(), width, height).plain.split("\n")
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    assert lines[-1] == "q quit"


def test_every_threshold_has_a_source_and_is_in_the_documents() -> None:
    assert set(names()) == set(SOURCES)
    text = (TREE / "doc/numa.md").read_text(encoding="utf-8")
    page = (TREE / "doc/man/tlbcost-numa.1").read_text(encoding="utf-8")
    for name in names():
        assert f"| `{name}` | {getattr(Thresholds(), name):g} |" in text
        assert name in page
    assert with_changes([parse("hot=0.1"), parse("rest-s=5")]).hot == 0.1


@needs_gnuplot
@pytest.mark.parametrize("actions", [(), (SPLIT,)])
def test_a_figure_is_drawn(tmp_path: Path, actions: tuple[Done, ...]) -> None:
    unknown = interval(1.0, Figures(now=Score(None, None)))
    seen = (unknown, interval(3.0, HOT), interval(9.0, EVEN))
    draw_watch(document(intervals=seen, actions=actions), tmp_path / "watch.svg")
    text = (tmp_path / "watch.svg").read_text(encoding="utf-8")
    for words in ("process 7, 4 nodes", "local accesses", "imbalance", "MiB on huge pages"):
        assert words in text
    assert ("split_hot" in text) == bool(actions)


def test_nothing_seen_leaves_no_figure(tmp_path: Path) -> None:
    with pytest.raises(TlbcostError, match="no memory access was seen"):
        draw_watch(document(intervals=()), tmp_path / "watch.png")
    assert not list(tmp_path.iterdir())
