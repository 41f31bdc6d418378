# SPDX-License-Identifier: GPL-2.0-or-later
"""A bug of tlbcost: one line for the user, and a report to fix it by."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tlbcost.common import names, paths

Report = Callable[[BaseException], str]


def describe(error: BaseException, folder: Path | None) -> str:
    """One line about an unexpected error; it names a report with the traceback.

    The report is written to `folder`, or where temporary files are if that cannot be; its name
    cannot be predicted, and only this user can read it. Where none can be written the line says
    where the error was.
    """
    text = " ".join("".join(traceback.format_exception_only(error)).split())
    try:
        system = os.uname()
        lines = [
            f"tlbcost {_version()}, {time.strftime('%Y-%m-%d %H:%M:%S %z')}",
            f"Python {sys.version.split()[0]}, {system.sysname} {system.release} {system.machine}",
            f"arguments: {sys.argv[1:]!r}",
            "",
            *traceback.format_exception(error),
        ]
        report = _write("\n".join(lines).encode(errors="backslashreplace"), folder)
    except OSError as refused:
        frames = traceback.extract_tb(error.__traceback__)
        place = ""
        if frames:
            last = frames[-1]
            place = f" ({Path(last.filename).name}, line {last.lineno}, in {last.name})"
        what = f"{text}{place}; no report could be written: {refused.strerror or refused}"
    else:
        what = f"{text}; please report it with {report}"
    return names.shown(f"tlbcost: internal error: {what}")


def state_folder(home: Path | None) -> Path | None:
    """Where reports go: below $XDG_STATE_HOME, else below the home given."""
    chosen = os.environ.get("XDG_STATE_HOME", "")
    if Path(chosen).is_absolute():
        return Path(chosen) / "tlbcost"
    return None if home is None else home / ".local" / "state" / "tlbcost"


def keep_tracebacks_from_users(report: Report) -> None:
    """Whatever Python would print by itself: of threads, of what is not caught, of destructors."""

    def uncaught(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            _say(report(error))

    def of_thread(caught: threading.ExceptHookArgs) -> None:
        if caught.exc_value is not None and not isinstance(caught.exc_value, SystemExit):
            _say(report(caught.exc_value))

    sys.excepthook = uncaught
    threading.excepthook = of_thread
    # Nothing was being done that it could have hindered.
    sys.unraisablehook = lambda _: None


def _say(line: str) -> None:
    with suppress(OSError, ValueError):
        print(line, file=sys.stderr)


def _version() -> str:
    try:
        return paths.version()
    except OSError:
        return "of an unknown version"


def _write(text: bytes, folder: Path | None) -> Path:
    """Raises OSError; then there is no file."""
    if folder is not None:
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _write_to(text, folder)
    return _write_to(text, Path(tempfile.gettempdir()))


def _write_to(text: bytes, folder: Path) -> Path:
    # Made with O_EXCL and mode 0600: no link is followed.
    handle, name = tempfile.mkstemp(prefix="tlbcost-crash-", suffix=".txt", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
    except OSError:
        with suppress(OSError):
            Path(name).unlink()
        raise
    return Path(name)
