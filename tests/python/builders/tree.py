# SPDX-License-Identifier: GPL-2.0-or-later
"""Where are the files of this tree that tests read, and what do tests need that run programs?"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tlbcost.common import paths

TREE = Path(__file__).resolve().parents[3]
BUILD = TREE / "build"
SCHEMAS = TREE / "data" / "schema"
GOLDEN = TREE / "tests" / "golden"
FAKES = TREE / "tests" / "fakes"
MACHINES = TREE / "tests" / "machines"


needs_gnuplot = pytest.mark.skipif(
    shutil.which("gnuplot") is None, reason="gnuplot is not installed"
)
needs_launcher = pytest.mark.skipif(
    not paths.libexec("tlbcost-run").exists(), reason="needs build/libexec/tlbcost-run (make)"
)


def script(folder: Path, text: str, name: str = "program") -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path
