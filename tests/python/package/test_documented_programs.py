# SPDX-License-Identifier: GPL-2.0-or-later
"""Is every program of ours that a document names still built?"""

from __future__ import annotations

import re

import pytest
from builders.tree import BUILD, TREE


def test_documents_name_programs_that_are_built() -> None:
    if not (BUILD / "workloads").is_dir():
        pytest.skip("needs make")
    pages = [TREE / "README.md", *TREE.glob("doc/*.md"), *TREE.glob("doc/examples/*")]
    named = {
        name
        for page in pages
        if page.is_file()
        for name in re.findall(r"build/workloads/([\w-]+)", page.read_text(encoding="utf-8"))
    }
    assert "hash-lookup" in named
    assert {name for name in named if not (BUILD / "workloads" / name).exists()} == set()
