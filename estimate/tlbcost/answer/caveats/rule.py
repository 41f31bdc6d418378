# SPDX-License-Identifier: GPL-2.0-or-later
"""What is a caveat? A sentence and a remedy, where its rule finds that it applies."""

from __future__ import annotations

from collections.abc import Callable

from tlbcost.answer.content import Content

# A rule returns the sentence and the remedy, or None where it does not apply.
Rule = Callable[[Content], tuple[str, str] | None]
