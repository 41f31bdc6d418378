# SPDX-License-Identifier: GPL-2.0-or-later
"""Do saved inputs still give the documents that they gave, but for the keys that were renamed?

tests/golden/documents has the inputs: counts of perf, a calibration, and the tables of a recorded
simulation, and what is written from them. A name that is changed on purpose is added to RENAMED,
and to CHANGELOG.md; what else changes on purpose is written anew:

    TLBCOST_WRITE_GOLDEN=1 build/venv/bin/pytest tests/python/documents
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from builders.tree import GOLDEN, MACHINES, TREE, golden_json, script
from tlbcost.__main__ import main
from tlbcost.calibration.document import calibration_document
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Obtained
from tlbcost.common import paths
from tlbcost.common.document import to_json
from tlbcost.memory.peak_sampler import PeakSampler

DOCUMENTS = GOLDEN / "documents"
# Old name of a key or of a quantity -> new name; None: the key is gone.
RENAMED: Mapping[str, str | None] = {
    "l3_stay_ns": "l3_half_life_ns",
    "payers": "regions",  # codespell:ignore
}
# What differs from run to run, or with the release.
CHANGING = ("date", "schema", "tlbcost_version")

# In place of tlbcost-run: the simulator's tables are copied, nothing runs, and every run took the
# same time.
RUN = {
    "wall_ns": "1300000000", "user_ns": "1060000000", "system_ns": "56500000",
    "minor_faults": "32852", "major_faults": "0", "max_rss_bytes": "68366336",
    "waited_ns": "8000000",
    "exit_code": "0", "signal": "NA", "exec_errno": "NA",
}  # fmt: skip
LAUNCHER = """#!/bin/bash
for word in "$@"; do
	case ${{word}} in --counts-dir=*) cp '{tables}'/* "${{word#*=}}" ;; esac
done
while [[ $1 != --output ]]; do shift; done
printf '%s\\n' '# tlbcost run 2' '{columns}' '{values}' '# end: 1' >"$2"
"""


def document(text: str) -> object:
    """A document without what changes from run to run."""
    found = json.loads(text)
    return {key: value for key, value in found.items() if key not in CHANGING}


def renamed(value: object) -> object:
    """What was written before, with the names of now."""
    if isinstance(value, dict):
        names = {key: RENAMED.get(key, key) for key in value}
        return {names[key]: renamed(each) for key, each in value.items() if names[key] is not None}
    if isinstance(value, list):
        return [renamed(each) for each in value]
    return RENAMED.get(value, value) if isinstance(value, str) else value


def rounded(value: object) -> object:
    """A document's fractions to twelve digits: from Python 3.12 on sum() rounds once."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.11e}") if isinstance(value, float) else value


def check(name: str, text: str) -> None:
    file = DOCUMENTS / f"{name}.json"
    # Quoted where the tree's name has a blank.
    text = re.sub(f"'({re.escape(str(TREE))}[^']*)'", r"\1", text)
    if os.environ.get("TLBCOST_WRITE_GOLDEN"):
        found = json.loads(text.replace(str(TREE), "TREE"))
        file.write_text(golden_json(found) + "\n", encoding="utf-8")
    before = file.read_text(encoding="utf-8")
    now = document(text.replace(str(TREE), "TREE"))
    assert rounded(now) == rounded(renamed(document(before)))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root of a machine that is none of those that tests run on."""
    monkeypatch.setenv("TLBCOST_ROOT", str(MACHINES / "zen3"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("os.getuid", lambda: 0)


def test_an_estimate_from_counts_of_perf(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    perf, calibration = DOCUMENTS / "perf-stat.txt", GOLDEN / "calibration.tsv"
    options = ["--cpu", "skl", "--calibration", str(calibration), "--json", str(file)]
    assert main(["estimate", "--from", str(perf), *options]) == 0
    check("perf", file.read_text(encoding="utf-8"))


def test_a_calibration() -> None:
    calibration = read_calibration(DOCUMENTS / "calibration.tsv")
    check("calibration", to_json(calibration_document(Obtained(calibration, "from a file"))))


def test_an_estimate_from_the_tables_of_a_simulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("valgrind", "hugectl"):
        script(programs, "#!/bin/sh\n", name)
    columns, values = "\t".join(RUN), "\t".join(RUN.values())
    text = LAUNCHER.format(tables=DOCUMENTS / "simulation", columns=columns, values=values)
    script(programs, text, "tlbcost-run")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    real = paths.libexec
    monkeypatch.setattr(
        paths, "libexec", lambda name: programs / name if name == "tlbcost-run" else real(name)
    )
    # Whatever may be seen of other processes is no part of this.
    monkeypatch.setattr(PeakSampler, "peak", lambda _: ())
    file = tmp_path / "report.json"
    options = ["--backend", "sim", "--calibration"]
    options += [str(DOCUMENTS / "calibration.tsv"), "--json", str(file)]
    assert main(["estimate", "--engine", "valgrind", *options, "--", "true"]) == 0
    check("simulation-overlap", file.read_text(encoding="utf-8"))
