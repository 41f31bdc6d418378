# SPDX-License-Identifier: GPL-2.0-or-later
"""Where are the files of this tree that tests read?"""

from __future__ import annotations

from pathlib import Path

TREE = Path(__file__).resolve().parents[3]
BUILD = TREE / "build"
SCHEMAS = TREE / "data" / "schema"
GOLDEN = TREE / "tests" / "golden"
FAKES = TREE / "tests" / "fakes"
MACHINES = TREE / "tests" / "machines"
