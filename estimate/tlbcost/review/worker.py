# SPDX-License-Identifier: GPL-2.0-or-later
"""A host's offer to reviews: a Dask worker of one thread.

An estimate ends when the review does not want it any more, and when the worker ends.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tlbcost.common.errors import FAILED, SIGNAL_BASE, TlbcostError
from tlbcost.common.files import temporary_folder
from tlbcost.common.progress import say
from tlbcost.review.errand import WANTED
from tlbcost.review.scheduler import (
    CONNECT_S,
    Scheduler,
    check_closed,
    check_reachable,
    load_dask,
    security_of,
    unreachable,
)

if TYPE_CHECKING:
    from distributed import Worker, WorkerPlugin

_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
# What an estimate has to put things back before the worker ends.
_CLOSE_S = 60
_RESOURCE = "tlbcost:"


@dataclass(frozen=True, slots=True)
class Offer:
    """A host: the types that it is one of, and where it listens; None: towards the scheduler."""

    machines: Sequence[str]
    host: str | None = None
    port: int = 0


def resource(machine: str) -> str:
    """What a task for this type of host needs of a worker, and takes."""
    return f"{_RESOURCE}{machine}"


def offered(resources: Sequence[str]) -> frozenset[str]:
    own = (name for name in resources if name.startswith(_RESOURCE))
    return frozenset(name.removeprefix(_RESOURCE) for name in own)


def _ender() -> WorkerPlugin:
    """Dask's threads run on, whoever has gone away: this ends what they run."""
    from distributed import WorkerPlugin

    class Ender(WorkerPlugin):
        def transition(self, key: object, start: str, finish: str, **_: object) -> None:
            if start == "executing" and finish == "released":
                WANTED.stop(str(key))

        def teardown(self, worker: Worker) -> None:  # noqa: ARG002
            WANTED.close()

    return Ender()


def work(scheduler: Scheduler, offer: Offer) -> int:
    check_closed(scheduler, offer.host)
    load_dask()
    return asyncio.run(_work(scheduler, offer))


async def _work(scheduler: Scheduler, offer: Offer) -> int:
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()

    def stop(number: int) -> None:
        if not stopped.done():
            stopped.set_result(number)

    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, stop, number)
    with temporary_folder() as folder:
        worker = _worker(scheduler, offer, str(folder))
        begin = asyncio.ensure_future(worker.start())
        await asyncio.wait({begin, stopped}, return_when=asyncio.FIRST_COMPLETED)
        try:
            if not stopped.done():
                _begun(begin, scheduler, offer)
                say(f"{worker.address} waits for tasks for {', '.join(offer.machines)}")
                end = asyncio.ensure_future(worker.finished())
                await asyncio.wait({end, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            begin.cancel()
            await worker.close(timeout=_CLOSE_S, nanny=False)
    if not stopped.done():
        raise TlbcostError(f"lost the scheduler {scheduler.address}", None, FAILED)
    say(f"ended by {signal.Signals(stopped.result()).name}")
    return SIGNAL_BASE + stopped.result()


def _worker(scheduler: Scheduler, offer: Offer, folder: str) -> Worker:
    from distributed import Worker

    security = security_of(scheduler)
    own = check_reachable(scheduler)
    return Worker(
        scheduler.address,
        nthreads=1,
        resources={resource(name): 1 for name in offer.machines},
        plugins=(_ender(),),
        security=security,
        protocol=scheduler.protocol,
        host=offer.host or own,
        port=offer.port,
        dashboard_address="127.0.0.1:0",
        local_directory=folder,
        memory_limit=0,
        death_timeout=CONNECT_S,
    )


def _begun(begin: asyncio.Future[Worker], scheduler: Scheduler, offer: Offer) -> None:
    error = begin.exception()
    if error is None:
        return
    if isinstance(error, OSError) and offer.port:
        raise TlbcostError(f"cannot listen on port {offer.port}: {error}") from error
    raise unreachable(scheduler, error) from error
