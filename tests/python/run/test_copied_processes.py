# SPDX-License-Identifier: GPL-2.0-or-later
"""Are processes of ours distinguished from the program's?"""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from tlbcost.run.copied_processes import is_helper


@pytest.mark.parametrize(
    ("name", "ours"),
    [("tlbcost-calibrator", True), ("tlbcost-copies", True), ("tlbcost-program", False)],
)
def test_helpers_are_known_by_their_names(tmp_path: Path, name: str, ours: bool) -> None:
    program = tmp_path / name
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "60"]) as process:
        # The kernel names it a little after it has closed what Popen waits for.
        comm = Path(f"/proc/{process.pid}/comm")
        while comm.read_text(encoding="utf-8").strip() != name[:15]:
            time.sleep(0.001)
        assert is_helper(process.pid) is ours
        process.kill()
