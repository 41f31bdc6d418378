# SPDX-License-Identifier: GPL-2.0-or-later
"""Text in lines: wrapped with its numbers whole, labelled, shortened."""

from __future__ import annotations

import re
import textwrap

LABEL = 8
_DOTS = "..."
# A number and its unit stay on one line.
_UNIT = re.compile(r"(?<=\d) (?=(?:%|[KMG]iB|B|ns|µs|ms|s|M|G)\b|%)")
_HELD = "\u00a0"
_MARKDOWN = str.maketrans({c: f"\\{c}" for c in r"\`*_[]#|~>"} | {"<": "&lt;", "&": "&amp;"})


def visible(text: str) -> str:
    """On one line: what is not printable, such as a newline or a byte that is no text, escaped."""
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    """As Python writes it; a byte that is no UTF-8, which is kept as a surrogate, as that byte."""
    byte = ord(character) - 0xDC00
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else repr(character)[1:-1]


def markdown(text: str) -> str:
    return visible(text).translate(_MARKDOWN)


def wrapped(text: str, width: int, first: str = "", later: str = "") -> list[str]:
    """The text in lines; a word that is longer than a line is cut."""
    lines = textwrap.wrap(
        _UNIT.sub(_HELD, text), width, initial_indent=first, subsequent_indent=later,
        break_on_hyphens=False,
    )  # fmt: skip
    return [line.replace(_HELD, " ") for line in lines]


def labelled(label: str, text: str, width: int, most: int = 2) -> list[str]:
    return cut(wrapped(text, width, f"{label:<{LABEL}}", " " * LABEL), most, width)


def cut(lines: list[str], most: int, width: int) -> list[str]:
    """At most this many lines; the last one says if there were more."""
    if len(lines) <= most:
        return lines
    last = lines[most - 1]
    while len(last) + len(_DOTS) >= width:
        last = last.rpartition(" ")[0]
    return [*lines[: most - 1], f"{last} {_DOTS}"]
