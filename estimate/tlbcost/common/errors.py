# SPDX-License-Identifier: GPL-2.0-or-later
"""Failures that a user can do something about, with the exit code each one earns."""

from __future__ import annotations

FAILED = 1
USAGE = 2
CONDITION_HOLDS = 3
CANNOT_MEASURE = 4
INTERNAL_ERROR = 70
TOOL_FAILED = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127
SIGNAL_BASE = 128


class TlbcostError(Exception):
    """What failed and why, and what to type next; printed in one place, `__main__`."""

    def __init__(self, message: str, hint: str | None = None, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code
