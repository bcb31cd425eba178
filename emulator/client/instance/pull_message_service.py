"""One line of pull requests for all consumers of an instance.

Exactly one request for each held queue goes round: it is pulled, and comes back when
its answer does, at once or after a delay.  It ends only when its queue is dropped.
What a request holds is its consumer's business; the line needs the group alone.

Upstream: PullMessageService.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NoReturn

import trio

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.client.instance.interfaces import QueuedPull, RegisteredConsumer
    from emulator.net.timers import Timers


class PullMessageService:
    """Pulls run one after the other; one that waits holds up all that stand behind it."""

    def __init__(self, consumers: Mapping[str, RegisteredConsumer], timers: Timers) -> None:
        self._consumers = consumers
        self._timers = timers
        self._line: deque[QueuedPull] = deque()
        self._added = trio.Event()

    def pull_now(self, request: QueuedPull) -> None:
        """Put *request* at the end of the line.  Upstream: executePullRequestImmediately."""
        self._line.append(request)
        self._added.set()

    def pull_later(self, request: QueuedPull, delay_ms: int) -> None:
        """Put *request* there after *delay_ms*.  Upstream: executePullRequestLater."""
        at_s = trio.current_time() + delay_ms / 1000
        self._timers.at(at_s, lambda: self.pull_now(request))

    async def run(self) -> NoReturn:
        """Hand each request to its consumer, until cancelled."""
        while True:
            await self._added.wait()
            self._added = trio.Event()
            while self._line:
                request = self._line.popleft()
                consumer = self._consumers.get(request.group)
                if consumer is not None:  # a request whose group is gone ends here
                    await consumer.pull(request)
