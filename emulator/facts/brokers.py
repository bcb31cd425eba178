"""What happened at a broker: topics, members, messages, the log."""

from __future__ import annotations

from emulator.facts.fact import Fact, Queue


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
