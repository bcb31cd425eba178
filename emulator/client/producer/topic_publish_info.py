"""Where messages of one topic may go, and whose turn it is.

A route change makes a *new* one, so the round robin then starts again somewhere else.
Every probe of a walk here takes a step of the shared counter: skipping a broker's block
of queues does not give the queue behind it a larger share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from emulator.client.producer.thread_local_index import ThreadLocalIndex
from protocol.queues import MessageQueue


class TopicPublishInfo:
    """A topic's publish queues.

    ``has_route`` says that the topic's own route was seen, even if nothing in it can be
    written.  ``queues`` is a list because one old release writes into it.

    Upstream: TopicPublishInfo.
    """

    def __init__(
        self,
        queues: Sequence[MessageQueue] = (),
        *,
        index: ThreadLocalIndex,
        write_queues: Mapping[str, int] | None = None,
        is_ordered: bool = False,
        has_route: bool = False,
    ) -> None:
        self.queues = list(queues)
        self.index = index
        self.write_queues = dict(write_queues or {})  # by broker name, as the route has them
        self.is_ordered = is_ordered
        self.has_route = has_route

    @property
    def is_usable(self) -> bool:
        """Upstream: TopicPublishInfo.ok."""
        return bool(self.queues)

    def next_position(self, worker: int = 0) -> int:
        return self.index.step(worker) % len(self.queues)

    def next_queue(self, worker: int = 0) -> MessageQueue:
        return self.queues[self.next_position(worker)]

    def next_queue_where(
        self, wanted: Callable[[MessageQueue], bool], worker: int = 0
    ) -> MessageQueue | None:
        """The next one that is wanted; None after one whole round."""
        for _ in self.queues:
            queue = self.next_queue(worker)
            if wanted(queue):
                return queue
        return None

    def queues_from(self, index: int) -> list[MessageQueue]:
        """One round that begins at *index* and leaves the shared counter alone."""
        size = len(self.queues)
        return [self.queues[_position(index + step, size)] for step in range(size)]


def _position(index: int, size: int) -> int:
    """A place in the list for a counter that overflows as Java's int does."""
    wrapped = (index + 2**31) % 2**32 - 2**31
    return 0 if wrapped == -(2**31) else abs(wrapped) % size
