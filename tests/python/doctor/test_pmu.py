# SPDX-License-Identifier: GPL-2.0-or-later
"""Does doctor report what can be counted here, and by whom?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from builders.counting import write_rights
from builders.tree import MACHINES
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.diagnosis import Refusal
from tlbcost.counters.pmu import Found
from tlbcost.doctor import examination
from tlbcost.system.machine import current_machine


def opened(*names: str) -> Callable[..., list[Refusal]]:
    def probe(_: object, events: list[object]) -> list[Refusal]:
        return [
            Refusal(event.name, "counted" if event.name in names else "unsupported", None)  # type: ignore[attr-defined]
            for event in events
        ]

    return probe


ACTIVE = ("walk_active_cycles.load", "walk_active_cycles.store", "walk_active_cycles.fetch")


COMPLETED = ("walks_completed.load", "walks_completed.store", "walks_completed.fetch")


@pytest.mark.parametrize(
    ("events", "state", "words"),
    [
        (("cycles", *ACTIVE), "ok", "counts the cycles with a page walk; 4 events, 4 at a time"),
        (("cycles", *COMPLETED), "ok", "counts page walks; 4 events"),
        (("cycles", "instructions"), "limited", "counts 2 events, none of them of page walks"),
    ],
)
def test_doctor_tells_what_is_counted(
    monkeypatch: pytest.MonkeyPatch, events: tuple[str, ...], state: str, words: str
) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(MACHINES / "skylake"))
    monkeypatch.setattr(examination, "find_pmu", lambda: Found("counts", "it counts"))
    monkeypatch.setattr(examination, "probe", opened(*events))
    check = examination.check_pmu(current_machine())
    assert check.state == state
    assert words in check.finding
    assert check.values["event_table"] == "skl"
    assert check.values["counters"] == 4
    assert set(str(check.values["countable_events"]).split(", ")) == set(events)


def test_doctor_survives_a_missing_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> list[Refusal]:
        raise TlbcostError("cannot run tlbcost-count: No such file or directory")

    monkeypatch.setenv("TLBCOST_ROOT", str(MACHINES / "skylake"))
    monkeypatch.setattr(examination, "find_pmu", lambda: Found("counts", "it counts"))
    monkeypatch.setattr(examination, "probe", broken)
    check = examination.check_pmu(current_machine())
    assert check.state == "limited"
    assert "it counts, but cannot run tlbcost-count" in check.finding


@pytest.mark.parametrize(
    ("level", "may", "state", "words"),
    [
        ("-1", None, "ok", "the whole system"),
        ("0", None, "ok", "the whole system"),
        ("1", None, "ok", "their own programs"),
        ("2", None, "ok", "their own programs in user mode"),
        ("3", True, "ok", "here like 2"),
        ("3", False, "limited", "only root may count"),
        ("4", None, "limited", "only root may count"),
    ],
)
def test_doctor_tells_who_may_count(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    level: str,
    may: bool | None,
    state: str,
    words: str,
) -> None:
    write_rights(tmp_path, "", None, level)
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    monkeypatch.setattr(examination, "is_root", lambda: False)
    monkeypatch.setattr(examination, "user_may_count", lambda: may)
    check = examination.check_paranoid()
    assert check.state == state
    assert words in check.finding
    assert (check.command is not None) == (state == "limited")
