"""The tasks of an instance: RebalanceService, PullMessageService, and the periodic ones.

Each service is one task for all consumers of the instance and calls them one after the other, so
a slow consumer delays the others, as in upstream's single threads.  The periodic actions share
one task too: they run one at a time, in order of their due times, at a fixed rate.  A slow action
delays the others, and runs that were missed meanwhile follow without a pause.

Upstream: RebalanceService, PullMessageService, MQClientInstance.startScheduledTask.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import trio

from rocketmq_emulator.settings.releases import REBALANCE_PACED, Release

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketmq_emulator.client.instance.interfaces import QueuedPull, RegisteredConsumer
    from rocketmq_emulator.clocks.clock import Alarm
    from rocketmq_emulator.facts.clients import RebalanceCause
    from rocketmq_emulator.net.timers import Timers


class RebalanceService:
    """Rebalances all *consumers*, one after the other: at an interval, and when woken.

    Up to 5.1.4 every wake-up causes a full pass.  Since 5.2.0 two passes are at least one second
    apart, and exactly one second while a consumer is not balanced.
    Upstream: RebalanceService, ServiceThread.wakeup.
    """

    def __init__(
        self,
        consumers: Mapping[str, RegisteredConsumer],
        release: Release,
        *,
        interval_ms: int,
        interval_ms_min: int,
        alarm: Alarm,
    ) -> None:
        self._consumers = consumers
        self._is_paced = release >= REBALANCE_PACED
        self._interval_s = interval_ms / 1000
        self._interval_s_min = interval_ms_min / 1000
        self._alarm = alarm
        self._is_woken = False
        self._cause: RebalanceCause | None = None

    def wake(self, cause: RebalanceCause) -> None:
        """Request a pass.  Two calls before it runs cause one pass, with the first *cause*.

        A call while a pass runs causes another pass.
        """
        if self._cause is None:
            self._cause = cause
        self._is_woken = True
        self._alarm.ring_by(-inf)

    async def run(self) -> NoReturn:
        """Wait, run a pass, and repeat, until cancelled."""
        wait_s = self._interval_s
        last_s = trio.current_time()
        while True:
            # If it was woken meanwhile, it only yields to other tasks.
            until_s = -inf if self._is_woken else trio.current_time() + wait_s
            await self._alarm.wait_until(until_s)
            self._is_woken = False
            # Compare times, not the rest of the pause: the rest may round to zero.
            now_s, due_s = trio.current_time(), last_s + self._interval_s_min
            if self._is_paced and now_s < due_s:
                wait_s = due_s - now_s
                continue
            balanced = await self._run_pass()
            last_s = trio.current_time()
            wait_s = self._interval_s
            if self._is_paced and not balanced:
                wait_s = self._interval_s_min

    async def _run_pass(self) -> bool:
        cause, self._cause = self._cause or "timer", None
        balanced = True
        for consumer in list(self._consumers.values()):
            balanced = await consumer.rebalance(cause) and balanced
        return balanced


class PullMessageService:
    """Passes pull requests to their consumers, one after the other; a slow one delays the next.

    There is one request for each held queue.  The consumer pulls it and puts it back when the
    reply is there, at once or after a delay, until the queue is dropped.  The service uses only
    the ``group`` of a request.
    Upstream: PullMessageService.
    """

    def __init__(self, consumers: Mapping[str, RegisteredConsumer], timers: Timers) -> None:
        self._consumers = consumers
        self._timers = timers
        self._line: deque[QueuedPull] = deque()
        self._added = trio.Event()

    @property
    def is_last(self) -> bool:
        """Whether no further request is queued."""
        return not self._line

    def pull_now(self, request: QueuedPull) -> None:
        """Append *request* to the queue.  Upstream: executePullRequestImmediately."""
        self._line.append(request)
        self._added.set()

    def pull_later(self, request: QueuedPull, delay_ms: int) -> None:
        """Append *request* after *delay_ms*.  Upstream: executePullRequestLater."""
        at_s = trio.current_time() + delay_ms / 1000
        self._timers.at(at_s, lambda: self.pull_now(request))

    async def run(self) -> NoReturn:
        """Pass each request to its consumer, until cancelled."""
        while True:
            await self._added.wait()
            self._added = trio.Event()
            while self._line:
                request = self._line.popleft()
                consumer = self._consumers.get(request.group)
                if consumer is not None:  # requests of an unregistered group are dropped
                    await consumer.pull(request)


# Periodic tasks -----------------------------------------------------------------------


class Periodic(NamedTuple):
    """An action that runs after ``first_ms``, then every ``every_ms``."""

    first_ms: int
    every_ms: int
    action: Callable[[], Awaitable[object]]


async def run_schedule(tasks: Sequence[Periodic], alarm: Alarm) -> NoReturn:
    """Run *tasks* one at a time, until cancelled; an exception of one ends all."""
    began_s = trio.current_time()
    due = [(began_s + task.first_ms / 1000, number) for number, task in enumerate(tasks)]
    heapq.heapify(due)
    while True:
        due_s, number = due[0]
        await alarm.wait_until(due_s)
        await tasks[number].action()
        heapq.heapreplace(due, (due_s + tasks[number].every_ms / 1000, number))
