"""What a broker finds in its store that does not fit together: parts of it were lost.

Nothing is repaired: messages of a topic that is missing wait for it to be made again, and an
offset beyond the log stays, as upstream leaves both.  But somebody should know.
"""

from __future__ import annotations

from collections.abc import Iterator

from emulator.broker.broker import Broker
from emulator.broker.tables.offsets import TOPIC_GROUP_SEPARATOR
from emulator.facts import Fact, MessagesWithoutTopic, OffsetsBeyondLog

NAMES_MAX = 10


def misfits(broker: Broker) -> Iterator[Fact]:
    """A fact for each kind of misfit between the log and the tables."""
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
    """Messages by topic, of those that the table of topics does not have."""
    known = broker.topics.topic_config_table
    found: dict[str, int] = {}
    for topic, count in broker.store.messages_by_topic():
        if topic not in known:
            found[topic] = found.get(topic, 0) + count
    return found


def _beyond_log(broker: Broker) -> dict[tuple[str, str, int], int]:
    """By group, topic and queue: how far the committed offset is beyond the end of the queue."""
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
