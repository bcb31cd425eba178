"""The queues a lite pull consumer has, and how far it has pulled and handed out each.

Three positions: what is pulled next, what was handed out to the application (which is what
a commit stores), and where the application wants to go on after a seek.

Upstream: AssignedMessageQueue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.queues import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from emulator.client.consumer.process_queue import ProcessQueue
    from protocol.queues import MessageQueue


class QueueState:
    """One assigned queue.  Upstream: AssignedMessageQueue.MessageQueueState."""

    def __init__(self, process_queue: ProcessQueue) -> None:
        self.process_queue = process_queue
        self.is_paused = False
        self.pull_offset: int | None = None  # where the next pull begins; None: not known yet
        self.consume_offset: int | None = None  # after what was handed out; None: nothing was
        self.seek_offset: int | None = None  # where to go on; None: nobody has asked

    @property
    def committable(self) -> int | None:
        """The offset that a commit stores; None: there is none, or the queue was given away."""
        return None if self.process_queue.dropped else self.consume_offset


class AssignedQueues:
    """By queue.  *process_queue_of* makes a new queue's cache, or finds the one there is."""

    def __init__(self, process_queue_of: Callable[[MessageQueue], ProcessQueue]) -> None:
        self._process_queue_of = process_queue_of
        self._states: dict[MessageQueue, QueueState] = {}

    @property
    def queues(self) -> list[MessageQueue]:
        """All of them, in queue order."""
        return in_order(self._states)

    def state(self, queue: MessageQueue) -> QueueState | None:
        """None if *queue* is not assigned."""
        return self._states.get(queue)

    def update(self, wanted: Collection[MessageQueue], topic: str | None = None) -> None:
        """From now on exactly *wanted*, of one topic or of all; what goes is dropped.

        A queue that stays keeps its positions and stays paused.
        """
        for queue in list(self._states):
            if topic in (None, queue.topic) and queue not in wanted:
                self._states.pop(queue).process_queue.dropped = True
        for queue in in_order(wanted):
            if queue not in self._states:
                self._states[queue] = QueueState(self._process_queue_of(queue))

    def forget(self, topic: str) -> None:
        """Drop the positions of a topic; its messages may be handed out until the next pass."""
        for queue in list(self._states):
            if queue.topic == topic:
                del self._states[queue]

    def process_queues(self) -> dict[MessageQueue, ProcessQueue]:
        """The caches by queue."""
        return {queue: self._states[queue].process_queue for queue in self.queues}
