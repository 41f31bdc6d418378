# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a program run in the simulator once, its counts read and its failures named?"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from builders.answer import GEOMETRY
from builders.tree import fails, needs_launcher, script, there
from tlbcost.common import paths
from tlbcost.common.errors import TlbcostError
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome
from tlbcost.simulator.counts import SideCounts, Touched, read_counts
from tlbcost.simulator.memory_tables import WindowPlan
from tlbcost.simulator.run import (
    Simulation,
    find_bad_instruction,
    find_valgrind,
    simulate,
    simulator_command,
)
from tlbcost.system.process import MemoryLimit

pytestmark = needs_launcher

NATIVE = Outcome(None, "", None, 0, None, None)
AVX512 = """==7== vex amd64->IR: unhandled instruction bytes: 0x62 0xF1 0x7D 0x48 0xFE
==7== valgrind: Unrecognised instruction at address 0x109139.
==7==    at 0x109139: add_all (sum.c:5)
==7==    by 0x10917F: main (sum.c:9)
"""
ROWS = """4096\tload\t10\t4\t6
4096\tstore\t1\t0\t1
4096\tfetch\t3\t1\t2
2097152\tload\t5\t5\t0
2097152\tstore\t0\t0\t0
2097152\tfetch\t1\t0\t1
# end: 6
"""


def table(pid: int = 100, state: str = "exited", rows: str = ROWS) -> str:
    return (
        f"# tlbcost counts 1\n# pid: {pid}\n# parent_pid: 1\n# program: /bin/app\n"
        f"# state: {state}\n# threads: 2\n# base_page_bytes: 4096\n# huge_page_bytes: 2097152\n"
        "# l1d: 96:6,32:4\n# l1i: 256:8,32:8\n# stlb: 2048:16,2048:16\n"
        "# touched_anonymous_pages: 50\n# touched_anonymous_huge_pages: 3\n"
        "# touched_other_pages: 20\n"
        f"page_size_bytes\taccess\tl1_tlb_misses\tstlb_hits\tstlb_misses\n{rows}"
    )


def fake(folder: Path, counts: str, *, log: str = "", end: str = "") -> Path:
    """A simulator that takes the real one's options, writes `counts`, and runs the program."""
    (folder / "made.tsv").write_text(counts)
    (folder / "made.log").write_text(log)
    return script(
        folder,
        "#!/bin/bash\n"
        "while [[ $1 == --* ]]; do case $1 in --counts-dir=*) d=${1#*=};; esac; shift; done\n"
        'printf "%s\\n" "$VALGRIND_LIB" >"$d/lib"\n'
        f'[[ -s {folder}/made.tsv ]] && cp {folder}/made.tsv "$d/counts.100.0.tsv"\n'
        f'cp {folder}/made.log "$d/log.100"\n'
        f'{end}\n"$@"\n',
        "valgrind",
    )


def run(launcher: Launcher, valgrind: Path, *argv: str, native: Outcome = NATIVE) -> Simulation:
    return simulate(launcher, valgrind, GEOMETRY, argv or ("true",), native)


def test_command_line_carries_the_geometry() -> None:
    geometry = replace(GEOMETRY, huge=replace(GEOMETRY.huge, stlb=None))
    command = simulator_command(Path("/v"), Path("/d"), geometry)
    assert command[0] == "/v"
    for option in (
        "--tool=tlbsim", "--trace-children=yes", "--counts-dir=/d", "--log-file=/d/log.%p",
        "--base-page=4096", "--huge-page=2097152", "--l1d=96:6,32:4", "--l1i=256:8,32:8",
        "--stlb=2048:16,0:0",
    ):  # fmt: skip
        assert option in command
    assert not any(option.startswith(("--windows", "--core")) for option in command)


def test_windows_are_asked_for_with_their_core() -> None:
    plan = WindowPlan(25_000_000)
    command = simulator_command(Path("/v"), Path("/d"), GEOMETRY, plan, "width=6")
    assert command[-2:] == [f"--windows={plan.option}", "--core=width=6"]
    without = simulator_command(Path("/v"), Path("/d"), GEOMETRY)
    assert simulator_command(Path("/v"), Path("/d"), GEOMETRY, plan, None) == without


def test_windows_are_read_with_the_counts(launcher: Launcher, tmp_path: Path) -> None:
    (tmp_path / "windows.tsv").write_text(
        "# tlbcost windows 1\n# pid: 100\n# program: /bin/app\n# state: exited\n"
        "# references: 5000000\n# period: 400000\n# window: 100000\n# core: width=6\n"
        "thread\tstart\treferences\tbase_cycles\thuge_cycles\n"
        "1\t300000\t100000\t90000\t80000\n# end: 1\n"
    )
    end = f'cp {tmp_path}/windows.tsv "$d/windows.100.0.tsv"'
    (image,) = run(launcher, fake(tmp_path, table(), end=end)).windows
    assert image.references == 5_000_000
    assert [window.huge_cycles for window in image.windows] == [80_000]


def test_valgrind_s_folder_is_named_without_a_blank(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaced = tmp_path / "a blank"
    spaced.mkdir()
    monkeypatch.setattr("tlbcost.common.paths.valgrind_lib", lambda: spaced)
    valgrind = fake(tmp_path, table(), end=f'readlink "$VALGRIND_LIB" >{tmp_path}/link')
    run(launcher, valgrind)
    assert (tmp_path / "link").read_text() == f"{spaced}\n"
    (tmp_path / "b c").mkdir()
    with pytest.raises(TlbcostError, match=r"cannot run from .*a blank, nor from .*b c"):
        run(replace(launcher, folder=tmp_path / "b c"), valgrind)


def test_counts_are_read(launcher: Launcher, tmp_path: Path) -> None:
    result = run(launcher, fake(tmp_path, table()))
    (process,) = result.processes
    assert there(process.counts)[4096, "load"] == SideCounts(10, 4, 6)
    assert (process.pid, process.threads, process.program) == (100, 2, "/bin/app")
    assert process.touched == Touched(50, 3, 20)
    assert result.outcome.code == 0
    lib = Path((tmp_path / "counts0" / "lib").read_text().strip())
    assert lib.resolve() == paths.valgrind_lib().resolve()


@pytest.mark.parametrize(
    "text", ["", table(state="running", rows=""), table(rows="4096\tload\t10\t4\t6\n")]
)
def test_a_process_that_did_not_finish_has_no_counts(tmp_path: Path, text: str) -> None:
    (tmp_path / "counts.7.0.tsv").write_text(text)
    (process,) = read_counts(tmp_path)
    assert process.counts is None
    assert process.touched is None
    assert process.threads is None


def test_pages_that_were_not_noted_are_none(launcher: Launcher, tmp_path: Path) -> None:
    text = re.sub(r"(# touched_\w+): \d+", r"\1: NA", table())
    (tmp_path / "counts.7.0.tsv").write_text(text)
    (process,) = read_counts(tmp_path)
    assert process.counts is not None
    assert process.touched is None
    with pytest.raises(TlbcostError, match="ran out of memory for noting"):
        run(launcher, fake(tmp_path, text))


def test_processes_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("counts.10.0.tsv", "counts.9.1.tsv", "counts.9.0.tsv"):
        (tmp_path / name).write_text(table(pid=int(name.split(".")[1])))
    assert [process.pid for process in read_counts(tmp_path)] == [9, 9, 10]


@pytest.mark.parametrize("row", ["4096\tjump\t1\t1\t1", "4096\tload\t1\tNA\t1", "x\tload\t1\t1\t1"])
def test_garbage_is_refused_by_name(tmp_path: Path, row: str) -> None:
    (tmp_path / "counts.7.0.tsv").write_text(table(rows=f"{row}\n# end: 1\n"))
    with pytest.raises(TlbcostError, match=r"counts\.7\.0\.tsv"):
        read_counts(tmp_path)


BROKEN = "--7-- VALGRIND INTERNAL ERROR: Valgrind received a signal 8 (SIGFPE) - exiting"
CANNOT_START = "==9== Startup\n==9== valgrind: cannot start tool\n==9== \n"


@pytest.mark.parametrize(
    ("counts", "log", "end", "words"),
    [
        ("", CANNOT_START, "", r"counted nothing.*cannot start tool"),
        (table(rows="4096\tfetch\t0\t0\t0\n# end: 1\n"), "", "", "counted nothing"),
        (table(), AVX512, "exit 132", "AVX-512"),
        (table(), BROKEN, "kill -FPE $$", r"crashed in .*signal 8"),
        (table(), "", "kill -KILL $$", "killed by SIGKILL; natively"),
    ],
    ids=["no counts", "counts of zero", "a child met AVX-512", "it broke down", "killed here only"],
)
def test_what_gives_no_estimate(
    launcher: Launcher, tmp_path: Path, counts: str, log: str, end: str, words: str
) -> None:
    with fails(words, 125):
        run(launcher, fake(tmp_path, counts, log=log, end=end))


def test_avx512_is_named_with_its_function(launcher: Launcher, tmp_path: Path) -> None:
    valgrind = fake(tmp_path, table(), log=AVX512, end="kill -ILL $$")
    with fails(r"AVX-512.*add_all \(sum.c:5\)", 125, "x86-64-v3"):
        run(launcher, valgrind)


def test_an_instruction_that_was_only_tried_is_no_failure(
    launcher: Launcher, tmp_path: Path
) -> None:
    assert run(launcher, fake(tmp_path, table(), log=AVX512)).processes


def test_libc_s_own_avx512_has_its_own_hint(launcher: Launcher, tmp_path: Path) -> None:
    log = AVX512.replace("add_all (sum.c:5)", "__memset_evex (in /usr/lib/libc.so.6)")
    with pytest.raises(TlbcostError) as error:
        run(launcher, fake(tmp_path, table(), log=log, end="kill -ILL $$"))
    assert "glibc.cpu.hwcaps" in str(error.value.hint)


def test_other_instructions_are_not_called_avx512() -> None:
    bad = there(find_bad_instruction(["nothing", AVX512.replace("0x62 0xF1", "0xF 0x4")]))
    assert bad.instruction_bytes.startswith("0f 04")
    assert bad.kind == "an instruction"
    assert find_bad_instruction(["==1== all well"]) is None


@pytest.mark.parametrize(
    ("word", "kind"), [("0x0420E3E0", "an SVE instruction"), ("0xD503305F", "an instruction")]
)
def test_arms_instructions_are_words(
    launcher: Launcher, tmp_path: Path, word: str, kind: str
) -> None:
    log = f"""disInstr(arm64): unhandled instruction {word}
disInstr(arm64): 0000'0100 0010'0000 1110'0011 1110'0000
==7== valgrind: Unrecognised instruction at address 0x108650.
==7==    at 0x108650: main (sve.c:9)"""
    with pytest.raises(TlbcostError) as error:
        run(launcher, fake(tmp_path, table(), log=log, end="kill -ILL $$"))
    assert f"{kind} that the simulator does not know in main (sve.c:9)" in str(error.value)
    assert f"(bytes {word.lower()})" in str(error.value)
    assert "-march=armv8.2-a" in str(error.value.hint)
    assert "tlbcost trial" in str(error.value.hint)


def test_another_exit_code_is_kept_for_the_caveat(launcher: Launcher, tmp_path: Path) -> None:
    result = run(launcher, fake(tmp_path, table()), "sh", "-c", "exit 3")
    assert result.outcome.code == 3


def test_the_memory_limit_of_the_simulation_is_named(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = iter([MemoryLimit(0, 400 << 20), MemoryLimit(1, 400 << 20)])
    monkeypatch.setattr("tlbcost.run.launch.memory_limit", lambda: next(states))
    with pytest.raises(TlbcostError, match=r"memory limit \(400 MiB, cgroup\); natively it fits"):
        run(launcher, fake(tmp_path, table(), end="kill -KILL $$"))


def test_valgrind_that_cannot_start(launcher: Launcher, tmp_path: Path) -> None:
    with fails("cannot run", 4):
        run(launcher, tmp_path / "no-valgrind")


def test_valgrind_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with fails("not installed", 4, "valgrind"):
        find_valgrind()


def test_simulator_not_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(fake(tmp_path, "").parent))
    monkeypatch.setattr(paths, "valgrind_lib", lambda: tmp_path)
    with fails("not built", 4):
        find_valgrind()


def test_debian_s_wrapper_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrapper = fake(tmp_path, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "tlbsim-amd64-linux").touch()
    monkeypatch.setattr(paths, "valgrind_lib", lambda: tmp_path)
    assert find_valgrind() == wrapper
    real = script(tmp_path, "#!/bin/sh\n", "valgrind.bin")
    assert find_valgrind() == real
