# SPDX-License-Identifier: GPL-2.0-or-later
"""The programs and libraries that tlbcost uses: present, and of matching versions?"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tlbcost.common import paths
from tlbcost.doctor.check import Check
from tlbcost.system.hints import build, install
from tlbcost.system.machine import (
    FIRST_WITH_HUGETLB,
    FIRST_WITHOUT_HOOK,
    HUGETLB_TUNABLE,
    glibc_asks,
    glibc_version,
)

_TIMEOUT_S = 20


def check_programs() -> Check:
    names = ("tlbcost-run", "tlbcost-calibrate", "tlbcost-count")
    absent = [name for name in names if not os.access(paths.libexec(name), os.X_OK)]
    if absent:
        finding = f"{' and '.join(absent)} not found in {paths.libexec('')}"
        return Check("programs", "missing", finding, build("all"), blocks_estimate=True)
    return Check("programs", "ok", f"tlbcost {paths.version()} with its measuring programs")


def check_libraries() -> Check:
    found: list[str] = []
    for name, module in (("pandas", "pandas"), ("pyelftools", "elftools"), ("rich", "rich")):
        if importlib.util.find_spec(module) is None:
            finding = f"the Python package {name} is not installed"
            return Check("libraries", "missing", finding, build("all"), blocks_estimate=True)
        # A copied package may have come without its metadata.
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            name = f"{name} {importlib.metadata.version(name)}"
        found.append(name)
    return Check("libraries", "ok", ", ".join(found))


def check_valgrind() -> Check:
    path = shutil.which("valgrind")
    if path is None:
        finding = "not installed; what cannot be copied is measured, and not explained"
        return Check("valgrind", "missing", finding, install("valgrind"))
    version = _valgrind_version()
    if version is None:
        finding = f"{path} does not report its version"
        return Check("valgrind", "missing", finding, install("valgrind"))
    values = {"valgrind_version": version}
    return Check("valgrind", "ok", f"{version}, {path}", values=values)


def _valgrind_version() -> str | None:
    said = _first_line(["valgrind", "--version"])
    match = re.match(r"valgrind-(\d+\.\d+[\w.]*)", said or "")
    return match[1] if match else None


def check_tlbsim() -> Check:
    folder = paths.valgrind_lib()
    tools = sorted(folder.glob("tlbsim-*"))
    if not tools:
        finding = f"the simulator is not built ({folder})"
        return Check("tlbsim", "missing", finding, build("all"))
    version, built = _valgrind_version(), _built_against(tools[0])
    values = {"tlbsim_valgrind_version": built}
    if version is None:
        return Check("tlbsim", "limited", "cannot be tested without valgrind", values=values)
    if built is not None and built != version:
        finding = f"built against valgrind {built}, but {version} is installed"
        return Check("tlbsim", "missing", finding, build("-B simulator"), values=values)
    real = Path(shutil.which("valgrind") or "valgrind").with_name("valgrind.bin")
    launcher = str(real) if os.access(real, os.X_OK) else "valgrind"
    environment = {**os.environ, "VALGRIND_LIB": str(folder)}
    help_text = _output([launcher, "--tool=tlbsim", "--help"], environment)
    if help_text is None or "--counts-dir" not in help_text:
        finding = f"{tools[0]} does not start under valgrind {version}"
        return Check("tlbsim", "missing", finding, build("-B simulator"), values=values)
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


def check_hugectl() -> Check:
    glibc = glibc_version()
    tunable = glibc is not None and glibc >= FIRST_WITH_HUGETLB
    hook = glibc is not None and glibc < FIRST_WITHOUT_HOOK
    instead = f"; GLIBC_TUNABLES={HUGETLB_TUNABLE}=2 does its work" if tunable else ""
    if shutil.which("hugectl") is None:
        command = install("hugectl") if hook else None
        return Check("hugectl", "missing", f"not installed{instead}", command)
    version = _package_version("libhugetlbfs-bin", "libhugetlbfs-utils", "libhugetlbfs")
    values = {"hugectl_version": version}
    finding = f"version {version}" if version else "version unknown (not from a package)"
    if glibc is not None and not hook:
        text = f"{finding}: --heap does nothing with glibc {glibc[0]}.{glibc[1]}{instead}"
        return Check("hugectl", "limited", text, values=values)
    return Check("hugectl", "ok", finding, values=values)


def check_glibc() -> Check:
    version = glibc_version()
    if version is None:
        finding = "this C library is not glibc: its malloc has no switch for huge pages"
        return Check("glibc", "missing", finding, values={"glibc_version": None})
    text = f"{version[0]}.{version[1]}"
    values = {"glibc_version": text}
    if version >= FIRST_WITH_HUGETLB:
        finding = f"{text}: GLIBC_TUNABLES={HUGETLB_TUNABLE}=1 (THP) or =2 (pool) works"
        if glibc_asks():
            finding += "; malloc asks for huge pages by itself (=0 forbids it)"
        return Check("glibc", "ok", finding, values=values)
    way = (
        "hugectl --heap still works"
        if version < FIRST_WITHOUT_HOOK
        else "hugectl --heap is gone too"
    )
    finding = f"{text}: {HUGETLB_TUNABLE} came with 2.35; {way}"
    return Check("glibc", "limited", finding, values=values)


def check_gnuplot() -> Check:
    version = _first_line(["gnuplot", "--version"])
    if version is None:
        finding = "not installed; only 'tlbcost calibrate --plot' needs it"
        return Check("gnuplot", "missing", finding, install("gnuplot"))
    return Check("gnuplot", "ok", version.removeprefix("gnuplot "))


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
    """A program's standard output, or None if it is missing, fails or hangs."""
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
