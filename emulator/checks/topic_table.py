"""Which queues every topic has on every broker, and what may be done with them, as facts tell it.

A broker's own permission restricts those of all its topics; it is a setting that a new process
does not have.  A broker that is in no route has no queues for anybody.
"""

from __future__ import annotations

from collections.abc import Iterator

from emulator.checks.folding import Table
from emulator.checks.partial_routes import PartialRoutes
from emulator.facts import (
    BrokerExpired,
    BrokerRegistered,
    BrokerUnregistered,
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


class TopicTable:
    """By topic and broker."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, TopicCreated | TopicChanged]] = {}
        self._perms: dict[str, int] = {}  # brokers that may do less than all
        self._down: set[str] = set()  # brokers that are in no route
        self.partial = PartialRoutes()

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

    def restarted(self, broker: str) -> None:
        """A new process: it may do what its settings say from the start."""
        self._perms.pop(broker, None)

    def _changed(self, fact: TopicCreated | TopicChanged, entry: Entry) -> None:
        self._topics.setdefault(fact.topic, {})[entry.node] = fact

    def _settings_changed(self, fact: SettingsChanged, entry: Entry) -> None:
        for text in fact.settings:
            value = text.removeprefix(SETTING)
            if value != text and value.isdecimal():
                self._restricts(entry.node, int(value))

    def _write_perm_changed(self, fact: WritePermChanged, entry: Entry) -> None:
        self._restricts(fact.broker, READ_WRITE if fact.writable else READ)

    def _restricts(self, broker: str, perm: int) -> None:
        self._perms[broker] = perm
        if perm & READ_WRITE == READ_WRITE:
            del self._perms[broker]

    def _registered(self, fact: BrokerRegistered, entry: Entry) -> None:
        self._down.discard(fact.broker)
        topic_count = sum(1 for rows in self._topics.values() if fact.broker in rows)
        self.partial.registered(entry.node, fact, topic_count)

    def _lost(self, fact: BrokerUnregistered | BrokerExpired, entry: Entry) -> None:
        self._down.add(fact.broker)
        self.partial.lost(entry.node, fact.broker)
