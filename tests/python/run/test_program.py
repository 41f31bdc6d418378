# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a command found as execvp finds it, and what cannot run refused with its reason?"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from builders.runs import script
from tlbcost.common.errors import TlbcostError
from tlbcost.run.program import check_simulatable, resolve, start_failure


def test_resolve_follows_path_and_prefers_what_can_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    (first / "program").write_text("not executable")
    wanted = script(second, "#!/bin/sh\n")
    monkeypatch.setenv("PATH", f"{first}:{second}")
    assert resolve("program") == wanted
    assert resolve(str(wanted)) == wanted


@pytest.mark.parametrize(
    ("name", "code", "why"),
    [
        ("no-such-program", 127, "no such program"),
        ("", 127, "no such program"),
        ("./no-such-file", 127, "no such file"),
        ("./folder", 126, "directory"),
        ("./text", 126, "not executable"),
    ],
)
def test_what_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("text").write_text("x")
    with pytest.raises(TlbcostError, match=why) as error:
        resolve(name)
    assert error.value.exit_code == code
    assert error.value.hint


def test_a_program_in_this_folder_is_pointed_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script(tmp_path, "#!/bin/sh\n", "nowhere-on-path")
    with pytest.raises(TlbcostError) as error:
        resolve("nowhere-on-path")
    assert "./nowhere-on-path" in str(error.value.hint)


def test_a_32_bit_program_is_refused_also_as_an_interpreter(tmp_path: Path) -> None:
    elf = tmp_path / "old"
    elf.write_bytes(b"\x7fELF" + struct.pack("BB", 1, 1) + bytes(100))
    for path in (elf, script(tmp_path, f"#!{elf}\n")):
        with pytest.raises(TlbcostError, match="32-bit") as error:
            check_simulatable(path)
        assert error.value.exit_code == 125


@pytest.mark.parametrize(("bits", "word"), [(0o4755, "setuid"), (0o2755, "setgid")])
def test_privileges_are_refused(tmp_path: Path, bits: int, word: str) -> None:
    path = tmp_path / "privileged"
    path.write_bytes(b"\x7fELF" + struct.pack("BB", 2, 1) + bytes(100))
    path.chmod(bits)
    with pytest.raises(TlbcostError, match=word) as error:
        check_simulatable(path)
    assert error.value.exit_code == 125


def test_a_script_s_own_setuid_bit_means_nothing(tmp_path: Path) -> None:
    path = script(tmp_path, "#!/bin/sh\n")
    path.chmod(0o4755)
    check_simulatable(path)


@pytest.mark.parametrize(
    ("text", "error", "why", "code"),
    [
        ("#!/no/such/sh\n", 2, "interpreter /no/such/sh", 127),
        ("\x7fELF", 2, "loader", 127),
        ("echo", 8, "#! line", 126),
        ("#!/bin/sh\n", 13, "permission", 126),
        ("#!/bin/sh\n", 7, "too long", 126),
    ],
)
def test_why_exec_failed(tmp_path: Path, text: str, error: int, why: str, code: int) -> None:
    path = script(tmp_path, text)
    found = start_failure("program", path, error)
    assert why in f"{found} {found.hint}"
    assert found.exit_code == code
    assert found.hint
