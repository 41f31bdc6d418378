# SPDX-License-Identifier: GPL-2.0-or-later
"""Do OpenMetrics' own parser and that of Prometheus's older format read what is written?"""

from __future__ import annotations

import pytest
from builders.live import document, row, unknown
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser
from tlbcost.live.openmetrics import openmetrics

HOSTILE = 'a"b\\c\\n{} = 1 # \u202e'


def families(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """By both parsers the same samples."""
    both = []
    for read in (
        openmetrics_parser.text_string_to_metric_families,
        parser.text_string_to_metric_families,
    ):
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in read(text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        both.append(found)
    assert both[0] == both[1]
    return both[0]


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
    assert found["tlbcost_host_pool_free_bytes"] == [({"page_bytes": str(2 << 20)}, 8 << 20)]
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
