# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost review: which services of a fleet should get huge pages on which machines."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.common import arguments as options
from tlbcost.common.cleanup import until_stopped
from tlbcost.common.errors import CONDITION_HOLDS, FAILED, USAGE, TlbcostError
from tlbcost.review.scheduler import add_scheduler, scheduler_of

if TYPE_CHECKING:
    from tlbcost.review.scheduler import Scheduler
    from tlbcost.review.session import Runner


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "tlbcost review [options] PLAN\n"
        "       tlbcost review --compare OLD NEW [--json FILE] [--output FILE]\n"
        "       tlbcost review --counts FILES [--counts FILES]... [options] [PLAN]\n"
        "       tlbcost review --convert LOG [--convert LOG]... [options]\n"
        "       tlbcost review --init"
    )
    options.add_exit_codes(
        parser,
        {
            1: "a file cannot be read or written, the scheduler cannot be reached or went away, or "
            "(--counts) no host has an estimate",
            3: "--gate: a rule is broken",
            125: "results cannot be kept, or Dask is not installed",
        },
        before="A service that fails is reported with its reason, and does not stop the others.",
    )
    parser.add_argument(
        "--baseline", metavar="FILE", type=Path,
        help="with --gate: fail if more gain is left than in this review, what --json wrote",
    )  # fmt: skip
    parser.add_argument(
        "--compare", metavar="FILE", type=Path, nargs=2, help="compare two saved reviews"
    )
    options.add_file(parser, "--csv", "write the decision table as CSV to FILE")
    options.add_flag(parser, "--gate", "exit with 3 if a rule of the plan's gate is broken")
    options.add_file(
        parser, "--html", "write it as one HTML file, which loads nothing from anywhere"
    )
    options.add_flag(parser, "--init", "print an example of a plan that can be run as it is")
    options.add_file(parser, "--junit", "write it as JUnit XML to FILE, for CI")
    options.add_file(parser, "--markdown", "write it as Markdown to FILE, for a pull request")
    options.add_redact(parser)
    parser.add_argument(
        "--resume", action="store_true",
        help="use what an earlier review of this plan finished; try again what failed",
    )  # fmt: skip
    add_scheduler(parser, required=False)
    parser.add_argument(
        "--state", metavar="DIR", type=Path,
        help="keep each result there as it comes (default: PLAN without its suffix, with .review)",
    )  # fmt: skip
    parser.add_argument(
        "--worker-timeout", metavar="TIME", type=options.duration, default=60.0,
        help="with --scheduler: how long to wait for a worker that is silent, or for one of a "
        "machine that has none (default: 60s)",
    )  # fmt: skip
    add_options(parser)
    options.add_reports(parser, json="the review", output="stdout")
    parser.add_argument("plan", metavar="PLAN", type=options.from_file, nargs="?", help="TOML file")


def run(arguments: argparse.Namespace) -> int:
    check_options(arguments)
    given = [
        arguments.plan is not None or bool(arguments.counts), arguments.compare is not None,
        arguments.init, bool(arguments.convert),
    ]  # fmt: skip
    if sum(given) != 1:
        raise TlbcostError(
            "one of PLAN, --compare, --counts, --convert and --init is needed",
            "tlbcost review --init >plan.toml && tlbcost review plan.toml",
            USAGE,
        )
    if arguments.baseline is not None and not arguments.gate:
        raise TlbcostError("--baseline needs --gate", "add --gate", USAGE)
    scheduler = scheduler_of(arguments)
    if scheduler is not None and (arguments.plan is None or arguments.counts):
        raise TlbcostError("--scheduler needs a PLAN with services", None, USAGE)
    if arguments.init:
        from tlbcost.common.paths import data

        print(data("review", "example.toml").read_text(encoding="utf-8"), end="")
        return 0
    if arguments.compare is not None:
        from tlbcost.common.output import check_files, give_report
        from tlbcost.review.gate import compared, read_review
        from tlbcost.review.text import print_comparison

        check_files(
            options.files_of(arguments, "--json", "--output"),
            FAILED,
            {"--compare": arguments.compare},
        )
        first, second = map(read_review, arguments.compare)
        found = compared(first, second)
        give_report(arguments, found, print_comparison, stdout=True)
        return 0
    if arguments.convert:
        return until_stopped(lambda: convert(arguments))
    if arguments.counts:
        return until_stopped(lambda: review_counts(arguments))
    return until_stopped(lambda: _review(arguments, scheduler))


def _review(arguments: argparse.Namespace, scheduler: Scheduler | None) -> int:
    import msgspec

    from tlbcost.common.output import check_files
    from tlbcost.review.document import review_document
    from tlbcost.review.gate import broken_rules, read_review
    from tlbcost.review.plan import read_plan
    from tlbcost.review.session import run_review
    from tlbcost.review.task import plan_tasks

    files = ("--csv", "--html", "--json", "--junit", "--markdown", "--output")
    check_files(options.files_of(arguments, *files), FAILED, {"PLAN": [arguments.plan]})
    # Whatever can be refused is refused before anything takes time.
    baseline = None if arguments.baseline is None else read_review(arguments.baseline)
    plan = read_plan(arguments.plan)
    if arguments.redact:
        services = [msgspec.structs.replace(each, redact=True) for each in plan.services]
        plan = msgspec.structs.replace(plan, services=services)
    tasks = plan_tasks(plan, fleet=scheduler is not None)
    folder = arguments.state or Path(f"{arguments.plan.stem}.review")
    with _fleet(scheduler, arguments.worker_timeout) as fleet:
        results = run_review(tasks, folder, resume=arguments.resume, fleet=fleet)
    review = review_document(plan, results)
    if arguments.gate:
        review = msgspec.structs.replace(review, broken=broken_rules(review, baseline))
    from tlbcost.common.output import give_report, write
    from tlbcost.review.document import calibrations
    from tlbcost.review.text import print_report, to_csv, to_html, to_junit, to_markdown

    give_report(arguments, review, print_report, stdout=True)
    others = (
        (arguments.csv, to_csv),
        (arguments.html, lambda found: to_html(found, calibrations(plan, found))),
        (arguments.junit, to_junit),
        (arguments.markdown, to_markdown),
    )
    for file, text in others:
        if file is not None:
            write(file, text(review), FAILED)
    return CONDITION_HOLDS if review.broken else 0


@contextlib.contextmanager
def _fleet(scheduler: Scheduler | None, patience_s: float) -> Iterator[Runner | None]:
    if scheduler is None:
        yield None
        return
    from tlbcost.review.session import Fleet
    from tlbcost.review.worker import connected

    with connected(scheduler) as cluster:
        yield Fleet(cluster, patience_s).run


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--convert", metavar="LOG", type=options.from_file, action="append",
        help="make rows for --counts of a log of perf stat -j -I",
    )  # fmt: skip
    parser.add_argument(
        "--counts", metavar="FILES", action="append",
        help="review a fleet by the counts in all files of this pattern: Parquet, CSV, or lines "
        "of perf stat -j -I; PLAN has the policy and the machines",
    )  # fmt: skip
    parser.add_argument(
        "--cpu", metavar="MODEL", help="with --convert: the CPU of the log (tlbcost events --list)"
    )
    parser.add_argument(
        "--host", metavar="NAME", help="with --convert: the host that the log is from"
    )
    options.add_file(
        parser, "--hosts", "with --counts: write the figures of each host as CSV to FILE"
    )
    parser.add_argument(
        "--service", metavar="NAME",
        help="with --convert: what the log counts (default: the cgroup of each line)",
    )  # fmt: skip


def check_options(arguments: argparse.Namespace) -> None:
    """Options that --counts or --convert have alone, or have not."""
    convert, counts = bool(arguments.convert), bool(arguments.counts)
    for option in ("cpu", "host", "service"):
        if getattr(arguments, option) is not None and not convert:
            raise TlbcostError(f"--{option} needs --convert", None, USAGE)
    if arguments.hosts is not None and not counts:
        raise TlbcostError("--hosts needs --counts", None, USAGE)
    of_plans = ["baseline", "gate", "html", "junit", "redact", "resume", "state"]
    if convert:
        of_plans += ["csv", "json", "markdown"]
    for option in of_plans:
        if getattr(arguments, option) and (counts or convert):
            what = "--convert" if convert else "--counts"
            raise TlbcostError(f"{what} and --{option} exclude each other", None, USAGE)


def convert(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import check_files
    from tlbcost.common.progress import say
    from tlbcost.fleet.perf_log import Origin
    from tlbcost.fleet.review import convert_logs

    check_files({"--output": arguments.output}, FAILED, {"--convert": arguments.convert})
    origin = Origin(arguments.host, arguments.service, arguments.cpu)
    say(f"{convert_logs(arguments.convert, origin, arguments.output):,} rows")
    return 0


def review_counts(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import check_files, give_report, write
    from tlbcost.fleet.report import hosts_csv, print_report, to_csv, to_markdown
    from tlbcost.fleet.review import review_counts as review
    from tlbcost.fleet.sources import matching
    from tlbcost.review.plan import read_plan

    if arguments.plan is not None and arguments.plan.suffix in (".parquet", ".csv", ".json"):
        hint = "--counts 'stats/*.parquet', in quotes"
        raise TlbcostError(f"{arguments.plan} is no plan but counts", hint, USAGE)
    counts = matching(arguments.counts)
    files = ("--csv", "--hosts", "--json", "--markdown", "--output")
    read = [] if arguments.plan is None else [arguments.plan]
    check_files(options.files_of(arguments, *files), FAILED, {"PLAN": read, "--counts": counts})
    plan = None if arguments.plan is None else read_plan(arguments.plan, services=False)
    found = review(counts, plan)
    give_report(arguments, found.document, print_report, stdout=True)
    others = (
        (arguments.csv, to_csv(found.document)),
        (arguments.markdown, to_markdown(found.document)),
        (arguments.hosts, hosts_csv(found.hosts)),
    )
    for file, text in others:
        if file is not None:
            write(file, text, FAILED)
    if not found.hosts:
        raise TlbcostError("no host has an estimate: see what was left out", None, FAILED)
    return 0
