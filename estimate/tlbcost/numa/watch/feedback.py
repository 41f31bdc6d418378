# SPDX-License-Identifier: GPL-2.0-or-later
"""Actions that are tried now, taken back, and left alone for a while.

A pure state: time and what the kernel answered are given to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from tlbcost.numa.locality import Score
from tlbcost.numa.watch.decide import REACTIVE, Action, Kind, Thresholds

# A page that could not be moved so often is left alone.
_REFUSALS = 2


@dataclass(slots=True)
class ActionTrial:
    """What was done, and how things were before; `before`: former nodes of the pages."""

    actions: tuple[Action, ...]
    at_s: float
    score: Score
    before: dict[int, int]
    judged: bool = False


@dataclass(slots=True)
class Feedback:
    """What was done lately; times in seconds of one clock. `fold`: base pages of a huge page."""

    limits: Thresholds
    fold: int = 512
    moved_s: dict[int, float] = field(default_factory=dict)
    refused: Counter[int] = field(default_factory=Counter)
    paused_until: dict[Kind, float] = field(default_factory=dict)
    kept_split: set[int] = field(default_factory=set)
    trial: ActionTrial | None = None
    wanted: int = 0

    def note_wish(self, *, enough: bool, wants_split: bool) -> None:
        """Intervals in a row in which splitting is wanted; one without samples is none."""
        if enough:
            self.wanted = self.wanted + 1 if wants_split else 0

    def allowed(self, actions: Iterable[Action], now_s: float) -> tuple[Action, ...]:
        """Those that are not paused, without pages that moved lately or cannot move.

        One thing at a time: while a reactive one is tried, no other is. Huge allocation is stopped
        only for what is split.
        """
        chosen = []
        for action in actions:
            if self.paused_until.get(action.kind, now_s) > now_s:
                continue
            if action.kind in REACTIVE and self.trial is not None:
                continue
            rested = self._rested(action, now_s)
            if rested.size or action.kind in ("stop_huge", "allocate_huge"):
                chosen.append(rested)
        if not any(action.kind in ("split", "split_hot") for action in chosen):
            chosen = [action for action in chosen if action.kind != "stop_huge"]
        return tuple(chosen)

    def _rested(self, action: Action, now_s: float) -> Action:
        may = np.zeros(len(action.pages), dtype=bool)
        for i, page in enumerate(map(int, action.pages)):
            # By itself, or as a part of a huge page, which its first one stands for.
            moved = (self.moved_s.get(each) for each in (page, page // self.fold * self.fold))
            rested = all(at is None or now_s - at >= self.limits.rest_s for at in moved)
            may[i] = rested and self.refused[page] < _REFUSALS
        regions = [r for r in action.regions if self.refused[-1 - int(r)] < _REFUSALS]
        return replace(
            action,
            pages=action.pages[may],
            to=action.to[may],
            regions=np.array(regions, dtype=np.int64),
        )

    def begin(
        self, actions: tuple[Action, ...], score: Score, before: dict[int, int], now_s: float
    ) -> None:
        """These were done; the reactive ones among them are judged later."""
        for action in actions:
            if action.kind in ("split", "split_hot"):
                self.kept_split.update(int(region) for region in action.regions)
        if any(action.kind in REACTIVE for action in actions):
            self.trial = ActionTrial(actions, now_s, score, before)
            self.wanted = 0

    def note_moves(self, pages: Iterable[int], now_s: float) -> None:
        for page in pages:
            self.moved_s[page] = now_s

    def note_refusals(self, pages: Iterable[int], regions: Iterable[int] = ()) -> None:
        """These could not be moved; these huge pages could not be split or made."""
        self.refused.update(pages)
        self.refused.update(-1 - region for region in regions)

    def refused_pages(self) -> int:
        return sum(count >= _REFUSALS for count in self.refused.values())

    def judge(self, after: Score, windows: int, now_s: float) -> tuple[Action, ...] | None:
        """Actions that undo the trial, none if it helped; None while it cannot be judged."""
        trial = self.trial
        if trial is None or windows < self.limits.windows:
            return None
        if worth_it(trial.score, after, self.limits):
            self.trial = None
            return ()
        if not trial.judged:
            for action in trial.actions:
                if action.kind in REACTIVE:
                    self.paused_until[action.kind] = now_s + self.limits.pause_s
            trial.judged = True
        if now_s - trial.at_s < self.limits.rest_s:
            return None
        self.trial = None
        why = "it did not help"
        none = np.zeros(0, dtype=np.int64)
        pages = np.array(sorted(trial.before), dtype=np.int64)
        to = np.array([trial.before[int(page)] for page in pages], dtype=np.int64)
        undone = [Action("migrate", why, pages, to, none)] if len(pages) else []
        if any(action.kind == "stop_huge" for action in trial.actions):
            # First: the kernel makes no huge page for a process that has none.
            undone.append(Action("allocate_huge", why, none, none, none))
        for action in trial.actions:
            if action.kind in ("split", "split_hot") and len(action.regions):
                self.kept_split.difference_update(int(region) for region in action.regions)
                undone.append(Action("promote", why, none, none, action.regions))
        return tuple(undone)


def worth_it(before: Score, after: Score, limits: Thresholds) -> bool:
    """Whether local accesses rose, or an imbalance that mattered fell, by enough of what it was."""
    if before.local_fraction is None or after.local_fraction is None:
        return False
    if after.local_fraction >= before.local_fraction * (1 + limits.feedback):
        return True
    if before.imbalance is None or after.imbalance is None:
        return False
    mattered = before.imbalance > limits.interleave_above
    return mattered and after.imbalance <= before.imbalance * (1 - limits.feedback)
