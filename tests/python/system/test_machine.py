# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a machine, a CPU or a process described as its files say, with None for the rest?"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from builders.answer import MACHINE
from builders.tree import put
from tlbcost.common.paths import sys_path
from tlbcost.system import huge_pages, process
from tlbcost.system.machine import (
    Machine,
    current_machine,
    emulation,
    huge_page_bytes,
    larger_page_bytes,
    reports_free_pages,
    thp_mode,
)

CLOCK = "sys/devices/system/clocksource/clocksource0/available_clocksource"
THP = "sys/kernel/mm/transparent_hugepage"
VIRTIO = "sys/bus/virtio/devices/virtio0"
INTEL = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz
stepping\t: 4
microcode\t: 0x2006b06
flags\t\t: fpu vme
"""
ARM = """processor\t: 0
BogoMIPS\t: 50.00
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1
"""


def test_bare_metal(root: Path) -> None:
    put(root, "proc/cpuinfo", INTEL)
    put(root, "proc/sys/kernel/osrelease", "5.10.0\n")
    put(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
    # Sold by a cloud's vendor, and no guest.
    put(root, "sys/class/dmi/id/sys_vendor", "Microsoft Corporation\n")
    put(root, f"{THP}/enabled", "[always] madvise never\n")
    machine = current_machine()
    assert machine == Machine(
        "GenuineIntel", "6", "85", "4", "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", "0x2006b06",
        None, "5.10.0", mmap.PAGESIZE, "always", "performance",
    )  # fmt: skip


def test_arm_with_large_pages(root: Path) -> None:
    put(root, "proc/cpuinfo", ARM)
    put(root, "proc/self/smaps", "0-1 r--p\nKernelPageSize:       64 kB\n")
    machine = current_machine()
    assert (machine.cpu_vendor, machine.cpu_model) == ("0x41", "0xd0c")
    assert machine.base_page_bytes == 65536
    # The kernel has numbers alone; data/machines has the names.
    assert machine.cpu_name == "Arm Neoverse N1"
    assert machine.hypervisor is None
    assert machine.microcode is None


def test_an_arm_core_that_is_not_on_file_has_no_name(root: Path) -> None:
    put(root, "proc/cpuinfo", ARM.replace("0xd0c", "0xfff"))
    put(root, "proc/device-tree/compatible", "linux,dummy-virt\0")
    machine = current_machine()
    assert (machine.cpu_model, machine.cpu_name) == ("0xfff", None)
    assert machine.hypervisor == "unknown"


def test_risc_v(root: Path) -> None:
    put(root, "proc/cpuinfo", "processor\t: 0\nhart\t: 0\nisa\t: rv64imafdch\nmvendorid\t: 0x0\n")
    machine = current_machine()
    assert (machine.cpu_vendor, machine.cpu_model) == ("riscv", None)


def test_ibm_z(root: Path) -> None:
    processor = "processor 0: version = 00,  identification = 0133E8,  machine = 3906"
    put(root, "proc/cpuinfo", f"vendor_id       : IBM/S390\n{processor}\n")
    machine = current_machine()
    assert (machine.cpu_vendor, machine.cpu_model) == ("IBM/S390", "3906")


def test_an_empty_machine_tells_nothing(root: Path) -> None:
    machine = current_machine()
    assert machine.cpu_vendor is machine.kernel is machine.hypervisor is machine.thp_mode is None
    assert huge_page_bytes() is None
    assert sys_path("/proc/x") == root / "proc/x"


@pytest.mark.parametrize(
    ("files", "name"),
    [({"sys/hypervisor/type": "xen\n"}, "xen"), ({"sys/class/dmi/id/sys_vendor": "QEMU\n"}, "kvm"),
     ({"sys/class/dmi/id/sys_vendor": "Amazon EC2\n"}, "kvm"),
     ({"sys/class/dmi/id/product_name": "VMware Virtual Platform\n"}, "vmware"),
     ({"sys/class/dmi/id/sys_vendor": "Microsoft Corporation\n"}, "hyperv"),
     ({CLOCK: "tsc kvm-clock\n"}, "kvm"), ({}, "unknown")],
)  # fmt: skip
def test_hypervisors(root: Path, files: dict[str, str], name: str) -> None:
    put(root, "proc/cpuinfo", INTEL.replace("fpu vme", "fpu hypervisor"))
    for path, text in files.items():
        put(root, path, text)
    assert current_machine().hypervisor == name


def test_huge_page_size(root: Path) -> None:
    put(root, "proc/meminfo", "MemTotal: 1 kB\nHugepagesize:       1024 kB\n")
    assert huge_page_bytes() == 1 << 20
    put(root, f"{THP}/hpage_pmd_size", "2097152\n")
    assert huge_page_bytes() == 2 << 20


def test_thp_mode_without_brackets_is_not_known(root: Path) -> None:
    put(root, f"{THP}/enabled", "always madvise never\n")
    assert thp_mode() is None


def test_page_sizes_are_those_of_both_kinds_of_huge_pages(root: Path) -> None:
    assert larger_page_bytes() == []
    put(root, f"{THP}/hpage_pmd_size", "2097152\n")
    assert larger_page_bytes() == [2 << 20]
    put(root, f"{THP}/hugepages-64kB/enabled", "never\n")
    put(root, f"{THP}/hugepages-2048kB/enabled", "inherit\n")
    put(root, "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n")
    put(root, "sys/kernel/mm/hugepages/hugepages-oddkB/nr_hugepages", "0\n")
    assert larger_page_bytes() == [64 << 10, 2 << 20, 1 << 30]


def test_counters_that_are_not_there_are_not_zero(root: Path) -> None:
    assert huge_pages.mthp_bytes() is None
    assert huge_pages.fallbacks() is None
    (root / THP / "hugepages-64kB/stats").mkdir(parents=True)
    put(root, f"{THP}/hpage_pmd_size", "2097152\n")
    assert huge_pages.mthp_bytes() is None
    put(root, f"{THP}/hugepages-64kB/stats/nr_anon", "3\n")
    assert huge_pages.mthp_bytes() == {65536: 3 * 65536}
    assert huge_pages.grown({65536: 65536}, huge_pages.mthp_bytes()) == {65536: 2 * 65536}


def test_version_1(root: Path) -> None:
    mount = "30 20 0:26 / /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory\n"
    folder = "sys/fs/cgroup/memory/a"
    put(root, "proc/self/cgroup", "4:memory:/a/b\n0::/\n")
    put(root, "proc/self/mountinfo", mount)
    put(root, f"{folder}/b/memory.oom_control", "oom_kill_disable 0\noom_kill 2\n")
    put(root, f"{folder}/b/memory.limit_in_bytes", "9223372036854771712\n")
    put(root, f"{folder}/memory.limit_in_bytes", "419430400\n")
    assert process.memory_limit() == process.MemoryLimit(2, 400 << 20)


def test_version_2_in_a_container(root: Path) -> None:
    mount = "30 20 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
    put(root, "proc/self/cgroup", "0::/docker/x/job\n")
    put(root, "proc/self/mountinfo", mount)
    put(root, "sys/fs/cgroup/job/memory.events", "low 0\noom 1\noom_kill 1\n")
    put(root, "sys/fs/cgroup/job/memory.max", "max\n")
    assert process.memory_limit() == process.MemoryLimit(1, None)


BUDDIES = """\
Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3
Node 0, zone    DMA32      1      1      4      2      5      4      3      3      4      2    752
Node 1, zone   Normal   4822   2767   1940   7752   3962   2905    721    267     85    160    843
"""


def test_huge_pages_free_in_one_piece(root: Path) -> None:
    assert huge_pages.whole_free(2 << 20) is None
    put(root, "proc/buddyinfo", BUDDIES)
    if mmap.PAGESIZE == 4096:
        assert huge_pages.whole_free(2 << 20) == 2 + 2 * 752 + 160 + 2 * 843


@pytest.mark.usefixtures("root")
def test_no_cgroups() -> None:
    assert process.memory_limit() == process.MemoryLimit(None, None)


NOBODY = 2**31 - 2


def test_this_process() -> None:
    stat, status = process.read_stat(os.getpid()), process.status("self")
    assert (stat.parent, stat.state) == (os.getppid(), "R")
    assert status["Pid"] == str(os.getpid())
    assert process.is_running("/proc/self/task/" + str(os.getpid()))
    assert process.executable(os.getpid()) == str(Path("/proc/self/exe").readlink())
    assert process.owner(os.getpid()) == os.geteuid()


def test_a_child_until_it_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in (process.children(os.getpid()) or [child.pid])
        assert process.start_ticks(child.pid) is not None
        child.communicate(b"\n")
    assert not process.is_running(child.pid)


def test_one_that_is_not_there() -> None:
    assert process.stat(NOBODY) is process.start_ticks(NOBODY) is process.name(NOBODY) is None
    assert process.owner(NOBODY) is None
    assert process.status(NOBODY) == {}
    assert process.children(NOBODY) == []
    assert str(process.gone(NOBODY)) == f"there is no process {NOBODY}"


ARM_CPU = replace(MACHINE, cpu_vendor="0x41", cpu_model="0xd0c", cpu_name="Arm Neoverse N1")


def pmu(root: Path, *events: str) -> None:
    (root / "sys/bus/event_source/devices/armv8_pmuv3_0/events").mkdir(parents=True)
    for event in events:
        put(root, f"sys/bus/event_source/devices/armv8_pmuv3_0/events/{event}", "event=0x0000\n")


def test_counters_without_caches_are_an_emulators(root: Path) -> None:
    pmu(root, "cpu_cycles", "stall_backend")
    assert emulation(ARM_CPU) == "its counters (armv8_pmuv3_0) count cycles but no cache misses"


@pytest.mark.parametrize("events", [(), ("cpu_cycles", "l1d_cache_refill", "inst_retired")])
def test_nothing_is_concluded_from_counters_of_real_cores_or_none(
    root: Path, events: tuple[str, ...]
) -> None:
    pmu(root, *events)
    assert emulation(ARM_CPU) is None


@pytest.mark.usefixtures("root")
def test_the_names_of_qemus_own_cpus() -> None:
    assert "0x00" in str(emulation(replace(ARM_CPU, cpu_vendor="0x00")))
    qemu = replace(MACHINE, cpu_name="QEMU TCG CPU version 2.5+")
    assert emulation(qemu) == "its name is QEMU TCG CPU version 2.5+"
    # A guest of KVM may have this one.
    assert emulation(replace(MACHINE, cpu_name="QEMU Virtual CPU version 2.5+")) is None


@pytest.mark.parametrize(
    ("device", "features", "reports"),
    [("0x0005\n", "0110010110\n", True), ("0x0005\n", "0110000110\n", False),
     ("0x0002\n", "0110010110\n", False), ("0x0005\n", "01\n", False),
     ("garbage\n", "0110010110\n", False)],
)  # fmt: skip
def test_free_page_reporting_is_a_feature_of_the_balloon(
    root: Path, device: str, features: str, reports: bool
) -> None:
    put(root, f"{VIRTIO}/device", device)
    put(root, f"{VIRTIO}/features", features)
    assert reports_free_pages() is reports


@pytest.mark.parametrize(("order", "reports"), [("9", True), ("10", False), ("garbage", True)])
def test_larger_blocks_alone_are_no_huge_pages(root: Path, order: str, reports: bool) -> None:
    put(root, f"{VIRTIO}/device", "0x0005\n")
    put(root, f"{VIRTIO}/features", "0110010110\n")
    put(root, "sys/module/page_reporting/parameters/page_reporting_order", f"{order}\n")
    put(root, f"{THP}/hpage_pmd_size", f"{4096 << 9}\n")
    assert reports_free_pages() is reports


@pytest.mark.usefixtures("root")
def test_a_machine_without_virtio_reports_none() -> None:
    assert reports_free_pages() is False
