# SPDX-License-Identifier: GPL-2.0-or-later
"""Does `pip install .` give a tlbcost that has all its files, and works?"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from builders.tree import GOLDEN, TREE

pytestmark = pytest.mark.long

# What pip says where no index of packages can be reached.
OFFLINE = ("Could not find a version", "No matching distribution", "connection")


def _pip(python: Path, *arguments: str) -> None:
    """Run pip; without an index the tests are skipped."""
    command = [python, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and any(text in done.stderr for text in OFFLINE):
        pytest.skip(f"pip can download no packages: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the package is made from, without what a build leaves among them."""
    folder = tmp_path_factory.mktemp("source")
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("estimate", "data", "scripts"):
        shutil.copytree(TREE / name, folder / name, ignore=left_out)
    for name in ("pyproject.toml", "VERSION", "LICENSE"):
        shutil.copy(TREE / name, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _pip(Path(sys.executable), "wheel", "--quiet", "--no-deps", "-w", str(folder), str(source))
    (found,) = folder.glob("tlbcost-*.whl")
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel and what that declares."""
    folder = tmp_path_factory.mktemp("environment")
    # A pip of its own would take longer than all that is installed by it.
    venv.create(folder)
    _pip(
        Path(sys.executable), "--python", str(folder), "install", "--quiet", "--no-compile",
        str(wheel),
    )  # fmt: skip
    return folder


def _tlbcost(environment: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [environment / "bin" / "tlbcost", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")


def test_the_wheel_has_every_file_of_the_package(source: Path, wheel: Path) -> None:
    package = source / "estimate"
    expected = {
        str(path.relative_to(package))
        for path in (package / "tlbcost").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(wheel) as file:
        assert {name for name in file.namelist() if name.startswith("tlbcost/")} == expected


def test_the_wheel_has_the_data_that_commands_read(source: Path, wheel: Path) -> None:
    """All of data/, but for recorded samples that only the tests and benchmarks read."""
    data = source / "data"
    expected = {
        str(path.relative_to(data))
        for path in data.rglob("*")
        if path.is_file() and ("samples" not in path.parts or path.name == "trials.tsv")
    }
    with zipfile.ZipFile(wheel) as file:
        names = [name.partition("/share/tlbcost/data/")[2] for name in file.namelist()]
    assert {name for name in names if name} == expected


def test_an_estimate_from_counts_taken_elsewhere(environment: Path, tmp_path: Path) -> None:
    counts, report = GOLDEN / "documents" / "perf-stat.txt", tmp_path / "report.json"
    options = ["--from", str(counts), "--cpu", "skl", "--json", str(report)]
    done = _tlbcost(environment, "estimate", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(report.read_text("utf-8"))["bound_fraction"]["value"] > 0


def test_what_needs_the_programs_of_make_install_says_so(environment: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("needs valgrind")
    done = _tlbcost(environment, "estimate", "--backend", "sim", "--", "true")
    assert done.returncode == 4
    assert "what pip installs has no C programs" in done.stderr
