# SPDX-License-Identifier: GPL-2.0-or-later
"""Which machine is this? Everything is read below $TLBCOST_ROOT; None where it is not told."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common import units


@dataclass(frozen=True, slots=True)
class Machine:
    """What a calibration depends on; two machines that compare equal share one calibration."""

    cpu_vendor: str | None
    cpu_family: str | None
    cpu_model: str | None
    cpu_stepping: str | None
    cpu_name: str | None
    microcode: str | None
    hypervisor: str | None
    kernel: str | None
    base_page_bytes: int
    thp_mode: str | None
    governor: str | None


_THP = "/sys/kernel/mm/transparent_hugepage"
# The names that vendors give their virtual machines in DMI, for hypervisors that /sys/hypervisor
# does not know.
_DMI_HYPERVISORS = {
    "qemu": "kvm",
    "kvm": "kvm",
    "amazon ec2": "kvm",
    "google": "kvm",
    "vmware": "vmware",
    "innotek": "virtualbox",
    "virtualbox": "virtualbox",
    "xen": "xen",
    "microsoft corporation": "hyperv",
    "openstack": "kvm",
}


def sys_path(path: str) -> Path:
    """Where a file under /proc or /sys is: on the machine itself, or on a made-up one."""
    return Path(os.environ.get("TLBCOST_ROOT", "") + path)


def read_line(path: str) -> str | None:
    """The first line of a file under /proc or /sys, or None if it cannot be read or is empty."""
    try:
        with sys_path(path).open(encoding="utf-8", errors="replace") as file:
            return file.readline().strip("\0\n ") or None
    except OSError:
        return None


def thp_mode() -> str | None:
    """The mode of transparent huge pages: always, madvise or never; None if the kernel has none."""
    chosen = re.search(r"\[(\w+)\]", read_line(f"{_THP}/enabled") or "")
    return chosen[1] if chosen else None


def huge_page_bytes() -> int | None:
    """Bytes of the huge page that transparent huge pages use, else of hugetlb's default."""
    size = read_line(f"{_THP}/hpage_pmd_size")
    if size and size.isdigit():
        return int(size)
    return meminfo_bytes("Hugepagesize")


def huge_page_or_assumed(machine: Machine) -> tuple[int, tuple[str, ...]]:
    """The huge page size, and a note if it had to be assumed."""
    size = huge_page_bytes()
    if size is not None:
        return size, ()
    # One level of page tables, with 8 bytes per entry, up from the base page.
    size = machine.base_page_bytes * (machine.base_page_bytes // 8)
    return size, (f"this kernel tells no huge page size; {units.size(size)} is assumed",)


def larger_page_bytes() -> list[int]:
    """Bytes of every page size larger than the base page that this kernel knows; ascending.

    Whether it gives such pages now is another question.
    """
    # Sizes of transparent huge pages without `enabled` are for files only.
    folders = [path.parent for path in sys_path(_THP).glob("hugepages-*kB/enabled")]
    folders += sys_path("/sys/kernel/mm/hugepages").glob("hugepages-*kB")
    names = [path.name.removeprefix("hugepages-").removesuffix("kB") for path in folders]
    known = {int(kib) * 1024 for kib in names if kib.isdigit()}
    huge = huge_page_bytes()
    return sorted(known | ({huge} if huge else set()))


def current_machine() -> Machine:
    """The machine that tlbcost runs on, or the one below $TLBCOST_ROOT."""
    cpu = _cpuinfo()
    return Machine(
        # x86 and Z | Arm | POWER spell these differently; each machine has one of them.
        cpu_vendor=cpu.get("vendor_id") or cpu.get("CPU implementer") or _risc_v(cpu),
        cpu_family=cpu.get("cpu family") or cpu.get("CPU architecture"),
        cpu_model=cpu.get("model") or cpu.get("CPU part") or _z_model(cpu),
        cpu_stepping=cpu.get("stepping") or cpu.get("CPU revision") or cpu.get("revision"),
        cpu_name=cpu.get("model name") or cpu.get("cpu") or cpu.get("uarch"),
        microcode=cpu.get("microcode"),
        hypervisor=_hypervisor(cpu),
        kernel=read_line("/proc/sys/kernel/osrelease") or _uname_release(),
        base_page_bytes=_base_page_bytes(),
        thp_mode=thp_mode(),
        governor=read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    )


def is_online(cpu: str) -> bool:
    """Whether the CPU of this number is online; one that cannot be told of is."""
    return read_line(f"/sys/devices/system/cpu/cpu{cpu}/online") != "0"


def _uname_release() -> str | None:
    # A made-up machine does not run this kernel.
    return None if os.environ.get("TLBCOST_ROOT") else os.uname().release


def _base_page_bytes() -> int:
    """Page size of the running kernel; a made-up machine tells it in smaps."""
    if os.environ.get("TLBCOST_ROOT"):
        try:
            text = sys_path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ""
        size = re.search(r"^KernelPageSize:\s+(\d+) kB", text, re.MULTILINE)
        if size:
            return int(size[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE")


def _cpuinfo() -> dict[str, str]:
    """The fields of the first processor in /proc/cpuinfo; "unknown" is no value."""
    try:
        text = sys_path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and value.strip() and value.strip() != "unknown":
            fields.setdefault(name.strip(), value.strip())
    return fields


def _risc_v(cpu: dict[str, str]) -> str | None:
    """RISC-V kernels tell the instruction set, and the vendor by numbers that many leave 0."""
    return "riscv" if cpu.get("isa", "").startswith("rv") else None


def _z_model(cpu: dict[str, str]) -> str | None:
    """The machine type of IBM Z, from "processor 0: version = 00, ... machine = 3906"."""
    found = re.search(r"\bmachine = (\d+)", cpu.get("processor 0", ""))
    return found[1] if found else None


def _hypervisor(cpu: dict[str, str]) -> str | None:
    """The hypervisor's name, "unknown" if there is one that does not tell, None on bare metal."""
    kind = read_line("/sys/hypervisor/type")
    if kind:
        return kind
    for file in ("sys_vendor", "product_name"):
        text = (read_line(f"/sys/class/dmi/id/{file}") or "").lower()
        for name, hypervisor in _DMI_HYPERVISORS.items():
            # Vendors such as Google and Microsoft also sell computers: the CPU flag decides there.
            if name in text and (_has_flag(cpu) or name in ("qemu", "kvm", "vmware", "innotek")):
                return hypervisor
    if (sys_path("/proc/device-tree/hypervisor/compatible")).exists():
        return read_line("/proc/device-tree/hypervisor/compatible")
    clock = read_line("/sys/devices/system/clocksource/clocksource0/available_clocksource") or ""
    if "kvm-clock" in clock.split():
        return "kvm"
    if "hyperv" in clock:
        return "hyperv"
    return "unknown" if _has_flag(cpu) else None


def _has_flag(cpu: dict[str, str]) -> bool:
    return "hypervisor" in cpu.get("flags", "").split()


def meminfo_bytes(field: str) -> int | None:
    """A field of /proc/meminfo that is in kB, in bytes; None if it is not told."""
    try:
        text = sys_path("/proc/meminfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    value = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    return int(value[1]) * 1024 if value else None
