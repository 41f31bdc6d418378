# SPDX-License-Identifier: GPL-2.0-or-later
"""Which nodes and caches does a machine have, and on which nodes does a program's memory lie?"""

from __future__ import annotations

import argparse
import ctypes
import errno
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.tree import MACHINES, put, put_caches, there
from tlbcost.numa import node_memory
from tlbcost.numa.node_memory import NodeMemory, PlacementSampler, look, page_nodes, parse, together
from tlbcost.numa.placement import cache_sizes, choose_nodes, machine_nodes, parse_count

MAPS = MACHINES / "four-nodes" / "proc" / "4242" / "numa_maps"
BASE = 4096


def test_numa_maps_are_summed_in_the_pages_of_each_mapping() -> None:
    memory = parse(MAPS.read_text(encoding="utf-8"), BASE)
    base = {0: 12 + 2 + 64 + 3072, 1: 1 + 64 + 512, 2: 64 + 512, 3: 64 + 5}
    assert memory.bytes_on == {
        0: base[0] * BASE,
        1: base[1] * BASE,
        2: base[2] * BASE + 4 * (2 << 20),
        3: base[3] * BASE + 2 * (2 << 20),
    }
    # The program's own pages are of a file.
    assert memory.anonymous_bytes_on[0] == (base[0] - 12) * BASE
    assert memory.policies == ("default", "interleave:0-3")


@pytest.mark.parametrize(
    "text", ["", "\n", "garbage", "7f00 default N0= Nx=3 =", "7f00 default N0=-1"]
)
def test_what_says_nothing_is_no_memory(text: str) -> None:
    assert parse(text, BASE).resident_bytes == 0


def test_processes_are_added_up() -> None:
    one = NodeMemory({0: 5, 1: 1}, {0: 2}, ("default",), {0: 3})
    two = NodeMemory({1: 4}, {}, ("default", "bind:1"), None)
    both = together([one, two])
    assert both.bytes_on == {0: 5, 1: 5}
    assert (both.policies, both.sampled_pages) == (("default", "bind:1"), {0: 3})
    assert together([two]).sampled_pages is None


def test_move_pages_tells_the_node_of_a_page_and_moves_none() -> None:
    with mmap.mmap(-1, 2 * BASE) as memory:
        memory[0] = 1
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        try:
            nodes = page_nodes(os.getpid(), [start, start + BASE])
        except OSError as error:
            if error.errno in (errno.ENOSYS, errno.EPERM):
                pytest.skip(f"move_pages: {error.strerror}")
            raise
        # The second page was never touched.
        assert nodes[0] is not None
        assert nodes[1] is None
    with pytest.raises(OSError, match="process"):
        page_nodes(2**22 + 5, [0])


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    script = "import time; kept = bytearray(8 << 20); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        # Before that, it may have no memory to look at.
        assert there(process.stdout).readline() == b"\n"
        yield process
        process.kill()


def test_a_process_is_looked_at_on_a_made_up_machine(
    root: Path, monkeypatch: pytest.MonkeyPatch, sleeper: subprocess.Popen[bytes]
) -> None:
    maps = "7f00 default anon=9 N0=4 N3=5 kernelpagesize_kB=4\n"
    put(root, f"proc/{sleeper.pid}/numa_maps", maps)
    monkeypatch.setattr(
        node_memory, "page_nodes", lambda _pid, at: [3 if i % 2 else None for i, _ in enumerate(at)]
    )
    memory = there(look([sleeper.pid, 2**22 + 5], BASE))
    assert memory.bytes_on == {0: 4 * BASE, 3: 5 * BASE}
    assert memory.sampled_pages is not None
    assert set(memory.sampled_pages) == {3}
    assert look([2**22 + 5], BASE) is None


def test_a_real_process_is_watched(sleeper: subprocess.Popen[bytes]) -> None:
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("this kernel has no numa_maps")
    sampler = PlacementSampler(os.sysconf("SC_PAGE_SIZE"))
    sampler.start(os.getpid())
    deadline = time.monotonic() + 20
    memory = None
    while memory is None and time.monotonic() < deadline:
        time.sleep(0.1)
        seen = look([sleeper.pid], os.sysconf("SC_PAGE_SIZE"))
        memory = seen if seen is not None and seen.resident_bytes > 8 << 20 else None
    assert there(sampler.stop()).resident_bytes > 0
    assert set(there(memory).bytes_on) <= set(range(64))


def test_the_real_placement_on_several_nodes() -> None:
    nodes = machine_nodes()
    if len(nodes) < 2:
        pytest.skip(f"needs several NUMA nodes, this machine has {len(nodes)}")
    assert set(there(look([os.getpid()], os.sysconf("SC_PAGE_SIZE"))).bytes_on) <= set(nodes)


@pytest.fixture
def four_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(MACHINES / "four-nodes"))


@pytest.mark.usefixtures("four_nodes")
def test_nodes_of_the_machine_are_those_with_cpus() -> None:
    assert machine_nodes() == [0, 1, 2, 3]
    nodes = choose_nodes(None)
    assert (nodes.count, nodes.source) == (4, "machine")
    assert choose_nodes(8).source == "asked"


def test_one_node_stands_for_the_slides_machine(root: Path) -> None:
    assert machine_nodes() == []
    assert (choose_nodes(None).count, choose_nodes(None).source) == (4, "assumed")
    put(root, "sys/devices/system/node/node0/cpulist", "0-1\n")
    assert machine_nodes() == [0]
    assert choose_nodes(None).sentence == "assumed: this machine has one"


@pytest.mark.usefixtures("four_nodes")
def test_caches_are_shared_by_the_cpus_that_the_kernel_lists() -> None:
    # 5118 KiB for four CPUs.
    assert cache_sizes() == (512 << 10, 5118 * 1024 // 4, "of this machine")


def test_the_share_of_a_guest_s_l3_is_assumed(root: Path) -> None:
    assert cache_sizes()[2].startswith("assumed")
    put_caches(root, ("2", "Unified", "2048K"), ("3", "Unified", "300M"))
    assert cache_sizes() == (2 << 20, 300 << 20, "of this machine")
    put(root, "sys/hypervisor/type", "kvm\n")
    l2, l3, source = cache_sizes()
    assert (l2, l3) == (2 << 20, 2 << 20)
    assert "assumed" in source


@pytest.mark.parametrize("text", ["1", "65", "four", "-2", "2.5", ""])
def test_nodes_that_are_no_number_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="from 2 to 64"):
        parse_count(text)
    assert parse_count("4") == 4
