# SPDX-License-Identifier: GPL-2.0-or-later
"""Does a service get a remedy's variables and pages as they are, wherever it is deployed?"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from builders.review import HOSTILE, worth_it
from builders.tree import there
from tlbcost.remedies.remedy import Remedy
from tlbcost.review.deployment import Snippet, snippets

ODD = "a \"b\" \\ %n $HOME $(x) ${y} #z: 'q'"


def remedy(**variables: str) -> Remedy:
    return replace(worth_it().what_to_do[0].remedies[0], environment=variables)


def by_place(found: tuple[Snippet, ...]) -> dict[str, Snippet]:
    return {each.place: each for each in found}


def test_remedies_of_an_allocator_have_their_variables() -> None:
    (first, *_) = worth_it().what_to_do[0].remedies
    assert first.environment == {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def test_what_has_no_variables_and_no_pool_has_no_lines() -> None:
    assert snippets(remedy(), "cache", 1) == ()


def test_values_are_quoted_by_each_files_rules() -> None:
    places = by_place(snippets(remedy(NAME=ODD), "cache", 1))
    (line,) = places["systemd"].text.splitlines()[1:]
    quoted = there(re.fullmatch(r'Environment="NAME=(.*)"', line))
    # What systemd.syntax(7) and systemd.unit(5) undo.
    assert re.sub(r"\\(.)", r"\1", quoted[1]).replace("%%", "%") == ODD
    compose = yaml.safe_load(places["Compose"].text)
    assert compose["environment"]["NAME"].replace("$$", "$") == ODD
    (variable,) = yaml.safe_load(places["Kubernetes"].text)["env"]
    assert variable["name"] == "NAME"
    assert variable["value"].replace("$$(", "$(") == ODD
    docker = there(re.fullmatch(r'ENV NAME="(.*)"', places["Dockerfile"].text))
    assert re.sub(r"\\(.)", r"\1", docker[1]) == ODD


def test_systemd_takes_the_drop_in(tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("needs systemd-analyze")
    unit = tmp_path / "tlbcost-test.service"
    unit.write_text("[Service]\nExecStart=/bin/true\n", encoding="utf-8")
    snippet = by_place(snippets(remedy(NAME=ODD, OTHER="1"), "tlbcost-test", 1))["systemd"]
    drop_in = tmp_path / Path(snippet.file).relative_to("/etc/systemd/system")
    drop_in.parent.mkdir()
    drop_in.write_text(snippet.text + "\n", encoding="utf-8")
    done = subprocess.run([tool, "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    # What is wrong in a drop-in is noticed there.
    drop_in.write_text(snippet.text.replace("Environment", "Surroundings") + "\n", encoding="utf-8")
    done = subprocess.run([tool, "verify", unit], capture_output=True, text=True, check=False)
    assert "Unknown key" in done.stderr


@pytest.mark.parametrize("name", ["../../etc/passwd", HOSTILE, "...", "a/b", ""])
def test_a_services_name_is_no_path(name: str) -> None:
    file = by_place(snippets(remedy(NAME="1"), name, 1))["systemd"].file
    assert re.fullmatch(
        r"/etc/systemd/system/[A-Za-z0-9:_][A-Za-z0-9:_.-]*\.service\.d/huge-pages\.conf", file
    )
    assert len(file) < 200


def test_a_shell_exports_the_value_as_it_is() -> None:
    text = by_place(snippets(remedy(NAME=ODD), "cache", 1))["shell"].text
    words = ["/bin/sh", "-c", f'{text}\nprintf "%s" "$NAME"']
    assert subprocess.check_output(words, text=True) == ODD
