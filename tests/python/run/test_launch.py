# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import os
import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from tlbcost.common import paths
from tlbcost.common.errors import TlbcostError
from tlbcost.run import launch, process_tree
from tlbcost.run.launch import Launcher, native_runs
from tlbcost.run.outcome import Outcome
from tlbcost.run.program import check_simulatable, resolve, start_failure
from tlbcost.run.stdin import ProgramInput
from tlbcost.system import cgroup
from tlbcost.system import sudo as user

needs_launcher = pytest.mark.skipif(
    not paths.libexec("tlbcost-run").exists(), reason="needs build/libexec/tlbcost-run (make)"
)


def script(folder: Path, text: str, name: str = "program") -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def sh(launcher: Launcher, text: str, n: int = 1, *, ignore_failure: bool = False) -> list[Outcome]:
    return native_runs(
        launcher, ["sh", "-c", text], Path("/bin/sh"), n, ignore_failure=ignore_failure
    )


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    with open(os.devnull) as nothing:  # noqa: PTH123
        yield Launcher(tmp_path, ProgramInput(nothing.fileno()))


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


# --- what is refused before it runs


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


# --- standard input


def read_all(stdin: ProgramInput, *, first: bool) -> bytes:
    with stdin.opened(first=first) as fd:
        assert fd is not None
        with os.fdopen(os.dup(fd), "rb") as file:
            return file.read()


def test_a_pipe_is_given_whole_to_every_run(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"data")
    os.close(pipe[1])
    stdin = ProgramInput(pipe[0])
    assert [read_all(stdin, first=first) for first in (True, False, False)] == [b"data"] * 3
    stdin.close()


def test_a_pipe_without_end_is_refused(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"x" * 2000)
    with pytest.raises(TlbcostError, match="longer than") as error:
        ProgramInput(pipe[0], limit_bytes=1000)
    assert error.value.exit_code == 125


def test_a_file_is_read_again_from_where_it_stood(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"0123456789")
    fd = os.open(path, os.O_RDONLY)
    os.lseek(fd, 4, os.SEEK_SET)
    stdin = ProgramInput(fd)
    with stdin.opened(first=True) as own:
        assert own is None
        os.read(fd, 100)
    assert read_all(stdin, first=False) == b"456789"
    assert read_all(stdin, first=False) == b"456789"
    os.close(fd)


def test_a_closed_input_stays_closed() -> None:
    fd = os.open(os.devnull, os.O_RDONLY)
    os.close(fd)
    with ProgramInput(fd).opened(first=False) as given:
        assert given is None


def test_a_terminal_gives_later_runs_nothing() -> None:
    controller, terminal = os.openpty()
    stdin = ProgramInput(terminal)
    with stdin.opened(first=True) as fd:
        assert fd is None
    assert read_all(stdin, first=False) == b""
    os.close(controller)
    os.close(terminal)


# --- runs


@needs_launcher
def test_runs_are_measured(launcher: Launcher) -> None:
    outcomes = sh(launcher, "exit 0", 2)
    assert [outcome.code for outcome in outcomes] == [0, 0]
    for outcome in outcomes:
        assert outcome.run is not None
        assert outcome.run.wall_ns > 0
        assert outcome.run.minor_faults > 0
        assert not outcome.failed


@needs_launcher
def test_only_the_first_run_is_heard(launcher: Launcher, capfd: pytest.CaptureFixture[str]) -> None:
    sh(launcher, "echo out; echo err >&2", 3)
    heard = capfd.readouterr()
    assert (heard.out, heard.err) == ("out\n", "err\n")


@needs_launcher
@pytest.mark.parametrize(
    ("text", "code", "words"),
    [("exit 7", 7, "exited with 7"), ("kill -SEGV $$", 139, "killed by SIGSEGV")],
)
def test_failures_refuse_the_estimate(launcher: Launcher, text: str, code: int, words: str) -> None:
    with pytest.raises(TlbcostError, match=words) as error:
        sh(launcher, text, 3)
    assert error.value.exit_code == code
    assert "--ignore-failure" in str(error.value.hint)


@needs_launcher
def test_failures_can_be_ignored(launcher: Launcher) -> None:
    outcomes = sh(launcher, "exit 7", 2, ignore_failure=True)
    assert [outcome.code for outcome in outcomes] == [7, 7]


@needs_launcher
def test_what_cannot_be_repeated_is_told(launcher: Launcher, tmp_path: Path) -> None:
    text = f"mkdir {tmp_path}/made"
    with pytest.raises(TlbcostError, match=r"cannot be repeated.*File exists") as error:
        sh(launcher, text, 3)
    assert "--prepare" in str(error.value.hint)
    launcher.prepare = f"rm -rf {tmp_path}/made"
    assert len(sh(launcher, text, 3)) == 3


@needs_launcher
def test_a_failing_preparation_is_our_failure(launcher: Launcher) -> None:
    launcher.prepare = "exit 4"
    with pytest.raises(TlbcostError, match="prepare a run failed: exit code 4") as error:
        sh(launcher, "true")
    assert error.value.exit_code == 125


@needs_launcher
def test_a_full_disk_is_our_failure(launcher: Launcher) -> None:
    launcher.folder = launcher.folder / "not-there"
    with pytest.raises(TlbcostError, match="cannot time the program") as error:
        sh(launcher, "true")
    assert error.value.exit_code == 125


@needs_launcher
def test_ticks_come_while_a_program_runs(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_TICK_S", 0.01)
    ticks: list[float] = []
    launcher.execute(["sleep", "1"], discard=True, tick=ticks.append)
    assert ticks
    assert ticks == sorted(ticks)


@needs_launcher
def test_an_exception_ends_the_whole_family(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(launch, "_TICK_S", 0.02)
    pids = tmp_path / "pids"

    def stop(_: float) -> None:
        if pids.exists() and len(pids.read_text().split()) == 2:
            raise KeyboardInterrupt

    stubborn = f"(trap '' TERM; echo $$ >>{pids}; sleep 60; sleep 60)"
    text = f"{stubborn} | (sleep 60 & echo $! >>{pids}; wait)"
    with pytest.raises(KeyboardInterrupt):
        launcher.execute(["sh", "-c", text], discard=True, tick=stop)
    for pid in pids.read_text().split():
        assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text()
    assert process_tree.descendants(os.getpid()) == {}


def test_sudo_names_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setenv("SUDO_GID", "100")
    found = user.calling_user()
    assert found is not None
    assert (found.uid, found.gid) == (1000, 100)
    monkeypatch.setenv("SUDO_UID", "0")
    assert user.calling_user() is None
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert user.calling_user() is None


def test_a_memory_limit_is_named() -> None:
    killed = Outcome(None, "", 400 << 20, None, signal.SIGKILL, None)
    assert killed.describe() == "was killed at its memory limit (400 MiB, cgroup)"
    assert killed.code == 137
    other = Outcome(None, "", None, None, signal.SIGKILL, None)
    assert other.describe() == "was killed by SIGKILL"


# --- memory cgroups, on made-up machines


def machine(root: Path, cgroups: str, mounts: str, files: dict[str, str]) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroups)
    (root / "proc/self/mountinfo").write_text(mounts)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(
        tmp_path,
        "4:memory:/a/b\n0::/\n",
        "30 20 0:26 / /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory\n",
        {
            "sys/fs/cgroup/memory/a/b/memory.oom_control": "oom_kill_disable 0\noom_kill 2\n",
            "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "419430400\n",
        },
    )
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    assert cgroup.memory_limit() == cgroup.MemoryLimit(2, 400 << 20)


def test_version_2_in_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(
        tmp_path,
        "0::/docker/x/job\n",
        "30 20 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
        {
            "sys/fs/cgroup/job/memory.events": "low 0\noom 1\noom_kill 1\n",
            "sys/fs/cgroup/job/memory.max": "max\n",
        },
    )
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    assert cgroup.memory_limit() == cgroup.MemoryLimit(1, None)


def test_no_cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    assert cgroup.memory_limit() == cgroup.MemoryLimit(None, None)
