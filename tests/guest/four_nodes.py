# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine with four nodes: QEMU's x86-64, where possible with the processor of this one."""

from __future__ import annotations

import base64
import gzip
import json
import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from machine import BUILD, Member, archive, run, skipped

HERE = Path(__file__).resolve().parent / "numa"
QEMU = "qemu-system-x86_64"
FOLDER = BUILD / "guest/numa"
NODES, NODE_MIB = 4, 512
# On a busy host a second of the machine is many.
TIMEOUT_S = 3000
# make check-numa takes the others, too, which are longer.
SHORT = "hot,faults,stuck,interrupted,killed"
PROGRAMS = ("tlbcost", "libexec/tlbcost-copies", "libexec/tlbcost-thp", "workloads/numa-vector")


def why_not() -> str | None:
    """Why there is no such machine; None: there is."""
    if platform.machine() != "x86_64":
        return "the machine has the processor of this one, which is not x86-64"
    if shutil.which(QEMU) is None:
        return f"no {QEMU} (scripts/install-deps --all)"
    if not (FOLDER / "vmlinuz").is_file():
        return skipped(FOLDER / "why", "make guest-numa")
    missing = [name for name in PROGRAMS if not (BUILD / name).is_file()]
    return f"build/{missing[0]} is not built" if missing else None


@cache
def accelerator() -> list[str]:
    """KVM, where it runs a processor of 2008; else one is emulated whose clock is instructions.

    All its CPUs together have 125 million a second: that this machine is busy, or frozen, it does
    not notice. While its CPUs sleep its clock jumps.
    """
    kvm = ["-accel", "kvm", "-cpu", "Nehalem,enforce"]
    probe = [QEMU, "-M", "q35", "-nodefaults", "-display", "none", "-S", *kvm]
    try:
        # With a virtual machine's KVM that knows no such processor it ends at once.
        subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, timeout=3, check=False)
    except subprocess.TimeoutExpired:
        return kvm
    return ["-accel", "tcg,thread=single", "-icount", "shift=3,sleep=off", "-cpu", "max"]


def command(initrd: Path, console: Path) -> list[str]:
    """QEMU's, with one CPU in each node."""
    words = [QEMU, "-M", "q35", "-nodefaults", "-display", "none", "-no-reboot", *accelerator()]
    words += ["-m", f"{NODES * NODE_MIB}M", "-smp", str(NODES)]
    for node in range(NODES):
        words += ["-object", f"memory-backend-ram,size={NODE_MIB}M,id=m{node}"]
        words += ["-numa", f"node,nodeid={node},cpus={node},memdev=m{node}"]
    share = "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"
    words += ["-virtfs", share, "-serial", f"file:{console}"]
    words += ["-kernel", str(FOLDER / "vmlinuz"), "-initrd", str(initrd)]
    # The kernel's own balancing would move the pages. What it does not know it hands to init.
    steps = os.environ.get("TLBCOST_CHECK_NUMA", SHORT)
    options = "console=ttyS0 panic=-1 quiet numa_balancing=disable transparent_hugepage=always"
    # Feature 141 is cmpxchg16b: in a kernel that used it QEMU 7.2 once took RAX for the flags.
    return [*words, "-append", f"{options} clearcpuid=141 STEPS={steps}"]


@cache
def results() -> dict[str, Any]:
    """Boot it, and take its results. AssertionError with the console if it does not end well."""
    files = {
        "/init": Member((HERE / "init").read_bytes()),
        "/bin/busybox": Member((FOLDER / "busybox").read_bytes()),
        "/steps": Member(f"{HERE / 'steps.py'}\n".encode()),
        "/python": Member(f"{BUILD / 'venv/bin/python'}\n".encode()),
    }
    for module in (FOLDER / "modules").glob("*.ko"):
        files[f"/modules/{module.name}"] = Member(module.read_bytes())
    initrd, console = FOLDER / "initrd", FOLDER / "console"
    initrd.write_bytes(archive(files))
    text, said = run(command(initrd, console), console, TIMEOUT_S)
    assert "@@results\n" in text, f"{said}\n{text[-4000:]}"
    packed = text.split("@@results\n", 1)[1].split("@@packed", 1)[0]
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
    (FOLDER / "results.json").write_text(json.dumps(found))
    print(text.split("@@results\n", 1)[0], file=sys.stderr)
    return found
