"""Which messages wait at brokers for their time: delayed ones, retries among them, and timers.

Facts of brokers say when one is put aside and when it is delivered.  A broker that was started
again may deliver one twice, and one that lost power may have lost some: so they are counted one
by one, not as a number.  A dead letter of an orderly member may wait, too (up to 4.9, for an hour
if brokers were away while it failed): nobody consumes it, so it is not counted.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from emulator.facts import (
    DelayedDelivered,
    DelayedMessageDropped,
    MessageStored,
    TimerMessageDelivered,
    TimerMessageDropped,
    TimerMessagePutAside,
    TimerMessageRecalled,
    TimerMessageRolled,
)
from emulator.journal import Entry
from protocol.delay_levels import queue_of_level
from protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC

TimerOver: TypeAlias = TimerMessageDelivered | TimerMessageDropped | TimerMessageRecalled


class PutAside:
    """Counts them, broker by broker."""

    def __init__(self) -> None:
        self._delayed: Counter[tuple[str, int, str]] = Counter()  # broker, level's queue, key
        self._timers: set[tuple[str, int]] = set()  # broker, offset in the timer topic
        self._last_stored: dict[str, MessageStored] = {}  # by broker
        self._last_timer: dict[str, int] = {}  # its offset
        self._dying: set[str] = set()  # keys: the next one put aside is a dead letter

    @property
    def count(self) -> int:
        """Of all that wait."""
        return self._delayed.total() + len(self._timers)

    def failed_for_good(self, key: str) -> None:
        """An orderly member will send it back as a dead letter."""
        self._dying.add(key)

    def stored(self, node: str, fact: MessageStored) -> bool:
        """True if it is put aside: nobody can consume it now."""
        self._last_stored[node] = fact
        queue = fact.queue
        if queue.topic == SCHEDULE_TOPIC and fact.uniq_key in self._dying:
            self._dying.discard(fact.uniq_key)
        elif queue.topic == SCHEDULE_TOPIC:
            self._delayed[node, queue.queue_id, fact.uniq_key] += 1
        elif queue.topic == TIMER_TOPIC:
            self._last_timer[node] = fact.offset
        return queue.topic in (SCHEDULE_TOPIC, TIMER_TOPIC)

    def lost(self, node: str, fact: MessageStored) -> bool:
        """Its record is gone with the power; True if it was put aside."""
        queue = fact.queue
        if queue.topic == SCHEDULE_TOPIC:
            self._take(node, queue.queue_id, fact.uniq_key)
        elif queue.topic == TIMER_TOPIC:
            self._timers.discard((node, fact.offset))
        return queue.topic in (SCHEDULE_TOPIC, TIMER_TOPIC)

    def delivered(self, entry: Entry, fact: DelayedDelivered) -> None:
        """A delayed one was stored where it belongs, just before this fact."""
        stored = self._last_stored.get(entry.node)
        key = "" if stored is None else stored.uniq_key
        self._take(entry.node, queue_of_level(fact.delay_level), key)

    def dropped(self, entry: Entry, fact: DelayedMessageDropped) -> None:
        """It will never come."""
        self._take(entry.node, queue_of_level(fact.delay_level), fact.uniq_key)

    def timer_put_aside(self, entry: Entry, fact: TimerMessagePutAside) -> None:
        """One waits for its time."""
        self._timers.add((entry.node, fact.offset))

    def timer_rolled(self, entry: Entry, fact: TimerMessageRolled) -> None:
        """It was stored again, just before this fact."""
        self._timers.discard((entry.node, fact.offset))
        self._timers.add((entry.node, self._last_timer.get(entry.node, fact.offset)))

    def timer_over(self, entry: Entry, fact: TimerOver) -> None:
        """It waits no more."""
        self._timers.discard((entry.node, fact.offset))

    def _take(self, node: str, queue_id: int, key: str) -> None:
        left = self._delayed[node, queue_id, key] - 1
        if left > 0:
            self._delayed[node, queue_id, key] = left
        else:
            del self._delayed[node, queue_id, key]
