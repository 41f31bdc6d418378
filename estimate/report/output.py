# SPDX-License-Identifier: GPL-2.0-or-later
"""Where does a report go? Found out before anything runs, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from tlbcost.errors import TOOL_FAILED, TlbcostError
from tlbcost.table import write_file


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written. Raises TlbcostError with exit code 125."""
    if path.is_dir():
        raise _error(path, "it is a directory")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise _error(path, f"no such folder: {folder}")
    replaced = path if path.exists() and not path.is_file() else folder
    if not os.access(replaced, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise _error(path, "permission denied")


def write(path: Path, text: str) -> None:
    """Write a report. Raises TlbcostError with exit code 125; then the file is as it was."""
    try:
        if path.exists() and not path.is_file():
            # A device or a FIFO is written to; renaming a file over it would replace it.
            with path.open("w", encoding="utf-8") as file:
                file.write(text)
        else:
            write_file(path.resolve(), text)
    except OSError as error:
        raise _error(path, error.strerror or str(error)) from error


def _error(path: Path, why: str) -> TlbcostError:
    return TlbcostError(
        f"cannot write the report to {path}: {why}",
        "give another file; without --output the report goes to stderr",
        TOOL_FAILED,
    )
