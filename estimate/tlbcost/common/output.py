# SPDX-License-Identifier: GPL-2.0-or-later
"""Can a file be written? Found out before anything takes time; written whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TextIO, TypeVar

from tlbcost.common.errors import FAILED, TOOL_FAILED, TlbcostError

_Found = TypeVar("_Found")


def check_writable(path: Path, exit_code: int = FAILED) -> None:
    """Refuse a file that cannot be written. Raises TlbcostError with this exit code."""
    if path.is_dir():
        raise _error(path, "it is a directory", exit_code)
    folder = path.resolve().parent
    if not folder.is_dir():
        raise _error(path, f"no such folder: {folder}", exit_code)
    replaced = path if path.exists() and not path.is_file() else folder
    if not os.access(replaced, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise _error(path, "permission denied", exit_code)


def write(path: Path, text: str | bytes, exit_code: int = FAILED) -> None:
    """Write a file. Raises TlbcostError with this exit code; then the file is as it was."""
    try:
        write_file(path, text)
    except OSError as error:
        raise _error(path, error.strerror or str(error), exit_code) from error


def write_file(path: Path, text: str | bytes) -> None:
    """Write a file so that its name appears only when it is complete.

    A device or a FIFO is written in place. Raises OSError; then neither the file nor a temporary
    one is left behind.
    """
    data = text if isinstance(text, bytes) else text.encode()
    if path.exists() and not path.is_file():
        # Renaming a file over /dev/null would replace it for everyone.
        with path.open("wb") as device:
            device.write(data)
        return
    path = path.resolve()
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def give_report(
    found: _Found,
    print_text: Callable[[_Found, TextIO], None],
    to_json: Callable[[_Found], str],
    output: Path | None,
    json: Path | None,
) -> None:
    """Report on a program that ran: to stderr, or to the file `output`, and to `json` if given.

    Raises TlbcostError with exit code 125 if a file cannot be written.
    """
    # The text first: a report must not be lost because a second copy cannot be written.
    if output is None:
        print_stderr(found, print_text)
    else:
        text = io.StringIO()
        print_text(found, text)
        write(output, text.getvalue(), TOOL_FAILED)
    if json is not None:
        write(json, to_json(found), TOOL_FAILED)


def print_stderr(found: _Found, print_text: Callable[[_Found, TextIO], None]) -> None:
    """Print there, where COMMAND's own output is not ours. Raises TlbcostError, exit code 125."""
    try:
        print_text(found, sys.stderr)
    except OSError as error:
        raise _error(Path("standard error"), error.strerror or str(error), TOOL_FAILED) from error


def _error(path: Path, why: str, exit_code: int) -> TlbcostError:
    hint = "choose a writable directory with free space"
    return TlbcostError(f"cannot write {path}: {why}", hint, exit_code)
