"""Queues and permissions of every topic on every broker, and routes that lack some of them.

A broker's own permission restricts those of all its topics, until its process ends.  Clients see
no queues of a broker that is in no route.

A broker reports a changed topic by a registration with this topic alone.  Before 5.0 a NameServer
accepts it even if it does not know the broker, and stores its version of topics: later
registrations change nothing, and the other topics lack the broker's queues until a full
registration has another version (apache/rocketmq#4522).  Older journals do not count topics: there
only the end of the broker's registration ends that.  A NameServer whose number of topics equals
that of the topics sent to it one by one knows exactly these.  Members that ask different
NameServers may count different queues (``QueueCounts``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    BrokerExpired,
    BrokerRegistered,
    BrokerUnregistered,
    LogFlushed,
    PowerLost,
    Queue,
    RebalancePassed,
    SettingsChanged,
    TopicChanged,
    TopicCreated,
    WritePermChanged,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.bodies.routes import QueueData
from rocketmq_emulator.protocol.flags import PERM_READ, PERM_READ_WRITE, is_readable, is_writeable

if TYPE_CHECKING:
    from rocketmq_emulator.checks.state.disturbances import Span


COPY_US_MAX = 3_000_000  # of a slave's call for the topics: its reply is older than its end
SETTING = "brokerPermission="
TOPICS = "topics.json"
Topics: TypeAlias = dict[str, TopicCreated | TopicChanged]  # by name
REGISTRATIONS_MAX = 1_000  # of a broker at a NameServer: the last ones


class TopicTable:
    """The settings of topics, by topic and broker."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, TopicCreated | TopicChanged]] = {}
        self._perms: dict[str, int] = {}  # restricted brokers
        self._down: set[str] = set()  # brokers that are in no route
        self.version = 0  # incremented when a route may have changed
        self.partial = PartialRoutes()
        self.name_servers: set[str] = set()
        self.brokers: set[str] = set()  # brokers that ever had a topic
        # By NameServer and broker: times of registrations; one every 30 s.
        self._registered_us: dict[tuple[str, str], deque[int]] = {}
        self._unsure: set[tuple[str, str]] = set()  # topic, broker: settings may be lost
        # By topic and broker: log flushes since its change; the second one has saved it.
        self._unflushed: dict[tuple[str, str], int] = {}
        self._last_topic: dict[str, str] = {}  # by broker: last created or changed
        # By topic and broker, or broker alone: when it became writable again.
        self._writeable_us: dict[tuple[str, str], int] = {}
        self._changed_us: dict[str, int] = {}  # by broker: topics, permissions, registration
        self._copies: dict[str, Topics] = {}  # by slave that may be elected: its own topics
        self._older: set[tuple[str, str]] = set()  # topic, broker: an older one, by an election
        self._copies_lost: set[str] = set()  # slaves that may have lost them with the power
        # By slave: queues that its topics have at least, if they changed during the copy.
        self._copies_unsure: dict[str, dict[str, int]] = {}
        # By topic and broker: queues before its last change, and when that was.
        self._before: dict[tuple[str, str], tuple[int, int]] = {}
        # By topic and broker: queues that a master has at least whose slave was elected then.
        self._maybe_fewer: dict[tuple[str, str], int] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
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
        """Whether all topics on all brokers are writable."""
        return not self._perms and all(
            is_writeable(config.perm) for rows in self._topics.values() for config in rows.values()
        )

    def perm(self, topic: str, broker: str) -> int:
        """The permission of *topic* on *broker*; 0 if there is no such topic."""
        config = self._topics.get(topic, {}).get(broker)
        return 0 if config is None else config.perm & self._perms.get(broker, PERM_READ_WRITE)

    def writeable_since_us(self, topic: str, broker: str) -> int:
        """When *topic* became writable again on *broker*; 0: it always was, or is not."""
        known = self._writeable_us
        return max(known.get((topic, broker), 0), known.get(("", broker), 0))

    def places(self) -> Iterator[tuple[str, str]]:
        """Every (topic, broker) of brokers that have the topic."""
        return ((topic, broker) for topic, rows in self._topics.items() for broker in rows)

    def brokers_of(self, topic: str) -> set[str]:
        """The brokers that have *topic*."""
        return set(self._topics.get(topic, ()))

    def has(self, queue: Queue) -> bool:
        """Whether the topic has such a queue on its broker, as far as is known."""
        config = self._topics.get(queue.topic, {}).get(queue.broker)
        if config is None:
            return True
        return queue.queue_id < max(config.read_queue_count, config.write_queue_count)

    def has_lost(self, queue: Queue) -> bool:
        """Whether an elected master has an older topic, without this queue, or may have none."""
        place = queue.topic, queue.broker
        if queue.queue_id >= self._maybe_fewer.get(place, queue.queue_id + 1):
            return True
        if place not in self._older:
            return False
        return queue.queue_id >= self.readable_count(queue.topic, queue.broker)

    def is_down(self, broker: str) -> bool:
        """Whether some NameServer lost *broker* and has no new registration of it."""
        return broker in self._down

    def is_partial(self, queue: Queue) -> bool:
        """Whether some NameServer has the queue's broker in its routes, but not the queue."""
        return self.partial.lacks(queue.broker, queue.topic)

    def is_lacking(self, topic: str) -> bool:
        """Whether some NameServer has a broker of *topic* in its routes without *topic*."""
        return any(self.partial.lacks(broker, topic) for broker in self._topics.get(topic, ()))

    def changed_us(self, broker: str) -> int:
        """When the broker's topics, permissions or registration changed last."""
        return self._changed_us.get(broker, 0)

    def route(self, topic: str) -> list[QueueData]:
        """The route of *topic* at a NameServer that lacks nothing."""
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
        """Whether *broker* registered with *name_server* in that time."""
        times = self._registered_us.get((name_server, broker), ())
        return any(since_us < at_us < until_us for at_us in times)

    def is_sure(self, topic: str, broker: str) -> bool:
        """Whether the topic's settings are as in the facts.

        They may be older if they were lost with the power, or by the election of a slave that
        copied the topics while this one changed.
        """
        return (topic, broker) not in self._unsure

    def readable_count(self, topic: str, broker: str) -> int:
        """The number of readable queues of *topic* on *broker*, if the broker is in routes."""
        config = self._topics.get(topic, {}).get(broker)
        if config is None or not is_readable(self.perm(topic, broker)):
            return 0
        return config.read_queue_count

    def lost_power(self, fact: PowerLost, broker: str) -> None:
        """Topics that the broker changed and did not flush may have their old settings."""
        if TOPICS in fact.documents:
            self._unsure.update(known for known in self._unflushed if known[1] == broker)
            self._copies_lost.add(broker)

    def _flushed(self, fact: LogFlushed, entry: Entry) -> None:
        """Count a flush, which also saves topics; the first may have begun before a change."""
        for known, count in list(self._unflushed.items()):
            if known[1] != entry.node:
                continue
            if count:
                del self._unflushed[known]
            else:
                self._unflushed[known] = count + 1

    def restarted(self, broker: str, now_us: int) -> None:
        """A new process has the permission of its settings again."""
        self.version += 1
        if not is_writeable(self._perms.pop(broker, PERM_READ_WRITE)):
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
        place = fact.topic, entry.node
        self._note_before(place, before, entry.mono_us)
        self._unsure.discard(place)
        self._maybe_fewer.pop(place, None)
        self._unflushed[place] = 0

    def _note_before(
        self, place: tuple[str, str], before: TopicCreated | TopicChanged | None, now_us: int
    ) -> None:
        """Keep the lowest number of queues that a copy may have which ends soon after *now_us*."""
        count = 0 if before is None else min(before.read_queue_count, before.write_queue_count)
        known, changed_us = self._before.get(place, (count, now_us))
        is_recent = now_us - changed_us <= COPY_US_MAX
        self._before[place] = min(count, known) if is_recent else count, now_us

    # Slaves that may be elected ------------------------------------------------------------

    def changed_at_slave(self, fact: TopicCreated | TopicChanged, slave: str) -> None:
        """*slave* has a topic of its own, until its next copy."""
        self._copies.setdefault(slave, {})[fact.topic] = fact

    def copied(self, slave: str, broker: str, now_us: int) -> None:
        """*slave* has the topics of its master *broker*, as they were during the call.

        Upstream: SlaveSynchronize.syncTopicConfig; BrokerOuterAPI.getAllTopicConfig.
        """
        self._copies[slave] = self._topics_of(broker)
        self._copies_lost.discard(slave)
        self._copies_unsure[slave] = {
            topic: count
            for (topic, owner), (count, changed_us) in self._before.items()
            if owner == broker and now_us - changed_us <= COPY_US_MAX
        }

    def moved(self, broker: str, elected: str, left: str, now_us: int) -> None:
        """*broker* has the topics of its slave *elected* now, and its own are those of *left*.

        Upstream: SlaveSynchronize.syncTopicConfig; a topic that was changed after the last copy
        is again as it was, until a tool changes it once more.
        """
        copy, before = self._copies.pop(elected, {}), self._topics_of(broker)
        unsure = self._copies_unsure.pop(elected, {})
        self._copies[left] = before
        if elected in self._copies_lost:  # ConfigManager.persist does not flush its file
            self._copies_lost.discard(elected)
            unsure = dict.fromkeys(before, 0)
            copy = before
        elif copy == before and not unsure:
            return
        self._maybe_fewer |= {(topic, broker): count for topic, count in unsure.items()}
        self._unsure |= {(topic, broker) for topic in unsure}
        self.version += 1
        self._changed_us[broker] = now_us
        self._older |= {(each, broker) for each in before if copy.get(each) != before[each]}
        for topic in before.keys() - copy.keys():
            del self._topics[topic][broker]
        for topic, fact in copy.items():
            self._topics.setdefault(topic, {})[broker] = fact

    def _topics_of(self, broker: str) -> Topics:
        return {topic: rows[broker] for topic, rows in self._topics.items() if broker in rows}

    # Permissions and registrations ---------------------------------------------------------

    def _settings_changed(self, fact: SettingsChanged, entry: Entry) -> None:
        for text in fact.settings:
            value = text.removeprefix(SETTING)
            if value != text and value.isdecimal():
                self._restricts(entry.node, int(value), entry.mono_us)

    def _write_perm_changed(self, fact: WritePermChanged, entry: Entry) -> None:
        self._restricts(
            fact.broker, PERM_READ_WRITE if fact.writable else PERM_READ, entry.mono_us
        )

    def _restricts(self, broker: str, perm: int, now_us: int) -> None:
        self.version += 1
        before = self._perms.get(broker, PERM_READ_WRITE)
        if is_readable(before) != is_readable(perm):
            self._changed_us[broker] = now_us
        if is_writeable(perm) and not is_writeable(before):
            self._writeable_us["", broker] = now_us
        self._perms[broker] = perm
        if perm & PERM_READ_WRITE == PERM_READ_WRITE:
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


# Routes without some of a broker's topics ---------------------------------------------


class PartialRoute(msgspec.Struct):
    """A time in which a NameServer lacks topics of a broker.  Times are ``mono_us``."""

    began_us: int
    ended_us: int | None = None
    registered_us: dict[str, int] = {}  # topic: registered alone, when
    knows_only_these: bool = False

    def until_us(self, topic: str, now_us: int) -> int:
        """Until when the NameServer lacked *topic*."""
        ended_us = now_us if self.ended_us is None else self.ended_us
        known_us = self.registered_us.get(topic, ended_us) if self.knows_only_these else ended_us
        return min(known_us, ended_us)


class PartialRoutes:
    """All partial routes, present and past."""

    def __init__(self) -> None:
        self._now: dict[str, dict[str, PartialRoute]] = {}  # by NameServer and broker
        self._ever: dict[str, list[PartialRoute]] = {}  # by broker
        self._sizes: dict[str, int] = {}  # by broker: topics in its last full registration

    @property
    def were_any(self) -> bool:
        """Whether some NameServer lacks, or lacked, topics of some broker."""
        return bool(self._ever)

    def were_there(self, broker: str) -> bool:
        """Whether some NameServer lacks, or lacked, topics of *broker*."""
        return broker in self._ever

    def lacks(self, broker: str, topic: str) -> bool:
        """Whether some NameServer has *broker* without *topic*."""
        if not self._ever:
            return False
        routes = (known[broker] for known in self._now.values() if broker in known)
        return any(not each.knows_only_these or topic not in each.registered_us for each in routes)

    def spans(self, brokers: Iterable[str], topic: str, now_us: int) -> Iterator[Span]:
        """The times in which one of *brokers* was in some route without *topic*."""
        for broker in brokers:
            for each in self._ever.get(broker, ()):
                yield each.began_us, each.until_us(topic, now_us)

    def last_us(self, brokers: Iterable[str], now_us: int) -> int:
        """When some NameServer last lacked a topic of one of *brokers*; 0: never."""
        return max(
            (
                now_us if each.ended_us is None else each.ended_us
                for broker in brokers
                for each in self._ever.get(broker, ())
            ),
            default=0,
        )

    def registered(
        self, name_server: str, fact: BrokerRegistered, topic_count: int, topic: str, now_us: int
    ) -> None:
        """Note a registration of a broker that has *topic_count* topics; *topic* changed last."""
        if fact.topic_count > 1:
            self._sizes[fact.broker] = fact.topic_count
        if fact.known_count >= 0:
            is_partial = fact.known_count < max(self._sizes.get(fact.broker, 0), topic_count)
        elif fact.first:
            is_partial = fact.topic_count == 1 < topic_count
        else:
            return
        if not is_partial:
            self.lost(name_server, fact.broker, now_us)
            return
        known = self._now.setdefault(name_server, {})
        if fact.broker not in known:
            known[fact.broker] = PartialRoute(now_us)
            self._ever.setdefault(fact.broker, []).append(known[fact.broker])
        route = known[fact.broker]
        if fact.topic_count == 1 and topic:
            route.registered_us.setdefault(topic, now_us)
        route.knows_only_these = len(route.registered_us) == fact.known_count

    def lost(self, name_server: str, broker: str, now_us: int) -> None:
        """End a partial route: the NameServer has no or all topics of *broker*."""
        route = self._now.get(name_server, {}).pop(broker, None)
        if route is not None:
            route.ended_us = now_us


# How many queues each member counts ---------------------------------------------------


class QueueCounts:
    """The queue counts of the last pass of each member."""

    def __init__(self) -> None:
        # By group and topic, then node: number of queues, and when.
        self._last: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {RebalancePassed: self._passed}

    def differ(self, group: str, topic: str, since_us: Mapping[str, int]) -> bool:
        """Whether members on the nodes in *since_us*, by start time, count different queues."""
        last = self._last.get((group, topic), {})
        return len({n for node, (n, at) in last.items() if at >= since_us.get(node, at + 1)}) > 1

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        known = self._last.setdefault((fact.group, fact.topic), {})
        known[entry.node] = fact.queue_count, entry.mono_us
