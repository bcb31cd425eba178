"""Brokers of which a NameServer knows one topic only: apache/rocketmq#4522.

A broker tells of a topic that was made or changed by a registration with this topic alone.  Before
5.0 a NameServer takes it even if it does not know the broker (any more), and remembers the version
of the broker's topics with it.  Every later registration has the same version and changes nothing:
the other topics stay without these queues until the broker leaves the route or all is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.facts import BrokerRegistered


class PartialRoutes:
    """Which they are now."""

    def __init__(self) -> None:
        self._brokers: dict[str, set[str]] = {}  # by NameServer

    def __bool__(self) -> bool:
        """There is one."""
        return any(self._brokers.values())

    def __contains__(self, broker: str) -> bool:
        """Some NameServer knows one topic of it, and it has more."""
        return any(broker in brokers for brokers in self._brokers.values())

    def registered(self, name_server: str, fact: BrokerRegistered, topic_count: int) -> None:
        """The broker has *topic_count* topics, as other facts tell."""
        if fact.first:
            known = self._brokers.setdefault(name_server, set())
            is_partial = fact.topic_count == 1 < topic_count
            (known.add if is_partial else known.discard)(fact.broker)

    def lost(self, name_server: str, broker: str) -> None:
        """It is in no route of that NameServer."""
        self._brokers.get(name_server, set()).discard(broker)
