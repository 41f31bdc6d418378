# SPDX-License-Identifier: GPL-2.0-or-later
"""What can be measured here? One check per thing that tlbcost uses; none changes anything."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tlbcost import calibration, paths
from tlbcost.cgroup import memory_limit
from tlbcost.errors import TlbcostError
from tlbcost.geometry import page_size_text, published
from tlbcost.machine import current_machine, huge_page_bytes, read_line, sys_path, thp_mode
from tlbcost.pmu import find_pmu, perf_event_paranoid
from tlbcost.records import Machine
from tlbcost.remedies import build, install, is_root, write_setting

State = Literal["ok", "limited", "missing"]
Value = str | int | None

_THP = "/sys/kernel/mm/transparent_hugepage"
_HUGETLB = "/sys/kernel/mm/hugepages"
_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
# Up to this level an unprivileged user may count his own programs.
_PARANOID_USER = 2
# Enough to try a program on; more is the reader's choice.
_POOL_BYTES = 1 << 30
# The cost of page walks is measured far beyond the reach of the STLB: 1 GiB of 4 KiB pages,
# inside half of the free memory.
_COMFORTABLE_BYTES = 2 << 30
_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `command` mends a gap; None: there is no gap, or no command.

    `blocks`: `tlbcost estimate` cannot work until it is mended. `values` are for programs; units
    are in the keys, None is "not obtained".
    """

    name: str
    state: State
    finding: str
    command: str | None = None
    blocks: bool = False
    values: Mapping[str, Value] = field(default_factory=dict)


def examine() -> list[Check]:
    """Look at everything, in the order of the report. Raises nothing that a user can cause."""
    machine = current_machine()
    checks: list[Check] = []
    for check in (
        lambda: _cpu(machine),
        lambda: _hypervisor(machine),
        _pmu,
        _paranoid,
        _programs,
        _libraries,
        _valgrind,
        _tlbsim,
        _thp,
        _pools,
        _hugectl,
        _glibc,
        _gnuplot,
        _memory,
        _cache,
        lambda: _calibration(machine),
    ):
        found = check()
        checks += [found] if isinstance(found, Check) else found
    return checks


def _cpu(machine: Machine) -> Check:
    # Vendors pad the name with blanks.
    name = " ".join((machine.cpu_name or "CPU of unknown name").split())
    values = {"cpu_name": machine.cpu_name, "base_page_bytes": machine.base_page_bytes}
    try:
        core = published(machine)
    except TlbcostError as error:
        return Check("cpu", "limited", f"{name}; {error}", values=values)
    pages = f"{page_size_text(machine.base_page_bytes)} pages"
    if core is None:
        return Check(
            "cpu",
            "limited",
            f"{name}, {pages}: its TLB sizes are not on file; what cannot be measured is assumed",
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


def _pmu() -> Check:
    pmu = find_pmu()
    values: dict[str, Value] = {"pmu": pmu.answer}
    if pmu.answer in ("counts", "listed"):
        finding = f"{pmu.how}; this version simulates, a later one will count"
        return Check("pmu", "ok", finding, values=values)
    if pmu.answer == "absent":
        finding = f"{pmu.how}; misses are simulated, which needs none"
        return Check("pmu", "missing", finding, values=values)
    return Check("pmu", "limited", f"{pmu.how}; misses are simulated instead", values=values)


def _paranoid() -> Check:
    name, level = "perf_event_paranoid", perf_event_paranoid()
    values = {"perf_event_paranoid": level}
    if level is None:
        return Check(name, "missing", "this kernel has no performance events", values=values)
    if level <= _PARANOID_USER:
        return Check(name, "ok", f"{level}: users may count their own programs", values=values)
    if is_root():
        return Check(name, "ok", f"{level}: only root may count, and you are root", values=values)
    command = write_setting(str(_PARANOID_USER), _PARANOID)
    return Check(name, "limited", f"{level}: only root may count", command, values=values)


def _programs() -> Check:
    names = ("tlbcost-run", "tlbcost-calibrate")
    absent = [name for name in names if not os.access(paths.libexec(name), os.X_OK)]
    if absent:
        finding = f"{' and '.join(absent)} not found in {paths.libexec('')}"
        return Check("programs", "missing", finding, build("all"), blocks=True)
    return Check("programs", "ok", f"tlbcost {paths.version()} with its measuring programs")


def _libraries() -> Check:
    found: list[str] = []
    for name in ("pandas", "rich"):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            finding = f"the Python package {name} is not installed"
            return Check("libraries", "missing", finding, build("all"), blocks=True)
    return Check("libraries", "ok", ", ".join(found))


def _valgrind() -> Check:
    path = shutil.which("valgrind")
    if path is None:
        finding = "not installed; without it misses cannot be simulated"
        return Check("valgrind", "missing", finding, install("valgrind"), blocks=True)
    version = _valgrind_version()
    if version is None:
        finding = f"{path} does not tell its version"
        return Check("valgrind", "missing", finding, install("valgrind"), blocks=True)
    values = {"valgrind_version": version}
    return Check("valgrind", "ok", f"{version}, {path}", values=values)


def _valgrind_version() -> str | None:
    said = _first_line(["valgrind", "--version"])
    match = re.match(r"valgrind-(\d+\.\d+[\w.]*)", said or "")
    return match[1] if match else None


def _tlbsim() -> Check:
    folder = paths.valgrind_lib()
    tools = sorted(folder.glob("tlbsim-*"))
    if not tools:
        finding = f"the simulator is not built ({folder})"
        return Check("tlbsim", "missing", finding, build("all"), blocks=True)
    version, built = _valgrind_version(), _built_against(tools[0])
    values = {"tlbsim_valgrind_version": built}
    if version is None:
        return Check("tlbsim", "limited", "cannot be tried without valgrind", values=values)
    if built is not None and built != version:
        finding = f"built against valgrind {built}, but {version} is installed"
        return Check(
            "tlbsim", "missing", finding, build("-B simulator"), blocks=True, values=values
        )
    real = Path(shutil.which("valgrind") or "valgrind").with_name("valgrind.bin")
    launcher = str(real) if os.access(real, os.X_OK) else "valgrind"
    environment = {**os.environ, "VALGRIND_LIB": str(folder)}
    help_text = _output([launcher, "--tool=tlbsim", "--help"], environment)
    if help_text is None or "--counts-dir" not in help_text:
        finding = f"{tools[0]} does not start under valgrind {version}"
        return Check(
            "tlbsim", "missing", finding, build("-B simulator"), blocks=True, values=values
        )
    return Check(
        "tlbsim", "ok", f"starts, built against valgrind {built or version}", values=values
    )


def _built_against(tool: Path) -> str | None:
    """The version of Valgrind's core in the tool: the core carries its own name in full."""
    try:
        match = re.search(rb"valgrind-(\d+\.\d+[\w.]*)", tool.read_bytes())
    except OSError:
        return None
    return match[1].decode() if match else None


def _thp() -> Check:
    mode = thp_mode()
    values: dict[str, Value] = {"thp_mode": mode, "huge_page_bytes": huge_page_bytes()}
    if mode is None:
        finding = "this kernel has no transparent huge pages"
        return Check("thp", "missing", finding, values=values)
    for key in ("defrag", "shmem_enabled"):
        chosen = re.search(r"\[([\w+]+)\]", read_line(f"{_THP}/{key}") or "")
        values[f"thp_{key}"] = chosen[1] if chosen else None
    values["khugepaged_defrag"] = read_line(f"{_THP}/khugepaged/defrag")
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
        command = write_setting("madvise", f"{_THP}/enabled")
        return Check("thp", "limited", f"{finding}: switched off", command, values=values)
    if mode == "always":
        finding += ": programs may already run on huge pages"
    return Check("thp", "ok", finding, values=values)


def _pools() -> list[Check]:
    try:
        folders = list(sys_path(_HUGETLB).glob("hugepages-*kB"))
    except OSError:
        folders = []
    sizes = sorted(int(re.sub(r"\D", "", folder.name)) * 1024 for folder in folders)
    if not sizes:
        return [Check("hugetlb", "missing", "this kernel has no hugetlb pools")]
    return [_pool(size) for size in sizes]


def _pool(size: int) -> Check:
    folder = f"{_HUGETLB}/hugepages-{size // 1024}kB"
    pages, free = (_number(read_line(f"{folder}/{key}_hugepages")) for key in ("nr", "free"))
    name = f"hugetlb {page_size_text(size)}"
    values: dict[str, Value] = {"page_size_bytes": size, "pages": pages, "free_pages": free}
    if pages is None or free is None:
        return Check(name, "limited", f"{folder} cannot be read", values=values)
    if pages:
        return Check(
            name, "ok" if free else "limited", f"{pages} pages, {free} free", values=values
        )
    if size != huge_page_bytes():
        return Check(name, "ok", "no pages; tlbcost uses none of this size", values=values)
    # The kernel takes the pages from what is free; a quarter of that does no harm.
    room = min(_POOL_BYTES, (_available_bytes() or 0) // 4) // size
    command = write_setting(str(room), f"{folder}/nr_hugepages") if room else None
    finding = "no pages: enough to estimate, too few to try hugetlb pages"
    return Check(name, "limited", finding, command, values=values)


def _glibc_version() -> tuple[int, int] | None:
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION")
    except (OSError, ValueError):
        return None
    match = re.match(r"glibc (\d+)\.(\d+)", text or "")
    return (int(match[1]), int(match[2])) if match else None


def _hugectl() -> Check:
    glibc = _glibc_version()
    # glibc 2.34 removed the hook that `hugectl --heap` hangs on, 2.35 brought a tunable instead.
    tunable, hook = glibc is not None and glibc >= (2, 35), glibc is not None and glibc < (2, 34)
    instead = "; GLIBC_TUNABLES=glibc.malloc.hugetlb=2 does its work" if tunable else ""
    if shutil.which("hugectl") is None:
        command = install("hugectl") if hook else None
        return Check("hugectl", "missing", f"not installed{instead}", command)
    version = _package_version("libhugetlbfs-bin", "libhugetlbfs-utils", "libhugetlbfs")
    values = {"hugectl_version": version}
    finding = f"version {version}" if version else "version unknown (no package tells it)"
    if glibc is not None and not hook:
        text = f"{finding}: --heap does nothing with glibc {glibc[0]}.{glibc[1]}{instead}"
        return Check("hugectl", "limited", text, values=values)
    return Check("hugectl", "ok", finding, values=values)


def _glibc() -> Check:
    version = _glibc_version()
    if version is None:
        finding = "this C library is not glibc: its malloc cannot be asked for huge pages"
        return Check("glibc", "missing", finding, values={"glibc_version": None})
    text = f"{version[0]}.{version[1]}"
    values = {"glibc_version": text}
    if version >= (2, 35):
        finding = f"{text}: GLIBC_TUNABLES=glibc.malloc.hugetlb=1 (THP) or =2 (pool) works"
        return Check("glibc", "ok", finding, values=values)
    way = "hugectl --heap still works" if version < (2, 34) else "hugectl --heap is gone too"
    finding = f"{text}: glibc.malloc.hugetlb came with 2.35; {way}"
    return Check("glibc", "limited", finding, values=values)


def _gnuplot() -> Check:
    version = _first_line(["gnuplot", "--version"])
    if version is None:
        finding = "not installed; only 'tlbcost calibrate --plot' needs it"
        return Check("gnuplot", "missing", finding, install("gnuplot"))
    return Check("gnuplot", "ok", version.removeprefix("gnuplot "))


def _memory() -> Check:
    available, limit = _available_bytes(), memory_limit().limit_bytes
    values = {"available_bytes": available, "cgroup_limit_bytes": limit}
    if available is None:
        finding = "/proc/meminfo does not tell MemAvailable"
        return Check("memory", "limited", finding, values=values)
    room = available if limit is None else min(available, limit)
    finding = f"{_size(available)} available, cgroup limit {_size(limit) if limit else 'none'}"
    if room < _COMFORTABLE_BYTES:
        finding += ": little room to measure page walks in"
        return Check("memory", "limited", finding, values=values)
    return Check("memory", "ok", finding, values=values)


def _cache() -> Check:
    folder = calibration.cache_folder()
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return Check("cache", "ok", str(folder), values={"cache_folder": str(folder)})
    return Check(
        "cache",
        "limited",
        f"{folder} cannot be written: each estimate calibrates anew",
        'export XDG_CACHE_HOME="$(mktemp -d)"',
        values={"cache_folder": str(folder)},
    )


def _calibration(machine: Machine) -> Check:
    others: list[str] = []
    for path in sorted(calibration.cache_folder().glob("calibration-*.tsv")):
        try:
            cached = calibration.read_calibration(path)
        except TlbcostError:
            others.append("an unreadable one")
            continue
        if cached.machine == machine:
            values: dict[str, Value] = {"calibration_date": cached.date}
            finding = f"of this machine, {cached.date}"
            return Check("calibration", "ok", finding, values=values)
        others.append(f"one of {cached.machine.cpu_name or 'an unnamed CPU'}, {cached.date}")
    finding = "none of this machine in the cache; the first estimate makes it (at most 20 s)"
    if others:
        finding += f"; found {' and '.join(others[:2])}"
    return Check("calibration", "limited", finding, "tlbcost calibrate")


def _available_bytes() -> int | None:
    try:
        text = sys_path("/proc/meminfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _size(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 30):.1f} GiB"


def _package_version(*names: str) -> str | None:
    for command in (["dpkg-query", "-W", "-f", "${Version}"], ["rpm", "-q", "--qf", "%{VERSION}"]):
        for name in names if shutil.which(command[0]) else ():
            version = _first_line([*command, name])
            if version:
                return version
    return None


def _first_line(command: Sequence[str]) -> str | None:
    text = _output(command, None)
    return text.split("\n", 1)[0].strip() or None if text else None


def _output(command: Sequence[str], environment: Mapping[str, str] | None) -> str | None:
    """What a program says on stdout, or None if it is missing, fails or hangs."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None
