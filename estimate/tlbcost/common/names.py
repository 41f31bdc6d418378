# SPDX-License-Identifier: GPL-2.0-or-later
r"""Names that hold anything, such as a newline or a byte that is no UTF-8, as they are shown.

Names come in with such bytes as surrogates (os.fsdecode), so that the file can be opened by them.
What cannot be shown is written as \xNN: in reports, in JSON and in tables (there a backslash too,
so that it can be read again).
"""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import PurePath

_UNSHOWN = re.compile("[\x00-\x1f\x7f\udc80-\udcff]")
_UNWRITTEN = re.compile("[\x00-\x1f\x7f\\\\\udc80-\udcff]")
_SURROGATES = re.compile("[\udc80-\udcff]")
_WRITTEN = re.compile(r"\\x([0-9a-f]{2})")
# What an encoder does with surrogates: open(..., errors=ESCAPED).
ESCAPED = "tlbcost-escaped"


def shown(name: str) -> str:
    r"""On one line: '\xff' for a byte that is no UTF-8, '\x0a' for a newline."""
    return _UNSHOWN.sub(_hexadecimal, name)


def shown_text(text: str) -> str:
    """The same of a text of several lines, which stay."""
    return _SURROGATES.sub(_hexadecimal, text)


def command_line(argv: Iterable[str]) -> str:
    r"""To be pasted into a shell: $'a\xff' for a word that cannot be shown."""
    return " ".join(_quoted(word) for word in argv)


def program_only(argv: Sequence[str]) -> tuple[str, ...]:
    """The program's name without its folder and arguments, which may be secret."""
    return tuple(PurePath(word).name for word in argv[:1])


def written(name: str) -> str:
    """For a cell or a header of a table."""
    return _UNWRITTEN.sub(_hexadecimal, name)


def read(text: str) -> str:
    """What written() was given."""
    return _WRITTEN.sub(lambda found: _character(int(found[1], 16)), text) if "\\" in text else text


def of_kernel(name: str) -> str:
    r"""A path as /proc/PID/maps has it, where a newline is '\012'."""
    return name.replace("\\012", "\n")


def _quoted(word: str) -> str:
    if not _UNSHOWN.search(word):
        return shlex.quote(word)
    plain = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{_UNSHOWN.sub(_hexadecimal, plain)}'"


def _hexadecimal(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]) & 0xFF:02x}"


def _character(byte: int) -> str:
    return chr(byte if byte < 0x80 else 0xDC00 + byte)


def _escape(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(shown_text(c) if shown_text(c) != c else "?" for c in text), error.end


codecs.register_error(ESCAPED, _escape)
