# SPDX-License-Identifier: GPL-2.0-or-later
"""Output files: checked before anything takes time, written whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO, TypeVar

from tlbcost.common.errors import FAILED, TOOL_FAILED, USAGE, TlbcostError, hint_for
from tlbcost.common.files import new_file, place_of
from tlbcost.common.sudo import as_calling_user, calling_user

_Found = TypeVar("_Found")


# What - stands for on a command line.
STDIN, STDOUT = Path("/dev/stdin"), Path("/dev/stdout")


def check_files(
    outputs: Mapping[str, Path | None],
    exit_code: int = FAILED,
    inputs: Mapping[str, Sequence[Path]] | None = None,
) -> None:
    """Refuse files that cannot be written, and two options that name one file.

    Both by the options' names; `inputs` are read. Raises TlbcostError.
    """
    given = [(option, path) for option, path in outputs.items() if path is not None]
    read = [(option, path) for option, paths in (inputs or {}).items() for path in paths]
    for n, (option, path) in enumerate(given):
        check_writable(path, exit_code)
        for other, second in [*given[:n], *read]:
            if _is_same(path, second):
                name = "standard output" if path == STDOUT else str(path)
                raise TlbcostError(
                    f"{other} and {option} are the same file: {name}",
                    "give each a file of its own",
                    USAGE,
                )


def _is_same(one: Path, other: Path) -> bool:
    """Whether writing to one changes the other. Devices take what both write, but for stdout."""
    if STDOUT in (one, other):
        return one == other
    try:
        there = one.is_file() and other.exists() and one.samefile(other)
    except OSError:
        there = False
    return there or (not one.exists() and one.resolve() == other.resolve())


def check_writable(path: Path, exit_code: int = FAILED) -> None:
    """Refuse a file that cannot be written. Raises TlbcostError with this exit code."""
    if path == STDOUT:
        if fcntl.fcntl(sys.stdout.fileno(), fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise _refused(path, OSError(errno.EBADF, "it is closed"), exit_code)
        return
    if path.is_dir():
        raise _error(path, "it is a directory", exit_code)
    try:
        folder = path.resolve().parent
    except OSError as error:
        # The working directory was deleted, or links lead in a circle.
        raise _refused(path, error, exit_code) from error
    if not folder.is_dir():
        raise _error(path, f"no such folder: {folder}", exit_code)
    replaced = path if path.exists() and not path.is_file() else folder
    if not os.access(replaced, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise _error(path, "permission denied", exit_code)
    try:
        _as_its_owner(lambda: _find(path))
    except OSError as error:
        raise _refused(path, error, exit_code) from error


def _find(path: Path) -> None:
    with place_of(path):
        pass


def write(path: Path, text: str | bytes, exit_code: int = FAILED) -> None:
    """Write a file, or standard output.

    Raises TlbcostError with this exit code; then the file is as it was.
    """
    try:
        if path == STDOUT:
            sys.stdout.flush()
            sys.stdout.buffer.write(
                text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
            )
            sys.stdout.flush()
        else:
            write_file(path, text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _refused(path, error, exit_code) from error


def write_file(path: Path, text: str | bytes) -> None:
    """Write a file so that its name appears only when it is complete.

    A device or a FIFO is written in place; whose links are followed: place_of. Under sudo the file
    is the calling user's; one that only root can write is root's. Raises OSError; then neither the
    file nor a temporary one is left behind.
    """
    data = text if isinstance(text, bytes) else text.encode(errors="surrogateescape")

    def write_whole() -> None:
        with place_of(path) as place, new_file(place) as file:
            file.write(data)

    _as_its_owner(write_whole)


def open_text(path: Path) -> TextIO:
    """Open a file that is written bit by bit; as whom, see write_file. Raises OSError."""

    def opened() -> TextIO:
        # It has its name at once, and what comes later is seen there.
        with place_of(path) as place, new_file(place) as file:
            return os.fdopen(os.dup(file.fileno()), "w", encoding="utf-8")

    return _as_its_owner(opened)


def _as_its_owner(act: Callable[[], _Found]) -> _Found:
    try:
        with as_calling_user():
            return act()
    except PermissionError:
        if calling_user() is None:
            raise
        return act()


def give_report(
    arguments: Namespace,
    found: _Found,
    print_text: Callable[[_Found, TextIO], None],
    to_json: Callable[[_Found], str] | None = None,
    *,
    stdout: bool = False,
) -> None:
    """Report on a program that ran: to stderr, or to the file --output, and to --json if given.

    JSON on standard output stands in for the text that nothing else is said of. `stdout`: no
    program ran that has it, and the text goes there. Raises TlbcostError if a file cannot be
    written, with 1 where that is not a program's own exit code. `to_json`: as a document, else.
    """
    exit_code = FAILED if stdout else TOOL_FAILED
    output, json = getattr(arguments, "output", None), arguments.json
    # The text first: a report must not be lost because a second copy cannot be written.
    if output is not None:
        text = io.StringIO()
        print_text(found, text)
        write(output, text.getvalue(), exit_code)
    elif json != STDOUT:
        stream, name = (sys.stdout, "output") if stdout else (sys.stderr, "error")
        try:
            print_text(found, stream)
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _refused(Path(f"standard {name}"), error, exit_code) from error
    if json is not None:
        from tlbcost.common import document

        write(json, (to_json or document.to_json)(found), exit_code)


def _refused(path: Path, error: OSError, exit_code: int) -> TlbcostError:
    hint = hint_for(error.errno, None if path == STDOUT or path.name == str(path) else path)
    return TlbcostError(
        f"cannot write {_shown(path)}: {error.strerror or str(error)}", hint, exit_code
    )


def _shown(path: Path) -> str:
    return "standard output" if path == STDOUT else str(path)


def _error(path: Path, why: str, exit_code: int) -> TlbcostError:
    hint = "choose a directory that you can write to"
    return TlbcostError(f"cannot write {_shown(path)}: {why}", hint, exit_code)
