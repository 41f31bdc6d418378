# SPDX-License-Identifier: GPL-2.0-or-later
"""Workers of a review, through their Dask scheduler."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tlbcost.common.errors import FAILED, TlbcostError
from tlbcost.review.errand import Reply, fill, order
from tlbcost.review.execution import Interrupted
from tlbcost.review.scheduler import (
    CONNECT_S,
    Scheduler,
    check_closed,
    check_reachable,
    load_dask,
    security_of,
    unreachable,
)
from tlbcost.review.task import Task
from tlbcost.review.worker import offered, resource

if TYPE_CHECKING:
    from distributed import Client, Future

_ANSWER_S = 60
# A future that no worker can finish any more.
_GONE = ("cancelled", "lost")
# Dask's errors of workers that died.
_LOST = ("FutureCancelledError", "KilledWorker")


@dataclass(frozen=True, slots=True)
class Seen:
    """One worker. `pulse` changes with each sign of life."""

    machines: frozenset[str]
    host: str
    pulse: float


class GivenTask:
    """A task that was given to a worker. `plan`: its hash."""

    def __init__(self, future: Future[bytes], plan: str) -> None:
        self._future = future
        self._plan = plan

    def release(self) -> None:
        self._future.release()

    def outcome(self) -> Reply | Literal["lost"] | None:
        if not self._future.done():
            return None
        if self._future.status in _GONE:
            return "lost"
        try:
            answer = self._future.result(timeout=CONNECT_S)
            reply = msgspec.json.decode(answer, type=Reply)
        except (Interrupted, OSError, TimeoutError):
            return "lost"
        except Exception as error:
            # What ends up here is Dask's, or of a worker that is not ours.
            if type(error).__name__ in _LOST:
                return "lost"
            text = " ".join(str(error).split()) or type(error).__name__
            return Reply(refusal=f"it cannot do tasks of this version: {text}")
        if reply.result is not None and reply.result.plan != self._plan:
            return Reply(refusal="it answered what was not asked")
        return reply


class Cluster:
    def __init__(self, client: Client, scheduler: Scheduler) -> None:
        self._client = client
        self._scheduler = scheduler

    def workers(self) -> dict[str, Seen]:
        """Those that are there, by address. Raises TlbcostError: the scheduler went away."""
        try:
            # A synchronous call that returns in any case, if the scheduler hangs, too.
            found: Any = self._client.sync(self._identity, callback_timeout=_ANSWER_S)
        except (OSError, TimeoutError) as error:
            raise TlbcostError(
                f"lost the scheduler {self._scheduler.address}",
                "--resume uses what is finished, once it is there again",
                FAILED,
            ) from error
        return {
            address: Seen(offered(list(each["resources"])), each["host"], each["last_seen"])
            for address, each in found["workers"].items()
            if each["status"] == "running"
        }

    async def _identity(self) -> object:
        scheduler: Any = self._client.scheduler
        return await scheduler.identity(n_workers=-1)

    def start(self, task: Task, calibration: str | None, address: str) -> GivenTask:
        key = f"tlbcost-{uuid.uuid4()}"
        future = self._client.submit(
            fill,
            order(task, calibration, key),
            key=key,
            pure=False,
            retries=0,
            workers=[address],
            allow_other_workers=False,
            resources={resource(task.machine_name): 1},
        )
        return GivenTask(future, task.plan)


@contextlib.contextmanager
def connected(scheduler: Scheduler) -> Iterator[Cluster]:
    """The cluster; at the end nothing of ours runs on it. Raises TlbcostError: it is not there."""
    check_closed(scheduler)
    load_dask()
    security = security_of(scheduler)
    check_reachable(scheduler)
    from distributed import Client

    try:
        client: Client = Client(
            scheduler.address,
            security=security,
            timeout=CONNECT_S,
            name="tlbcost-review",
            set_as_default=False,
        )
    except (OSError, TimeoutError) as error:
        raise unreachable(scheduler, error) from error
    try:
        yield Cluster(client, scheduler)
    finally:
        # The scheduler then has the workers end what no task needs any more.
        client.close(timeout=CONNECT_S)
