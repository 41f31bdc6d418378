# SPDX-License-Identifier: GPL-2.0-or-later
"""Which defaults does the user's configuration file have for the options of commands?

config.toml in $XDG_CONFIG_HOME/tlbcost (~/.config/tlbcost). A key is an option's long name: at the
top for every command that has the option, in a table with a command's name for that one. What is
typed wins, and so do options that exclude the key's.

No key names a file to write or a program to run, and root reads only what root alone can write:
under sudo, too, so that no setting of a user's makes root do anything.
"""

from __future__ import annotations

import argparse
import difflib
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tlbcost.common import console
from tlbcost.common.arguments import duration, percent, points, run_count, whole_number
from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.common.progress import be_quiet, say
from tlbcost.common.reading import read_descriptor

Value = str | int | float | bool
_MOST_BYTES = 64 << 10
_HINT = "tlbcost(1) lists the keys under CONFIGURATION"
_RUNNING = ("estimate", "trial", "validate", "numa", "pagesizes")


def _one_of(*names: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"not one of {', '.join(names)}: {text}")
        return text

    return read


@dataclass(frozen=True, slots=True)
class Key:
    """One key: the commands that have its option, and how its value is read.

    `read` None: it is true or false. `yields`: attributes of parsed options that exclude it, as
    "pid" if any value does, or "engine=valgrind".
    """

    commands: tuple[str, ...]
    kinds: tuple[type, ...] = (bool,)
    read: Callable[[str], object] | None = None
    yields: tuple[str, ...] = ()
    attribute: str = ""


_OTHER_MACHINES = ("imported", "machine", "page_size")
# In this order: a key yields to those before it.
KEYS = {
    "backend": Key(
        ("estimate",), (str,), _one_of("auto", "pmu", "sim", "both"),
        ("pid", "engine", "model", "copies", "overhead", *_OTHER_MACHINES),
    ),
    "engine": Key(
        ("estimate", "trial", "validate"), (str,), _one_of("auto", "copies", "valgrind"),
        ("pid", "backend", "copies", "overhead", "stream", "recorded", *_OTHER_MACHINES),
    ),
    "model": Key(
        ("estimate",), (str,), _one_of("auto", "overlap", "simple"),
        ("backend=pmu", *_OTHER_MACHINES),
    ),
    "overhead": Key(
        ("estimate",), (str,), percent,
        ("copies", "engine=valgrind", "backend=pmu", *_OTHER_MACHINES),
    ),
    "no-measure": Key(
        ("estimate", "validate"), yields=("time_budget", "no_system", "stream", "recorded")
    ),
    "time-budget": Key(("estimate",), (str, int), duration, ("no_measure", "imported", "pid")),
    "no-system": Key(("estimate",), yields=("no_measure", "imported", "pid")),
    "runs": Key(("estimate",), (int,), run_count, ("pid",)),
    "pairs": Key(("trial", "validate"), (int,), whole_number(3, 1000)),
    "precision": Key(("trial", "validate"), (int, float), points, ("stream", "recorded")),
    "with": Key(("trial",), (str,), lambda text: [text], attribute="methods"),
    "time-limit": Key(_RUNNING, (str, int), duration),
    "details": Key((*_RUNNING, "count", "maps", "show")),
    "interval": Key(("top",), (str, int), duration),
    "quiet": Key((*_RUNNING, "calibrate", "count", "maps", "record", "review", "show")),
}  # fmt: skip
COLOUR = {"auto": None, "always": True, "never": False}
COMMANDS = tuple(sorted({name for key in KEYS.values() for name in key.commands}))
_WORDS: Mapping[type, str] = {bool: "true or false", int: "a number", float: "a number"}


@dataclass(frozen=True, slots=True)
class Config:
    """What the file says. `values`: as written, by (command or "", key); `skipped`: why it was
    not read, though it is there.
    """

    path: Path
    values: Mapping[tuple[str, str], Value] = field(default_factory=dict)
    skipped: str | None = None

    def of(self, command: str) -> Iterator[tuple[str, Value]]:
        """The keys and values of one command, in the order of KEYS."""
        for name, key in KEYS.items():
            value = self.values.get((command, name), self.values.get(("", name)))
            if value is not None and command in key.commands:
                yield name, value


class _Untyped:
    """Stands for an option that was not typed."""


_UNTYPED = _Untyped()


def config_path() -> Path | None:
    """Where the file is looked for; None: TLBCOST_CONFIG=no, or there is no home."""
    folder, home = os.environ.get("XDG_CONFIG_HOME", ""), os.environ.get("HOME", "")
    if os.environ.get("TLBCOST_CONFIG") == "no":
        return None
    if Path(folder).is_absolute():
        return Path(folder) / "tlbcost" / "config.toml"
    return Path(home) / ".config" / "tlbcost" / "config.toml" if home else None


def read_config() -> Config | None:
    """The file's content; None: there is none. Raises TlbcostError (2) if it is wrong."""
    path = config_path()
    if path is None:
        return None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Config(path, skipped=(error.strerror or str(error)).lower())
    try:
        distrust = _distrust(os.fstat(fd))
        if distrust is not None:
            return Config(path, skipped=distrust)
        content = read_descriptor(fd, str(path), _MOST_BYTES, _HINT)
    except TlbcostError as error:
        raise TlbcostError(str(error), error.hint, USAGE) from error
    finally:
        os.close(fd)
    return Config(path, _checked(path, content))


def _distrust(found: os.stat_result) -> str | None:
    """Why somebody else could have written it: then it is not followed."""
    user = os.geteuid()
    if found.st_uid not in (user, 0):
        return f"it belongs to user {found.st_uid}, and this is {user or 'root'}"
    others = stat.S_IWOTH if user or found.st_gid == 0 else stat.S_IWOTH | stat.S_IWGRP
    return "others may write to it" if found.st_mode & others else None


def written(value: Value) -> str:
    """As in the file, without quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse(command: str, parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """What was typed after a command, with the file's defaults for the rest.

    Raises TlbcostError (2) for what is wrong of either.
    """
    own = {_attribute(name): name for name, key in KEYS.items() if command in key.commands}
    usual = {attribute: parser.get_default(attribute) for attribute in own}
    # A list is added to what is there, and is empty unless something is typed.
    lists = [attribute for attribute, default in usual.items() if default == []]
    parser.set_defaults(**{name: _UNTYPED for name in usual if name not in lists})
    arguments = parser.parse_args(words)
    untyped = {name for name in own if getattr(arguments, name) in (_UNTYPED, [])}
    config = read_config() if command in COMMANDS else None
    values = dict(config.of(command)) if config else {}
    for attribute, name in own.items():
        if attribute in untyped:
            excluded = any(_is_given(arguments, other, usual) for other in KEYS[name].yields)
            given = name in values and not excluded
            value = _read(name, values[name]) if given else usual[attribute]
            setattr(arguments, attribute, value)
    if getattr(arguments, "quiet", False):
        be_quiet()
    if config is not None and config.skipped is not None:
        say(f"{config.path} is not used: {config.skipped}")
    if config is not None and ("", "colour") in config.values:
        console.set_style(COLOUR[str(config.values["", "colour"])])
    return arguments


def _attribute(name: str) -> str:
    return KEYS[name].attribute or name.replace("-", "_")


def _is_given(arguments: argparse.Namespace, other: str, usual: Mapping[str, object]) -> bool:
    """Whether an option that excludes a key has a value, be it typed or the file's."""
    attribute, _, wanted = other.partition("=")
    value = getattr(arguments, attribute, None)
    if value is _UNTYPED or value == usual.get(attribute) or value in (None, False, []):
        return False
    return not wanted or value == wanted


def _checked(path: Path, content: bytes) -> dict[tuple[str, str], Value]:
    import tomllib

    try:
        table = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TlbcostError(f"{path}: not TOML: {error}", _HINT, USAGE) from error
    values: dict[tuple[str, str], Value] = {}
    for name, value in table.items():
        if not isinstance(value, dict):
            values["", name] = _valid(path, "", name, value)
            continue
        if name not in COMMANDS:
            raise _no_such(path, f"[{name}]", name, COMMANDS, "table")
        for key, inner in value.items():
            values[name, key] = _valid(path, name, key, inner)
    return values


def keys_of(command: str) -> list[str]:
    """The keys of a command's table, or of the top of the file ("")."""
    if not command:
        return sorted([*KEYS, "colour"])
    return sorted(name for name, key in KEYS.items() if command in key.commands)


def _valid(path: Path, table: str, name: str, value: object) -> Value:
    """A value that its key may have. Raises TlbcostError that says what it may be."""
    where = f"[{table}] {name}" if table else name
    if name not in keys_of(table):
        raise _no_such(path, where, name, keys_of(table), "key")
    kinds = (str,) if name == "colour" else KEYS[name].kinds
    # bool is a kind of int.
    if type(value) not in kinds or not isinstance(value, str | int | float):
        expected = " or ".join(dict.fromkeys(_WORDS.get(kind, "a string") for kind in kinds))
        raise TlbcostError(f"{path}: {where}: {expected} was expected", _HINT, USAGE)
    try:
        if name == "colour":
            _one_of(*COLOUR)(str(value))
        else:
            _read(name, value)
    except argparse.ArgumentTypeError as error:
        raise TlbcostError(f"{path}: {where}: {error}", _HINT, USAGE) from error
    return value


def _read(name: str, value: Value) -> object:
    read = KEYS[name].read
    return value if read is None else read(str(value))


def _no_such(path: Path, where: str, name: str, known: Sequence[str], kind: str) -> TlbcostError:
    near = difflib.get_close_matches(name, known, 1)
    hint = f"{f'{near[0]}; ' if near else ''}there are {', '.join(known)}"
    return TlbcostError(f"{path}: {where}: there is no such {kind}", hint, USAGE)
