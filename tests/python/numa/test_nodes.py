# SPDX-License-Identifier: GPL-2.0-or-later
"""Which nodes does a machine have, and which caches a thread?"""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from builders.tree import MACHINES
from tlbcost.numa.nodes import cache_sizes, choose_nodes, machine_nodes, parse_count


@pytest.fixture
def four_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(MACHINES / "four-nodes"))


@pytest.mark.usefixtures("four_nodes")
def test_nodes_of_the_machine_are_those_with_cpus() -> None:
    assert machine_nodes() == [0, 1, 2, 3]
    nodes = choose_nodes(None)
    assert (nodes.count, nodes.source) == (4, "machine")
    assert choose_nodes(8).source == "asked"


def test_one_node_stands_for_the_slides_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    assert machine_nodes() == []
    assert (choose_nodes(None).count, choose_nodes(None).source) == (4, "assumed")
    node = tmp_path / "sys/devices/system/node/node0"
    node.mkdir(parents=True)
    (node / "cpulist").write_text("0-1\n")
    assert machine_nodes() == [0]
    assert choose_nodes(None).sentence == "assumed: this machine has one"


@pytest.mark.usefixtures("four_nodes")
def test_caches_are_shared_by_the_cpus_that_the_kernel_lists() -> None:
    # 5118 KiB for four CPUs.
    assert cache_sizes() == (512 << 10, 5118 * 1024 // 4, "of this machine")


def test_the_share_of_a_guest_s_l3_is_assumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    assert cache_sizes()[2].startswith("assumed")
    for index, level, size in ((2, "2", "2048K"), (3, "3", "300M")):
        folder = tmp_path / f"sys/devices/system/cpu/cpu0/cache/index{index}"
        folder.mkdir(parents=True)
        for name, text in (
            ("level", level), ("size", size), ("type", "Unified"), ("shared_cpu_list", "0"),
        ):  # fmt: skip
            (folder / name).write_text(f"{text}\n")
    assert cache_sizes() == (2 << 20, 300 << 20, "of this machine")
    hypervisor = tmp_path / "sys/hypervisor/type"
    hypervisor.parent.mkdir(parents=True)
    hypervisor.write_text("kvm\n")
    l2, l3, source = cache_sizes()
    assert (l2, l3) == (2 << 20, 2 << 20)
    assert "assumed" in source


@pytest.mark.parametrize("text", ["1", "65", "four", "-2", "2.5", ""])
def test_nodes_that_are_no_number_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="from 2 to 64"):
        parse_count(text)
    assert parse_count("4") == 4
