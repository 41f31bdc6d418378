# SPDX-License-Identifier: GPL-2.0-or-later
"""How do commands read numbers, and the words of a program, from the command line?"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """A type for argparse: decimal digits that say a number from `low` to `high`."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"not a number from {low} to {high}: {text}")
        return int(text)

    return read


def program_words(words: Sequence[str]) -> tuple[str, ...]:
    """The program and its arguments, without the -- before them."""
    return tuple(words[1:] if words[:1] == ["--"] else words)
