"""Brokers of which a NameServer does not know all topics: apache/rocketmq#4522.

A broker tells of a topic that was made or changed by a registration with this topic alone.  Before
5.0 a NameServer takes it even if it does not know the broker (any more), and remembers the version
of the broker's topics with it.  Every later registration has the same version and changes nothing:
the other topics stay without these queues until a full registration has another version.

A journal says how many topics a NameServer knows after each registration; an older one does not,
and there only the end of the broker's registration shows the end.

A NameServer that knows as many topics of a broker as were told to it one by one knows these: what
is left undone in their queues has another cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from emulator.checks.disturbances import Span
    from emulator.facts import BrokerRegistered


class PartialRoute(msgspec.Struct):
    """One NameServer lacks topics of one broker.  Times are ``mono_us``."""

    began_us: int
    ended_us: int | None = None
    told_us: dict[str, int] = {}  # when it was told of a topic alone
    knows_only_these: bool = False

    def until_us(self, topic: str, now_us: int) -> int:
        """Until when it lacked *topic*."""
        ended_us = now_us if self.ended_us is None else self.ended_us
        known_us = self.told_us.get(topic, ended_us) if self.knows_only_these else ended_us
        return min(known_us, ended_us)


class PartialRoutes:
    """Which they are now, and which there were."""

    def __init__(self) -> None:
        self._now: dict[str, dict[str, PartialRoute]] = {}  # by NameServer and broker
        self._ever: dict[str, list[PartialRoute]] = {}  # by broker
        self._sizes: dict[str, int] = {}  # by broker: the topics of its last full registration

    @property
    def were_any(self) -> bool:
        """Some NameServer lacks, or lacked, topics of some broker."""
        return bool(self._ever)

    def were_there(self, broker: str) -> bool:
        """Some NameServer lacks topics of *broker*, or lacked some."""
        return broker in self._ever

    def lacks(self, broker: str, topic: str) -> bool:
        """Some NameServer knows *broker* and does not know that it has *topic*."""
        if not self._ever:
            return False
        routes = (known[broker] for known in self._now.values() if broker in known)
        return any(not each.knows_only_these or topic not in each.told_us for each in routes)

    def spans(self, brokers: Iterable[str], topic: str, now_us: int) -> Iterator[Span]:
        """From and until when one of *brokers* was in some route without *topic*."""
        for broker in brokers:
            for each in self._ever.get(broker, ()):
                yield each.began_us, each.until_us(topic, now_us)

    def last_us(self, brokers: Iterable[str], now_us: int) -> int:
        """When some NameServer lacked a topic of one of *brokers* for the last time; 0: never."""
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
        """The broker has *topic_count* topics, as other facts tell; *topic* changed last."""
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
            route.told_us.setdefault(topic, now_us)
        route.knows_only_these = len(route.told_us) == fact.known_count

    def lost(self, name_server: str, broker: str, now_us: int) -> None:
        """It is in no route of that NameServer, or with all its topics."""
        route = self._now.get(name_server, {}).pop(broker, None)
        if route is not None:
            route.ended_us = now_us
