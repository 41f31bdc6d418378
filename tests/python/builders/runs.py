# SPDX-License-Identifier: GPL-2.0-or-later
"""Scripts for tests that run programs, and what these need."""

from __future__ import annotations

from pathlib import Path

import pytest
from tlbcost.common import paths

needs_launcher = pytest.mark.skipif(
    not paths.libexec("tlbcost-run").exists(), reason="needs build/libexec/tlbcost-run (make)"
)


def script(folder: Path, text: str, name: str = "program") -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path
