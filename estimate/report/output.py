# SPDX-License-Identifier: GPL-2.0-or-later
"""Can a file be written? Found out before anything takes time; written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from tlbcost.errors import FAILED, TlbcostError
from tlbcost.table import write_file


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


def write(path: Path, text: str, exit_code: int = FAILED) -> None:
    """Write a file. Raises TlbcostError with this exit code; then the file is as it was."""
    try:
        write_file(path, text)
    except OSError as error:
        raise _error(path, error.strerror or str(error), exit_code) from error


def _error(path: Path, why: str, exit_code: int) -> TlbcostError:
    hint = "name a file in a folder that you can write to and that has room"
    return TlbcostError(f"cannot write {path}: {why}", hint, exit_code)
