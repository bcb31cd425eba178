"""What happened to a NameServer's routes."""

from __future__ import annotations

from typing import ClassVar

from emulator.facts.fact import Fact, Severity


class BrokerRegistered(Fact, frozen=True):
    """A broker registered, for the first time or again."""

    cluster: str
    broker: str
    broker_id: int  # 0 is the master
    address: str  # where the broker listens
    topic_count: int  # of the topics it serves
    first: bool  # it was not in the routes before
    known_count: int = -1  # of its topics, those that are in the routes now; -1: not noted


class BrokerUnregistered(Fact, frozen=True):
    """A broker was removed from the routes: it unregistered, or its connection closed."""

    broker: str
    broker_id: int  # 0 is the master
    address: str  # where the broker listens
    reason: str  # "asked", "channel closed"


class NameServerReset(Fact, frozen=True):
    """A NameServer is as if it had just started: it knows brokers, and none of their topics."""


class BrokerExpired(Fact, frozen=True):
    """A broker has not registered for too long and was removed from the routes."""

    severity: ClassVar[Severity] = "warning"

    broker: str
    address: str  # where the broker listens
    silent_for_ms: int  # since its last registration or heartbeat


class WritePermChanged(Fact, frozen=True):
    """An administrator forbade or allowed writing to all topics of a broker."""

    broker: str
    topic_count: int  # of the topics that this changed
    writable: bool  # from now on
