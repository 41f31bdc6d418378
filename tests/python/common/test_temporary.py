# SPDX-License-Identifier: GPL-2.0-or-later
"""Where do temporary files go, and who removes what a killed run left, and nothing else?"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tlbcost.common import files
from tlbcost.common.cleanup import Stopped, signals_raise
from tlbcost.common.errors import TlbcostError
from tlbcost.common.files import remove_left, temporary_folder

_OTHER_USER = 65534


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield tmp_path
    tempfile.tempdir = None


def left_by_a_killed_run(scratch: Path) -> Path:
    """A folder as a run leaves it at SIGKILL, with a file in it."""
    code = (
        "import os, signal\n"
        "from tlbcost.common.files import temporary_folder\n"
        "with temporary_folder() as folder:\n"
        "    (folder / 'table').write_text('rows')\n"
        "    print(folder.parent, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, "TMPDIR": str(scratch)},
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    folder = Path(done.stdout.strip())
    assert (folder / "files" / "table").read_text() == "rows"
    return folder


def test_a_temporary_folder_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/no/such/folder")
    with pytest.raises(TlbcostError, match="TMPDIR") as error, temporary_folder():
        pass
    assert error.value.exit_code == 125


def test_a_signal_during_the_removal_waits_for_its_end(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = shutil.rmtree

    def interrupted(folder: Path, *, ignore_errors: bool) -> None:
        signal.raise_signal(signal.SIGTERM)
        remove(folder, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(Stopped), signals_raise(), temporary_folder():
        pass
    assert not list(scratch.iterdir())


def test_a_thread_has_its_folder_removed_too(scratch: Path) -> None:
    def use() -> None:
        with temporary_folder() as folder:
            (folder / "table").write_text("rows")

    with ThreadPoolExecutor(1) as pool:
        pool.submit(use).result()
    assert not list(scratch.iterdir())


def test_the_folder_is_ours_and_gone_afterwards(scratch: Path) -> None:
    with temporary_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        assert folder.parent.parent == scratch
        (folder / "below").mkdir()
        (folder / "below" / "file").touch()
    assert list(scratch.iterdir()) == []


def test_a_folder_next_to_a_file_is_hidden_and_gone_afterwards(tmp_path: Path) -> None:
    with temporary_folder(next_to=tmp_path / "result.csv") as folder:
        assert folder.parent.parent == tmp_path
        assert folder.parent.name.startswith(".")
    assert list(tmp_path.iterdir()) == []


def test_the_next_run_removes_what_a_killed_one_left(scratch: Path) -> None:
    left = left_by_a_killed_run(scratch)
    with temporary_folder() as folder:
        assert list(scratch.iterdir()) == [folder.parent]
    assert not left.exists()


def test_a_living_runs_folder_stays(scratch: Path) -> None:
    with temporary_folder() as one:
        (one / "file").touch()
        with temporary_folder() as other:
            assert one != other
        remove_left(scratch)
        assert (one / "file").exists()


def test_a_folder_left_before_its_lock_was_made_goes(scratch: Path) -> None:
    (scratch / "tlbcost-run-abcdefgh").mkdir()
    remove_left(scratch)
    assert list(scratch.iterdir()) == []


def test_what_is_not_a_runs_folder_stays(scratch: Path) -> None:
    other = {scratch / "tlbcost-baseline", scratch / "tlbcost-run-results", scratch / "lock"}
    (scratch / "tlbcost-baseline").mkdir()
    (scratch / "tlbcost-run-results").mkdir()
    (scratch / "lock").touch()
    # One with files and without a lock was made by somebody else.
    mine = scratch / "tlbcost-run-aaaaaaaa"
    mine.mkdir()
    (mine / "thesis").touch()
    remove_left(scratch)
    assert set(scratch.iterdir()) == {*other, mine}
    assert (mine / "thesis").exists()


def test_no_link_is_followed(scratch: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    victim = tmp_path_factory.mktemp("victim")
    (victim / "files").mkdir()
    (victim / "files" / "thesis").touch()
    (victim / "lock").touch(0o600)
    (scratch / "tlbcost-run-aaaaaaaa").symlink_to(victim)
    linked = left_by_a_killed_run(scratch)
    (linked / "lock").unlink()
    (linked / "lock").symlink_to(victim / "lock")
    inside = left_by_a_killed_run(scratch)
    (inside / "files" / "link").symlink_to(victim / "files")
    remove_left(scratch)
    assert not inside.exists()
    assert linked.exists()
    assert (victim / "files" / "thesis").exists()
    assert (victim / "lock").exists()


def test_what_others_may_write_to_stays(scratch: Path) -> None:
    left = left_by_a_killed_run(scratch)
    left.chmod(0o777)
    remove_left(scratch)
    assert left.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's folder")
@pytest.mark.parametrize("whose", ["folder", "lock"])
def test_another_users_folder_stays(scratch: Path, whose: str) -> None:
    left = left_by_a_killed_run(scratch)
    os.chown(left if whose == "folder" else left / "lock", _OTHER_USER, _OTHER_USER)
    remove_left(scratch)
    assert (left / "files" / "table").exists()


@pytest.mark.parametrize("when", ["before the lock is made", "before it is locked"])
def test_a_run_whose_new_folder_is_taken_for_a_left_one_makes_another(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """A second run looks at the worst of instants."""
    name = "open" if when == "before the lock is made" else "flock"
    module = os if name == "open" else fcntl
    real = getattr(module, name)
    looked: list[int] = []

    def interrupted(*arguments: object, **options: object) -> object:
        if not looked and (name == "flock" or str(arguments[0]).endswith("lock")):
            looked.append(1)
            remove_left(scratch)
        return real(*arguments, **options)

    monkeypatch.setattr(getattr(files, module.__name__), name, interrupted)
    with temporary_folder() as folder:
        assert looked
        assert list(scratch.iterdir()) == [folder.parent]


def test_a_file_of_a_killed_valgrind_is_removed_and_no_other(scratch: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    kept = [
        scratch / f"valgrind_proc_{os.getpid()}_auxv_c76522ee",
        scratch / f"valgrind_proc_{dead.pid}_auxv",
        scratch / f"vgdb-pipe-from-vgdb-to-{dead.pid}",
    ]
    left = scratch / f"valgrind_proc_{dead.pid}_auxv_c76522ee"
    for file in (*kept, left):
        file.touch(mode=0o600)
    if os.geteuid() == 0:
        kept.append(scratch / f"valgrind_proc_{dead.pid}_cmdline_c76522ee")
        kept[-1].touch(mode=0o600)
        os.chown(kept[-1], _OTHER_USER, _OTHER_USER)
    remove_left(scratch)
    assert sorted(scratch.iterdir()) == sorted(kept)
