# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of runners of tests, by the TAP or the report that they wrote."""

from __future__ import annotations

import re
import xml.etree.ElementTree
from dataclasses import dataclass, field
from pathlib import Path

from runners import Ended

PLAN = re.compile(r"1\.\.(\d+)")
RESULT = re.compile(r"(not )?ok\b(?: \d+)?(.*)")
TIMING = re.compile(r" in \d+ms(?= #|$)")
SKIP = re.compile(r"#\s*skip\S*\s*(.*)", re.IGNORECASE)


@dataclass(slots=True)
class Outcome:
    """Results of one runner, and what it printed."""

    name: str
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seconds: float = 0.0
    text: str = ""

    def fail_runner(self, why: str) -> None:
        """Count a runner that went wrong as one failed test."""
        self.failed.append(f"the runner itself: {why}")
        self.text += f"not ok - {self.name}: {why}\n"

    def check_end(self, ended: Ended, planned: bool, plan: str) -> None:
        """Fail a runner that did not end in time, as it should, or left something behind."""
        if ended.code is None:
            self.fail_runner("did not end in time")
        elif not planned:
            self.fail_runner(f"{plan} (exit code {ended.code})")
        elif ended.code != 0 and not self.failed:
            self.fail_runner(f"exit code {ended.code}, though no test failed")
        if ended.left:
            self.fail_runner(f"left processes behind: {', '.join(ended.left)}")


def read_tap(outcome: Outcome, ended: Ended) -> None:
    """Count the results in a runner's TAP; it must have kept to its plan."""
    plan = None
    for line in ended.text.splitlines():
        if (match := PLAN.fullmatch(line)) and plan is None:
            plan = int(match[1])
        elif match := RESULT.fullmatch(TIMING.sub("", line)):
            if match[1]:
                outcome.failed.append(match[2].strip())
            elif skip := SKIP.search(match[2]):
                outcome.skipped.append(f"{match[2][: skip.start()].strip()}: {skip[1]}")
            else:
                outcome.passed += 1
    reported = outcome.passed + len(outcome.failed) + len(outcome.skipped)
    outcome.check_end(ended, plan == reported, f"planned {plan} tests, reported {reported}")


def read_junit(outcome: Outcome, ended: Ended, report: Path) -> None:
    """Count the results in pytest's report."""
    try:
        cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        outcome.check_end(ended, planned=False, plan=f"no report: {error}")
        return
    for case in cases:
        name = f"{case.get('classname')}::{case.get('name')}"
        skip = case.find("skipped")
        failure = next((each for each in case if each.tag in {"failure", "error"}), None)
        if failure is not None:
            outcome.failed.append(f"{name}: {failure.get('message', '').partition(chr(10))[0]}")
        elif skip is not None:
            outcome.skipped.append(f"{name}: {skip.get('message')}")
        else:
            outcome.passed += 1
    outcome.check_end(ended, bool(cases), "no tests")
