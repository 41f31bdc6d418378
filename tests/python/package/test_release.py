# SPDX-License-Identifier: GPL-2.0-or-later
"""Does `make release` date and commit what it should, and write the same bytes each time?"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from builders.tree import TREE

pytestmark = pytest.mark.long

EPOCH = "1893456000"  # 2030-01-01
WHO = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Somebody"), ("EMAIL", "somebody@example.org"))
}


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", folder, *words],
        capture_output=True, text=True, check=True, env={**os.environ, **WHO},
    )  # fmt: skip
    return done.stdout


def clone(folder: Path) -> Path:
    if shutil.which("git") is None or not (TREE / ".git").exists():
        pytest.skip("the source is no git checkout")
    subprocess.run(["git", "clone", "-q", TREE, folder], check=True)
    return folder


def release(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ, **WHO, "SOURCE_DATE_EPOCH": EPOCH, "SBOM_PYTHON": sys.executable
    }  # fmt: skip
    return subprocess.run(
        [tree / "scripts" / "release", *words],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = clone(tmp_path_factory.mktemp("release") / "tree")
    done = release(tree, "99.1.0")
    assert done.returncode == 0, done.stderr
    return tree


def test_version_and_changelogs_have_the_date_and_are_committed(released: Path) -> None:
    assert (released / "VERSION").read_text(encoding="utf-8") == "99.1.0\n"
    news = (released / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## Unreleased\n\n## 99\.1\.0 - 2030-01-01\n\n### ", news, re.MULTILINE)
    debian = (released / "debian/changelog").read_text(encoding="utf-8")
    assert debian.startswith("tlbcost (99.1.0) unstable;")
    assert "  Tue, 01 Jan 2030 00:00:00 +0000\n" in debian
    assert git(released, "status", "--porcelain", "--untracked-files=no") == ""
    assert git(released, "log", "-1", "--format=%s %ct") == f"release: 99.1.0 {EPOCH}\n"
    assert git(released, "show", "--stat", "--format=", "HEAD").count("|") == 3


def test_nothing_is_tagged_or_pushed(released: Path) -> None:
    assert git(released, "rev-parse", "origin/HEAD") != git(released, "rev-parse", "HEAD")
    assert "v99.1.0" not in git(released, "tag").split()
    assert "v99.1.0" not in git(TREE, "tag").split()


def test_the_archive_is_the_commit(released: Path) -> None:
    with tarfile.open(released / "build/release/tlbcost-99.1.0.tar.gz") as archive:
        files = {member.name: member for member in archive.getmembers() if not member.isdir()}
    tracked = git(released, "ls-files", "-z").split("\0")[:-1]
    assert set(files) == {f"tlbcost-99.1.0/{name}" for name in tracked}
    assert {member.mtime for member in files.values()} == {int(EPOCH)}
    assert {member.mode & 0o022 for member in files.values() if member.isfile()} == {0}


def test_the_checksums_are_those_of_the_files(released: Path) -> None:
    folder = released / "build/release"
    lines = (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    found = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert set(found) == {"tlbcost-99.1.0.tar.gz", "tlbcost-99.1.0.spdx.json"}
    for name, digest in found.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


def test_a_second_build_has_the_same_bytes(released: Path, tmp_path: Path) -> None:
    made = {path.name: path.read_bytes() for path in (released / "build/release").iterdir()}
    other = clone(tmp_path / "another place")
    assert release(other, "99.1.0").returncode == 0
    assert git(other, "rev-parse", "HEAD") == git(released, "rev-parse", "HEAD")
    again = {path.name: path.read_bytes() for path in (other / "build/release").iterdir()}
    assert again == made
    # What has its date is written again, and nothing is committed.
    assert release(other).returncode == 0
    assert git(other, "rev-parse", "HEAD") == git(released, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("words", "spoil", "message"),
    [
        (["1"], None, "cannot release 1: not a version such as 1.2.0"),
        (["0.0.1"], None, "cannot release 0.0.1: VERSION is "),
        (["99.2.0"], "README.md", "there are changes that are not committed:  M README.md"),
    ],
)
def test_what_cannot_be_released_is_left_as_it_is(
    words: list[str], spoil: str | None, message: str, tmp_path: Path
) -> None:
    tree = clone(tmp_path / "tree")
    if spoil is not None:
        (tree / spoil).write_text("spoilt\n", encoding="utf-8")
    before = git(tree, "status", "--porcelain"), git(tree, "rev-parse", "HEAD")
    done = release(tree, *words)
    assert done.returncode == 1
    assert message in done.stderr
    assert "tlbcost: hint: " in done.stderr
    assert (git(tree, "status", "--porcelain"), git(tree, "rev-parse", "HEAD")) == before


def test_a_release_without_news_is_refused(released: Path) -> None:
    done = release(released, "99.2.0")
    assert (done.returncode, "nothing under Unreleased" in done.stderr) == (1, True)
    assert (released / "VERSION").read_text(encoding="utf-8") == "99.1.0\n"


def test_debian_and_the_source_have_one_version() -> None:
    first = (TREE / "debian/changelog").read_text(encoding="utf-8").split("\n", 1)[0]
    version = (TREE / "VERSION").read_text(encoding="utf-8").strip()
    assert first == f"tlbcost ({version}) unstable; urgency=medium"
