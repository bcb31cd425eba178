"""A reset: a broker becomes as if it had just started, but for who is connected.

Each table empties itself; here is the list of them, and what connected consumers keep.  They stay
members of their groups, with their queue locks.  Topics that they read stay, without
messages, and go on counting: else consumers would ask for offsets that are not there.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import TYPE_CHECKING

from emulator.facts import BrokerReset

if TYPE_CHECKING:
    from emulator.broker.broker import Broker


def reset_broker(broker: Broker, now_ms: int) -> Hashable | None:
    """Reset everything; the bell that rings when every NameServer knows, None if none will.

    Raises what a disk without room raises.
    """
    groups, topics = _of_connected(broker)
    broker.store.reset(topics, now_ms)
    broker.reconfigure(broker.first_config)
    broker.topics.reset(topics, now_ms)
    broker.groups.reset(groups, now_ms)
    broker.offsets.replace_all(_ends_of(broker, groups, topics), now_ms)
    broker.request_modes.reset()
    broker.routes.subscribe_info.clear()
    broker.locks.reset(broker.clients.consumer_ids(), now_ms)
    broker.clients.heard_all(now_ms)
    broker.delays.reset(now_ms)
    if broker.timers is not None:
        broker.timers.reset(now_ms)
    broker.note(BrokerReset(tuple(groups), tuple(topics)))
    return broker.register_again(now_ms)


def _of_connected(broker: Broker) -> tuple[list[str], list[str]]:
    """The groups that have members, and the topics that those read or have read."""
    table = broker.clients.consumer_table
    read = [topic for group in table.values() for topic in group.subscription_table]
    read += [topic for topic, group, _ in broker.offsets.entries() if group in table]
    is_system = broker.topics.is_system
    return sorted(table), sorted({topic for topic in read if not is_system(topic)})


def _ends_of(
    broker: Broker, groups: Iterable[str], topics: Collection[str]
) -> dict[tuple[str, str], dict[int, int]]:
    """Offsets as if *groups* had consumed all that they read, by topic and group."""
    store = broker.store
    return {
        (topic, group): {number: store.max_offset(topic, number) for number in queues}
        for topic, group, queues in broker.offsets.entries()
        if group in groups and topic in topics
    }
