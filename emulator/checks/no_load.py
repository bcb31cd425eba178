"""Members without work while a broker is read-only, by the idle declaration of #3465.

A queue that may be read and not written to, and that the group has read to its end, is declared
idle: nothing will come to it.  A member all of whose queues are such has no load, whatever the
others have to do.  (``idleness`` sees the same from the messages that members get.)
"""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric, Shared
from emulator.checks.folding import Table
from emulator.facts import (
    BrokerRegistered,
    BrokerUnregistered,
    ConsumerStarted,
    ConsumerStopped,
    FaultBegan,
    MessageConsumed,
    MessagePolled,
    MessageStored,
    NodeKilled,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    SettingsChanged,
    StoreOpened,
    TopicChanged,
    TopicCreated,
    WritePermChanged,
)
from emulator.journal import Entry
from protocol.idle_queues import is_declared_idle, no_load_ratio
from protocol.names import is_retry_topic

US_A_SECOND = 1_000_000


class NoLoad(Checker):
    """Counts: what a group's strategy does with such queues is no rule."""

    name = "no_load"
    is_measure = True
    rule = "a member has some queue to which messages come"
    metrics = (
        Metric(
            "no_load_ratio",
            "share",
            "1 - write queues / read queues of a topic, at most; read-only ones are not written",
            "topic",
            "max",
        ),
        Metric(
            "declared_idle_queues",
            "queues",
            "at once, that could only be read and had been read to their end",
            "group",
        ),
        Metric("no_load_members", "members", "at once, whose queues all were such", "group"),
        Metric("no_load_s", "s", "for which members had only such queues, summed", "group"),
    )
    needs = (QueuesClaimed,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._owned: dict[str, dict[str, set[Queue]]] = {}  # group, node
        self._since_us: dict[tuple[str, str], int] = {}  # group, node: without load since then
        self._seen = 0, 0  # version of the routes, number of topics
        self._is_restricted = False  # some queue may not be written to
        self._read_only: set[tuple[str, str]] = set()  # topic, broker: whose queues may be read

    def table(self) -> Table:
        """What it reads."""
        cluster = (TopicCreated, TopicChanged, SettingsChanged, WritePermChanged)
        brokers = (BrokerRegistered, BrokerUnregistered, StoreOpened)
        members = (ConsumerStarted, ConsumerStopped, FaultBegan, NodeKilled)
        return {
            **dict.fromkeys((*cluster, *brokers, *members), self._changed),
            QueuesClaimed: self._claimed,
            QueuesReleased: self._released,
            MessageStored: self._moves,
            MessageConsumed: self._moves,
            MessagePolled: self._moves,
        }

    def end(self) -> None:
        """Who has no load to the end."""
        self._look(self.scene.now_us)
        for group, node in list(self._since_us):
            self._works(group, node, self.scene.now_us)
        for group in self.scene.seats:
            for metric in ("declared_idle_queues", "no_load_members", "no_load_s"):
                self.adds(metric, 0, group)

    def _changed(self, fact: object, entry: Entry) -> None:
        topics = set().union(*map(self.scene.topics_of, self.scene.seats))
        seen = self.scene.topics.version, len(topics)
        if seen != self._seen:  # most of these facts change no route
            self._seen = seen
            self._routes_changed(topics)
        self._look(entry.mono_us)

    def _routes_changed(self, topics: set[str]) -> None:
        table = self.scene.topics
        self._is_restricted = not table.are_all_writeable
        self._read_only = {at for at in table.places() if is_declared_idle(table.perm(*at), 0)}
        for topic in topics:
            ratio = no_load_ratio(table.route(topic))
            known = self.measured.get(f"no_load_ratio.{topic}", 0.0)
            self.measures("no_load_ratio", max(known, ratio), topic)

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        queues = self._owned.setdefault(fact.group, {}).setdefault(entry.node, set())
        queues.update(queue for queue in fact.queues if not is_retry_topic(queue.topic))
        self._look(entry.mono_us)

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        self._owned.get(fact.group, {}).get(entry.node, set()).difference_update(fact.queues)
        self._look(entry.mono_us)

    def _moves(self, fact: MessageStored | MessageConsumed | MessagePolled, entry: Entry) -> None:
        """A queue has more to be read, or less."""
        if self._read_only and self._is_read_only(fact.queue):
            self._look(entry.mono_us, fact.queue)

    def _is_read_only(self, queue: Queue) -> bool:
        return (queue.topic, queue.broker) in self._read_only

    def _look(self, now_us: int, moved: Queue | None = None) -> None:
        """Who has load now, and who has not: where only *moved* changed, in groups that own it."""
        if not (self._is_restricted or self._since_us):
            return
        for group, owned in self._owned.items():
            if group in self.scene.broadcast:
                continue
            if moved is not None and not any(moved in queues for queues in owned.values()):
                continue
            living = {seat.node for seat in self.scene.living(group)}
            idle_queues = idle_members = 0
            for node in sorted(owned):
                queues = owned[node] if node in living else set()
                idle = sum(self._is_idle(group, q) for q in queues if self._is_read_only(q))
                idle_queues += idle
                if queues and idle == len(queues):
                    idle_members += 1
                    self._since_us.setdefault((group, node), now_us)
                else:
                    self._works(group, node, now_us)
            self._at_most("declared_idle_queues", idle_queues, group)
            self._at_most("no_load_members", idle_members, group)

    def _is_idle(self, group: str, queue: Queue) -> bool:
        """The group has read all of this queue, to which nobody may write."""
        records = self.progress.messages.queues.get(queue)
        if records is None or records.first is None:
            return True  # nothing was ever stored there
        reading = self.progress.readers.get(group, {}).get(queue)
        done = records.first if reading is None else reading.done.behind(reading.start)
        return done >= records.behind

    def _works(self, group: str, node: str, now_us: int) -> None:
        since_us = self._since_us.pop((group, node), None)
        if since_us is not None:
            self.adds("no_load_s", (now_us - since_us) / US_A_SECOND, group)

    def _at_most(self, metric: str, value: int, group: str) -> None:
        self.measures(metric, max(value, self.measured.get(f"{metric}.{group}", 0)), group)
