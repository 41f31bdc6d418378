# SPDX-License-Identifier: GPL-2.0-or-later
"""The counts of a fleet: read in parts by Dask, added up, or converted from logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.common.document import now, part_of
from tlbcost.common.errors import FAILED, USAGE, TlbcostError
from tlbcost.common.files import place_of, rename, temporary_folder
from tlbcost.common.output import STDOUT
from tlbcost.common.paths import version
from tlbcost.common.progress import Progress
from tlbcost.fleet.document import (
    FleetDocument,
    FleetRow,
    HostEstimate,
    LeftOut,
    Omitted,
    Quantiles,
    cpu_named,
    estimate_hosts,
    machines_of,
)
from tlbcost.fleet.perf_log import Origin, frames
from tlbcost.review.plan import Plan, Policy, share

if TYPE_CHECKING:
    import pandas as pd
    from dask.callbacks import Callback

    from tlbcost.fleet.sources import Piece

_EXAMPLES = 5
# Sums that Dask adds up at once.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class FleetReview:
    """The document, and the figures of each host behind it."""

    document: FleetDocument
    hosts: list[HostEstimate]


def check_packages() -> None:
    """Raises TlbcostError if what reads a fleet's counts is not installed."""
    try:
        import dask.dataframe  # noqa: F401
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        why = f"--counts and --convert need Dask's dataframes and pyarrow: {error}"
        hint = "pip install 'tlbcost[fleet]', where tlbcost is installed"
        raise TlbcostError(why, hint) from error


def review_counts(files: Sequence[Path], plan: Plan | None) -> FleetReview:
    """Read the files, and estimate each host and service. Raises TlbcostError."""
    check_packages()
    from tlbcost.fleet.sources import pieces

    policy = Policy() if plan is None else plan.policy
    machines = machines_of(plan)
    table = _table(pieces(files))
    read = int(table["rows"].sum())
    if not read:
        raise TlbcostError(f"the files of --counts have no rows: {files[0]}", None, FAILED)
    hosts, omitted = estimate_hosts(table, machines)
    document = FleetDocument(
        tlbcost_version=version(),
        date=now(),
        policy=policy,
        files=len(files),
        rows_read=read,
        rows_used=sum(host.rows for host in hosts),
        hosts=table.loc[table["host"] != "", "host"].nunique(),
        rows=_rows(hosts, policy),
        left_out=_left_out(omitted),
    )
    return FleetReview(document, hosts)


def _table(found: Sequence[Piece]) -> pd.DataFrame:
    import dask.dataframe as dd

    from tlbcost.fleet.perf_log import KEYS
    from tlbcost.fleet.sources import nothing, sums_of

    if not found:
        return nothing()
    frames = dd.from_map(sums_of, found, meta=nothing())  # type: ignore[no-untyped-call]
    groups = frames.groupby([*KEYS, "state"], sort=False)[["value", "seconds", "rows"]]
    whole = groups.sum(split_every=_AT_ONCE).reset_index()
    with Progress("reading counts") as progress, _watched(progress, len(found)):
        table: pd.DataFrame = whole.compute(scheduler="threads")
    return table


def _watched(progress: Progress, of: int) -> Callback:
    from dask.callbacks import Callback

    done = 0

    def ended(key: object, *_: object) -> None:
        nonlocal done
        if "sums_of" in str(key):
            done += 1
            progress.part(min(done, of), of)

    return Callback(posttask=ended)  # type: ignore[no-untyped-call]


def _rows(hosts: Sequence[HostEstimate], policy: Policy) -> list[FleetRow]:
    groups: dict[tuple[object, ...], list[HostEstimate]] = {}
    for each in hosts:
        key = (each.service, each.machine, each.cpu, each.way, each.without)
        groups.setdefault(key, []).append(each)

    def order(row: FleetRow) -> tuple[float, float, str, str]:
        return -row.hosts_gaining, -row.gain_fraction.p50, row.service, row.machine

    return sorted((_row(group, policy) for group in groups.values()), key=order)


def _row(hosts: Sequence[HostEstimate], policy: Policy) -> FleetRow:
    least = share(policy.least_gain, "policy.least_gain")
    gaining = {
        end: sum(getattr(host.gain, end) >= least for host in hosts)
        for end in ("low", "value", "high")
    }
    return part_of(
        FleetRow,
        hosts[0],
        basis=hosts[0].way,
        hosts=len(hosts),
        hosts_gaining=gaining[policy.decide_on],
        hosts_gaining_low=gaining["low"],
        hosts_gaining_value=gaining["value"],
        hosts_gaining_high=gaining["high"],
        share_fraction=_quantiles([host.share_fraction for host in hosts]),
        bound_fraction=_quantiles([host.bound_fraction for host in hosts]),
        gain_fraction=_quantiles([host.gain.value for host in hosts]),
        gain_low_fraction=_quantiles([host.gain.low for host in hosts]),
        gain_high_fraction=_quantiles([host.gain.high for host in hosts]),
    )


def _quantiles(values: Sequence[float]) -> Quantiles:
    import numpy as np

    p10, p25, p50, p75, p90 = np.quantile(values, (0.1, 0.25, 0.5, 0.75, 0.9)).tolist()
    return Quantiles(p10=p10, p25=p25, p50=p50, p75=p75, p90=p90)


def _left_out(omitted: Sequence[Omitted]) -> list[LeftOut]:
    """Alike rows of all hosts together."""
    groups: dict[tuple[object, ...], list[Omitted]] = {}
    for each in omitted:
        key = (each.reason, each.why, each.service, each.cpu, each.event)
        groups.setdefault(key, []).append(each)
    found = []
    for group in groups.values():
        first, hosts = group[0], sorted({each.host for each in group if each.host})
        found.append(
            part_of(
                LeftOut,
                first,
                service=first.service or None,
                cpu=first.cpu or None,
                event=first.event or None,
                rows=sum(each.rows for each in group),
                hosts=len(hosts),
                examples=tuple(hosts[:_EXAMPLES]),
            )
        )
    return sorted(found, key=lambda each: (-each.rows, each.reason, each.service or ""))


def convert_logs(logs: Sequence[Path], origin: Origin, output: Path | None) -> int:
    """Write rows as CSV or Parquet, by the name; returns how many. No file after a TlbcostError."""
    if origin.cpu_model is not None:
        cpu_named(origin.cpu_model)
    found = (frame for log in logs for frame in frames(log, origin))
    path = STDOUT if output is None else output
    if path == STDOUT:
        return _write_csv(found, path)
    with place_of(path) as place:
        if place.there is not None:
            return _write_csv(found, Path(f"/proc/self/fd/{place.there}"))
        if path.suffix not in (".csv", ".parquet"):
            why = f"--output {path}: a name that ends in .csv or .parquet is needed"
            raise TlbcostError(why, None, USAGE)
        with temporary_folder(next_to=path.resolve()) as folder:
            made = folder / path.name
            rows = (_write_csv if path.suffix == ".csv" else _write_parquet)(found, made)
            rename(made, place)
    return rows


def _write_csv(found: Iterator[pd.DataFrame], path: Path) -> int:
    rows = 0
    with path.open("w", encoding="utf-8") as file:
        for frame in found:
            frame.to_csv(file, index=False, header=not rows, lineterminator="\n")
            rows += len(frame)
    return _some(rows)


def _write_parquet(found: Iterator[pd.DataFrame], path: Path) -> int:
    check_packages()
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = 0
    writer = None
    try:
        for frame in found:
            # Categories of one part are not those of another.
            words = dict.fromkeys(frame.select_dtypes("category").columns, "str")
            part = pa.Table.from_pandas(frame.astype(words), preserve_index=False)
            writer = writer or pq.ParquetWriter(path, part.schema)
            writer.write_table(part)
            rows += part.num_rows
    finally:
        if writer is not None:
            writer.close()
    return _some(rows)


def _some(rows: int) -> int:
    if not rows:
        raise TlbcostError("the logs of --convert have no counts", None, FAILED)
    return rows
