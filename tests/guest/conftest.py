# SPDX-License-Identifier: GPL-2.0-or-later
"""Which emulated machines do the tests ask? Each boots once, at the first question."""

from __future__ import annotations

import shutil

import pytest
from machine import BUILD, HERE, QEMU, Results, boot, contents, skipped

PROGRAMS = ("libexec/tlbcost-count", "libexec/tlbcost-run",
            "tests/visit", "workloads/cold")  # fmt: skip


def ask(name: str, processor: list[str]) -> Results:
    """Boot a machine that takes steps-NAME; the tests are skipped if there is none."""
    if shutil.which(QEMU) is None:
        pytest.skip(f"no {QEMU} (scripts/install-deps --all)")
    if not list((BUILD / "guest/linux").glob("vmlinux-*")):
        pytest.skip(skipped(BUILD / "guest/why", "make guest"))
    programs = [BUILD / "riscv64" / program for program in PROGRAMS]
    if not all(program.is_file() for program in programs):
        pytest.skip("no programs for riscv64 (make guest; it needs riscv64-linux-gnu-gcc)")
    return boot(name, processor, contents(HERE / f"steps-{name}", programs))


@pytest.fixture(scope="session")
def counting() -> Results:
    """Two processors whose counters interrupt."""
    return ask("counting", ["-cpu", "rv64,sscofpmf=on", "-smp", "2"])


@pytest.fixture(scope="session")
def plain() -> Results:
    """One processor whose counters know no modes and cannot interrupt."""
    return ask("plain", ["-cpu", "rv64,sscofpmf=off", "-smp", "1"])


@pytest.fixture(scope="session")
def exact() -> Results:
    """One processor whose clock is its instructions; QEMU 7.2 dies where its counters interrupt."""
    return ask("exact", ["-cpu", "rv64,sscofpmf=on", "-smp", "1", "-icount", "shift=0"])
