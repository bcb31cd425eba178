"""The messages of one queue that are pulled and not finished yet, and the limits for them.

The offset a consumer may commit is the smallest *unfinished* offset, not the largest finished
one: after a crash the unfinished messages are delivered again.  Offsets arrive in rising order
and are mostly removed near the front, so a dict holds the messages and a deque their order;
finished offsets are skipped when they reach an end of the deque.
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
    """The messages of one held queue, the state of its lock, and whether it was dropped.

    A dropped queue stays dropped: running listeners finish, their results are discarded.
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
        self._taken: dict[int, MessageExt] = {}  # by an orderly listener, by offset
        self._consuming = False

    # State ----------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """The number of unfinished messages, including those that a listener has now."""
        return len(self._messages) + len(self._taken)

    @property
    def taken(self) -> Collection[MessageExt]:
        """The messages an orderly listener has now."""
        return self._taken.values()

    def __contains__(self, offset: int) -> bool:
        return offset in self._messages

    @property
    def is_waiting(self) -> bool:
        """Whether some message is not taken by an orderly listener."""
        return bool(self._messages)

    def first(self) -> MessageExt | None:
        """The message with the lowest offset; None without messages.  Taken ones do not count."""
        if not self._messages:
            return None
        order = self._order
        while order[0] not in self._messages:
            order.popleft()
        return self._messages[order[0]]

    @property
    def span(self) -> int:
        """The highest offset minus the lowest; it grows while a message is stuck."""
        if not self._messages:
            return 0
        order = self._order
        while order[0] not in self._messages:
            order.popleft()
        while order[-1] not in self._messages:
            order.pop()
        return order[-1] - order[0]

    def is_pull_expired(self, now_ms: int) -> bool:
        """Whether no pull was tried for two minutes: then the pull request is lost."""
        return now_ms - self.last_pull_ms > PULL_IDLE_MS_MAX

    def is_lock_expired(self, now_ms: int) -> bool:
        """Whether the broker last confirmed the lock more than 30 seconds ago."""
        return now_ms - self.last_lock_ms > LOCK_LIVE_MS_MAX

    def holds_lock(self, now_ms: int) -> bool:
        """Whether an orderly listener may be called: the lock is held and has not expired."""
        return self.locked and not self.is_lock_expired(now_ms)

    # Both kinds of listeners ----------------------------------------------------------

    def put(self, messages: Iterable[MessageExt]) -> bool:
        """Add *messages*; True if an orderly consume request must be submitted, as none runs.

        Upstream: ProcessQueue.putMessage.
        """
        held, highest, added_bytes = self._messages, self.offset_highest, 0
        for message in messages:
            offset = message.queue_offset
            if offset in held:
                continue
            if offset > highest:  # nearly always
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
        """Remove finished *messages*; returns the offset to commit, or ``NOTHING_CACHED``.

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
        """Take the lowest messages for the listener; [] ends the running consume request.

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
        """Finish all taken messages; returns the offset to commit, or ``NOTHING_CACHED``."""
        if not self._taken:
            return NOTHING_CACHED
        offset = max(self._taken) + 1
        self.bytes_cached -= sum(len(message.body) for message in self._taken.values())
        self._taken.clear()
        return offset

    def rollback(self) -> None:
        """Put all taken messages back, to be taken again."""
        self.consume_again(list(self._taken.values()))

    def consume_again(self, messages: Iterable[MessageExt]) -> None:
        """Put *messages* back; they are taken again before the messages that follow them.

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
        else:  # rare: *message* was put back out of order
            self._order = deque(sorted(self._messages))


class PullRequest(msgspec.Struct, eq=False):
    """The next pull of a held queue; each held queue has one, which is used again and again."""

    group: str
    queue: MessageQueue
    process_queue: ProcessQueue
    next_offset: int
    is_located: bool = False  # orderly: next_offset was queried again with the lock held


class FlowControl:
    """One consumer's limits of cached messages; at a limit, pulls of a queue are delayed.

    The limits are checked before a pull, so one more batch than the limit can be cached.
    Limits for a whole topic are divided evenly whenever the set of held queues changes.
    Upstream: DefaultMQPushConsumerImpl.pullMessage.
    """

    def __init__(self, config: PushConsumerConfig) -> None:
        self._config = config
        self.messages_max = config.queue_messages_max
        self.mib_max = config.queue_mib_max

    def divide(self, queues: int) -> None:
        """Divide the limits of a topic by *queues*, the number of held queues of all topics.

        Upstream also divides by the queues of all topics, not by those of one topic.
        Upstream: RebalancePushImpl.messageQueueChanged.
        """
        if queues == 0:
            return
        if self._config.topic_messages_max is not None:
            self.messages_max = max(1, self._config.topic_messages_max // queues)
        if self._config.topic_mib_max is not None:
            self.mib_max = max(1, self._config.topic_mib_max // queues)

    def is_full(self, queue: ProcessQueue) -> bool:
        """Whether a pull must be delayed.

        For concurrent listeners the span is limited too: it grows while a message is stuck.
        """
        return (
            queue.count > self.messages_max
            or queue.bytes_cached // MIB > self.mib_max
            or (not self._config.orderly and queue.span > self._config.queue_span_max)
        )


def as_fact(queue: MessageQueue) -> Queue:
    """*queue* as facts name it."""
    return Queue(queue.topic, queue.broker_name, queue.queue_id)
