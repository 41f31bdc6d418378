# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the codes in data/events agree with libpfm4, for every CPU?

With --installed: with the libpfm4 that tlbcost-count is linked with, for the tables of this
architecture. Without: with those of two Debian releases for every architecture, whose packages
are fetched into a folder and run in QEMU's user mode by the Python of that architecture; then the
table in doc/events.md is written. Exits 1 if anything differs.
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common import formats, paths
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import parse_table
from tlbcost.processors.events import Event, Pmu, all_pmus

TREE = Path(__file__).resolve().parent.parent
BUILD = TREE / "build"

MARKS = ("<!-- encoded: begin -->", "<!-- encoded: end -->")
# The first has libpfm4 4.13.0, the last release; the second a snapshot with newer CPUs.
SUITES = ("bookworm", "trixie")
RELEASE = "4.13.0"
# Our names of architectures: Debian's, and the emulator's.
ARCHITECTURES = {
    "x86_64": ("amd64", "x86_64"),
    "aarch64": ("arm64", "aarch64"),
    "ppc64le": ("ppc64el", "ppc64le"),
    "s390x": ("s390x", "s390x"),
    "riscv64": ("riscv64", "riscv64"),
}
# A version is asked for so that names that are only mentioned do not match.
PYTHON = [
    f"?name(^{name}$)?version(.)"
    for name in (
        r"libffi[0-9]+", r"python3\.[0-9]+-minimal", r"libpython3\.[0-9]+-minimal",
        r"libpython3\.[0-9]+-stdlib",
    )
]  # fmt: skip
PACKAGES = ["libpfm4", "libc6", "zlib1g", "libexpat1", *PYTHON]
# What the kernel of an IBM Z says, which libpfm4 chooses its table of counters by.
Z_FILES = {
    "sysinfo": "Manufacturer:         IBM\nType:                 {model}\n",
    "service_levels": "CPU-MF: Counter facility: version=3.6 authorization=003f\n",
}
TYPES = {"hardware": 0, "software": 1, "cache": 3}
RAW = 4
# libpfm4's bare codes of two Arm cores carry a bit of the counter's register: "not at EL2".
NOT_AT_EL2 = 1 << 27


@dataclass(frozen=True, slots=True)
class Encoded:
    """What a library made of a string; `type` and `config1` None: it gave the code alone."""

    type: int | None
    config: int
    config1: int | None

    def agrees(self, event: Event) -> bool:
        """Whether the table says the same."""
        config = self.config if self.type is not None else self.config & ~NOT_AT_EL2
        return (
            self.type in (None, TYPES.get(event.type, RAW))
            and config == event.code
            and self.config1 in (None, event.config1 or 0)
        )


@dataclass(frozen=True, slots=True)
class Library:
    """One build of libpfm4, unpacked below `root`."""

    suite: str
    architecture: str
    root: Path

    @property
    def version(self) -> str:
        """Of its package: 4.13.0-1."""
        with gzip.open(self.root / "usr/share/doc/libpfm4/changelog.Debian.gz", "rt") as file:
            found = re.match(r"\S+ \(([^)]+)\)", file.readline())
        return found[1] if found else "unknown"

    def encode(self, pmu: Pmu, strings: Sequence[str]) -> list[Encoded | str]:
        """What it makes of each string, or its reason for refusing it."""
        environment = dict(os.environ)
        if pmu.architecture == "s390x":
            self._pretend_to_be(pmu)
            environment["LIBPFM_FORCE_PMU"] = str(pmu.pmu)
        pythons = [
            path
            for path in sorted((self.root / "usr/bin").glob("python3.*"))
            if re.fullmatch(r"python3\.[0-9]+", path.name)
        ]
        command = [
            f"qemu-{ARCHITECTURES[self.architecture][1]}", "-L", str(self.root),
            "-E", f"PYTHONHOME={self.root}/usr", str(pythons[-1]), "-S",
            str(TREE / "bench/libpfm4_encode.py"), "libpfm.so.4",
        ]  # fmt: skip
        done = subprocess.run(
            command, input="\n".join(strings), env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        lines = done.stdout.splitlines()
        if done.returncode != 0 or len(lines) != len(strings):
            raise TlbcostError(f"{self.suite}'s libpfm4 for {self.architecture}: {done.stderr}")
        return [_encoded(line.split("\t")) for line in lines]

    def _pretend_to_be(self, pmu: Pmu) -> None:
        folder = self.root / "proc"
        folder.mkdir(exist_ok=True)
        models = pmu.processors.models
        assert models
        for name, text in Z_FILES.items():
            (folder / name).write_text(text.format(model=min(models)), encoding="utf-8")


def _encoded(cells: Sequence[str]) -> Encoded | str:
    if cells[0] == "-":
        return cells[1]
    kind, config, config1 = (None if cell == "NA" else int(cell, 16) for cell in cells[:3])
    assert config is not None
    return Encoded(kind, config, config1)


def fetch(suite: str, architecture: str, folder: Path) -> Library:
    """Debian's libpfm4 and what runs it. Raises TlbcostError."""
    debian = ARCHITECTURES[architecture][0]
    root = folder / f"{suite}-{debian}"
    if not root.exists():
        scratch = Path(tempfile.mkdtemp(dir=folder))
        try:
            program = TREE / "scripts/foreign-packages"
            command = [str(program), suite, debian, str(scratch), *PACKAGES]
            if subprocess.run(command, check=False).returncode != 0:
                raise TlbcostError(f"cannot get {suite}'s packages for {debian}, see above")
            _repair_links(scratch)
            scratch.rename(root)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return Library(suite, architecture, root)


def _repair_links(root: Path) -> None:
    """Let the C library's loader be found below `root`, and not where the system has its own."""
    for name in ("lib", "lib64"):
        folder = root / name
        # Where /lib is a part of /usr packages leave this link to their base system.
        if not folder.exists() and (root / "usr" / name).is_dir():
            folder.symlink_to(f"usr/{name}")
        for link in folder.glob("ld*.so.*"):
            if link.is_symlink() and (target := link.readlink()).is_absolute():
                link.unlink()
                link.symlink_to(f"..{target}")


def check_all(folder: Path) -> int:
    """Every table with each library of its architecture; writes doc/events.md."""
    for _, emulator in ARCHITECTURES.values():
        if shutil.which(f"qemu-{emulator}") is None:
            raise TlbcostError(f"no qemu-{emulator}", "apt-get install qemu-user")
    folder.mkdir(parents=True, exist_ok=True)
    libraries = {
        (suite, architecture): fetch(suite, architecture, folder)
        for suite in SUITES
        for architecture in ARCHITECTURES
        # bookworm has no riscv64.
        if (suite, architecture) != ("bookworm", "riscv64")
    }
    lines: list[str] = []
    totals = [0] * (len(SUITES) + 5)
    for pmu in all_pmus():
        figures = _figures(pmu, libraries)
        totals = [total + (n or 0) for total, n in zip(totals, figures, strict=True)]
        cells = ["-" if n is None else str(n) for n in figures]
        lines.append(f"| `{pmu.key}` | {pmu.name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    lines.append("| | all | " + " | ".join(map(str, totals)) + " |")
    print(lines[-1])
    versions = {suite: libraries[suite, "x86_64"].version for suite in SUITES}
    encoded = " | ".join(versions.values())
    head = f"| table | CPU | rows | strings | {encoded} | differ | code alone | as in Linux |"
    rule = "| --- | --- |" + " ---: |" * len(totals)
    _write("\n".join([head, rule, *lines]))
    return 1 if totals[-3] else 0


def _figures(pmu: Pmu, libraries: dict[tuple[str, str], Library]) -> list[int | None]:
    """The columns of the table in doc/events.md; None where there is no such library."""
    strings = [event for event in pmu.events if event.string is not None]
    architecture = "x86_64" if pmu.architecture == "any" else pmu.architecture
    counts: list[int | None] = []
    differ: set[str] = set()
    for suite in SUITES:
        library = libraries.get((suite, architecture))
        if library is None:
            counts.append(None)
            continue
        results = library.encode(pmu, [str(event.string) for event in strings])
        differ |= _differing(strings, results, released=suite == SUITES[0])
        counts.append(sum(isinstance(result, Encoded) for result in results))
    alone = len(pmu.events) - len(strings)
    linux = sum(bool({"kernel", "kernel_source"} & set(e.sources)) for e in pmu.events)
    return [len(pmu.events), len(strings), *counts, len(differ), alone, linux]


def _differing(
    events: Sequence[Event], results: Sequence[Encoded | str], *, released: bool
) -> set[str]:
    """The names of events that the library and the table do not agree about; said as well.

    `released`: the library is the release, which is too old for some.
    """
    found: set[str] = set()
    for event, result in zip(events, results, strict=True):
        must_know = event.libpfm4 == RELEASE or not released
        if isinstance(result, Encoded):
            if result.agrees(event) and must_know:
                continue
            why = f"{result}, and the table says {event.type} {event.code:#x}, {event.libpfm4}"
        elif must_know:
            why = result
        else:
            continue
        print(f"{event.name}: {event.string}: {why}", file=sys.stderr)
        found.add(event.name)
    return found


def _write(table: str) -> None:
    """The table into doc/events.md."""
    path = TREE / "doc/events.md"
    before, _, rest = path.read_text(encoding="utf-8").partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    new = path.with_suffix(".new")
    new.write_text(f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{after}", encoding="utf-8")
    new.rename(path)


def check_installed() -> int:
    """Each row of this architecture with the installed libpfm4, and each code by itself."""
    pmus = [p for p in all_pmus() if p.architecture in (platform.machine(), "any")]
    rows = [(event, spec) for pmu in pmus for event in pmu.events for spec in _parts(event)]
    command = [str(paths.libexec("tlbcost-count")), "--encode", *(spec for _, spec in rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    table = parse_table(done.stdout, "tlbcost-count --encode", formats.ENCODING)
    known = refused = codes = elsewhere = 0
    differ: list[str] = []
    numbered = enumerate(zip(rows, table.records(), strict=True), start=1)
    for number, ((event, spec), row) in numbered:
        if row["error"] is not None:
            if spec.startswith("code:") and event.type not in ("raw", *TYPES):
                elsewhere += 1
            elif not spec.startswith("code:") and event.libpfm4 != RELEASE:
                refused += 1
            else:
                differ.append(f"{event.name}: {spec}: {table.header.get(f'error_{number}')}")
            continue
        kind, config, config1 = (int(str(row[key]), 16) for key in ("type", "config", "config1"))
        asked = re.search(r":precise=(\d)", event.string or "")
        precise = asked is None or row["precise"] == asked[1]
        if not Encoded(kind, config, config1).agrees(event) or not precise:
            differ.append(f"{event.name}: {spec}: {row}, and the table says {event.code:#x}")
        known += row["encoded_by"] == "libpfm4"
        codes += row["encoded_by"] == "code"
    for sentence in differ:
        print(sentence, file=sys.stderr)
    print(
        f"{len(pmus)} tables: libpfm4 encodes {known} strings and is too old for {refused}; "
        f"{codes} codes stand alone, {elsewhere} are of event sources that are not here; "
        f"{len(differ)} differ"
    )
    return 1 if differ else 0


def _parts(event: Event) -> list[str]:
    """The alternatives of what tlbcost-count is asked for, each to be encoded by itself."""
    return event.spec().split("|")


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--installed", action="store_true", help="with the libpfm4 of this machine alone"
    )
    parser.add_argument(
        "--folder", type=Path, default=BUILD / "check-events", help="where packages are kept"
    )
    arguments = parser.parse_args()
    try:
        return check_installed() if arguments.installed else check_all(arguments.folder)
    except TlbcostError as error:
        print(f"tlbcost: {error}", file=sys.stderr)
        if error.hint:
            print(f"tlbcost: hint: {error.hint}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
