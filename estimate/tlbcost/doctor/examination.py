# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks of what can be measured here, one for each thing that tlbcost uses."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence

from tlbcost.calibration import file
from tlbcost.calibration.file import read_calibration
from tlbcost.common import units
from tlbcost.common.errors import TlbcostError
from tlbcost.common.paths import version
from tlbcost.copies.run import follows_copies_of, is_built
from tlbcost.counters.count_tool import probe
from tlbcost.counters.pmu import (
    EventRequest,
    default_events,
    find_pmu,
    perf_event_paranoid,
    user_may_count,
)
from tlbcost.doctor.check import Check, Examination, Value
from tlbcost.doctor.tools import (
    check_glibc,
    check_gnuplot,
    check_hugectl,
    check_libraries,
    check_programs,
    check_tlbsim,
    check_valgrind,
)
from tlbcost.processors.events import Event, Pmu, generic_pmu, names, pmu_of
from tlbcost.processors.published import published
from tlbcost.system import huge_pages
from tlbcost.system.hints import build, install, is_root, write_setting
from tlbcost.system.machine import (
    THP,
    Machine,
    current_machine,
    emulation,
    huge_page_bytes,
    meminfo_bytes,
    read_line,
    selected,
    thp_mode,
)
from tlbcost.system.process import PTRACE_SCOPE, memory_limit, tracing_rights

# Enough to try a program; the user may want more.
_POOL_BYTES = 1 << 30
# The cost of page walks is measured far beyond the reach of the STLB: 1 GiB of 4 KiB pages, within
# half of the free memory.
_COMFORTABLE_BYTES = 2 << 30


def examine() -> Examination:
    """Check everything, in the order of the report. Raises nothing that a user can cause."""
    machine = current_machine()
    pools = [_pool(huge_pages.pool(size)) for size in huge_pages.sizes()]
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
        *(pools or [Check("hugetlb", "missing", "this kernel has no hugetlb pools")]),
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
        finding = f"{name}, {pages}: its TLB sizes are not on file; unmeasured ones are assumed"
        return Check("cpu", "limited", finding, values={**values, "core": None})
    unsure = any(not level.verified for level in core.levels.values())
    note = "; some of its published TLB sizes are unverified" if unsure else ""
    finding = f"{name}, {pages}; core: {core.name}{note}"
    return Check("cpu", "ok", finding, values={**values, "core": core.core})


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
    labels = {
        "thp_defrag": "defrag", "thp_shmem_enabled": "shmem",
        "khugepaged_defrag": "khugepaged/defrag",
    }  # fmt: skip
    known = (f"{label} {values[key]}" for key, label in labels.items() if values[key] is not None)
    rest = ", ".join(known)
    finding = f"{mode} ({rest})" if rest else mode
    if mode == "never":
        command = write_setting("madvise", f"{THP}/enabled")
        return Check("thp", "limited", f"{finding}: switched off", command, values=values)
    if mode == "always":
        finding += ": programs may already run on huge pages"
    return Check("thp", "ok", finding, values=values)


def _pool(pool: huge_pages.Pool) -> Check:
    size, pages, free = pool.page_size_bytes, pool.pages, pool.free
    file = huge_pages.pool_file(size)
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
    size = huge_page_bytes()
    free = None if size is None else huge_pages.whole_free(size)
    values = {
        "available_bytes": available, "cgroup_limit_bytes": limit, "free_huge_pages": free,
    }  # fmt: skip
    if available is None:
        finding = "/proc/meminfo has no MemAvailable"
        return Check("memory", "limited", finding, values=values)
    room = available if limit is None else min(available, limit)
    finding = (
        f"{units.size(available)} available, cgroup limit {units.size(limit) if limit else 'none'}"
    )
    if free is not None and size is not None:
        finding += f"; {units.size(free * size)} in whole huge pages, the rest needs compaction"
    if room < _COMFORTABLE_BYTES:
        finding += ": too little for measuring page walks well"
        return Check("memory", "limited", finding, values=values)
    return Check("memory", "ok", finding, values=values)


def _cache() -> Check:
    folder = file.cache_folder()
    place = folder
    # os.access works for unreadable folders, where Path.exists raises.
    while not os.access(place, os.F_OK) and place != place.parent:
        place = place.parent
    values = {"cache_folder": str(folder)}
    if os.access(place, os.W_OK | os.X_OK) and place.is_dir():
        return Check("cache", "ok", str(folder), values=values)
    finding = f"{folder} cannot be written: every estimate calibrates again"
    command = 'export XDG_CACHE_HOME="$(mktemp -d)"'
    return Check("cache", "limited", finding, command, values=values)


def _calibration(machine: Machine) -> Check:
    others: list[str] = []
    for path in sorted(file.cache_folder().glob("calibration-*.tsv")):
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


_INSTEAD = "programs run in Valgrind instead, and --pid does not work"
_SETTING = "kernel.yama.ptrace_scope"


def check_copies(architecture: str) -> Check:
    rights = tracing_rights()
    values: dict[str, Value] = {
        "ptrace_scope": rights.scope,
        "cap_sys_ptrace": "yes" if rights.privileged else "no",
        "traceable": rights.traceable,
        "seccomp_filter": "yes" if rights.filtered else "no",
    }
    if not follows_copies_of(architecture):
        finding = f"only on x86-64, not on {architecture}: {_INSTEAD}"
        return Check("copies", "missing", finding, values=values)
    if not is_built():
        finding = f"tlbcost-copies is not built, Zydis (libzydis) was missing: {_INSTEAD}"
        commands = [command for command in (install("zydis"), build("all")) if command]
        command = " && ".join(commands) if len(commands) == 2 else None
        return Check("copies", "missing", finding, command, values=values)
    if rights.locked:
        finding = (
            f"{_SETTING} is {rights.scope}: no process may trace until the next boot; {_INSTEAD}"
        )
        return Check("copies", "limited", finding, values=values)
    if rights.traceable == "none":
        finding = f"{_SETTING} is {rights.scope}: only root may trace; {_INSTEAD}"
        command = write_setting("1", PTRACE_SCOPE)
        return Check("copies", "limited", finding, command, values=values)
    if rights.filtered:
        finding = (
            "tlbcost has a seccomp filter, which a copy of what it runs could be killed by: it "
            "runs in Valgrind instead (for a container: docker run --security-opt "
            "seccomp=unconfined)"
        )
        return Check("copies", "limited", finding, values=values)
    if rights.traceable == "launched":
        finding = (
            f"of programs that tlbcost runs; running processes (--pid) need root, or {_SETTING} 0"
        )
        command = write_setting("0", PTRACE_SCOPE)
        return Check("copies", "limited", finding, command, values=values)
    if rights.traceable == "own" and is_root():
        finding = (
            "of programs that tlbcost runs, and root's; --pid of others needs CAP_SYS_PTRACE (for "
            "a container: docker run --cap-add SYS_PTRACE)"
        )
        return Check("copies", "limited", finding, values=values)
    whose = "every process" if rights.traceable == "all" else "your own processes"
    finding = f"of programs that tlbcost runs, and (--pid) of {whose}"
    return Check("copies", "ok", finding, values=values)


_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
# Up to this level every kernel lets users count their own programs.
_PARANOID_USER = 2
_COUNTABLE = ("counted", "multiplexed", "left_over")
# What an estimate can be based on, best first, and its name.
_WITNESSES = {
    "share": "the cycles with a page walk",
    "pending_share": "the cycles of page walks",
    "walks": "page walks",
    "data_walks": "page walks for data",
}


def check_pmu(machine: Machine) -> Check:
    found = find_pmu()
    own = pmu_of(machine)
    pmu = own or generic_pmu()
    values: dict[str, Value] = {"pmu": found.answer, "event_table": own.key if own else None}
    if found.answer == "listed":
        finding = f"{found.how}; events of {pmu.name}"
        return Check("pmu", "ok", finding, values=values)
    if found.answer == "absent":
        finding = f"{found.how}; misses are simulated, which needs none"
        return Check("pmu", "missing", finding, values=values)
    if found.answer != "counts":
        return Check("pmu", "limited", f"{found.how}; misses are simulated instead", values=values)
    values["counters"] = pmu.counters
    try:
        events = default_events(pmu)
        answers = probe(pmu, [EventRequest.of(event) for event in events])
    except TlbcostError as error:
        return Check("pmu", "limited", f"{found.how}, but {error}", values=values)
    opened = {each.event for each in answers if each.state in _COUNTABLE}
    countable = [event for event in events if event.name in opened]
    values["countable_events"] = ", ".join(event.name for event in countable)
    return _witness(pmu, own is not None, countable, values)


def check_paranoid() -> Check:
    name, level = "perf_event_paranoid", perf_event_paranoid()
    values = {"perf_event_paranoid": level}
    if level is None:
        return Check(name, "missing", "this kernel has no performance events", values=values)
    if level <= 0:
        return Check(name, "ok", f"{level}: users may count the whole system", values=values)
    if level <= _PARANOID_USER:
        where = "" if level < _PARANOID_USER else " in user mode"
        finding = f"{level}: users may count their own programs{where}"
        return Check(name, "ok", finding, values=values)
    if is_root():
        return Check(name, "ok", f"{level}: root may count, and you are root", values=values)
    if user_may_count():
        finding = f"{level}: here like 2, users may count their own programs in user mode"
        return Check(name, "ok", finding, values=values)
    command = write_setting(str(_PARANOID_USER), _PARANOID)
    return Check(name, "limited", f"{level}: only root may count", command, values=values)


def _witness(pmu: Pmu, is_known: bool, events: Sequence[Event], values: dict[str, Value]) -> Check:
    opened = {event.name for event in events}
    countable = [
        words
        for key, words in _WITNESSES.items()
        if key in pmu.formulas and names(pmu.formulas[key]) <= opened
    ]
    room = "" if pmu.counters is None else f", {pmu.counters} at a time"
    if pmu.fixed:
        room += f" besides {' and '.join(pmu.fixed)}"
    if not countable:
        finding = f"{pmu.name}: counts {len(opened)} events, none of them of page walks"
        return Check("pmu", "limited", f"{finding}; misses are simulated", values=values)
    finding = f"{pmu.name}: counts {countable[0]}; {len(opened)} events{room}"
    if not is_known:
        finding = f"this CPU has no event table; {finding}: what they mean depends on the CPU"
    return Check("pmu", "ok" if is_known else "limited", finding, values=values)
