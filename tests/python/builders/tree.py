# SPDX-License-Identifier: GPL-2.0-or-later
"""Where are the files of this tree that tests read, and what do tests need that run programs?"""

from __future__ import annotations

import json
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


def golden_json(value: object, indent: str = "") -> str:
    """JSON in lines of 100 columns at most, as few as need be."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(indent + flat) <= 100:
        return flat
    inner = f"{indent} "
    if isinstance(value, list):
        parts = [golden_json(each, inner) for each in value]
    else:
        parts = [f"{json.dumps(key)}: {golden_json(each, inner)}" for key, each in value.items()]
    lines = [inner + parts[0]]
    for part in parts[1:]:
        if len(lines[-1] + part) <= 98 and "\n" not in lines[-1] + part:
            lines[-1] += f", {part}"
        else:
            lines[-1] += ","
            lines.append(inner + part)
    ends = "[]" if isinstance(value, list) else "{}"
    return "\n".join((ends[0], *lines, f"{indent}{ends[1]}"))
