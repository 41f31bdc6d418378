# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a command found as execvp finds it, what did a region cost, and what works elsewhere?"""

from __future__ import annotations

import platform
import signal
import struct
from pathlib import Path

import pytest
from builders.tree import fails, script
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.run.launch import check_simulatable, resolve, start_failure
from tlbcost.run.outcome import Outcome, Region, Run, names_of, region_words, trial_command
from tlbcost.thp.program import run_program


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
    with fails("no such program", 127):
        resolve("")


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
        with fails("32-bit", 125):
            check_simulatable(path)


@pytest.mark.parametrize(("bits", "word"), [(0o4755, "setuid"), (0o2755, "setgid")])
def test_privileges_are_refused(tmp_path: Path, bits: int, word: str) -> None:
    path = tmp_path / "privileged"
    path.write_bytes(b"\x7fELF" + struct.pack("BB", 2, 1) + bytes(100))
    path.chmod(bits)
    with fails(word, 125):
        check_simulatable(path)


def test_a_script_s_own_setuid_bit_means_nothing(tmp_path: Path) -> None:
    path = script(tmp_path, "#!/bin/sh\n")
    path.chmod(0o4755)
    check_simulatable(path)


@pytest.mark.parametrize(
    ("text", "error", "why", "code"),
    [("#!/no/such/sh\n", 2, "interpreter /no/such/sh", 127), ("\x7fELF", 2, "loader", 127),
     ("echo", 8, "#! line", 126), ("#!/bin/sh\n", 13, "permission", 126),
     ("#!/bin/sh\n", 7, "too long", 126)],
)  # fmt: skip
def test_why_exec_failed(tmp_path: Path, text: str, error: int, why: str, code: int) -> None:
    path = script(tmp_path, text)
    found = start_failure("program", path, error)
    assert why in f"{found} {found.hint}"
    assert found.exit_code == code
    assert found.hint


def test_a_memory_limit_is_named() -> None:
    killed = Outcome(None, "", 400 << 20, None, signal.SIGKILL, None)
    assert killed.describe() == "was killed at its memory limit (400 MiB, cgroup)"
    assert killed.code == 137
    other = Outcome(None, "", None, None, signal.SIGKILL, None)
    assert other.describe() == "was killed by SIGKILL"


WHOLE = Outcome(Run(9000, 800, 70, 60, 5, 4096, 3), "", None, 0, None, None)
REGION = Region("reads:done", ("16:/p",), ("32:/p", "48:/q"))


def table(folder: Path, row: str) -> Path:
    path = folder / "region.tsv"
    columns = "begins ends wall_ns user_ns system_ns minor_faults major_faults"
    lines = ["# tlbcost region 1", *("\t".join(each.split()) for each in (columns, row))]
    path.write_text("\n".join([*lines, "# end: 1", ""]), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "names"),
    [("reads:done", ("reads", "done")), ("reads", ("reads", "")), ("reads:", ("reads", "")),
     ("ns::Table::find(int):ns::end", ("ns::Table::find(int)", "ns::end")),
     ("@a@/lib/x.so:@b", ("@a@/lib/x.so", "@b"))],
)  # fmt: skip
def test_a_region_has_a_start_and_perhaps_an_end(text: str, names: tuple[str, str]) -> None:
    assert names_of(text) == names


@pytest.mark.parametrize("text", ["", ":", ":done", "a:b:c"])
def test_other_texts_are_no_region(text: str) -> None:
    with fails("not a region", 2):
        names_of(text)


def test_it_is_named_in_words_and_in_commands() -> None:
    assert region_words("reads:done") == "from reads to done"
    assert region_words("reads:") == "from reads on"
    assert trial_command(None) == "tlbcost trial"
    assert trial_command("f(int):@x") == "tlbcost trial --region 'f(int):@x'"
    assert REGION.options("-s", "-e") == ["-s=16:/p", "-e=32:/p", "-e=48:/q"]


def test_times_and_faults_are_the_regions_and_memory_is_the_runs(tmp_path: Path) -> None:
    found = REGION.outcome(WHOLE, table(tmp_path, "2 2 100 90 8 7 1"))
    assert found.run == Run(100, 90, 8, 7, 1, 4096, None)
    assert found.exit_code == 0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("0 0 NA NA NA NA NA", "never began: the program did not reach reads"),
        ("3 2 100 90 8 7 1", "never ended: after reads the program did not reach done"),
        ("1001 1000 NA NA NA NA NA", "more than 1,000 times"),
        ("1 1 NA NA NA NA NA", "the program was killed in it"),
    ],
)
def test_a_region_that_was_not_timed_is_refused(tmp_path: Path, row: str, message: str) -> None:
    with fails(message, 4) as raised:
        REGION.outcome(WHOLE, table(tmp_path, row))
    assert raised.value.hint


def test_on_another_cpu_mallocs_own_switch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with fails("on x86-64 only, not on aarch64", CANNOT_MEASURE, "glibc.malloc.hugetlb=1"):
        run_program(["./app"])
