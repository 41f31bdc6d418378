# SPDX-License-Identifier: GPL-2.0-or-later
"""Which machine this is, read below $TLBCOST_ROOT: kernel, C library, hypervisor."""

from __future__ import annotations

import mmap
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated

from tlbcost.common import paths
from tlbcost.common.document import amount, doc
from tlbcost.common.paths import sys_path


@dataclass(frozen=True, slots=True)
class Machine:
    """What a calibration depends on; two machines that compare equal share one calibration."""

    cpu_vendor: Annotated[str | None, doc("the vendor, as /proc/cpuinfo writes it")]
    cpu_family: Annotated[str | None, doc("family, or architecture version")]
    cpu_model: Annotated[str | None, doc("model, or part number")]
    cpu_stepping: Annotated[str | None, doc("stepping, or revision")]
    cpu_name: Annotated[str | None, doc("the CPU's name")]
    microcode: Annotated[str | None, doc("its microcode")]
    hypervisor: Annotated[str | None, doc("unknown: one without a name; null: bare metal")]
    kernel: Annotated[str | None, doc("the kernel's release")]
    base_page_bytes: Annotated[int, amount("size of its base pages")]
    thp_mode: Annotated[
        str | None, doc("transparent huge pages: always, madvise or never; null: not supported")
    ]
    governor: Annotated[str | None, doc("CPU 0's frequency governor")]


THP = "/sys/kernel/mm/transparent_hugepage"
POOLS = "/sys/kernel/mm/hugepages"
# The vendors' names of virtual machines in DMI, for hypervisors unknown to /sys/hypervisor.
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


def read_line(path: str) -> str | None:
    """The first line of a file under /proc or /sys, or None if it cannot be read or is empty."""
    try:
        with sys_path(path).open(encoding="utf-8", errors="replace") as file:
            return file.readline().strip("\0\n ") or None
    except OSError:
        return None


def read_number(path: str) -> int | None:
    """A file under /proc or /sys that holds one number; None if it does not."""
    text = read_line(path)
    return int(text) if text is not None and text.isdigit() else None


def read_text(path: str) -> str | None:
    try:
        return sys_path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None


def selected(path: str) -> str | None:
    """The word in brackets of a kernel setting; None if there is none."""
    found = re.search(r"\[([\w+]+)\]", read_line(path) or "")
    return found[1] if found else None


def sizes_below(folder: str, file: str = "") -> list[int]:
    """Bytes of the page sizes that have a folder (with this file) below THP or POOLS; ascending."""
    names = [path.name for path in sys_path(folder).glob("hugepages-*kB") if (path / file).exists()]
    kib = [name.removeprefix("hugepages-").removesuffix("kB") for name in names]
    return sorted(int(each) * 1024 for each in kib if each.isdigit())


def thp_mode() -> str | None:
    """The mode of transparent huge pages: always, madvise or never; None if the kernel has none."""
    return selected(f"{THP}/enabled")


def thp_sizes() -> list[int]:
    """Bytes of the transparent pages that anonymous memory may have, by kernels that list them."""
    # Sizes without `enabled` are for files only.
    return sizes_below(THP, "enabled")


def huge_page_bytes() -> int | None:
    """Bytes of the huge page that transparent huge pages use, else of hugetlb's default."""
    return read_number(f"{THP}/hpage_pmd_size") or meminfo_bytes("Hugepagesize")


def huge_page_or_assumed(machine: Machine) -> tuple[int, tuple[str, ...]]:
    """The huge page size, and a note if it had to be assumed."""
    size = huge_page_bytes()
    if size is not None:
        return size, ()
    # One level of page tables, with 8 bytes per entry, up from the base page.
    size = machine.base_page_bytes * (machine.base_page_bytes // 8)
    return size, (f"this kernel reports no huge page size; {size >> 20} MiB is assumed",)


def larger_page_bytes() -> list[int]:
    """Page sizes above the base page that this kernel knows, whether it provides any now or not."""
    huge = huge_page_bytes()
    return sorted({*thp_sizes(), *sizes_below(POOLS), *([huge] if huge else [])})


def current_machine() -> Machine:
    cpu = _cpuinfo()
    # A fake machine does not run this kernel.
    running = None if os.environ.get("TLBCOST_ROOT") else os.uname().release
    # RISC-V kernels report the instruction set, and the vendor by numbers that are often 0.
    risc_v = "riscv" if cpu.get("isa", "").startswith("rv") else None
    # Of IBM Z: "processor 0: version = 00, ... machine = 3906".
    z_model = re.search(r"\bmachine = (\d+)", cpu.get("processor 0", ""))
    return Machine(
        # x86 and Z | Arm | POWER spell these differently; each machine has one of them.
        cpu_vendor=cpu.get("vendor_id") or cpu.get("CPU implementer") or risc_v,
        cpu_family=cpu.get("cpu family") or cpu.get("CPU architecture"),
        cpu_model=cpu.get("model") or cpu.get("CPU part") or (z_model[1] if z_model else None),
        cpu_stepping=cpu.get("stepping") or cpu.get("CPU revision") or cpu.get("revision"),
        cpu_name=cpu.get("model name") or cpu.get("cpu") or cpu.get("uarch") or _arm_name(cpu),
        microcode=cpu.get("microcode"),
        hypervisor=_hypervisor(cpu),
        kernel=read_line("/proc/sys/kernel/osrelease") or running,
        base_page_bytes=_base_page_bytes(),
        thp_mode=thp_mode(),
        governor=read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    )


def is_online(cpu: str) -> bool:
    """Whether the CPU of this number is online; True if not known."""
    return read_line(f"/sys/devices/system/cpu/cpu{cpu}/online") != "0"


def _base_page_bytes() -> int:
    """Page size of the running kernel; a fake machine has it in smaps."""
    if os.environ.get("TLBCOST_ROOT"):
        text = read_text("/proc/self/smaps") or ""
        size = re.search(r"^KernelPageSize:\s+(\d+) kB", text, re.MULTILINE)
        if size:
            return int(size[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE")


def _cpuinfo() -> dict[str, str]:
    """The fields of the first processor in /proc/cpuinfo; "unknown" is no value."""
    fields: dict[str, str] = {}
    for line in (read_text("/proc/cpuinfo") or "").splitlines():
        name, colon, value = line.partition(":")
        if colon and value.strip() and value.strip() != "unknown":
            fields.setdefault(name.strip(), value.strip())
    return fields


def _arm_name(cpu: dict[str, str]) -> str | None:
    """The name of an Arm core: the kernel reports numbers alone, data/machines has their names."""
    vendor, part = cpu.get("CPU implementer"), cpu.get("CPU part")
    for path in sorted(paths.data("machines").glob("arm_*.tsv")) if vendor and part else ():
        lines = path.read_text(encoding="utf-8").splitlines()
        if {f"# cpu_vendor: {vendor}", f"# cpu_models: {part}"} <= set(lines):
            return next(line for line in lines if line.startswith("# name: "))[len("# name: ") :]
    return None


def _hypervisor(cpu: dict[str, str]) -> str | None:
    """The hypervisor's name, "unknown" for an unnamed one, None on bare metal."""
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
    # What QEMU's and others' machines without firmware call themselves.
    if "linux,dummy-virt" in (read_line("/proc/device-tree/compatible") or ""):
        return "unknown"
    clock = read_line("/sys/devices/system/clocksource/clocksource0/available_clocksource") or ""
    if "kvm-clock" in clock.split():
        return "kvm"
    if "hyperv" in clock:
        return "hyperv"
    return "unknown" if _has_flag(cpu) else None


def _has_flag(cpu: dict[str, str]) -> bool:
    return "hypervisor" in cpu.get("flags", "").split()


def meminfo_bytes(field: str) -> int | None:
    """A field of /proc/meminfo that is in kB, in bytes; None if not known."""
    value = re.search(rf"^{field}:\s+(\d+) kB", read_text("/proc/meminfo") or "", re.MULTILINE)
    return int(value[1]) * 1024 if value else None


def emulation(machine: Machine) -> str | None:
    """What shows that it is emulated, as a clause; None: nothing does."""
    if machine.cpu_vendor == "0x00":
        return "its implementer is 0x00, which no maker of Arm CPUs has"
    if (machine.cpu_name or "").startswith("QEMU TCG CPU"):
        return f"its name is {machine.cpu_name}"
    for pmu in sorted(sys_path("/sys/bus/event_source/devices").glob("armv8*")):
        events = pmu / "events"
        # PMUv3 demands both of every CPU with a cache; QEMU models no cache.
        if (events / "cpu_cycles").exists() and not (events / "l1d_cache_refill").exists():
            return f"its counters ({pmu.name}) count cycles but no cache misses"
    return None


_DEVICES = "/sys/bus/virtio/devices"
# linux/virtio_ids.h and linux/virtio_balloon.h.
_BALLOON = "0x0005"
_REPORTING_BIT = 5
# The order of the least block of free base pages that the host gets, Linux 5.14.
_REPORTING_ORDER = "/sys/module/page_reporting/parameters/page_reporting_order"


def cpu_ticks(cpu: int | None = None) -> list[int] | None:
    """A CPU's time so far in clock ticks: user, nice, system, idle, iowait, irq, softirq, steal.

    Guests' time is in the first two. `cpu`: its number; None: of all of them. None: not known.
    """
    name = "cpu" if cpu is None else f"cpu{cpu}"
    lines = [line.split() for line in (read_text("/proc/stat") or "").splitlines()]
    words = next((line for line in lines if line and line[0] == name), [])
    ticks = [int(word) for word in words[1:9] if word.isdigit()]
    return ticks if len(ticks) == 8 else None


def reports_free_pages() -> bool:
    """Whether a balloon gives free huge pages back to the host; no, where that cannot be read."""
    order, size = read_line(_REPORTING_ORDER), huge_page_bytes()
    if (order or "").isdigit() and size is not None and mmap.PAGESIZE << int(order or 0) > size:
        return False
    for folder in sys_path(_DEVICES).glob("*"):
        # The features are written from bit 0 on.
        features = read_line(f"{_DEVICES}/{folder.name}/features") or ""
        is_balloon = read_line(f"{_DEVICES}/{folder.name}/device") == _BALLOON
        if is_balloon and features[_REPORTING_BIT : _REPORTING_BIT + 1] == "1":
            return True
    return False


# The first version with the tunable glibc.malloc.hugetlb.
FIRST_WITH_HUGETLB = (2, 35)
# The first version without the hook that `hugectl --heap` needs.
FIRST_WITHOUT_HOOK = (2, 34)

# The first version whose malloc asks for transparent huge pages by itself, on aarch64.
_FIRST_ASKING = (2, 43)

TUNABLES = "GLIBC_TUNABLES"
HUGETLB_TUNABLE = "glibc.malloc.hugetlb"
MMAP_THRESHOLD = "glibc.malloc.mmap_threshold"


def glibc_version() -> tuple[int, int] | None:
    """Major and minor version; None: this C library is not glibc."""
    try:
        name = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        return None
    version = re.match(r"glibc (\d+)\.(\d+)", name)
    return (int(version[1]), int(version[2])) if version else None


def glibc_asks() -> bool:
    """Whether this C library's malloc asks for transparent huge pages by itself."""
    version = glibc_version()
    return platform.machine() == "aarch64" and version is not None and version >= _FIRST_ASKING


def tunable(tunables: str, name: str) -> str | None:
    """The value of one tunable in GLIBC_TUNABLES; the last one wins, as in glibc."""
    value = None
    for part in tunables.split(":"):
        key, equals, text = part.partition("=")
        if equals and key == name:
            value = text
    return value


def machine_of(header: Mapping[str, str]) -> Machine:
    """The machine in a table's header. Raises KeyError or ValueError for what is wrong there."""
    text = {
        field.name: None if header[field.name] == "NA" else header[field.name]
        for field in fields(Machine)
        if field.name != "base_page_bytes"
    }
    return Machine(base_page_bytes=int(header["base_page_bytes"]), **text)
