"""What happened, in the past tense: the only evidence a run leaves.

Facts are written once, to the journal, before the reply that makes them true leaves the
process.  Logs, tests, checkers, reports and Spark only read them.  The schema has a
version: a reader can refuse what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

SCHEMA_VERSION = 1


class Fact(msgspec.Struct, frozen=True, tag=True, tag_field="kind"):
    """Something that happened, in the past tense."""


Note = Callable[[Fact], None]


class Queue(NamedTuple):
    """A message queue's name in facts: ``topic``, ``broker``, ``queue_id``."""

    topic: str
    broker: str
    queue_id: int


# A process ------------------------------------------------------------------------------


class NodeStarted(Fact, frozen=True):
    role: str
    address: str
    release: str
    schema: int = SCHEMA_VERSION


class NodeStopped(Fact, frozen=True):
    role: str
    reason: str


# Connections ----------------------------------------------------------------------------


class ConnectionOpened(Fact, frozen=True):
    peer: str
    by: str  # "peer" or "us"


class ConnectionClosed(Fact, frozen=True):
    peer: str
    reason: str


class FrameRefused(Fact, frozen=True):
    """Bytes that are no frame, or fields that are no request."""

    peer: str
    reason: str
    closed: bool  # a bad frame closes its connection, bad fields get a coded reply


class PushDropped(Fact, frozen=True):
    """A slow reader's outbox was full: one server-initiated request was not sent."""

    peer: str
    code: int
    waiting_bytes: int


class HandlerFailed(Fact, frozen=True):
    """A bug of ours surfaced as SYSTEM_ERROR."""

    peer: str
    code: int
    error: str


# NameServer -----------------------------------------------------------------------------


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


# Broker: topics, groups, members --------------------------------------------------------


class TopicCreated(Fact, frozen=True):
    topic: str
    read_queues: int
    write_queues: int
    perm: int
    by: str  # "send", "send back", "heartbeat", "admin"


class TopicChanged(Fact, frozen=True):
    topic: str
    read_queues: int
    write_queues: int
    perm: int


class GroupCreated(Fact, frozen=True):
    group: str
    by: str


class MemberJoined(Fact, frozen=True):
    group: str
    client: str
    peer: str


class MemberLeft(Fact, frozen=True):
    group: str
    client: str
    peer: str
    reason: str  # "unregistered", "channel closed", "expired"


class SubscriptionChanged(Fact, frozen=True):
    group: str
    added: tuple[str, ...]
    removed: tuple[str, ...]


class MembersNotified(Fact, frozen=True):
    """NOTIFY_CONSUMER_IDS_CHANGED went to this many connections."""

    group: str
    connections: int


class RegisteredWith(Fact, frozen=True):
    """A registration round ended: which NameServers took it."""

    accepted: tuple[str, ...]
    failed: tuple[str, ...]


# Broker: messages -----------------------------------------------------------------------


class MessageStored(Fact, frozen=True):
    topic: str
    queue_id: int
    offset: int
    position: int  # commit-log offset
    uniq_key: str = ""
    size: int = 0


class SendRefused(Fact, frozen=True):
    topic: str
    code: int
    remark: str


class PullHeld(Fact, frozen=True):
    group: str
    topic: str
    queue_id: int
    offset: int
    until_ms: int


class PullAnswered(Fact, frozen=True):
    group: str
    topic: str
    queue_id: int
    offset: int
    code: int
    messages: int
    next_offset: int


class OffsetCommitted(Fact, frozen=True):
    group: str
    topic: str
    queue_id: int
    offset: int
    client: str = ""


class MessageSentBack(Fact, frozen=True):
    group: str
    origin_topic: str
    target_topic: str
    reconsume_times: int
    delay_level: int


class DelayedDelivered(Fact, frozen=True):
    topic: str
    queue_id: int
    delay_level: int
    late_by_ms: int


class QueuesLocked(Fact, frozen=True):
    group: str
    client: str
    granted: tuple[Queue, ...]
    refused: tuple[Queue, ...]


class QueuesUnlocked(Fact, frozen=True):
    group: str
    client: str
    queues: tuple[Queue, ...]


# Broker: store --------------------------------------------------------------------------


class LogRecovered(Fact, frozen=True):
    messages: int
    min_position: int
    end_position: int


class LogTailCut(Fact, frozen=True):
    """The last records were not whole: the log now ends at the last good one."""

    at_position: int
    reason: str


class OldestDropped(Fact, frozen=True):
    """Retention: everything before ``min_position`` is gone."""

    min_position: int
    bytes_freed: int


class StoreRefused(Fact, frozen=True):
    """The disk is full or not writable; nothing was stored and nothing was lost."""

    reason: str


# Clients --------------------------------------------------------------------------------


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
