"""One line of pull requests for all consumers of an instance.

Exactly one request for each held queue goes round: it is pulled, and comes back when
its answer does, at once or after a delay.  It ends only when its queue is dropped.

Upstream: PullMessageService.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NoReturn

import msgspec
import trio

from emulator.client.consumer.process_queue import ProcessQueue
from protocol.queues import MessageQueue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.client.instance.members import RegisteredConsumer
    from emulator.net.timers import Timers


class PullRequest(msgspec.Struct, eq=False):
    """Where a queue's next pull begins."""

    group: str
    queue: MessageQueue
    process_queue: ProcessQueue
    next_offset: int
    is_located: bool = False  # orderly: the start was asked for again, with the lock in hand


class PullMessageService:
    """Pulls run one after the other; one that waits holds up all that stand behind it."""

    def __init__(self, consumers: Mapping[str, RegisteredConsumer], timers: Timers) -> None:
        self._consumers = consumers
        self._timers = timers
        self._line: deque[PullRequest] = deque()
        self._news = trio.Event()

    def pull_now(self, request: PullRequest) -> None:
        self._line.append(request)
        self._news.set()

    def pull_later(self, request: PullRequest, delay_ms: int) -> None:
        at_s = trio.current_time() + delay_ms / 1000
        self._timers.at(at_s, lambda: self.pull_now(request))

    async def run(self) -> NoReturn:
        while True:
            await self._news.wait()
            self._news = trio.Event()
            while self._line:
                request = self._line.popleft()
                consumer = self._consumers.get(request.group)
                if consumer is not None:  # a request whose group is gone ends here
                    await consumer.pull(request)
