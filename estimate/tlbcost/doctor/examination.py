# SPDX-License-Identifier: GPL-2.0-or-later
"""What can be measured here? One check for each thing that tlbcost uses; none changes anything."""

from __future__ import annotations

import os
import platform

from tlbcost.calibration import cache
from tlbcost.calibration.file import read_calibration
from tlbcost.common import units
from tlbcost.common.errors import TlbcostError
from tlbcost.common.paths import version
from tlbcost.doctor.check import Check, Examination, Value
from tlbcost.doctor.copies import check_copies
from tlbcost.doctor.pmu import check_paranoid, check_pmu
from tlbcost.doctor.tools import (
    check_glibc,
    check_gnuplot,
    check_hugectl,
    check_libraries,
    check_programs,
    check_tlbsim,
    check_valgrind,
)
from tlbcost.processors.published import published
from tlbcost.system import hugetlb
from tlbcost.system.cgroup import memory_limit
from tlbcost.system.emulation import emulation
from tlbcost.system.hints import write_setting
from tlbcost.system.machine import (
    THP,
    Machine,
    current_machine,
    huge_page_bytes,
    meminfo_bytes,
    read_line,
    selected,
    thp_mode,
)

# Enough to try a program; the user may want more.
_POOL_BYTES = 1 << 30
# The cost of page walks is measured far beyond the reach of the STLB: 1 GiB of 4 KiB pages, within
# half of the free memory.
_COMFORTABLE_BYTES = 2 << 30


def examine() -> Examination:
    """Check everything, in the order of the report. Raises nothing that a user can cause."""
    machine = current_machine()
    checks = [
        _cpu(machine),
        _hypervisor(machine),
        check_pmu(machine),
        check_paranoid(),
        check_programs(),
        check_copies(platform.machine()),
        check_libraries(),
        check_valgrind(),
        check_tlbsim(),
        _thp(),
        *_pools(),
        check_hugectl(),
        check_glibc(),
        check_gnuplot(),
        _memory(),
        _cache(),
        _calibration(machine),
    ]
    return Examination(
        tlbcost_version=version(),
        estimate_works=not any(check.blocks_estimate for check in checks),
        checks=checks,
    )


def _cpu(machine: Machine) -> Check:
    # Vendors pad the name with blanks.
    name = " ".join((machine.cpu_name or "unnamed CPU").split())
    values = {"cpu_name": machine.cpu_name, "base_page_bytes": machine.base_page_bytes}
    try:
        core = published(machine)
    except TlbcostError as error:
        return Check("cpu", "limited", f"{name}; {error}", values=values)
    pages = f"{units.size(machine.base_page_bytes)} pages"
    if core is None:
        return Check(
            "cpu",
            "limited",
            f"{name}, {pages}: its TLB sizes are not on file; unmeasured ones are assumed",
            values={**values, "core": None},
        )
    unsure = any(not level.verified for level in core.levels.values())
    note = "; some of its published TLB sizes are unverified" if unsure else ""
    return Check(
        "cpu",
        "ok",
        f"{name}, {pages}; core: {core.name}{note}",
        values={**values, "core": core.core},
    )


def _hypervisor(machine: Machine) -> Check:
    values = {"hypervisor": machine.hypervisor}
    if machine.hypervisor is None:
        return Check("hypervisor", "ok", "none seen", values=values)
    kind = "" if machine.hypervisor == "unknown" else f" ({machine.hypervisor})"
    finding = f"virtual machine{kind}: costs hold for guests like this one, not for its host"
    return Check("hypervisor", "ok", finding, values=values)


def _thp() -> Check:
    mode = thp_mode()
    values: dict[str, Value] = {"thp_mode": mode, "huge_page_bytes": huge_page_bytes()}
    if mode is None:
        finding = "this kernel has no transparent huge pages"
        return Check("thp", "missing", finding, values=values)
    for key in ("defrag", "shmem_enabled"):
        values[f"thp_{key}"] = selected(f"{THP}/{key}")
    values["khugepaged_defrag"] = read_line(f"{THP}/khugepaged/defrag")
    rest = ", ".join(
        f"{name} {values[key]}"
        for name, key in (
            ("defrag", "thp_defrag"),
            ("shmem", "thp_shmem_enabled"),
            ("khugepaged/defrag", "khugepaged_defrag"),
        )
        if values[key] is not None
    )
    finding = f"{mode} ({rest})" if rest else mode
    if mode == "never":
        command = write_setting("madvise", f"{THP}/enabled")
        return Check("thp", "limited", f"{finding}: switched off", command, values=values)
    if mode == "always":
        finding += ": programs may already run on huge pages"
    return Check("thp", "ok", finding, values=values)


def _pools() -> list[Check]:
    sizes = hugetlb.sizes()
    if not sizes:
        return [Check("hugetlb", "missing", "this kernel has no hugetlb pools")]
    return [_pool(hugetlb.pool(size)) for size in sizes]


def _pool(pool: hugetlb.Pool) -> Check:
    size, pages, free = pool.page_size_bytes, pool.pages, pool.free
    file = hugetlb.pool_file(size)
    name = f"hugetlb {units.size(size)}"
    values: dict[str, Value] = {"page_size_bytes": size, "pages": pages, "free_pages": free}
    if pages is None or free is None:
        finding = f"{file.rpartition('/')[0]} cannot be read"
        return Check(name, "limited", finding, values=values)
    if pages:
        return Check(
            name, "ok" if free else "limited", f"{pages} pages, {free} free", values=values
        )
    if size != huge_page_bytes():
        return Check(name, "ok", "no pages; tlbcost uses none of this size", values=values)
    # The kernel takes the pages from free memory; a quarter of it does no harm.
    room = min(_POOL_BYTES, (meminfo_bytes("MemAvailable") or 0) // 4) // size
    command = write_setting(str(room), file) if room else None
    finding = "no pages: enough to estimate, too few to try hugetlb pages"
    return Check(name, "limited", finding, command, values=values)


def _memory() -> Check:
    available, limit = meminfo_bytes("MemAvailable"), memory_limit().limit_bytes
    values = {"available_bytes": available, "cgroup_limit_bytes": limit}
    if available is None:
        finding = "/proc/meminfo has no MemAvailable"
        return Check("memory", "limited", finding, values=values)
    room = available if limit is None else min(available, limit)
    finding = (
        f"{units.size(available)} available, cgroup limit {units.size(limit) if limit else 'none'}"
    )
    if room < _COMFORTABLE_BYTES:
        finding += ": too little for measuring page walks well"
        return Check("memory", "limited", finding, values=values)
    return Check("memory", "ok", finding, values=values)


def _cache() -> Check:
    folder = cache.cache_folder()
    place = folder
    # os.access works for unreadable folders, where Path.exists raises.
    while not os.access(place, os.F_OK) and place != place.parent:
        place = place.parent
    if os.access(place, os.W_OK | os.X_OK) and place.is_dir():
        return Check("cache", "ok", str(folder), values={"cache_folder": str(folder)})
    return Check(
        "cache",
        "limited",
        f"{folder} cannot be written: every estimate calibrates again",
        'export XDG_CACHE_HOME="$(mktemp -d)"',
        values={"cache_folder": str(folder)},
    )


def _calibration(machine: Machine) -> Check:
    others: list[str] = []
    for path in sorted(cache.cache_folder().glob("calibration-*.tsv")):
        try:
            cached = read_calibration(path)
        except TlbcostError:
            others.append("an unreadable one")
            continue
        if cached.machine == machine:
            values: dict[str, Value] = {"calibration_date": cached.date}
            finding = f"of this machine, {cached.date}"
            return Check("calibration", "ok", finding, values=values)
        others.append(f"one of {cached.machine.cpu_name or 'an unnamed CPU'}, {cached.date}")
    if emulated := emulation(machine):
        finding = f"this CPU is emulated ({emulated}): no TLB shows in its times"
        command = "tlbcost estimate --machine neoverse-v2 ./app"
        return Check("calibration", "missing", finding, command, blocks_estimate=True)
    finding = "none of this machine in the cache; the first estimate makes it (at most 12 s)"
    if others:
        finding += f"; found {' and '.join(others[:2])}"
    return Check("calibration", "limited", finding, "tlbcost calibrate")
