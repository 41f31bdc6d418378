# SPDX-License-Identifier: GPL-2.0-or-later
"""Does --redact leave a program's arguments out of everything that is written?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from builders.record import TWO
from builders.report import advised
from builders.review import plan_of, result
from builders.trial import made_trials
from tlbcost.__main__ import main
from tlbcost.answer.document import estimate_document
from tlbcost.answer.record import Estimate
from tlbcost.common.document import to_json
from tlbcost.review.document import review_document
from tlbcost.review.task import plan_tasks
from tlbcost.review.text import to_html
from tlbcost.trial.session import ProgramTrials
from tlbcost.validation.session import record_of_programs

ARGV = ("/opt/s3cret/app", "--password=s3cret", "/dev/shm/s3cret file")


@pytest.mark.parametrize("redact", [True, False])
def test_estimates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redact: bool) -> None:
    def found(_: object) -> Estimate:
        return advised(ARGV)

    monkeypatch.setattr("tlbcost.answer.estimate.estimate", found)
    assert written(tmp_path, "estimate", "--details", redact=redact) is redact


@pytest.mark.parametrize("redact", [True, False])
def test_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redact: bool) -> None:
    def found(_: object, __: object) -> ProgramTrials:
        return replace(made_trials(), argv=ARGV)

    monkeypatch.setattr("tlbcost.trial.session.run_trials", found)
    table = f"--table={tmp_path / 'table'}"
    assert written(tmp_path, "trial", table, redact=redact, code=4) is redact


def written(folder: Path, *words: str, redact: bool, code: int = 0) -> bool:
    """Whether all that is written has the program's name and no more of the command line."""
    files = [f"--json={folder / 'json'}", f"--output={folder / 'output'}"]
    assert main([*words, *files, *["--redact"][: int(redact)], "--", *ARGV]) == code
    texts = [file.read_text() for file in folder.iterdir()]
    assert all("app" in text for text in texts if "program_0" in text or "{" in text)
    return not any("s3cret" in text for text in texts)


def test_validation() -> None:
    made = [replace(TWO.programs[0], command="/opt/app '--password=s3cret file'")]
    assert record_of_programs(made).programs == tuple(made)
    (found,) = record_of_programs(made, redacted=True).programs
    assert found.command == "app"


def test_reviews(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        f"[machines.here]\n[[services]]\nname = 'one'\ncommand = {list(ARGV)}\nredact = true\n"
        "prepare = 'x s3cret'\nstdin = 's3cret'\nenvironment = {TOKEN = 's3cret'}\n",
    )
    (task,) = plan_tasks(plan)
    assert task.options is not None
    assert task.options[0] == "--redact"
    assert task.command == ("tlbcost", "estimate", "--redact", "--", "app")
    seen = result("one", estimate_document(advised(("app",))))
    review = review_document(plan, [msgspec.structs.replace(seen, command=task.command)])
    assert review.rows[0].shell_line == "tlbcost estimate --redact -- app"
    assert "s3cret" not in to_json(review).replace(str(tmp_path), "")
    assert "s3cret" not in to_html(review)
    services = [msgspec.structs.replace(plan.services[0], redact=False)]
    (other,) = plan_tasks(msgspec.structs.replace(plan, services=services))
    assert other.plan != task.plan, "a result with the arguments would be taken from the state"
