# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the man pages say what the programs say of themselves?"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess

import pytest
from builders.tree import TREE
from tlbcost.__main__ import COMMANDS, load, main
from tlbcost.common.arguments import Parser

MAN = TREE / "doc" / "man"
PAGES = ["tlbcost", *(f"tlbcost-{name}" for name in COMMANDS)]


def section(page: str, title: str) -> str:
    text = (MAN / f"{page}.1").read_text(encoding="utf-8")
    parts = text.split(f"\n.SH {title}\n")
    assert len(parts) == 2, f"{page}.1 needs one section {title}"
    return parts[1].split("\n.SH ")[0]


def documented_options(page: str) -> dict[str, str | None]:
    """Long options that head a paragraph of OPTIONS, each with its argument's name."""
    options: dict[str, str | None] = {}
    for head in re.findall(r"^\.TP\n(.*)$", section(page, "OPTIONS"), re.MULTILINE):
        plain = head.replace("\\-", "-")
        name = re.search(r"--[a-z][a-z-]*", plain)
        assert name, f"{page}.1: not an option: {head}"
        argument = re.search(r'" ([A-Z:]+)"', plain)
        options[name[0]] = argument[1] if argument else None
    return options


def parser_options(parser: argparse.ArgumentParser) -> dict[str, str | None]:
    options: dict[str, str | None] = {}
    for action in parser._actions:
        for option in action.option_strings:
            if option.startswith("--"):
                takes_argument = action.nargs != 0
                options[option] = str(action.metavar) if takes_argument else None
    return options


@pytest.mark.parametrize("name", COMMANDS)
def test_options_are_those_of_help(name: str) -> None:
    parser = Parser(prog=f"tlbcost {name}")
    load(name).add_arguments(parser)
    assert documented_options(f"tlbcost-{name}") == parser_options(parser)


def test_options_of_the_front_door(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))
    assert set(documented_options("tlbcost")) == shown


@pytest.mark.parametrize("name", COMMANDS)
def test_exit_codes_are_those_of_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    listed = capsys.readouterr().out.split("\nexit codes:\n")[1]
    shown = set(re.findall(r"^  (\d+)", listed, re.MULTILINE))
    heads = re.findall(r"^\.TP\n(.*)$", section(f"tlbcost-{name}", "EXIT STATUS"), re.MULTILINE)
    assert shown == {code for head in heads for code in re.findall(r"\d+", head)}
    assert shown >= {"0", "2", "128"}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_front_page_lists_every_command(name: str) -> None:
    commands = section("tlbcost", "COMMANDS")
    assert f"tlbcost\\-{name} (1)\n{COMMANDS[name]}" in commands
    assert COMMANDS[name] in section(f"tlbcost-{name}", "NAME")


@pytest.mark.parametrize("page", PAGES)
def test_sections(page: str) -> None:
    for title in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "EXAMPLES", "SEE ALSO"):
        assert section(page, title).strip()


@pytest.mark.parametrize("page", PAGES)
def test_options_are_sorted(page: str) -> None:
    options = list(documented_options(page))
    assert options == sorted(options)


@pytest.mark.parametrize("page", PAGES)
def test_groff_has_no_complaint(page: str) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    words = ["groff", "-man", "-ww", "-z", str(MAN / f"{page}.1")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_examples_exist(page: str) -> None:
    for command in re.findall(r"^tlbcost (\w+)", section(page, "EXAMPLES"), re.MULTILINE):
        assert command in COMMANDS
