# SPDX-License-Identifier: GPL-2.0-or-later
"""A fleet's review in a terminal, in a pull request and in a spreadsheet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from tlbcost.common import units
from tlbcost.common.console import print_whole, table
from tlbcost.fleet.document import FleetDocument, FleetRow, HostEstimate, LeftOut, Quantiles
from tlbcost.report.lines import markdown, visible, wrapped

if TYPE_CHECKING:
    from rich.console import Console

_LONGEST_NAME = 18
# The rest is in the JSON document.
_MOST_LINES = 20
_MOST_NAMES = 3


def print_report(fleet: FleetDocument, stream: TextIO) -> None:
    def fill(console: Console) -> None:
        if fleet.rows:
            rows = table("service", "machine", "hosts", "gaining", "walk share", "expected gain")
            for row in fleet.rows:
                service, machine, *figures = _cells(row)
                short = [units.middle(visible(name), _LONGEST_NAME) for name in (service, machine)]
                rows.add_row(*short, *figures)
            console.print(rows)
            console.print()
        for line in _lines(fleet):
            for each in wrapped(line, console.width, "", "  "):
                console.print(each, soft_wrap=True)

    print_whole(fill, stream)


def _cells(row: FleetRow) -> list[str]:
    mark = " or more" if row.without or row.basis == "stall_cycles" else ""
    return [
        row.service, row.machine, f"{row.hosts:,}", f"{row.hosts_gaining:,}",
        _spread(row.share_fraction) + mark, _spread(row.gain_fraction),
    ]  # fmt: skip


def _spread(found: Quantiles) -> str:
    """The median host, with the 10th and 90th percentiles: '6.2 % (3.1 to 9.0)'."""
    low, high = (units.percent(end).removesuffix(" %") for end in (found.p10, found.p90))
    return f"{units.percent(found.p50)} ({low} to {high})"


def _lines(fleet: FleetDocument) -> list[str]:
    policy = fleet.policy
    end = {"low": "lower end", "value": "value", "high": "upper end"}[policy.decide_on]
    lines = [
        "The median host, with 10th and 90th percentiles. gaining: hosts that gain "
        f"{policy.least_gain} or more at the {end} of the interval.",
        f"{_plural(fleet.rows_read, 'row')} of {_plural(fleet.hosts, 'host')} in "
        f"{_plural(fleet.files, 'file')}; {_plural(fleet.rows_used, 'row')} used.",
    ]
    found: dict[str, list[LeftOut]] = {}
    for each in fleet.left_out:
        found.setdefault(each.why, []).append(each)
    groups = sorted(found.values(), key=lambda group: -sum(each.rows for each in group))
    lines += [_words(group) for group in groups[:_MOST_LINES]]
    more = [each for group in groups[_MOST_LINES:] for each in group]
    if more:
        rows = sum(each.rows for each in more)
        reasons = len(groups) - _MOST_LINES
        lines.append(f"left out: {rows:,} more rows, for {reasons:,} reasons; --json has them")
    return lines


def _words(group: Sequence[LeftOut]) -> str:
    rows = sum(each.rows for each in group)
    # Hosts of several services may be the same ones.
    hosts = f" of {_plural(group[0].hosts, 'host')}" if len(group) == 1 else ""
    names = [
        _some([name for name in (getattr(each, key) for each in group) if name is not None])
        for key in ("service", "cpu", "event")
    ]
    where = f" ({'; '.join(filter(None, names))})" if any(names) else ""
    hosts_named = _some([name for each in group for name in each.examples])
    on = f"; on {hosts_named}" if hosts_named else ""
    return f"left out: {_plural(rows, 'row')}{hosts}{where}: {visible(group[0].why)}{on}"


def _plural(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def _some(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(visible(name) for name in names))
    shown = ", ".join(distinct[:_MOST_NAMES])
    return f"{shown}, ..." if len(distinct) > _MOST_NAMES else shown


def to_markdown(fleet: FleetDocument) -> str:
    lines = [
        "## Huge pages: a fleet's counts",
        "",
        "| service | machine | hosts | hosts that gain | walk share | expected gain |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [f"| {' | '.join(map(markdown, _cells(row)))} |" for row in fleet.rows]
    lines += ["", *(f"- {markdown(line)}" for line in _lines(fleet))]
    lines += ["", f"tlbcost {fleet.tlbcost_version}, {fleet.date}."]
    return "\n".join(lines) + "\n"


def to_csv(fleet: FleetDocument) -> str:
    names = [name for name in FleetRow.__struct_fields__ if name.endswith("_fraction")]
    counts = [name for name in FleetRow.__struct_fields__ if name.startswith("hosts")]
    return _csv(
        [
            {
                "service": visible(row.service),
                "machine": visible(row.machine),
                "cpu": row.cpu,
                "basis": row.basis,
                "without": " ".join(row.without),
                **{name: getattr(row, name) for name in counts},
                **{
                    f"{name}_{at}": getattr(getattr(row, name), at)
                    for name in names
                    for at in Quantiles.__struct_fields__
                },
            }
            for row in fleet.rows
        ]
    )


def hosts_csv(hosts: Sequence[HostEstimate]) -> str:
    return _csv(
        [
            {
                "host": visible(each.host),
                "service": visible(each.service),
                "machine": visible(each.machine),
                "cpu": each.cpu,
                "basis": each.way,
                "without": " ".join(each.without),
                "seconds": each.seconds,
                "share_fraction": each.share_fraction,
                "bound_fraction": each.bound_fraction,
                "gain_fraction": each.gain.value,
                "gain_fraction_low": each.gain.low,
                "gain_fraction_high": each.gain.high,
            }
            for each in hosts
        ]
    )


def _csv(records: Sequence[dict[str, object]]) -> str:
    import pandas as pd

    return pd.DataFrame(records).to_csv(index=False, lineterminator="\n")
