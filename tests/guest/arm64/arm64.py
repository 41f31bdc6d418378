# SPDX-License-Identifier: GPL-2.0-or-later
"""What is in the emulated arm64 machine? Debian's packages, and tlbcost as if installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from machine import BUILD, HERE, Emulator, Member

TREE = HERE.parent.parent
GUEST = BUILD / "guest/arm64"
BUILT = BUILD / "arm64"
HOME = "/usr/local/lib/tlbcost"
QEMU = "qemu-system-aarch64"
# Alongside twenty other programs on two processors a boot with all its steps took 13 minutes.
TIMEOUT_S = 2400
# What Debian's packages have and nothing here reads.
UNUSED = {"usr/share", "usr/include", "usr/lib/aarch64-linux-gnu/perl"}
UNUSED_NAMES = {"tests", "test", "idlelib", "lib2to3", "ensurepip", "bin"}


def emulator(kernel: str) -> Emulator:
    """QEMU's `virt` machine with one of the kernels."""
    return Emulator(QEMU, GUEST / kernel, "ttyAMA0", "2G", TIMEOUT_S)


def below(folder: Path, to: str, unused: set[str] = UNUSED_NAMES) -> Iterator[tuple[str, Member]]:
    """The files of a folder, as files of the machine."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_symlink():
            yield f"{to}/{name}", Member(str(path.readlink()).encode(), link=True)
        elif path.is_file() and not unused.intersection(name.parts):
            yield f"{to}/{name}", Member(path.read_bytes())


def packages() -> Iterator[tuple[str, Member]]:
    """Debian's packages, without what only compilers and people read."""
    for name, member in below(GUEST / "root", "", {"test"}):
        parents = {str(folder) for folder in PurePosixPath(name[1:]).parents}
        if not parents & UNUSED and not name.endswith((".a", "/libexec/valgrind/memcheck")):
            yield name, member


def installed() -> Iterator[tuple[str, Member]]:
    """The tlbcost of this tree."""
    yield from below(GUEST / "python", f"{HOME}/python")
    yield from below(TREE / "estimate/tlbcost", f"{HOME}/python/tlbcost", {"__pycache__"})
    yield from below(BUILT / "libexec", f"{HOME}/libexec")
    yield from below(TREE / "data", f"{HOME}/data", {"samples", "schema"})
    yield from below(TREE / "scripts/plots", f"{HOME}/plots")
    yield f"{HOME}/VERSION", Member((TREE / "VERSION").read_bytes())
    launcher = (TREE / "scripts/tlbcost.in").read_text()
    launcher = launcher.replace("@PYTHON@", "/usr/bin/python3.11").replace(
        "@ROOT@", f"{HOME}/python"
    )
    yield "/usr/local/bin/tlbcost", Member(launcher.encode())


def contents(steps: Sequence[str], programs: Sequence[str]) -> dict[str, Member]:
    """All files of the machine that takes these steps; `programs` are below the build folder."""
    here = Path(__file__).parent
    files = dict(packages()) | dict(installed())
    files["/init"] = Member((HERE / "init").read_bytes())
    files["/steps"] = Member(b"".join((here / name).read_bytes() for name in steps))
    for name in programs:
        files[f"/usr/local/bin/{PurePosixPath(name).name}"] = Member((BUILT / name).read_bytes())
    return files
