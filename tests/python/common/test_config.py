# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the configuration file set defaults, and nothing that it should not?"""

from __future__ import annotations

import argparse
import inspect
import os
import re
from pathlib import Path

import pytest
from builders.tree import TREE
from tlbcost.__main__ import command_parser
from tlbcost.common import console
from tlbcost.common.config import COLOUR, COMMANDS, KEYS, config_path, keys_of, parse, read_config
from tlbcost.common.errors import USAGE, TlbcostError


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TLBCOST_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "tlbcost").mkdir()
    path = tmp_path / "tlbcost" / "config.toml"
    path.touch(0o644)
    return path


def parsed(command: str, *words: str) -> argparse.Namespace:
    return parse(command, command_parser(command)[1], list(words))


def refusal(file: Path, text: str) -> TlbcostError:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(TlbcostError) as error:
        parsed("estimate", "true")
    assert error.value.exit_code == USAGE
    assert str(error.value).startswith(f"{file}: ")
    return error.value


@pytest.mark.parametrize("command", COMMANDS)
def test_every_key_is_an_option_that_reads_the_same(command: str) -> None:
    _, parser = command_parser(command)
    options = {name: action for action in parser._actions for name in action.option_strings}
    for name in keys_of(command):
        action, key = options[f"--{name}"], KEYS[name]
        assert action.dest == (key.attribute or name.replace("-", "_"))
        assert (action.nargs == 0) == (key.read is None)
        for choice in action.choices or ():
            assert key.read is not None
            assert key.read(str(choice)) == choice
        if key.read is not None and action.choices:
            with pytest.raises(argparse.ArgumentTypeError, match="not one of"):
                key.read("nonsense")
        if inspect.isfunction(action.type) and key.read is not None:
            for text in ("3", "5", "0", "x", "3%", "90s"):
                assert tried(key.read, text) == tried(action.type, text)


def tried(read: object, text: str) -> object:
    assert callable(read)
    try:
        return read(text)
    except argparse.ArgumentTypeError:
        return "refused"


def test_without_a_file_everything_is_as_ever(file: Path) -> None:
    usual = parsed("estimate", "--", "true")
    file.unlink()
    assert read_config() is None
    assert parsed("estimate", "--", "true") == usual
    assert (usual.runs, usual.engine, usual.details) == (None, "auto", False)


def test_the_file_gives_defaults_and_what_is_typed_wins(file: Path) -> None:
    file.write_text(
        'runs = 7\nengine = "valgrind"\ndetails = true\ntime-limit = "5m"\n'
        '[trial]\nengine = "copies"\npairs = 9\nwith = "glibc-thp"\nprecision = 0.5\n',
        encoding="utf-8",
    )
    found = parsed("estimate", "true")
    assert (found.runs, found.engine, found.details, found.time_limit) == (
        7, "valgrind", True, 300,
    )  # fmt: skip
    found = parsed("estimate", "--runs", "3", "--engine", "auto", "--time-limit", "9", "true")
    assert (found.runs, found.engine, found.time_limit) == (3, "auto", 9)
    found = parsed("trial", "true")
    assert (found.engine, found.pairs, found.methods) == ("copies", 9, ["glibc-thp"])
    assert found.precision == pytest.approx(0.005)
    assert parsed("trial", "--with", "thp", "true").methods == ["thp"]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("runs = 5", ["--pid", "1"]),
        ('engine = "valgrind"', ["--pid", "1"]),
        ('engine = "copies"', ["--backend", "pmu", "true"]),
        ('engine = "copies"', ["--machine", "zen4", "true"]),
        ('engine = "valgrind"', ["--overhead", "3%", "true"]),
        ('overhead = "3%"', ["--copies", "9", "true"]),
        ('overhead = "3%"', ["--engine", "valgrind", "true"]),
        ('overhead = "3%"', ["--page-size", "64K", "true"]),
        ('backend = "pmu"', ["--engine", "copies", "true"]),
        ('backend = "sim"', ["--from", "x"]),
        ('model = "simple"', ["--backend", "pmu", "true"]),
        ('time-budget = "9m"', ["--no-measure", "true"]),
        ("no-measure = true", ["--time-budget", "9m", "true"]),
        ('engine = "valgrind"\noverhead = "3%"', ["--engine", "valgrind", "true"]),
    ],
)
def test_a_default_yields_to_options_that_exclude_it(
    key: str, words: list[str], file: Path
) -> None:
    usual = parsed("estimate", *words)
    file.write_text(key, encoding="utf-8")
    assert parsed("estimate", *words) == usual


def test_no_two_defaults_of_the_file_exclude_each_other(file: Path) -> None:
    file.write_text(
        'engine = "valgrind"\noverhead = "3%"\nno-measure = true\ntime-budget = 60\n',
        encoding="utf-8",
    )
    found = parsed("estimate", "true")
    assert (found.engine, found.overhead) == ("valgrind", None)
    assert (found.no_measure, found.time_budget) == (True, None)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("runz = 3", "runz: there is no such key", "runs; there are backend, colour, "),
        ("[estimat]\nruns = 3", "[estimat]: there is no such table", "estimate; there are "),
        ("[estimate]\npairs = 3", "[estimate] pairs: there is no such key", "there are backend"),
        ("[estimate]\ncolour = 'auto'", "[estimate] colour: there is no such key", "there are"),
        ("[pool]\nquiet = true", "[pool]: there is no such table", ""),
        ("runs = '3'", "runs: a number was expected", "tlbcost(1)"),
        ("runs = true", "runs: a number was expected", ""),
        ("runs = 0", "runs: not a number from 1 to 1000: 0", ""),
        ("details = 'yes'", "details: true or false was expected", ""),
        ("[trial]\npairs = [3]", "[trial] pairs: a number was expected", ""),
        ("overhead = 3", "overhead: a string was expected", ""),
        ("overhead = '300%'", "overhead: not a share of CPU time", ""),
        ("engine = 'copis'", "engine: not one of auto, copies, valgrind: copis", ""),
        ("colour = 'red'", "colour: not one of auto, always, never: red", ""),
        ("interval = 1.5", "interval: a string or a number was expected", ""),
        ("runs =", "not TOML: ", ""),
        ("a = " + "[" * 3000, "not TOML: ", ""),
        ("\x00", "not TOML: ", ""),
    ],
)
def test_what_is_wrong_is_refused_with_file_and_key(
    text: str, message: str, hint: str, file: Path
) -> None:
    error = refusal(file, text)
    assert str(error).startswith(f"{file}: {message}")
    assert error.hint is not None
    assert error.hint.startswith(hint)


def test_help_and_other_commands_do_without_a_wrong_file(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("runz = 3", encoding="utf-8")
    with pytest.raises(SystemExit):
        parsed("estimate", "--help")
    assert "exit codes" in capsys.readouterr().out
    # What puts the system's settings back works whatever a file says.
    assert parsed("pool", "restore").action == "restore"


@pytest.mark.parametrize(
    ("uid", "owner", "mode", "why"),
    [
        (1000, 1000, 0o644, None),
        (1000, 1000, 0o664, None),
        (1000, 0, 0o644, None),
        (1000, 1001, 0o644, "it belongs to user 1001, and this is 1000"),
        (1000, 1000, 0o646, "others may write to it"),
        (0, 0, 0o644, None),
        (0, 1000, 0o644, "it belongs to user 1000, and this is root"),
        (0, 0, 0o666, "others may write to it"),
    ],
)
def test_a_file_that_others_could_have_written_is_not_used_and_that_is_said(
    uid: int, owner: int, mode: int, why: str | None, file: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    real = os.fstat

    def fstat(fd: int) -> os.stat_result:
        found = list(real(fd))
        found[0] = (found[0] & ~0o777) | mode
        found[4], found[5] = owner, owner
        return os.stat_result(found)

    file.write_text("runs = 7", encoding="utf-8")
    with monkeypatch.context() as made_up:
        made_up.setattr(os, "geteuid", lambda: uid)
        made_up.setattr(os, "fstat", fstat)
        found = parsed("estimate", "true")
    assert found.runs == (7 if why is None else None)
    said = "" if why is None else f"tlbcost: {file} is not used: {why}\n"
    assert capsys.readouterr().err == said


def test_what_is_no_file_keeps_nobody(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(TlbcostError, match="it is a pipe"):
        parsed("estimate", "true")
    file.unlink()
    file.mkdir()
    with pytest.raises(TlbcostError, match="it is a directory"):
        parsed("estimate", "true")


def test_where_the_file_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert config_path() is None  # TLBCOST_CONFIG=no
    monkeypatch.delenv("TLBCOST_CONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert config_path() == tmp_path / ".config/tlbcost/config.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "/xdg")
    assert config_path() == Path("/xdg/tlbcost/config.toml")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.delenv("HOME")
    assert config_path() is None


@pytest.mark.parametrize(("word", "bold"), [("always", True), ("never", False)])
def test_colour_is_as_the_file_says_and_the_environment_wins(
    word: str, bold: bool, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console._Style, "wanted", None)
    for name in ("NO_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    file.write_text(f'colour = "{word}"', encoding="utf-8")
    parsed("estimate", "true")
    with file.open() as no_terminal:
        assert console.is_styled(no_terminal) is bold
        monkeypatch.setenv("CLICOLOR_FORCE", "1")
        assert console.is_styled(no_terminal) is True
        monkeypatch.setenv("NO_COLOR", "1")
        assert console.is_styled(no_terminal) is False


def test_the_manual_has_every_key_and_variable() -> None:
    page = (TREE / "doc/man/tlbcost.1").read_text(encoding="utf-8").replace("\\-", "-")
    keys = page.split(".SH CONFIGURATION\n")[1].split("\n.SH ")[0]
    for name in [*KEYS, "colour", *COLOUR]:
        assert re.search(rf"\b{name}\b", keys), name
    variables = page.split(".SH ENVIRONMENT\n")[1].split("\n.SH ")[0]
    sources = (TREE / "estimate/tlbcost").rglob("*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    # A macro of tlbcost-marker.h.
    text = text.replace("TLBCOST_MARK(", "")
    for name in {*re.findall(r"TLBCOST_[A-Z_]+", text), "NO_COLOR", "CLICOLOR_FORCE", "COLUMNS"}:
        assert f".B {name}\n" in variables, name
