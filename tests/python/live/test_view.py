# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the picture and OpenMetrics show what is known, within the budget of a look?"""

from __future__ import annotations

from typing import get_args

import pytest
from builders.memory import document, row, unknown
from builders.openmetrics import families
from builders.tree import printed
from tlbcost.live.document import in_order, openmetrics
from tlbcost.live.keys import SortKey
from tlbcost.live.processes import Budget, OwnUse
from tlbcost.live.view import KEYS, picture, print_once

ROWS = [row(f"process-{number}", pid=number) for number in range(1, 60)]


@pytest.mark.parametrize("width", [1, 20, 40, 80, 200])
@pytest.mark.parametrize("height", [1, 5, 24])
def test_it_fits(width: int, height: int) -> None:
    lines = picture(document(*ROWS), "memory", width, height).plain.split("\n")
    assert max(map(len, lines)) <= max(width, 12)
    # Three lines above, the titles, a row and the keys, however low it is.
    assert len(lines) == max(height, 6)


def test_twenty_columns_have_names_and_memory() -> None:
    lines = picture(document(*ROWS), "memory", 20, 10).plain.split("\n")
    assert lines[3].split() == ["process", "memory"]
    assert lines[4].split() == ["process-1", "10", "MiB"]


def test_eighty_columns_have_all_but_one() -> None:
    lines = picture(document(*ROWS), "memory", 80, 10).plain.split("\n")
    titles = lines[3]
    for title in ("pid", "process", "memory", "on huge", "eligible", "x reach", "faults/s", "age"):
        assert title in titles
    assert lines[4].split() == [
        *("1", "process-1", "10", "MiB", "2", "MiB", "6", "MiB", "2.00", "12", "1", "s")
    ]
    assert lines[-1].startswith("54 more; q quit")


def test_what_may_not_be_read_is_na_and_counted() -> None:
    text = picture(document(unknown("secret"), unreadable=1), "memory", 100, 10).plain
    line = next(line for line in text.split("\n") if "secret" in line)
    assert line.split() == ["12", "secret", "10", "MiB", *["NA"] * 6]
    assert "1 of this host's may not be read (NA)" in text


def test_ages_are_shown() -> None:
    text = picture(document(*ROWS), "memory", 120, 10).plain
    assert "pages read up to 1 s ago, eligible read up to 90 s ago" in text


def test_a_name_cannot_command_the_terminal() -> None:
    text = picture(document(row("\x9b31m\u202e\u4f60" + "x" * 300)), "memory", 80, 10).plain
    assert all(" " <= character <= "~" or character == "\n" for character in text)


def test_once_has_all_rows_and_no_keys() -> None:
    text = printed(print_once, document(*ROWS), sort="memory")
    assert text.count("process-") == len(ROWS)
    assert "q quit" not in text


@pytest.mark.parametrize("key", get_args(SortKey))
def test_what_is_not_known_is_last(key: SortKey) -> None:
    rows = [unknown("u"), row("small", pid=3, memory_bytes=1), row("large", pid=4, reach_ratio=9.0)]
    ordered = [each.name for each in in_order(rows, key)]
    if key in ("memory", "pid"):
        assert ordered[-1] == ("small" if key == "memory" else "u")
    else:
        assert ordered[-1] == "u"
    assert ordered.index("large") < ordered.index("small") or key in ("pid",)


def test_each_key_has_a_letter() -> None:
    assert set(KEYS.values()) == set(get_args(SortKey))
    assert "q" not in KEYS


HOSTILE = 'a"b\\c\\n{} = 1 # \u202e'


def test_processes() -> None:
    text = openmetrics(document(row(), unknown(HOSTILE)))
    assert text.endswith("\n# EOF\n")
    found = families(text)
    labels = {"pid": "12", "comm": "redis-server"}
    assert found["tlbcost_process_huge_bytes"] == [(labels, 2 << 20)]
    assert found["tlbcost_process_tlb_reach_ratio"] == [(labels, 2.0)]
    assert found["tlbcost_process_eligible_age_seconds"] == [(labels, 90.0)]
    assert [labels["comm"] for labels, _ in found["tlbcost_process_page_faults_total"]] == [
        "redis-server",
        HOSTILE,
    ]
    size = str(2 << 20)
    assert found["system_memory_linux_hugepages_usage"] == [
        ({"page_bytes": size, "state": "free"}, 4),
        ({"page_bytes": size, "state": "used"}, 28),
    ]
    # Not obtained.
    assert "tlbcost_host_thp_fallback_rate" not in found


def test_a_group_has_a_rate_and_no_counter() -> None:
    found = families(openmetrics(document(row("/a b", pid=None, faults=None), by="cgroup")))
    assert found["tlbcost_cgroup_page_fault_rate"] == [({"cgroup": "/a b"}, 12.4)]
    assert not [name for name in found if name.endswith("_total")]


def test_names_end_with_their_unit_and_types_are_known_to_both_formats() -> None:
    lines = openmetrics(document(row())).splitlines()
    types = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE ")}
    assert set(types.values()) == {"gauge", "counter"}
    units = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# UNIT ")}
    assert units
    for name, unit in units.items():
        assert name.endswith(f"_{unit}")


def test_no_process_at_all() -> None:
    assert "tlbcost_host_memory_bytes" in families(openmetrics(document()))


@pytest.mark.parametrize("name", ["\n", "\\", '"', "a\\nb"])
def test_any_name_is_one_label(name: str) -> None:
    found = families(openmetrics(document(row(name))))
    assert found["tlbcost_process_memory_bytes"] == [({"pid": "12", "comm": name}, 10 << 20)]


SHARE = 0.005


class Clocks:
    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def budget(self, saved_s: float = 4.0) -> Budget:
        return Budget(saved_s, SHARE, clock=lambda: self.wall, cpu=lambda: self.cpu)


@pytest.mark.parametrize("look_s", [0.0004, 0.05, 1.0])
def test_no_more_than_the_share_is_used_in_the_long_run(look_s: float) -> None:
    clocks = Clocks()
    budget = clocks.budget()
    while budget.left_s() > 0:
        clocks.cpu += look_s
    first = clocks.cpu
    budget.first_reading_done()
    for _ in range(1000):
        clocks.wall += 2
        while budget.left_s() > 0:
            clocks.cpu += look_s
    assert clocks.cpu - first <= SHARE * clocks.wall + look_s
    assert clocks.cpu - first >= SHARE * clocks.wall - 2 * look_s


def test_what_is_not_used_is_not_saved_up() -> None:
    clocks = Clocks()
    budget = clocks.budget(saved_s=4.0)
    budget.first_reading_done()
    clocks.wall += 3600
    assert budget.left_s() == pytest.approx(SHARE * 4)


def test_the_first_reading_has_its_own_allowance() -> None:
    clocks = Clocks()
    budget = clocks.budget()
    clocks.cpu += 0.2
    assert budget.left_s() > 0
    clocks.cpu += 0.2
    assert budget.left_s() < 0


def test_stat_and_all_else_are_counted_apart() -> None:
    own = OwnUse()
    assert own.fraction() is None
    with own.of_stat():
        while own.stat_s() < 0.002:
            pass
    stat = own.stat_s()
    assert stat >= 0.002
    others = own.others_s()
    while own.others_s() < others + 0.002:
        pass
    assert own.stat_s() == stat
    own.first_reading_done()
    while own.fraction() in (None, 0.0):
        pass
