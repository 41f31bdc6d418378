# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a compiler's warning an error where developers look, and nowhere else?"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from builders.tree import TREE


def made(*targets: str, variables: Mapping[str, str] | None = None) -> list[str]:
    """The commands that `make` would run to make it all anew."""
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "WERROR")}
    said = subprocess.run(
        ["make", "-n", "-B", *targets],
        cwd=TREE,
        env=environment | dict(variables or {}),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.replace("\\\n", " ")
    return said.splitlines()


def compiled(variables: Mapping[str, str] | None = None) -> list[str]:
    """Those that compile the programs, the simulator and a workload."""
    lines = made("programs", "simulator", "build/workloads/map-lookup", variables=variables)
    return [line for line in lines if line.endswith((".c", ".cc")) and " -o " in line]


def test_a_users_build_goes_on_after_a_warning() -> None:
    lines = compiled()
    assert len(lines) > 100
    assert not any("-Werror" in line for line in lines)
    assert all("-Wall -Wextra" in line for line in lines)


def test_a_check_stops_at_one() -> None:
    lines = compiled({"WERROR": "-Werror"})
    assert len(lines) > 100
    assert all("-Werror" in line for line in lines)


def test_the_linter_stops_at_one() -> None:
    commands = [line for line in made("c-lint") if "xargs" in line]
    assert len(commands) == 4
    assert all("-Werror" in line for line in commands)
