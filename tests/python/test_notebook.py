# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the notebook of the documentation run, and say what the commands say?"""

from __future__ import annotations

import pytest
from builders.tree import TREE
from nbclient import NotebookClient
from nbformat import read

EXAMPLES = TREE / "doc" / "examples"

pytestmark = [pytest.mark.long, pytest.mark.settings]


def test_the_notebook_has_an_answer_a_proof_and_a_review() -> None:
    if not (TREE / "build/workloads/hash-lookup").exists():
        pytest.skip("needs build/workloads (make)")
    notebook = read(EXAMPLES / "tlbcost.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(EXAMPLES)}})
    client.execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    shown = ["".join(str(output) for output in cell.outputs) for cell in code]
    assert len(notebook.cells) == 10
    assert "WORTH TRYING" in shown[1] or "NOT PROVEN" in shown[1]
    assert "size_bytes" in shown[2]
    assert "huge_s" in shown[3]
    assert "decision" in shown[5]
