"""What a consumer has pulled from one queue and not finished yet, and when that is too much.

The position a consumer may commit is the smallest *unfinished* offset, not the largest
finished one: after a crash the unfinished messages are delivered again.  Offsets arrive
in rising order and are mostly removed near the front, so a dict holds the messages and a deque
their order, with finished offsets skipped when they reach an end.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from rocketmq_emulator.facts import Queue
from rocketmq_emulator.protocol.queues import MessageQueue

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rocketmq_emulator.client.settings.config import PushConsumerConfig
    from rocketmq_emulator.protocol.messages.message import MessageExt

MIB = 1024 * 1024
PULL_IDLE_MS_MAX = 120_000  # ProcessQueue.PULL_MAX_IDLE_TIME
LOCK_LIVE_MS_MAX = 30_000  # ProcessQueue.REBALANCE_LOCK_MAX_LIVE_TIME

NOTHING_CACHED = -1


class ProcessQueue:
    """The messages of one held queue, its lock, and whether it was dropped.

    Once ``dropped`` it stays dropped: running listeners finish, their results are discarded.
    Upstream: ProcessQueue.
    """

    def __init__(self, now_ms: int, *, locked: bool = False) -> None:
        self.dropped = False
        self.locked = locked
        self.last_pull_ms = now_ms
        self.last_consume_ms = now_ms
        self.last_lock_ms = now_ms
        self.unlock_tries = 0
        self.bytes_cached = 0
        self.offset_highest = 0
        self._messages: dict[int, MessageExt] = {}
        self._order: deque[int] = deque()  # rising; may still name offsets that are gone
        self._taken: dict[int, MessageExt] = {}  # what an orderly listener holds now
        self._consuming = False

    # What is inside -------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Unfinished messages, including those that a listener has now."""
        return len(self._messages) + len(self._taken)

    @property
    def taken(self) -> Collection[MessageExt]:
        """The messages an orderly listener has now."""
        return self._taken.values()

    def __contains__(self, offset: int) -> bool:
        return offset in self._messages

    @property
    def is_waiting(self) -> bool:
        """Whether there is a message that no orderly listener has taken."""
        return bool(self._messages)

    def first(self) -> MessageExt | None:
        """The lowest message that is not finished."""
        if not self._messages:
            return None
        order = self._order
        while order[0] not in self._messages:
            order.popleft()
        return self._messages[order[0]]

    @property
    def span(self) -> int:
        """The distance between the lowest and the highest offset; a stuck message widens it."""
        if not self._messages:
            return 0
        order = self._order
        while order[0] not in self._messages:
            order.popleft()
        while order[-1] not in self._messages:
            order.pop()
        return order[-1] - order[0]

    def is_pull_expired(self, now_ms: int) -> bool:
        """No pull was tried for two minutes: the pull request must be lost."""
        return now_ms - self.last_pull_ms > PULL_IDLE_MS_MAX

    def is_lock_expired(self, now_ms: int) -> bool:
        """The broker's lock was last confirmed more than 30 seconds ago."""
        return now_ms - self.last_lock_ms > LOCK_LIVE_MS_MAX

    def holds_lock(self, now_ms: int) -> bool:
        """Whether an orderly listener may be called: locked, and confirmed lately."""
        return self.locked and not self.is_lock_expired(now_ms)

    # Both kinds of listeners ----------------------------------------------------------

    def put(self, messages: Iterable[MessageExt]) -> bool:
        """Keep *messages*; True if an orderly listener must be woken, because none runs.

        Upstream: ProcessQueue.putMessage.
        """
        held, highest, added_bytes = self._messages, self.offset_highest, 0
        for message in messages:
            offset = message.queue_offset
            if offset in held:
                continue
            if offset > highest:  # as nearly all are
                held[offset] = message
                self._order.append(offset)
                highest = offset
            else:
                self._insert(offset, message)
            added_bytes += len(message.body)
        self.offset_highest = highest
        self.bytes_cached += added_bytes
        wake = bool(held) and not self._consuming
        self._consuming = self._consuming or wake
        return wake

    def clear(self) -> None:
        """Drop every message; this client or the next owner pulls them again."""
        self._messages.clear()
        self._taken.clear()
        self._order.clear()
        self.bytes_cached = 0
        self.offset_highest = 0

    # Concurrent listeners -------------------------------------------------------------

    def remove(self, messages: Iterable[MessageExt], now_ms: int) -> int:
        """*messages* are finished: the offset that may be committed now, or ``NOTHING_CACHED``.

        Upstream: ProcessQueue.removeMessage.
        """
        self.last_consume_ms = now_ms
        held = self._messages
        if not held:
            return NOTHING_CACHED
        for message in messages:
            if (gone := held.pop(message.queue_offset, None)) is not None:
                self.bytes_cached -= len(gone.body)
        if not held:
            self._order.clear()
            return self.offset_highest + 1
        order = self._order
        while order[0] not in held:
            order.popleft()
        return order[0]

    # Orderly listeners ----------------------------------------------------------------

    def take(self, count_max: int, now_ms: int) -> list[MessageExt]:
        """The lowest messages, which the listener has now; none: the listener may rest.

        Upstream: ProcessQueue.takeMessages.
        """
        self.last_consume_ms = now_ms
        taken: list[MessageExt] = []
        while len(taken) < count_max and (message := self.first()) is not None:
            offset = self._order.popleft()
            self._taken[offset] = self._messages.pop(offset)
            taken.append(message)
        if not taken:
            self._consuming = False
        return taken

    def commit(self) -> int:
        """All that was taken is finished: the offset after it, or ``NOTHING_CACHED``."""
        if not self._taken:
            return NOTHING_CACHED
        offset = max(self._taken) + 1
        self.bytes_cached -= sum(len(message.body) for message in self._taken.values())
        self._taken.clear()
        return offset

    def rollback(self) -> None:
        """Put back all that was taken, to be taken again."""
        self.consume_again(list(self._taken.values()))

    def consume_again(self, messages: Iterable[MessageExt]) -> None:
        """Put these back; they are taken again before everything that follows them.

        Upstream: ProcessQueue.makeMessageToConsumeAgain.
        """
        for message in sorted(messages, key=lambda m: m.queue_offset, reverse=True):
            self._taken.pop(message.queue_offset, None)
            if message.queue_offset not in self._messages:
                self._insert(message.queue_offset, message)

    def _insert(self, offset: int, message: MessageExt) -> None:
        order = self._order
        self._messages[offset] = message
        if not order or offset > order[-1]:
            order.append(offset)
        elif offset < order[0]:
            order.appendleft(offset)
        else:  # only what was given out of order comes here
            self._order = deque(sorted(self._messages))


class PullRequest(msgspec.Struct, eq=False):
    """Where a held queue's next pull begins; one of them goes round for each held queue."""

    group: str
    queue: MessageQueue
    process_queue: ProcessQueue
    next_offset: int
    is_located: bool = False  # orderly: the start was queried again, with the lock held


class FlowControl:
    """One consumer's limits for what a queue may hold before pulls of it are delayed.

    They are checked before a pull, so one more batch than the limit can be cached.
    Limits given for a whole topic are divided evenly, whenever the set of held queues
    changes.  Upstream: DefaultMQPushConsumerImpl.pullMessage.
    """

    def __init__(self, config: PushConsumerConfig) -> None:
        self._config = config
        self.messages_max = config.queue_messages_max
        self.mib_max = config.queue_mib_max

    def divide(self, queues: int) -> None:
        """Divide the topics' limits by *queues*, the held queues of all topics together.

        Upstream too divides by all of them, not by that topic's.
        Upstream: RebalancePushImpl.messageQueueChanged.
        """
        if queues == 0:
            return
        if self._config.topic_messages_max is not None:
            self.messages_max = max(1, self._config.topic_messages_max // queues)
        if self._config.topic_mib_max is not None:
            self.mib_max = max(1, self._config.topic_mib_max // queues)

    def is_full(self, queue: ProcessQueue) -> bool:
        """Whether a pull must wait.

        For concurrent listeners a wide span counts too: a stuck message holds the offset.
        """
        return (
            queue.count > self.messages_max
            or queue.bytes_cached // MIB > self.mib_max
            or (not self._config.orderly and queue.span > self._config.queue_span_max)
        )


def as_fact(queue: MessageQueue) -> Queue:
    """A queue's name in facts."""
    return Queue(queue.topic, queue.broker_name, queue.queue_id)
