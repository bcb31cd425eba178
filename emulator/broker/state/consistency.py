"""Consistency of the log and the tables: checked at a start, kept by a reset.

At a start, parts of a store may be lost.  Nothing is repaired: messages of a missing topic stay
unreadable until the topic is created again, and an offset beyond the log stays, as upstream
leaves both; each is a fact.
After a reset a broker is as if it had just started, except for its connections.  Consumers stay
members of their groups, with their queue locks.  The topics that they read stay, without
messages; their queues do not restart from offset 0, and the groups' offsets are the ends of the
queues: otherwise consumers would request offsets that do not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator

from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.tables.offsets import TOPIC_GROUP_SEPARATOR
from rocketmq_emulator.facts import BrokerReset, Fact, MessagesWithoutTopic, OffsetsBeyondLog
from rocketmq_emulator.protocol.messages.names import TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC

NAMES_MAX = 10
TRANSACTION_TOPICS = (TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC)  # 4.x has messages of them before


def find_inconsistencies(broker: Broker) -> Iterator[Fact]:
    """A fact for each kind of inconsistency between the log and the tables."""
    if found := _without_topic(broker):
        topics = tuple(sorted(found))
        yield MessagesWithoutTopic(topics[:NAMES_MAX], sum(found.values()))
    if beyond := _beyond_log(broker):
        groups = tuple(sorted({group for group, _, _ in beyond}))
        by_queue: dict[tuple[str, int], int] = {}
        for (_, topic, queue_id), count in beyond.items():
            by_queue[topic, queue_id] = max(count, by_queue.get((topic, queue_id), 0))
        yield OffsetsBeyondLog(groups[:NAMES_MAX], sum(by_queue.values()))


def _without_topic(broker: Broker) -> dict[str, int]:
    """The number of messages by topic, for topics that are missing in the topic table."""
    known = broker.topics.topic_config_table
    found: dict[str, int] = {}
    for topic, count in broker.store.messages_by_topic():
        if topic not in known and topic not in TRANSACTION_TOPICS:
            found[topic] = found.get(topic, 0) + count
    return found


def _beyond_log(broker: Broker) -> dict[tuple[str, str, int], int]:
    """By group, topic and queue: by how much the committed offset exceeds the queue's end."""
    known = broker.topics.topic_config_table
    found: dict[tuple[str, str, int], int] = {}
    for key, queues in broker.offsets.offset_table.items():
        topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
        if topic not in known:
            continue
        for queue_id, offset in queues.items():
            count = offset - broker.store.max_offset(topic, queue_id)
            if count > 0:
                found[group, topic, queue_id] = count
    return found


# Reset --------------------------------------------------------------------------------


def reset_broker(broker: Broker, now_ms: int) -> Hashable | None:
    """Reset the store and the tables; returns the bell of the new registration, or None.

    Raises one of ``WRITE_ERRORS`` if the disk cannot save it.
    """
    groups, topics = _of_connected(broker)
    broker.store.reset(topics, now_ms)
    broker.restart_replicas()
    broker.reconfigure(broker.first_config)
    broker.topics.reset(topics, now_ms)
    broker.groups.reset(groups, now_ms)
    broker.offsets.replace_all(_ends_of(broker, groups, topics))
    broker.request_modes.reset()
    broker.filters.reset(groups)
    broker.routes.subscribe_info.clear()
    broker.misuses.clear()
    broker.locks.reset(broker.clients.consumer_ids(), now_ms)
    broker.clients.refresh_all(now_ms)
    broker.delays.reset(now_ms)
    broker.transactions.reset(now_ms)
    if broker.timers is not None:
        broker.timers.reset(now_ms)
    broker.note(BrokerReset(tuple(groups), tuple(topics)))
    return broker.register_again(now_ms)


def _of_connected(broker: Broker) -> tuple[list[str], list[str]]:
    """The groups that have members, and the topics that these groups read or have read."""
    table = broker.clients.consumer_table
    read = [topic for group in table.values() for topic in group.subscription_table]
    read += [topic for topic, group, _ in broker.offsets.entries() if group in table]
    is_system = broker.topics.is_system
    return sorted(table), sorted({topic for topic in read if not is_system(topic)})


def _ends_of(
    broker: Broker, groups: Iterable[str], topics: Collection[str]
) -> dict[tuple[str, str], dict[int, int]]:
    """By topic and group: offsets as if *groups* had consumed all their messages."""
    store = broker.store
    return {
        (topic, group): {number: store.max_offset(topic, number) for number in queues}
        for topic, group, queues in broker.offsets.entries()
        if group in groups and topic in topics
    }
