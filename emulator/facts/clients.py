"""What happened at a client: sends, assignments, consumption."""

from __future__ import annotations

from emulator.facts.fact import Fact, Queue


class RouteChanged(Fact, frozen=True):
    topic: str
    brokers: tuple[str, ...]


class MessageSent(Fact, frozen=True):
    topic: str
    queue: Queue
    offset: int
    uniq_key: str
    attempts: int
    took_ms: int
    status: str = "SEND_OK"  # or how its storing fell short: SendStatus


class SendFailed(Fact, frozen=True):
    topic: str
    uniq_key: str
    attempts: int
    error: str
    maybe_stored: bool  # some attempt ended without an answer


class BrokerIsolated(Fact, frozen=True):
    """LatencyFaultTolerance avoids a broker."""

    broker: str
    for_ms: int


class QueuesClaimed(Fact, frozen=True):
    group: str
    queues: tuple[Queue, ...]


class QueuesReleased(Fact, frozen=True):
    group: str
    queues: tuple[Queue, ...]


class RebalancePassed(Fact, frozen=True):
    group: str
    topic: str
    queues: int
    members: tuple[str, ...]
    mine: int


class MessageConsumed(Fact, frozen=True):
    group: str
    topic: str
    queue: Queue
    offset: int
    uniq_key: str
    reconsume_times: int
    ok: bool


class PullFailed(Fact, frozen=True):
    group: str
    queue: Queue
    error: str


class OffsetRepaired(Fact, frozen=True):
    """OFFSET_ILLEGAL: the broker moved our position."""

    group: str
    queue: Queue
    asked: int
    corrected: int
