# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the file of a mapping found, also where its name means another one to us?"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tlbcost.symbols.mapped_file import mapped_file

NOBODY = 2**31 - 2


def test_a_file_that_is_still_there(tmp_path: Path) -> None:
    own = tmp_path / "library"
    own.touch()
    assert mapped_file(os.getpid(), str(own), own.stat().st_ino, 0, 4096) == str(own)
    # The process has ended.
    assert mapped_file(NOBODY, str(own), own.stat().st_ino, 0, 4096) == str(own)


def test_one_that_was_replaced_is_recognised_by_its_name(tmp_path: Path) -> None:
    own = tmp_path / "library"
    own.touch()
    assert mapped_file(NOBODY, str(own), own.stat().st_ino + 1, 0, 4096) == str(own)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[int]:
    """A process that has a file system of its own at `tmp_path`/files, with `library` in it."""
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() != 0:
        pytest.skip("needs root and unshare")
    files = tmp_path / "files"
    files.mkdir()
    script = 'mount -t tmpfs none "$1" && echo other >"$1/library" && echo ready && exec sleep 60'
    with subprocess.Popen(
        [unshare, "--mount", "sh", "-c", script, "sh", str(files)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            pytest.skip("no mount namespaces here")
        yield process.pid
        process.kill()


def test_a_file_of_another_mount_namespace(elsewhere: int, tmp_path: Path) -> None:
    name = tmp_path / "files" / "library"
    inside = Path(f"/proc/{elsewhere}/root{name}")
    found = mapped_file(elsewhere, str(name), inside.stat().st_ino, 0, 4096)
    assert Path(found).read_text(encoding="ascii") == "other\n"
    # Not ours of the same name, though the other one was removed.
    name.write_text("ours\n", encoding="ascii")
    removed = mapped_file(elsewhere, str(name), name.stat().st_ino + 1_000_000, 0, 4096)
    assert removed == str(inside)
