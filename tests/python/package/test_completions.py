# SPDX-License-Identifier: GPL-2.0-or-later
"""Does each shell complete every command, option and choice that the parsers have?"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from builders.tree import TREE
from tlbcost.__main__ import COMMANDS, command_parser

BASH = """
source "$1"
for name in "${@:2}"; do
	COMP_WORDS=(tlbcost "$name" --) COMP_CWORD=2
	_shtab_tlbcost tlbcost -- "$name"
	echo "$name ${COMPREPLY[*]}"
done
"""
FISH = """
source $argv[1]
for name in $argv[2..]
	echo $name (complete -C "tlbcost $name --" | string replace -r "\\t.*" "")
end
"""
ZSH = """
compdef() {}
_arguments() {}
source "$1"
for name in "${@:2}"; do
	array=_shtab_tlbcost_${name}_options
	print -r -- "$name ${(P)array}"
done
"""
SHELLS = {
    "bash": (["bash", "--norc", "-c", BASH, "bash"], "tlbcost"),
    "fish": (["fish", "--no-config", "-c", FISH], "tlbcost.fish"),
    "zsh": (["zsh", "-f", "-c", ZSH, "zsh"], "_tlbcost"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("completions")
    subprocess.run([sys.executable, TREE / "scripts" / "completions", made], check=True)
    return made


def said(shell: str, command: list[str], *words: str) -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def long_options(name: str) -> set[str]:
    _, parser = command_parser(name)
    options = (option for action in parser._actions for option in action.option_strings)
    return {option for option in options if option.startswith("--")}


@pytest.mark.parametrize("shell", SHELLS)
def test_each_option_of_each_command_is_completed(shell: str, folder: Path) -> None:
    command, file = SHELLS[shell]
    lines = said(shell, command, str(folder / file), *COMMANDS)
    found = {line.split()[0]: set(re.findall(r"--[a-z][a-z-]*", line)) for line in lines}
    missing = {f"{name} {o}" for name in COMMANDS for o in long_options(name) - found[name]}
    assert missing == set()


def test_commands_choices_and_files_are_completed(folder: Path) -> None:
    script = """cd $argv[2]; source $argv[1]
    for line in "tlbcost " "tlbcost estimate --backend " "tlbcost pool " "tlbcost show _tl" \\
            "tlbcost estimate -- ./_tl" "tlbcost help est"
        echo (complete -C "$line" | string replace -r "\\t.*" "")
    end"""
    lines = said(
        "fish", ["fish", "--no-config", "-c", script], f"{folder}/tlbcost.fish", str(folder)
    )
    assert set(lines[0].split()) == {*COMMANDS, "help"}
    assert lines[1:] == [
        "auto pmu sim both", "reserve status restore", "_tlbcost", "./_tlbcost", "estimate",
    ]  # fmt: skip
