"""Facts of NameServers and brokers.

Of a NameServer: its routes.  Of a broker: its topics, groups, members, registrations and answers.
"""

from __future__ import annotations

from typing import ClassVar

from rocketmq_emulator.facts.fact import Fact, Queue, Severity

# Routes of a NameServer ---------------------------------------------------------------


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
    """A NameServer was reset as if it had just started: its brokers stay, their topics do not."""


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


# Brokers ------------------------------------------------------------------------------


# Topics and groups ------------------------------------------------------------------------


class TopicCreated(Fact, frozen=True):
    """A broker created a topic, because a request needed it or asked for it."""

    topic: str
    read_queue_count: int  # queues 0 … n-1 may be read
    write_queue_count: int  # queues 0 … n-1 may be written to
    perm: int  # bits as in RocketMQ: 4 read, 2 write, 1 inherited
    by: str  # the kind of request: "send", "send back", "heartbeat", "admin"


class TopicChanged(Fact, frozen=True):
    """An administrator, or the NameServer's list of ordered topics, changed a topic."""

    topic: str
    read_queue_count: int  # queues 0 … n-1 may be read
    write_queue_count: int  # queues 0 … n-1 may be written to
    perm: int  # bits as in RocketMQ: 4 read, 2 write, 1 inherited


class TopicDeleted(Fact, frozen=True):
    """An administrator deleted a topic; if it is made again its queues begin at offset 0."""

    topic: str


class GroupCreated(Fact, frozen=True):
    """A broker created a subscription group."""

    group: str
    by: str  # the kind of request: "heartbeat", "pull", "admin" …


class GroupDeleted(Fact, frozen=True):
    """An administrator deleted a subscription group."""

    group: str


class MemberJoined(Fact, frozen=True):
    """A broker received a consumer's first heartbeat for a group on a connection."""

    group: str
    client: str  # its client id
    peer: str  # its address
    consume_type: str  # CONSUME_PASSIVELY: a listener; CONSUME_ACTIVELY: an application that polls
    message_model: str  # CLUSTERING, BROADCASTING
    language: str  # JAVA, GO, PYTHON …
    client_version: int  # ordinal of MQVersion.Version


class HeartbeatReceived(Fact, frozen=True):
    """A broker received a client's heartbeat, which counts for the groups that it lists."""

    severity: ClassVar[Severity] = "debug"
    on_demand: ClassVar[bool] = True

    client: str  # its client id
    peer: str  # its address


class MemberLeft(Fact, frozen=True):
    """A broker removed a consumer from a group."""

    group: str
    client: str  # its client id
    peer: str  # its address
    reason: str  # "unregistered", "channel closed", "expired"


class SubscriptionChanged(Fact, frozen=True):
    """The topics that a group subscribes to, as this broker knows them, changed."""

    group: str
    added: tuple[str, ...]  # topics
    removed: tuple[str, ...]  # topics


class MembersNotified(Fact, frozen=True):
    """A broker sent NOTIFY_CONSUMER_IDS_CHANGED to the members of a group."""

    group: str
    connection_count: int  # that it was sent on; slow readers are left out


# Registration -----------------------------------------------------------------------------


class MemberAnswerIgnored(Fact, frozen=True):
    """A consumer's answer to a broker's request could not be decoded; it is ignored."""

    severity: ClassVar[Severity] = "warning"

    group: str
    client: str  # its client id
    peer: str  # its address
    error: str  # of decoding the answer


class BrokerReset(Fact, frozen=True):
    """A broker was reset as if it had just started: its messages, topics and offsets are gone.

    The groups and topics of connected consumers stay.
    """

    kept_groups: tuple[str, ...]  # those that have members
    kept_topics: tuple[str, ...]  # of those members: without messages, offsets continue


class TimeAdvanced(Fact, frozen=True):
    """Time was advanced for messages that wait for their time, and for nothing else."""

    ms: int  # by which time was advanced
    due_count: int  # messages that are due by it, and are delivered now
    waiting_count: int  # messages that waited before it


class RegisteredWith(Fact, frozen=True):
    """A broker has sent its registration to all NameServers."""

    accepted: tuple[str, ...]  # addresses of the NameServers that accepted it
    failed: tuple[str, ...]  # addresses of those that refused or did not answer


class RegistrationFailing(Fact, frozen=True):
    """A NameServer does not accept a broker's registrations; noted once until it accepts one.

    While this lasts, clients that query that NameServer may not find the broker.
    """

    severity: ClassVar[Severity] = "warning"
    advice: ClassVar[str] = "check that a NameServer listens there"

    address: str  # of the NameServer
    error: str
    since_ms: int  # wall time of the first attempt that failed
    retry_ms: int  # until the next attempt, at most

    def sentence(self) -> str:
        return (
            f"the NameServer at {self.address} does not register this broker ({self.error}); "
            "clients that ask it do not find the broker; "
            f"tried again within {self.retry_ms / 1_000:g} s; {self.advice}"
        )


class RegistrationRecovered(Fact, frozen=True):
    """A NameServer accepts a broker's registrations again.

    A warning too: each log that shows RegistrationFailing must show that it is over.
    """

    severity: ClassVar[Severity] = "warning"

    address: str  # of the NameServer
    failing_for_ms: int  # until now

    def sentence(self) -> str:
        return (
            f"the NameServer at {self.address} has registered this broker, "
            f"after {self.failing_for_ms / 1_000:.1f} s"
        )


class VipPortNotOpen(Fact, frozen=True):
    """A broker could not open the second port, two below its own; it runs without."""

    severity: ClassVar[Severity] = "warning"

    address: str  # of the second port
    reason: str  # as the system says it

    def sentence(self) -> str:
        return (
            f"the second port {self.address} is not open, so clients that use the VIP channel "
            f"(vipChannelEnabled) cannot send to this broker: {self.reason}"
        )


class HaPortNotOpen(Fact, frozen=True):
    """A broker does not listen at the port for slaves: nothing is replicated."""

    severity: ClassVar[Severity] = "warning"

    address: str  # where slaves would connect
    reason: str  # as the system says it

    def sentence(self) -> str:
        return f"the port for slaves {self.address} is not open, so none can copy: {self.reason}"


class StartedWithoutNameServer(Fact, frozen=True):
    """A broker was started with no address of a NameServer: it is in no route."""

    severity: ClassVar[Severity] = "warning"
    advice: ClassVar[str] = "give one: --namesrv 127.0.0.1:9876, or namesrvAddr"

    address: str  # where clients reach the broker

    def sentence(self) -> str:
        return f"no NameServer is given, so clients do not find this broker; {self.advice}"


# Requests ---------------------------------------------------------------------------------


class SendRefused(Fact, frozen=True):
    """A broker refused to store a message."""

    topic: str
    response_code: int  # the reason
    remark: str


class ReplyPushed(Fact, frozen=True):
    """A broker pushed a reply to the client that requested it, and the client accepted it."""

    severity: ClassVar[Severity] = "debug"

    topic: str  # of the reply
    correlation_id: str  # of the request
    client: str  # its client id
    took_ms: int  # until the client answered


class ReplyNotPushed(Fact, frozen=True):
    """A broker could not push a reply to the client that requested it."""

    severity: ClassVar[Severity] = "warning"

    topic: str  # of the reply
    correlation_id: str  # of the request; empty if the reply has none
    client: str  # its client id; empty if the reply has none
    reason: str  # "no client id", "no channel", "refused", "no answer"
    stored: bool  # in the reply's topic, where no client looks for it


class PullHeld(Fact, frozen=True):
    """A pull found nothing and waits for messages."""

    severity: ClassVar[Severity] = "debug"

    group: str
    queue: Queue
    offset: int  # the first offset wanted
    until_ms: int  # wall time at which it is answered if no message comes
    peer: str  # address of the client that pulls
    opaque: int  # of the request, on the peer's connection


class PullDropped(Fact, frozen=True):
    """A pull got no answer: bytes wait to be sent to its client, and a setting wants it so."""

    severity: ClassVar[Severity] = "warning"

    group: str
    queue: Queue
    offset: int  # the first offset wanted
    peer: str  # address of the client that pulled
    waiting_bytes: int  # that wait to be sent to it


class PullAnswered(Fact, frozen=True):
    """A pull was answered, at once or after it was held."""

    severity: ClassVar[Severity] = "debug"

    group: str
    queue: Queue
    offset: int  # the first offset wanted
    response_code: int  # 0, or the reason for an empty answer
    message_count: int  # in the answer
    next_offset: int  # where the client's next pull should begin
    peer: str  # address of the client that pulled
    opaque: int  # of the request, on the peer's connection


class OffsetCommitted(Fact, frozen=True):
    """A client committed a group's offset in a queue."""

    group: str
    queue: Queue
    offset: int  # the next one to consume
    peer: str  # address of that client


class GroupOffsetMoved(Fact, frozen=True):
    """A tool moved a group in a queue: its next pull begins elsewhere."""

    group: str
    queue: Queue
    offset: int  # the next one to consume
    by: str  # "broker": done; "members": they got a request to do it
    peer: str  # address of the tool


class MessageSentBack(Fact, frozen=True):
    """A consumer sent a message back: it is stored again, for a retry or as a dead letter."""

    group: str
    origin_topic: str  # the topic it was consumed from
    target_topic: str  # the group's %RETRY% or %DLQ% topic
    reconsume_times: int  # after this one
    delay_level: int  # 0: at once
    origin_position: int  # of the message sent back, in the commit log
    peer: str  # address of the consumer


class QueuesLocked(Fact, frozen=True):
    """An orderly consumer requested the locks of queues."""

    group: str
    client: str  # its client id
    granted: tuple[Queue, ...]  # locked for this client until the lock expires
    refused: tuple[Queue, ...]  # locked by another client


class QueuesUnlocked(Fact, frozen=True):
    """An orderly consumer unlocked queues."""

    group: str
    client: str  # its client id
    queues: tuple[Queue, ...]
