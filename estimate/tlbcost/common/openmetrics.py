# SPDX-License-Identifier: GPL-2.0-or-later
"""Text that is OpenMetrics 1.0 and Prometheus's older text format at once.

node_exporter's textfile collector reads the latter: so there are gauges and counters alone, and no
timestamps. What was not obtained is left out.
"""

from __future__ import annotations

from collections.abc import Iterable


def family(
    name: str,
    unit: str,
    words: str,
    samples: Iterable[tuple[str, float | None]],
    *,
    counter: bool = False,
) -> list[str]:
    """The lines of a metric; `name` ends with `unit`, and `samples` are labels and values."""
    known = [(labels, value) for labels, value in samples if value is not None]
    if not known:
        return []
    suffix = "_total" if counter else ""
    return [
        f"# TYPE {name} {'counter' if counter else 'gauge'}",
        *([f"# UNIT {name} {unit}"] if unit else []),
        f"# HELP {name} {words}",
        *(f"{name}{suffix}{labels} {value}" for labels, value in known),
    ]


def labels(**values: object) -> str:
    return "{" + ",".join(f'{name}="{_escaped(str(text))}"' for name, text in values.items()) + "}"


def exposition(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in [*lines, "# EOF"])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
