"""Latencies of sends and deliveries, the backlog of each group, and its retries and repeats.

Latencies and backlogs are points: the number of a fact, and a value.  A delivery is measured from
MessageStored to MessageConsumed; for consumers without facts (clients of other languages), to the
commit of an offset beyond the message.  The backlog of a group is what RocketMQ's own tools call
the lag: messages stored, and not yet committed.

Transactions are counted by topic: half messages, their ends, the checks of their brokers.  "open"
is the number of those without an end at each time.

A message that failed is sent back to a broker, delivered again as a retry, and in the end a dead
letter: each is a point of its group.  So is a message that was consumed, and is consumed again.
"""

from __future__ import annotations

from array import array

import msgspec

from rocketmq_emulator.checks.state.offset_runs import OffsetRuns
from rocketmq_emulator.facts import (
    ConsumerStarted,
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    MessageConsumed,
    MessageSent,
    MessageSentBack,
    MessageStored,
    OffsetCommitted,
    Queue,
    QueuesClaimed,
    SendFailed,
    TransactionChecked,
    TransactionEnded,
    TransactionGivenUp,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.messages.names import DLQ_GROUP_TOPIC_PREFIX

NOT_STORED = -1
OVER = {"commit": "transactions committed", "rollback": "transactions rolled back"}  # by outcome


class Points(msgspec.Struct):
    """Values by number of fact; *what* names the measurement, *of* its topic or group."""

    what: str  # "sends", "failed sends", "consumed", "committed", "backlog", "open", or an event
    of: str
    facts: array[int]
    values: array[int]  # µs, or messages

    def add(self, number: int, value: int) -> None:
        """Append a point: the number of a fact and its value."""
        self.facts.append(number)
        self.values.append(value)


EVENTS = ("failed", "sent back", "retries", "dead letters", "duplicates")  # of a group; value 1


class MessageFlow:
    """Folds facts of messages and offsets into ``Points``; times are µs."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], Points] = {}
        self._queues: dict[Queue, _StoredQueue] = {}
        self._lags: dict[str, _Lag] = {}
        self._broadcast: set[str] = set()  # groups
        self._consumed: dict[tuple[str, Queue], OffsetRuns] = {}  # by group, or its member
        self._open: dict[str, set[str]] = {}  # by topic: keys of half messages without an end

    def started(self, _number: int, _entry: Entry, fact: ConsumerStarted) -> None:
        """A consumer started: each member of a broadcasting group consumes every message."""
        if fact.broadcast:
            self._broadcast.add(fact.group)

    def sent(self, number: int, _entry: Entry, fact: MessageSent) -> None:
        """A send was acknowledged: add its duration."""
        self._points("sends", fact.topic).add(number, fact.took_ms * 1_000)

    def failed(self, number: int, _entry: Entry, fact: SendFailed) -> None:
        """A send raised an error: add a point with the value 0."""
        self._points("failed sends", fact.topic).add(number, 0)

    def stored(self, number: int, entry: Entry, fact: MessageStored) -> None:
        """A message was stored: its delivery begins, and the backlog of each group grows."""
        queue = self._queue(fact.queue)
        end = queue.end
        if fact.offset < end:  # the end of the log was lost, and its offsets are used again
            self._forget_from(fact.queue, fact.offset)
        queue.store(fact.offset, entry.mono_us)
        for group in queue.groups:
            position = self._lags[group].positions[fact.queue]
            self._note_lag(number, group, max(0, queue.end - position) - max(0, end - position))

    def consumed(self, number: int, entry: Entry, fact: MessageConsumed) -> None:
        """A message was consumed: add the duration of its delivery; retries do not count.

        A failure, a retry and a repeat are points of their own.
        """
        if not fact.ok:
            self._points("failed", fact.group).add(number, 1)
        elif self._is_repeat(entry.node, fact):
            self._points("duplicates", fact.group).add(number, 1)
        if fact.reconsume_times:
            self._points("retries", fact.group).add(number, 1)
        stored_us = self._queue(fact.queue).stored_us(fact.offset)
        if stored_us != NOT_STORED and fact.reconsume_times == 0:
            self._points("consumed", fact.group).add(number, entry.mono_us - stored_us)

    def sent_back(self, number: int, _entry: Entry, fact: MessageSentBack) -> None:
        """A broker stored a message for a retry, or as a dead letter."""
        is_dead = fact.target_topic.startswith(DLQ_GROUP_TOPIC_PREFIX)
        self._points("dead letters" if is_dead else "sent back", fact.group).add(number, 1)

    def half_stored(self, number: int, _entry: Entry, fact: HalfMessageStored) -> None:
        """A half message was put aside: its transaction is open."""
        self._points("half messages", fact.queue.topic).add(number, 1)
        self._open.setdefault(fact.queue.topic, set()).add(fact.uniq_key)
        self._note_open(number, fact.queue.topic)

    def transaction_over(
        self, number: int, _entry: Entry, fact: TransactionEnded | TransactionGivenUp
    ) -> None:
        """A transaction has ended, or was given up; a second end of it counts, too."""
        topic = fact.queue.topic
        what = OVER[fact.outcome] if isinstance(fact, TransactionEnded) else "given up"
        self._points(what, topic).add(number, 1)
        self._open.get(topic, set()).discard(fact.uniq_key)
        self._note_open(number, topic)

    def checked(
        self, number: int, _entry: Entry, fact: TransactionChecked | ImmuneHalfStoredAgain
    ) -> None:
        """A broker checked a half message: it asked a producer, or nobody."""
        is_asked = isinstance(fact, TransactionChecked) and fact.client
        self._points("checks" if is_asked else "checks of nobody", fact.queue.topic).add(number, 1)

    def _note_open(self, number: int, topic: str) -> None:
        self._points("open", topic).add(number, len(self._open.get(topic, ())))

    def _forget_from(self, queue: Queue, offset: int) -> None:
        for (_, name), done in self._consumed.items():
            if name == queue:
                done.cut(offset)

    def _is_repeat(self, node: str, fact: MessageConsumed) -> bool:
        reader = f"{fact.group}@{node}" if fact.group in self._broadcast else fact.group
        done = self._consumed.get((reader, fact.queue))
        if done is None:
            done = self._consumed[reader, fact.queue] = OffsetRuns()
        is_repeat = fact.offset in done
        done.add(fact.offset)
        return is_repeat

    def claimed(self, _number: int, _entry: Entry, fact: QueuesClaimed) -> None:
        """A member claimed queues: count them in the backlog of its group from now on."""
        for queue in fact.queues:
            self._follow(fact.group, queue)

    def committed(self, number: int, entry: Entry, fact: OffsetCommitted) -> None:
        """A group committed an offset: its backlog shrinks or grows."""
        queue, lag = self._queue(fact.queue), self._follow(fact.group, fact.queue)
        before = lag.positions[fact.queue]
        lag.positions[fact.queue] = fact.offset
        if ("consumed", fact.group) not in self._series:
            points = self._points("committed", fact.group)
            for offset in range(max(before, fact.offset - 1_000), fact.offset):
                stored_us = queue.stored_us(offset)
                if stored_us != NOT_STORED:
                    points.add(number, entry.mono_us - stored_us)
        step = max(0, queue.end - fact.offset) - max(0, queue.end - before)
        if step:
            self._note_lag(number, fact.group, step)

    def series(self) -> list[Points]:
        """All series with points; "committed" only for groups without "consumed"."""
        groups = {points.of for points in self._series.values() if points.what == "consumed"}
        return [
            points
            for points in sorted(self._series.values(), key=lambda it: (it.what, it.of))
            if points.facts and not (points.what == "committed" and points.of in groups)
        ]

    def _follow(self, group: str, name: Queue) -> _Lag:
        """Count the queue in the backlog of *group* from now on, starting at its end offset."""
        lag = self._lags.setdefault(group, _Lag({}))
        if name not in lag.positions:
            queue = self._queue(name)
            lag.positions[name] = queue.end
            queue.groups.append(group)
        return lag

    def _note_lag(self, number: int, group: str, step: int) -> None:
        lag = self._lags[group]
        lag.count += step
        self._points("backlog", group).add(number, lag.count)

    def _queue(self, name: Queue) -> _StoredQueue:
        return self._queues.get(name) or self._queues.setdefault(name, _StoredQueue())

    def _points(self, what: str, of: str) -> Points:
        found = self._series.get((what, of))
        if found is None:
            found = self._series[what, of] = Points(what, of, array("q"), array("q"))
        return found


class _Lag(msgspec.Struct):
    """The messages a group has not committed: *count*, over all queues of *positions*."""

    positions: dict[Queue, int]
    count: int = 0


class _StoredQueue:
    """The time each message of a queue was stored, and the groups whose backlog counts it."""

    def __init__(self) -> None:
        self.groups: list[str] = []
        self._first = 0
        self._times = array("q")

    @property
    def end(self) -> int:
        return self._first + len(self._times)

    def store(self, offset: int, at_us: int) -> None:
        if not self._times:
            self._first = offset
        place = offset - self._first
        if place == len(self._times):
            self._times.append(at_us)
        elif 0 <= place < len(self._times):  # the end of the log was lost and is written again
            del self._times[place:]
            self._times.append(at_us)
        elif place > 0:
            self._first, self._times = offset, array("q", [at_us])

    def stored_us(self, offset: int) -> int:
        place = offset - self._first
        return self._times[place] if 0 <= place < len(self._times) else NOT_STORED
