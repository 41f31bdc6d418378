# SPDX-License-Identifier: GPL-2.0-or-later
"""Which emulated arm64 machines do the tests ask? Each boots once, at the first question."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import arm64
import pytest
from machine import Results, boot, skipped

# All steps take half an hour: make check-arm64.
LONG = "TLBCOST_CHECK_ARM64" in os.environ
collect_ignore = [] if LONG else ["test_arm64_long.py"]
STEPS = ("steps-known", "steps-more") if LONG else ("steps-known",)

PROGRAMS = ("workloads/cyclic", "workloads/chase", "tests/sve")


def ask(name: str, kernel: str, steps: Sequence[str], processor: list[str]) -> Results:
    """Boot a machine that takes these steps; the tests are skipped if there is none."""
    if shutil.which(arm64.QEMU) is None:
        pytest.skip(f"no {arm64.QEMU} (scripts/install-deps --all)")
    if not (arm64.GUEST / kernel).is_file() or not (arm64.GUEST / "python").is_dir():
        pytest.skip(skipped(arm64.GUEST / "why", "make check-arm64"))
    if not all((arm64.BUILT / program).is_file() for program in PROGRAMS):
        pytest.skip("no programs for arm64 (make arm64; it needs aarch64-linux-gnu-gcc)")
    skip_newer_library()
    files = arm64.contents(steps, PROGRAMS)
    return boot(name, [*processor, "-smp", "1"], files, arm64.emulator(kernel))


def skip_newer_library() -> None:
    """What the cross compiler's C library has must be in that of the machine."""
    gcc = ["aarch64-linux-gnu-gcc", "-print-file-name=libc.so.6"]
    ours = version(Path(subprocess.check_output(gcc, text=True).strip()))
    guest = version(arm64.GUEST / "root/lib/aarch64-linux-gnu/libc.so.6")
    if ours > guest:
        pytest.skip(f"the cross compiler's C library, {ours}, is newer than the machine's, {guest}")


def version(library: Path) -> tuple[int, ...]:
    """The newest version whose names a C library has."""
    found = re.findall(rb"GLIBC_(\d+)\.(\d+)", library.read_bytes())
    return max((int(major), int(minor)) for major, minor in found)


@pytest.fixture(scope="session")
def pages_4k() -> Results:
    """A Neoverse N1 and Debian's kernel: base pages of 4 KiB, huge ones of 2 MiB."""
    return ask("arm64-4k", "kernel-4k", STEPS, ["-cpu", "neoverse-n1"])


@pytest.fixture(scope="session")
def pages_16k() -> Results:
    """All that QEMU knows (SVE, too), and the kernel with base pages of 16 KiB."""
    return ask("arm64-16k", "kernel-16k", STEPS, ["-cpu", "max,pauth-impdef=on"])


@pytest.fixture(scope="session", params=["pages_4k", "pages_16k"])
def either(request: pytest.FixtureRequest) -> Results:
    """Both, one after the other: what holds with pages of any size."""
    results = request.getfixturevalue(request.param)
    assert isinstance(results, Results)
    return results


@pytest.fixture(scope="session")
def counting() -> Results:
    """One whose clock is its instructions, else QEMU does not count these."""
    cpu = ["-cpu", "neoverse-n1", "-icount", "shift=0"]
    return ask("arm64-counting", "kernel-4k", ("steps-counting",), cpu)
