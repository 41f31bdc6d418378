# SPDX-License-Identifier: GPL-2.0-or-later
"""What does `tlbcost top --openmetrics` write?

Text that is OpenMetrics 1.0 and Prometheus's older text format at once, since node_exporter's
textfile collector reads the latter: so there are gauges and counters alone, and no timestamps. What
was not obtained is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tlbcost.live.document import Row, TopDocument


@dataclass(frozen=True, slots=True)
class _Family:
    """One metric of processes or cgroups; `name` ends with `unit`."""

    name: str
    unit: str
    words: str
    value: Callable[[Row], float | None]
    counter: bool = False


_ROWS = (
    _Family("memory_bytes", "bytes", "Memory on pages of any size.", lambda row: row.memory_bytes),
    _Family("huge_bytes", "bytes", "Memory on huge pages.", lambda row: row.huge_bytes),
    _Family(
        "eligible_bytes",
        "bytes",
        "Memory on base pages that the kernel may put on transparent huge pages.",
        lambda row: row.eligible_bytes,
    ),
    _Family(
        "ineligible_bytes",
        "bytes",
        "Memory on base pages that the kernel may not put on transparent huge pages.",
        lambda row: row.ineligible_bytes,
    ),
    _Family(
        "tlb_reach_ratio", "ratio", "Times the TLB the memory would take.", lambda r: r.reach_ratio
    ),
    _Family("age_seconds", "seconds", "Age of memory and huge bytes.", lambda row: row.age_s),
    _Family(
        "eligible_age_seconds",
        "seconds",
        "Age of eligible and ineligible bytes.",
        lambda row: row.eligible_age_s,
    ),
)
_FAULTS = _Family("page_faults", "", "Page faults since its start.", lambda r: r.faults, True)
# A sum over the members of a group falls when one ends: no counter.
_FAULT_RATE = _Family("page_fault_rate", "", "Page faults a second.", lambda row: row.fault_rate)


def openmetrics(document: TopDocument) -> str:
    lines = list(_host(document))
    for family in (*_ROWS, _FAULTS if document.by == "process" else _FAULT_RATE):
        name = f"tlbcost_{document.by}_{family.name}"
        samples = [(_labels(row), family.value(row)) for row in document.rows]
        lines += _family(name, family.unit, family.words, samples, counter=family.counter)
    return "".join(f"{line}\n" for line in [*lines, "# EOF"])


def _host(document: TopDocument) -> Iterable[str]:
    host = document.host
    single: list[tuple[str, str, str, float | None]] = [
        ("thp_bytes", "bytes", "Memory on transparent huge pages.", host.thp_bytes),
        ("available_bytes", "bytes", "Memory available to programs.", host.available_bytes),
        ("memory_bytes", "bytes", "Memory of the host.", host.memory_bytes),
        ("thp_fallback_rate", "", "Faults a second without a huge page.", host.fallback_rate),
        ("unreadable_processes", "processes", "Not read for lack of rights.", document.unreadable),
    ]
    for name, unit, words, value in single:
        yield from _family(f"tlbcost_host_{name}", unit, words, [("", value)])
    for name, words in (("total_bytes", "Memory in pools."), ("free_bytes", "Memory free there.")):
        samples = [(f'{{page_bytes="{p.page_size_bytes}"}}', getattr(p, name)) for p in host.pools]
        yield from _family(f"tlbcost_host_pool_{name}", "bytes", words, samples)


def _family(
    name: str,
    unit: str,
    words: str,
    samples: Iterable[tuple[str, float | None]],
    *,
    counter: bool = False,
) -> list[str]:
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


def _labels(row: Row) -> str:
    if row.pid is None:
        return f'{{cgroup="{_escaped(row.name)}"}}'
    return f'{{pid="{row.pid}",comm="{_escaped(row.name)}"}}'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
