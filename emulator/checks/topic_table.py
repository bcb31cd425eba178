"""Which queues every topic has on every broker, and what may be done with them, as facts tell it.

A broker's own permission restricts those of all its topics; it is a setting that a new process
does not have.  A broker that is in no route has no queues for anybody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from emulator.checks.folding import Table
from emulator.checks.partial_routes import PartialRoutes
from emulator.facts import (
    BrokerExpired,
    BrokerRegistered,
    BrokerUnregistered,
    LogFlushed,
    PowerLost,
    Queue,
    SettingsChanged,
    TopicChanged,
    TopicCreated,
    WritePermChanged,
)
from emulator.journal import Entry
from protocol.bodies.routes import QueueData
from protocol.perm import READ, READ_WRITE, is_readable, is_writeable

SETTING = "brokerPermission="
TOPICS = "topics.json"
REGISTRATIONS_MAX = 1_000  # of a broker at a NameServer: the last ones


class TopicTable:
    """By topic and broker."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, TopicCreated | TopicChanged]] = {}
        self._perms: dict[str, int] = {}  # brokers that may do less than all
        self._down: set[str] = set()  # brokers that are in no route
        self.version = 0  # goes up when a route may be another one
        self.partial = PartialRoutes()
        self.name_servers: set[str] = set()
        self.brokers: set[str] = set()  # that ever had a topic
        # By NameServer and broker: when it was registered; a broker does that every 30 s.
        self._registered_us: dict[tuple[str, str], deque[int]] = {}
        self._unsure: set[tuple[str, str]] = set()  # topic, broker: it may have lost its settings
        # By topic and broker: flushes of its log since it was changed; two take it along.
        self._unflushed: dict[tuple[str, str], int] = {}
        self._last_topic: dict[str, str] = {}  # by broker: that it made or changed last
        # By topic and broker, or broker alone: when it was given back the permission to write.
        self._writeable_us: dict[tuple[str, str], int] = {}
        self._changed_us: dict[str, int] = {}  # by broker: a topic, who may read it, its place

    def table(self) -> Table:
        """What it reads."""
        return {
            TopicCreated: self._changed,
            TopicChanged: self._changed,
            SettingsChanged: self._settings_changed,
            WritePermChanged: self._write_perm_changed,
            BrokerRegistered: self._registered,
            BrokerUnregistered: self._lost,
            BrokerExpired: self._lost,
            LogFlushed: self._flushed,
        }

    @property
    def are_all_writeable(self) -> bool:
        """No topic and no broker is restricted."""
        return not self._perms and all(
            is_writeable(config.perm) for rows in self._topics.values() for config in rows.values()
        )

    def perm(self, topic: str, broker: str) -> int:
        """What may be done there; 0 where there is no such topic."""
        config = self._topics.get(topic, {}).get(broker)
        return 0 if config is None else config.perm & self._perms.get(broker, READ_WRITE)

    def writeable_since_us(self, topic: str, broker: str) -> int:
        """When that was permitted again; 0: it always was, or is not."""
        known = self._writeable_us
        return max(known.get((topic, broker), 0), known.get(("", broker), 0))

    def places(self) -> Iterator[tuple[str, str]]:
        """Every topic, with every broker that has it."""
        return ((topic, broker) for topic, rows in self._topics.items() for broker in rows)

    def brokers_of(self, topic: str) -> set[str]:
        """The brokers that have *topic*."""
        return set(self._topics.get(topic, ()))

    def has(self, queue: Queue) -> bool:
        """Its topic has such a queue there, as far as is known."""
        config = self._topics.get(queue.topic, {}).get(queue.broker)
        if config is None:
            return True
        return queue.queue_id < max(config.read_queue_count, config.write_queue_count)

    def is_down(self, broker: str) -> bool:
        """Some NameServer lost it, and has not got it back."""
        return broker in self._down

    def is_partial(self, queue: Queue) -> bool:
        """Some NameServer has the queue's broker in its routes, and not the queue."""
        return self.partial.lacks(queue.broker, queue.topic)

    def is_lacking(self, topic: str) -> bool:
        """Some NameServer has a broker of *topic* in its routes, and not with *topic*."""
        return any(self.partial.lacks(broker, topic) for broker in self._topics.get(topic, ()))

    def changed_us(self, broker: str) -> int:
        """When its topics, what may be done with them, or its being there changed last."""
        return self._changed_us.get(broker, 0)

    def route(self, topic: str) -> list[QueueData]:
        """As a NameServer that knows everything would tell it."""
        return [
            QueueData(
                broker_name=broker,
                read_queue_nums=config.read_queue_count,
                write_queue_nums=config.write_queue_count,
                perm=self.perm(topic, broker),
            )
            for broker, config in sorted(self._topics.get(topic, {}).items())
            if broker not in self._down
        ]

    def readable(self, topic: str) -> Iterator[Queue]:
        """The queues that a group shares out."""
        for row in self.route(topic):
            if is_readable(row.perm):
                for number in range(row.read_queue_nums):
                    yield Queue(topic, row.broker_name, number)

    def was_registered(self, name_server: str, broker: str, since_us: int, until_us: int) -> bool:
        """*broker* registered with *name_server* in that time."""
        times = self._registered_us.get((name_server, broker), ())
        return any(since_us < at_us < until_us for at_us in times)

    def is_sure(self, topic: str, broker: str) -> bool:
        """The broker has the queues of *topic* that facts tell: none was lost with the power."""
        return (topic, broker) not in self._unsure

    def readable_count(self, topic: str, broker: str) -> int:
        """How many queues a group shares out there while the broker is in the routes."""
        config = self._topics.get(topic, {}).get(broker)
        if config is None or not is_readable(self.perm(topic, broker)):
            return 0
        return config.read_queue_count

    def lost_power(self, fact: PowerLost, broker: str) -> None:
        """What the broker had changed and not flushed may be as before."""
        if TOPICS in fact.documents:
            self._unsure.update(known for known in self._unflushed if known[1] == broker)

    def _flushed(self, fact: LogFlushed, entry: Entry) -> None:
        """It takes the files along; one that was under way at a change ends before it."""
        for known, count in list(self._unflushed.items()):
            if known[1] != entry.node:
                continue
            if count:
                del self._unflushed[known]
            else:
                self._unflushed[known] = count + 1

    def restarted(self, broker: str, now_us: int) -> None:
        """A new process: it may do what its settings say from the start."""
        self.version += 1
        if not is_writeable(self._perms.pop(broker, READ_WRITE)):
            self._writeable_us["", broker] = now_us

    def _changed(self, fact: TopicCreated | TopicChanged, entry: Entry) -> None:
        self.version += 1
        self.brokers.add(entry.node)
        self._changed_us[entry.node] = entry.mono_us
        self._last_topic[entry.node] = fact.topic
        rows = self._topics.setdefault(fact.topic, {})
        before = rows.get(entry.node)
        if before is not None and is_writeable(fact.perm) and not is_writeable(before.perm):
            self._writeable_us[fact.topic, entry.node] = entry.mono_us
        rows[entry.node] = fact
        self._unsure.discard((fact.topic, entry.node))
        self._unflushed[fact.topic, entry.node] = 0

    def _settings_changed(self, fact: SettingsChanged, entry: Entry) -> None:
        for text in fact.settings:
            value = text.removeprefix(SETTING)
            if value != text and value.isdecimal():
                self._restricts(entry.node, int(value), entry.mono_us)

    def _write_perm_changed(self, fact: WritePermChanged, entry: Entry) -> None:
        self._restricts(fact.broker, READ_WRITE if fact.writable else READ, entry.mono_us)

    def _restricts(self, broker: str, perm: int, now_us: int) -> None:
        self.version += 1
        before = self._perms.get(broker, READ_WRITE)
        if is_readable(before) != is_readable(perm):
            self._changed_us[broker] = now_us
        if is_writeable(perm) and not is_writeable(before):
            self._writeable_us["", broker] = now_us
        self._perms[broker] = perm
        if perm & READ_WRITE == READ_WRITE:
            del self._perms[broker]

    def _registered(self, fact: BrokerRegistered, entry: Entry) -> None:
        registered_us = self._registered_us.get((entry.node, fact.broker))
        if registered_us is None:
            registered_us = deque(maxlen=REGISTRATIONS_MAX)
            self._registered_us[entry.node, fact.broker] = registered_us
        if fact.first or fact.broker in self._down or not registered_us:
            self._changed_us[fact.broker] = entry.mono_us
        registered_us.append(entry.mono_us)
        if fact.broker in self._down:
            self._down.remove(fact.broker)
            self.version += 1
        topic_count = sum(1 for rows in self._topics.values() if fact.broker in rows)
        last_topic = self._last_topic.get(fact.broker, "")
        self.partial.registered(entry.node, fact, topic_count, last_topic, entry.mono_us)
        self.name_servers.add(entry.node)

    def _lost(self, fact: BrokerUnregistered | BrokerExpired, entry: Entry) -> None:
        self.version += 1
        self._down.add(fact.broker)
        self._changed_us[fact.broker] = entry.mono_us
        self.partial.lost(entry.node, fact.broker, entry.mono_us)
