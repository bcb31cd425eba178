"""What happened to a NameServer's routes."""

from __future__ import annotations

from emulator.facts.fact import Fact


class BrokerRegistered(Fact, frozen=True):
    cluster: str
    broker: str
    broker_id: int
    address: str
    topics: int
    first: bool


class BrokerUnregistered(Fact, frozen=True):
    broker: str
    broker_id: int
    address: str
    reason: str  # "asked", "channel closed"


class BrokerExpired(Fact, frozen=True):
    broker: str
    address: str
    silent_for_ms: int


class WritePermChanged(Fact, frozen=True):
    broker: str
    topics: int
    writable: bool
