# SPDX-License-Identifier: GPL-2.0-or-later
"""How many instructions does the simulator execute for each lookup in a hash table?

Unlike times they are the same in every run, so that two builds can be compared on a busy machine:
`make bench NAME=simulator_instructions`, or this program with the libexec/valgrind folders of both
builds. The
simulator runs in QEMU's emulator of user programs. What it needs to start is left out: the
figures are of a longer run less a shorter one. Takes two minutes for each build.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tlbcost.common.errors import TlbcostError
from tlbcost.simulator.run import find_valgrind

TREE = Path(__file__).resolve().parent.parent
BUILD = TREE / "build"
LOOKUPS = (400_000, 800_000)
SIZE = 4 << 20
GEOMETRY = ("--l1d=96:6,32:4", "--l1i=256:8,32:8", "--stlb=2048:16,2048:16")
VIEW = "--view=page={},l1d=64:4,l1i=64:8,stlb=1536:12"
CASES: dict[str, tuple[str, ...]] = {
    "counts alone": (),
    "by memory and code": ("--attribute=yes",),
    "with windows": ("--windows=20000:4000:2000:4096",),
    "with three views": tuple(VIEW.format(size) for size in (16384, 65536, 1 << 30)),
    "with placement": ("--placement=100000:30000:10000",),
    "without the filter": ("--filter=no",),
}


def instructions(plugin: Path, library: Path, options: tuple[str, ...], lookups: int) -> int:
    """Of one run of a simulator."""
    (tool,) = library.glob("tlbsim-*")
    emulator = f"qemu-{os.uname().machine}"
    with tempfile.TemporaryDirectory() as folder:
        command = [
            emulator, "-plugin", str(plugin), str(tool), "--tool=tlbsim", "--vgdb=no",
            f"--counts-dir={folder}", *GEOMETRY, *options, str(BUILD / "workloads/hash-lookup"),
            "--size", str(SIZE), "--count", str(lookups),
        ]  # fmt: skip
        # As short as can be: the program finds it on its stack.
        environment = {"VALGRIND_LAUNCHER": str(find_valgrind()), "VALGRIND_LIB": str(library)}
        try:
            ran = subprocess.run(command, env={"PATH": os.environ["PATH"], **environment},
                                 capture_output=True, text=True)  # fmt: skip
        except FileNotFoundError as error:
            raise TlbcostError(f"cannot run {emulator}", "apt-get install qemu-user") from error
    last = ran.stderr.strip().splitlines()[-1:]
    if ran.returncode != 0 or not last or not last[0].isdecimal():
        raise TlbcostError(f"{' '.join(command)}: exit code {ran.returncode}: {ran.stderr}")
    return int(last[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("library", nargs="*", type=Path, default=[BUILD / "libexec/valgrind"])
    libraries = [library.resolve() for library in parser.parse_args().library]
    with tempfile.TemporaryDirectory() as folder:
        plugin = Path(folder) / "count.so"
        source = TREE / "bench/count_instructions.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", plugin, source], check=True)
        print("instructions per lookup of a hash table:")
        for name, options in CASES.items():
            found = []
            for library in libraries:
                few, many = (instructions(plugin, library, options, n) for n in LOOKUPS)
                found.append((many - few) / (LOOKUPS[1] - LOOKUPS[0]))
            print(f"{name:20}" + "".join(f"{each:14.3f}" for each in found), flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TlbcostError as error:
        sys.exit(f"tlbcost: {error}")
