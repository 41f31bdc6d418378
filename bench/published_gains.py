# SPDX-License-Identifier: GPL-2.0-or-later
"""How well does the walk share on base pages predict what huge pages give?

Compares forms of estimate on the published pairs of data/published, each fitted without the
machine that it is judged on, and writes the tables to doc/published-gains.md. Exits 1 if the
constants of estimate/tlbcost/model/gain.py are not those of the chosen fits.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tlbcost.common import formats
from tlbcost.common.formats import read_table
from tlbcost.model import gain as model

TREE = Path(__file__).resolve().parent.parent

PAIRS = TREE / "data" / "published" / "pairs.tsv"
PAGE = TREE / "doc" / "published-gains.md"
MARKS = ("<!-- {}: begin -->", "<!-- {}: end -->")
COVERAGE = 0.9
DRAWS = 200
GRID = 41

Floats = npt.NDArray[np.float64]
Fit = Callable[[Floats, Floats], Sequence[float]]
Predict = Callable[[Floats, Sequence[float]], Floats]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Published pairs; `x` is what is known of the base run, `gain` what was measured."""

    x: Floats
    gain: Floats
    machine: npt.NDArray[np.str_]

    def take(self, which: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> Pairs:
        return Pairs(self.x[which], self.gain[which], self.machine[which])


@dataclass(frozen=True, slots=True)
class Form:
    """One way to estimate; `fit` None: there is nothing to fit."""

    name: str
    predict: Predict
    fit: Fit | None


def read_pairs(column: str, *, single_socket: bool) -> Pairs:
    """The pairs that have `column`; of programs on one socket, or of those on several."""
    rows = read_table(PAIRS, formats.PUBLISHED).records()
    rows = [row for row in rows if row[column] is not None]
    rows = [row for row in rows if (row["sockets"] == "1") == single_socket]
    return Pairs(
        np.array([float(row[column] or "") for row in rows]),
        np.array([float(row["measured_fraction"] or "") for row in rows]),
        np.array([row["machine"] or "" for row in rows]),
    )


def mean_ratio(x: Floats, gain: Floats) -> list[float]:
    """Least squares where the error grows with x: the mean of gain over x."""
    return [float(np.mean(gain / x))]


def least_absolute(x: Floats, gain: Floats) -> list[float]:
    """Least absolute errors: the median of gain over x, each weighted with x."""
    order = np.argsort(gain / x)
    weight = np.cumsum(x[order])
    return [float((gain / x)[order][np.searchsorted(weight, weight[-1] / 2)])]


def _least_squares(x: Floats, gain: Floats) -> list[float]:
    return [float(np.sum(x * gain) / np.sum(x * x))]


def _sum_ratio(x: Floats, gain: Floats) -> list[float]:
    return [float(np.sum(gain) / np.sum(x))]


def _median_ratio(x: Floats, gain: Floats) -> list[float]:
    return [float(np.median(gain / x))]


def _line(x: Floats, a: Sequence[float]) -> Floats:
    return a[0] * x


def _searched(predict: Predict, loss: str, *ranges: tuple[float, float]) -> Fit:
    """Parameters by search: a grid, and a finer one around its best."""

    def fit(x: Floats, gain: Floats) -> list[float]:
        low = np.array([r[0] for r in ranges])
        high = np.array([r[1] for r in ranges])
        best = low
        for _ in range(3):
            axes = [np.linspace(lo, hi, GRID) for lo, hi in zip(low, high, strict=True)]
            mesh = [m[..., None] for m in np.meshgrid(*axes, indexing="ij")]
            error = predict(x, mesh) - gain  # type: ignore[arg-type]
            size = np.abs(error) if loss == "absolute" else (error / x) ** 2 \
                if loss == "relative" else error**2  # fmt: skip
            at = np.unravel_index(np.argmin(size.mean(axis=-1)), size.shape[:-1])
            best = np.array([axis[i] for axis, i in zip(axes, at, strict=True)])
            step = (high - low) / (GRID - 1)
            bounds = np.array(ranges)
            low = np.maximum(best - step, bounds[:, 0])
            high = np.minimum(best + step, bounds[:, 1])
        return [float(b) for b in best]

    return fit


def share_forms() -> list[Form]:
    """What may be made of the walk share s; at most two parameters."""
    curves: list[tuple[str, Predict, tuple[tuple[float, float], ...]]] = [
        ("a s, at most c", lambda s, t: np.minimum(t[0] * s, t[1]), ((0, 1.5), (0.05, 1))),
        ("a s^p", lambda s, t: t[0] * s ** t[1], ((0, 2), (0.3, 3))),
        ("s^p", lambda s, t: s ** t[0], ((0.5, 4),)),
        ("s / (1 + b s)", lambda s, t: s / (1 + t[0] * s), ((0, 10),)),
        ("s (1 - b s)", lambda s, t: s * (1 - t[0] * s), ((-1, 2),)),
        ("s (a - b s)", lambda s, t: s * (t[0] - t[1] * s), ((0, 1.5), (-1, 2))),
        ("a max(s - c, 0)", lambda s, t: t[0] * np.maximum(s - t[1], 0), ((0, 2), (0, 0.3))),
        ("a s^2 / (s + c)", lambda s, t: t[0] * s * s / (s + t[1]), ((0, 2), (0, 1))),
        ("s^2 / (s + c)", lambda s, t: s * s / (s + t[0]), ((0, 1),)),
    ]
    forms = [Form("no gain", lambda s, _: 0 * s, None), Form("bound: s", lambda s, _: s, None)]
    forms += _lines("s")
    forms += [
        Form(f"{name}, {loss} errors", predict, _searched(predict, loss, *ranges))
        for name, predict, ranges in curves
        for loss in ("squared", "absolute", "relative")
    ]
    return forms


def removed_forms() -> list[Form]:
    """What may be made of the share r of walk cycles that huge pages eliminated."""
    return [Form("r", lambda r, _: r, None), *_lines("r")]


def _lines(name: str) -> list[Form]:
    return [
        Form(f"a {name}, mean ratio", _line, mean_ratio),
        Form(f"a {name}, median ratio", _line, _median_ratio),
        Form(f"a {name}, ratio of sums", _line, _sum_ratio),
        Form(f"a {name}, squared errors", _line, _least_squares),
        Form(f"a {name}, absolute errors", _line, least_absolute),
    ]


def apart(form: Form, pairs: Pairs) -> Floats:
    """Errors, estimate less gain, of each pair from a fit to the other machines."""
    error = np.zeros_like(pairs.x)
    for machine in sorted(set(pairs.machine)):
        here = pairs.machine == machine
        others = pairs.take(~here)
        fitted = form.fit(others.x, others.gain) if form.fit else []
        error[here] = form.predict(pairs.x[here], fitted) - pairs.gain[here]
    return error


def within(form: Form, pairs: Pairs, fitted_to: Pairs) -> Floats:
    """Errors of each pair from a fit to `fitted_to`."""
    fitted = form.fit(fitted_to.x, fitted_to.gain) if form.fit else []
    return form.predict(pairs.x, fitted) - pairs.gain


def spread(form: Form, pairs: Pairs) -> float:
    """How far the gain is from the line, over sqrt(x), with a chance of COVERAGE (conformal)."""
    scores = np.sort(np.abs(apart(form, pairs)) / np.sqrt(np.abs(pairs.x)))
    return float(scores[min(len(scores), math.ceil(COVERAGE * (len(scores) + 1))) - 1])


def coverage_apart(form: Form, pairs: Pairs) -> float:
    """Share of pairs within the interval, slope and spread fitted to the other machines."""
    inside = 0
    for machine in sorted(set(pairs.machine)):
        here = pairs.machine == machine
        others = pairs.take(~here)
        half = spread(form, others) * np.sqrt(np.abs(pairs.x[here]))
        inside += int(np.sum(np.abs(within(form, pairs.take(here), others)) <= half))
    return inside / len(pairs.x)


def drawn(forms: Sequence[Form], pairs: Pairs) -> Floats:
    """Mean absolute errors apart, forms by draws of pairs with replacement on each machine."""
    random = np.random.default_rng(2010)
    errors = []
    for _ in range(DRAWS):
        chosen = np.concatenate(
            [random.choice(np.flatnonzero(pairs.machine == m), np.sum(pairs.machine == m))
             for m in sorted(set(pairs.machine))]
        )  # fmt: skip
        draw = pairs.take(chosen)
        errors.append([float(np.mean(np.abs(apart(form, draw)))) for form in forms])
    return np.array(errors).T


def _figures(errors: Floats) -> str:
    size = 100 * np.abs(errors)
    return f"{np.mean(size):.1f} | {np.median(size):.1f} | {np.max(size):.1f}"


def forms_table(forms: Sequence[Form], pairs: Pairs) -> list[str]:
    draws = drawn(forms, pairs)
    best = np.argmin(draws, axis=0)
    lines = [
        "| estimate | mean | median | largest | mean, resampled | best in | fitted |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    order = sorted(range(len(forms)), key=lambda i: float(np.mean(np.abs(apart(forms[i], pairs)))))
    for i in order:
        low, high = 100 * np.quantile(draws[i], [0.05, 0.95])
        fit = forms[i].fit
        fitted = ", ".join(f"{v:.3f}" for v in fit(pairs.x, pairs.gain)) if fit else "-"
        lines.append(
            f"| {forms[i].name} | {_figures(apart(forms[i], pairs))} | {low:.1f} to {high:.1f} | "
            f"{100 * np.mean(best == i):.0f} % | {fitted} |"
        )
    return lines


CHOSEN = {
    "walk_share_4k": (
        Form("expected gain", _line, mean_ratio),
        ("SHARE_SLOPE", "SHARE_SPREAD"),
    ),
    "informed_fraction": (
        Form("expected gain, 2 MiB walks known", _line, least_absolute),
        ("REMOVED_SLOPE", "REMOVED_SPREAD"),
    ),
}


def pools_table() -> list[str]:
    lines = [
        "| pairs | n | estimate | mean | median | largest |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for label, several in (("one socket", False), ("four sockets", True), ("all", None)):
        for column, (chosen, _) in CHOSEN.items():
            single = read_pairs(column, single_socket=True)
            four = read_pairs(column, single_socket=False)
            raw = Form("bound" if column == "walk_share_4k" else "walks eliminated", _itself, None)
            for form in (raw, chosen):
                parts = [apart(form, single)] if several is not True else []
                parts += [within(form, four, single)] if several is not False else []
                errors = np.concatenate(parts)
                lines.append(f"| {label} | {len(errors)} | {form.name} | {_figures(errors)} |")
    return lines


def _itself(x: Floats, _: Sequence[float]) -> Floats:
    return x


def intervals_table() -> list[str]:
    lines = [
        "| interval of | slope | spread | within | machine left out | four sockets |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for column, (form, _) in CHOSEN.items():
        pairs = read_pairs(column, single_socket=True)
        four = read_pairs(column, single_socket=False)
        slope, half = constants(column)
        lines.append(
            f"| {form.name} | {slope:.3f} | {half:.3f} | "
            f"{_inside(column, True)} of {len(pairs.x)} | "
            f"{100 * coverage_apart(form, pairs):.0f} % | "
            f"{_inside(column, False)} of {len(four.x)} |"
        )
    return lines


def _inside(column: str, single_socket: bool) -> int:
    """Pairs whose gain is in the interval as tlbcost states it, upper end at most the share."""
    rows = read_table(PAIRS, formats.PUBLISHED).records()
    n = 0
    for row in rows:
        if row[column] is None or (row["sockets"] == "1") != single_socket:
            continue
        share, gain = float(row["walk_share_4k"] or ""), float(row["measured_fraction"] or "")
        if column == "walk_share_4k":
            stated = model.expected_from_share(share)
        else:
            remaining = 1 - float(row[column] or "") / share
            stated = model.expected_with_remaining(share, remaining)
        n += stated.low <= gain <= stated.high
    return n


def constants(column: str) -> tuple[float, float]:
    """Slope and spread of the chosen fit to the pairs on one socket."""
    form, _ = CHOSEN[column]
    pairs = read_pairs(column, single_socket=True)
    assert form.fit is not None
    return form.fit(pairs.x, pairs.gain)[0], spread(form, pairs)


def wrong_constants() -> list[str]:
    """A sentence for each constant of the model that differs from that of the fit."""
    wrong = []
    for column, (_, names) in CHOSEN.items():
        for name, value in zip(names, constants(column), strict=True):
            if getattr(model, name) != round(value, 3):
                wrong.append(f"{name} is {getattr(model, name)}, the fit is {value:.3f}")
    return wrong


def write(name: str, table: str) -> None:
    """Put a table between its marks in the page."""
    text = PAGE.read_text(encoding="utf-8")
    begin, end = (mark.format(name) for mark in MARKS)
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    PAGE.write_text(f"{head}{begin}\n{table}\n{end}{tail}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Judge estimates by published measurements.")
    parser.add_argument("--show", action="store_true", help="print only; leave the page as it is")
    show: bool = parser.parse_args().show
    single = {c: read_pairs(c, single_socket=True) for c in CHOSEN}
    tables = {
        "pools": pools_table(),
        "from the share": forms_table(share_forms(), single["walk_share_4k"]),
        "from walks removed": forms_table(removed_forms(), single["informed_fraction"]),
        "intervals": intervals_table(),
    }
    for name, table in tables.items():
        print("\n".join([f"{name}:", *table, ""]))
        if not show:
            write(name, "\n".join(table))
    wrong = wrong_constants()
    for sentence in wrong:
        print(f"bench-published: {sentence}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
