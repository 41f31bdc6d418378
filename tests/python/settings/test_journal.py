# SPDX-License-Identifier: GPL-2.0-or-later
"""Can a journal that was cut, garbled or written by somebody else lead to a wrong setting?

On a made-up machine; pool.bats asks the kernel.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.tree import fails, put
from tlbcost.common.errors import FAILED, TlbcostError
from tlbcost.settings import journal
from tlbcost.settings.change import system_settings
from tlbcost.settings.journal import Change, Owner

THP = "/sys/kernel/mm/transparent_hugepage/enabled"
POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
GONE = Owner(999_999_999, 1, "tlbcost pool reserve 16")
CHANGES = [
    Change("write", THP, "madvise", "always", GONE, done=True),
    Change("write", POOL, "5", "21", GONE, done=True),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("machine")


@pytest.fixture(autouse=True)
def _made_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(root))
    for path, text in ((THP, "always"), (POOL, "21")):
        put(root, path, text)
    (root / "run/tlbcost").mkdir(parents=True, exist_ok=True)
    for left in (root / "run/tlbcost").iterdir():
        if left.name != "private":
            left.unlink()


def write(root: Path, data: bytes) -> Path:
    path = root / "run/tlbcost/journal.json"
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    return path


def written(root: Path) -> bytes:
    journal.write_journal(CHANGES)
    return (root / "run/tlbcost/journal.json").read_bytes()


def now(root: Path) -> tuple[str, str]:
    return (root / THP[1:]).read_text(), (root / POOL[1:]).read_text()


def refused(root: Path) -> str:
    """What is said; nothing was changed, and the journal is still there."""
    with pytest.raises(TlbcostError) as error, system_settings(lambda _: None):
        pass
    assert error.value.exit_code == FAILED
    assert error.value.hint is not None
    assert "undo the changes in it, then: rm " in error.value.hint
    assert now(root) == ("always", "21")
    assert (root / "run/tlbcost/journal.json").exists()
    return str(error.value)


def test_the_whole_journal_is_replayed(root: Path) -> None:
    write(root, written(root))
    with system_settings(lambda _: None) as found:
        assert found.found
    assert now(root) == ("madvise", "5")


def test_every_prefix_is_refused_or_complete(root: Path) -> None:
    data = written(root)
    for length in range(len(data)):
        path = write(root, data[:length])
        try:
            found = journal.read_journal()
        except TlbcostError as error:
            assert f"{path}: it is damaged (" in str(error)  # noqa: PT017
        else:
            # All but the last newline.
            assert (length, found) == (len(data) - 1, CHANGES)
    write(root, data[: len(data) // 2])
    assert "it is damaged (" in refused(root)


def test_every_flipped_bit_is_refused_or_means_the_same(root: Path) -> None:
    data = written(root)
    for place in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            write(root, bytes(flipped))
            try:
                found = journal.read_journal()
            except TlbcostError as error:
                assert "it is damaged (" in str(error) or "another version" in str(error)  # noqa: PT017
            else:
                assert found == CHANGES


def test_an_older_version_is_named(root: Path) -> None:
    document = json.loads(written(root))
    del document["sha256"]
    write(root, json.dumps({**document, "format": "tlbcost journal 1"}).encode())
    assert "another version of tlbcost (tlbcost journal 1, not tlbcost journal 2)" in refused(root)


@pytest.mark.parametrize(
    "data", [b"[]", b"{}", b"null", b'"text"', b"\xff\xfe", b"1" * 5000, b"[" * 99999]
)
def test_what_is_no_journal_is_damaged(root: Path, data: bytes) -> None:
    write(root, data)
    assert "it is damaged (" in refused(root)


def test_a_journal_that_others_can_write_is_not_believed(root: Path) -> None:
    write(root, written(root)).chmod(0o666)
    assert "it can be written by others" in refused(root)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's file")
def test_a_journal_of_another_user_is_not_believed(root: Path) -> None:
    os.chown(write(root, written(root)), 65534, 65534)
    assert "it belongs to user 65534, who is not trusted" in refused(root)


def test_no_lock_is_taken_in_a_folder_that_others_can_write(root: Path) -> None:
    folder = root / "run/tlbcost"
    folder.chmod(0o777)
    try:
        with fails("can be written by others", FAILED):
            system_settings(lambda _: None).__enter__()
    finally:
        folder.chmod(0o755)


def test_what_a_killed_run_was_about_to_note_is_removed(root: Path) -> None:
    half = root / "run/tlbcost/.journal.json.0123abcd"
    half.write_bytes(written(root)[:100])
    (root / "run/tlbcost/journal.json").unlink()
    with system_settings(lambda _: None):
        pass
    assert not half.exists()
    assert now(root) == ("always", "21")


def test_no_link_is_followed(root: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(written(root))
    path = root / "run/tlbcost/journal.json"
    path.unlink()
    path.symlink_to(victim)
    assert "Too many levels of symbolic links" in refused(root)
    path.unlink()
    path.symlink_to(victim)
    before = victim.read_bytes()
    journal.write_journal(CHANGES[:1])
    assert victim.read_bytes() == before
    assert journal.read_journal() == CHANGES[:1]


def test_it_is_on_the_disk_before_the_setting_changes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file and its folder are synced, in this order, while the setting is as it was."""
    synced: list[tuple[str, str]] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        name = Path(f"/proc/self/fd/{handle}").readlink().name
        synced.append((name, (root / THP[1:]).read_text()))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with system_settings(lambda _: None) as found:
        found.write(THP, "never")
        assert [each[0][:14] for each in synced[:2]] == [".journal.json.", "tlbcost"]
        assert {each[1] for each in synced[:2]} == {"always"}
    assert now(root)[0] == "always"


def test_only_its_user_may_read_it_and_it_holds_no_argument(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["tlbcost", "pool", "reserve", "1", "--", "sh", "-c", "x --password=hidden"]
    )
    with system_settings(lambda _: None) as found:
        found.write(THP, "never")
        path = root / "run/tlbcost/journal.json"
        assert path.stat().st_mode & 0o777 == 0o600
        assert json.loads(path.read_text())["changes"][0]["owner"]["command"] == "tlbcost pool"
        changing = root / "run/tlbcost/changing"
        assert changing.readlink().name.startswith(f"{os.getpid()} ")
        assert changing.readlink().name.endswith(" tlbcost pool")
        (lock,) = (root / "run/tlbcost/private").iterdir()
        assert lock.parent.stat().st_mode & 0o777 == 0o700
    assert not changing.is_symlink()
    monkeypatch.setattr(sys, "argv", ["tlbcost", "--password=hidden"])
    assert journal.myself().command == "tlbcost"


@pytest.mark.parametrize("how", ["open", "link", "file"])
def test_no_lock_is_taken_where_others_may_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    elsewhere, private = tmp_path / "elsewhere", tmp_path / "run/tlbcost/private"
    elsewhere.mkdir(mode=0o700)
    private.parent.mkdir(parents=True)
    if how == "open":
        private.mkdir()
        private.chmod(0o755)
    elif how == "link":
        private.symlink_to(elsewhere)
    else:
        private.touch()
    with pytest.raises(TlbcostError, match="cannot record in"), system_settings(lambda _: None):
        pass
    assert not list(elsewhere.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to act for another user")
def test_another_user_can_neither_lock_nor_read_and_waits_for_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measure() -> None:
        with journal.undisturbed(lambda _: None, 0):
            pass

    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        monkeypatch.setenv("TLBCOST_ROOT", name)
        put(root, THP, "always")
        with system_settings(lambda _: None) as found:
            found.write(THP, "never")
            with as_nobody():
                with pytest.raises(PermissionError):
                    journal.read_journal()
                with pytest.raises(PermissionError):
                    (root / "run/tlbcost/private/lock").open()
                # A process of the one that changes them would wait for ever.
                monkeypatch.setattr(os, "getppid", os.getpid)
                measure()
                monkeypatch.undo()
                monkeypatch.setenv("TLBCOST_ROOT", name)
                with pytest.raises(TlbcostError, match=f"cannot measure: process {os.getpid()} "):
                    measure()
        with as_nobody():
            measure()


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
