# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said where a running process may not, or cannot, be followed?"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
from builders.answer import GEOMETRY
from tlbcost.common import formats
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.copies import run
from tlbcost.system import hints
from tlbcost.system import process as files
from tlbcost.system.process import TracingRights

PRIVILEGED = TracingRights(None, True, False)
ORDINARY = TracingRights(None, False, False)


@pytest.fixture(autouse=True)
def user(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary one, with sudo, who follows a process of his own that nothing traces."""
    monkeypatch.setattr(hints, "is_root", lambda: False)
    monkeypatch.setattr(hints.sys, "argv", ["tlbcost", "estimate", "--pid", "77"])
    monkeypatch.setattr(hints.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(hints, "write_setting", lambda value, path: f"echo {value} > {path}")
    monkeypatch.setattr(files, "owner", lambda _: os.geteuid())
    monkeypatch.setattr(files, "status", lambda _: {})


def lacks(
    monkeypatch: pytest.MonkeyPatch, rights: TracingRights, folder: Path | None = None
) -> tuple[str, str]:
    monkeypatch.setattr(run, "tracing_rights", lambda: rights)
    error = run.refused(77, folder or Path("/nonexistent"))
    assert error.exit_code == CANNOT_MEASURE
    assert error.hint is not None
    return str(error), error.hint


def test_another_users_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "owner", lambda _: 0 if os.geteuid() else 65534)
    text, hint = lacks(monkeypatch, ORDINARY)
    assert "process 77 may not be traced: it belongs to " in text
    assert hint.startswith("sudo ")
    assert hint.endswith(" estimate --pid 77")
    monkeypatch.setattr(files, "owner", lambda _: 4_000_000_001)
    assert "it belongs to user 4000000001" in lacks(monkeypatch, ORDINARY)[0]


def test_yama_keeps_users_from_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for scope in (1, 2):
        text, hint = lacks(monkeypatch, TracingRights(scope, False, False))
        assert f"kernel.yama.ptrace_scope is {scope}" in text
        assert hint.startswith("sudo ")
        assert hint.endswith("or echo 0 > /proc/sys/kernel/yama/ptrace_scope")


@pytest.mark.parametrize("privileged", [False, True])
def test_yama_that_is_locked_lets_nobody(monkeypatch: pytest.MonkeyPatch, privileged: bool) -> None:
    text, hint = lacks(monkeypatch, TracingRights(3, privileged, False))
    assert "no process may until the next boot" in text
    assert "--engine valgrind" in hint


def test_root_of_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "is_root", lambda: True)
    text, hint = lacks(monkeypatch, ORDINARY)
    assert "root lacks CAP_SYS_PTRACE" in text
    assert "--cap-add SYS_PTRACE" in hint


def test_a_debugger_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "status", lambda _: {"TracerPid": "4711"})
    text, hint = lacks(monkeypatch, PRIVILEGED)
    assert "process 4711 traces it" in text
    assert "ps 4711" in hint


def test_a_process_with_more_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "it has more rights than you" in lacks(monkeypatch, ORDINARY)[0]
    assert "a security module" in lacks(monkeypatch, PRIVILEGED)[0]


@pytest.mark.parametrize(
    ("result", "words"),
    [("refused-seccomp", "a seccomp filter"), ("refused-memory", "too little memory"),
     ("refused-unheard-of", "it cannot be copied (unheard-of)")],
)  # fmt: skip
def test_other_refusals_have_their_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, result: str, words: str
) -> None:
    kind = formats.COPIES
    row = {"window": "0", "result": result}
    cells = "\t".join(row.get(column, "NA") for column in kind.columns)
    head = f"# tlbcost {kind.name} {kind.version}"
    text = "\n".join([head, "\t".join(kind.columns), cells, "# end: 1", ""])
    (tmp_path / "copies.tsv").write_text(text, encoding="ascii")
    said, _ = lacks(monkeypatch, PRIVILEGED, tmp_path)
    assert said.startswith("process 77 cannot be followed: ")
    assert words in said


@pytest.mark.parametrize(
    ("code", "copied", "words"),
    [(0, (0, 0), ""), (0, (10**15, 0), "waits for a CPU"), (0, (0, 10**12), "copies pages"),
     (4, (10**15, 0), "")],
)  # fmt: skip
def test_the_canary_compares_with_the_time_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, copied: tuple[int, int], words: str
) -> None:
    figures = iter([(5, 5), (5, 5), (5, 5), (5 + copied[0], 5 + copied[1])])
    monkeypatch.setattr(run, "_felt", lambda *_, **__: next(figures))
    monkeypatch.setattr(run.time, "sleep", lambda _: None)
    asked: list[Sequence[str]] = []
    monkeypatch.setattr(run, "run_tool", lambda words, **_: (asked.append(words), (code, ""))[1])
    monkeypatch.setattr(run, "_command", lambda _: None)
    plan = run.CopyPlan(GEOMETRY, None, 1.0)
    with pytest.raises(TlbcostError, match=words) if words else nullcontext():
        run.check_canary(77, plan, tmp_path, children=False)
    assert "--copies 4" in " ".join(asked[0])


def test_ctrl_c_ends_a_canary_and_all_that_follows() -> None:
    words = ["/bin/sh", "-c", "kill -INT $PPID; exec sleep 60"]
    assert run.run_tool(words)[0] == -signal.SIGINT
    with pytest.raises(KeyboardInterrupt):
        run.run_tool(words, whole=True)


def test_what_a_process_feels_is_read_from_the_kernel() -> None:
    waited, faults = run._felt(os.getpid(), children=True)
    assert waited >= 0
    assert faults > 0
