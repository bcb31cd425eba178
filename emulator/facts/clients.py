"""Facts of clients: sends, routes, membership, rebalance, consumption."""

from __future__ import annotations

from typing import ClassVar, Literal

from rocketmq_emulator.facts.fact import Fact, Queue, Severity

# Producers --------------------------------------------------------------------------------


class RouteChanged(Fact, frozen=True):
    """A client received a new route of a topic."""

    topic: str
    brokers: tuple[str, ...]  # names of the brokers in the route
    without_master: tuple[str, ...] = ()  # of these: only slaves have an address in the route


class SendAttempted(Fact, frozen=True):
    """One attempt of a send ended; a send that is retried has several."""

    severity: ClassVar[Severity] = "debug"

    topic: str
    queue: Queue
    uniq_key: str  # of a batch: its first message's
    attempt: int  # 1 is the first
    took_ms: int
    outcome: str  # a send status (SEND_OK …), ONE_WAY, or the error's name and text


class MessageSent(Fact, frozen=True):
    """A send was acknowledged; of a batch: each message."""

    topic: str
    queue: Queue
    offset: int  # in the queue
    uniq_key: str
    attempts: int  # how many there were
    took_ms: int  # from the call to its return, over all attempts
    status: str  # SEND_OK, or the guarantee that was not met (FLUSH_DISK_TIMEOUT …)


class HalfMessageSent(Fact, frozen=True):
    """The send of a half message was acknowledged: instead of MessageSent.

    Whether the message is delivered is decided by its transaction.
    """

    topic: str
    queue: Queue  # to which it was sent
    offset: int  # in the queue of the half topic
    uniq_key: str
    attempts: int  # how many there were
    took_ms: int  # from the call to its return, over all attempts
    status: str  # SEND_OK, or the guarantee that was not met: then it is rolled back


class SendFailed(Fact, frozen=True):
    """A send raised an error; of a batch: for each message."""

    topic: str
    uniq_key: str
    attempts: int  # how many there were
    error: str
    maybe_stored: bool  # some attempt ended without an answer


RequestEnd = Literal["replied", "timeout", "not sent", "closed", "cancelled"]
ReplyDropReason = Literal[
    "second",  # its request has a reply already
    "late",  # its request was given up
    "unwanted",  # this client has sent no such request, or long ago
    "unreadable",
]


class RequestSent(Fact, frozen=True):
    """A request was stored, and waits for its reply."""

    topic: str
    correlation_id: str
    uniq_key: str
    timeout_ms: int  # for its send and its reply together


class ReplyReceived(Fact, frozen=True):
    """A request got its reply."""

    topic: str  # of the request
    correlation_id: str
    took_ms: int  # since the call


class RequestGivenUp(Fact, frozen=True):
    """A request ended without a reply."""

    topic: str
    correlation_id: str
    after_ms: int  # since the call
    stored: bool  # its send was acknowledged, so it may still be consumed
    reason: str  # "timeout", "not sent" (see SendFailed), "closed", "cancelled"


class ReplyDropped(Fact, frozen=True):
    """A client dropped a reply that no request waits for."""

    severity: ClassVar[Severity] = "warning"

    topic: str  # of the reply
    correlation_id: str
    sender: str  # address of the client that replied
    reason: ReplyDropReason
    error: str  # of an unreadable reply, else empty


class BrokerIsolated(Fact, frozen=True):
    """A producer avoids a broker that was slow or failed (LatencyFaultTolerance)."""

    broker: str
    for_ms: int  # how long, from now
    available_in_ms: int = -1  # until no isolation holds, older ones included; -1: not noted


class TracesLost(Fact, frozen=True):
    """Message traces of a client were not stored; its messages are not affected."""

    severity: ClassVar[Severity] = "warning"
    advice: ClassVar[str] = "brokers create the topic of traces with traceTopicEnable=true"

    group: str  # of the client that traces
    topic: str  # of the traces
    count: int  # of the traces lost; 0: all that the client would write
    reason: str

    def sentence(self) -> str:
        return (
            f"{self.count or 'all'} message traces of {self.group} are not stored in "
            f"{self.topic}: "
            f"{self.reason}; {self.advice}"
        )


# Transactions -----------------------------------------------------------------------------


TransactionOutcome = Literal["commit", "rollback", "unknown"]


class LocalTransactionEnded(Fact, frozen=True):
    """A transactional send ended: its local transaction ran, or was not run (then: rollback).

    The client reported the outcome to the broker, one-way: the report may be lost.
    """

    topic: str
    queue: Queue  # to which the half message was sent
    offset: int  # of the half message, in the queue of the half topic
    group: str  # the producer's
    uniq_key: str
    outcome: TransactionOutcome  # as its listener returned; rollback: also if it did not run
    error: str  # of the listener, or why nothing was reported; empty: none


class TransactionAnswered(Fact, frozen=True):
    """A producer answered a broker's check of a half message, one-way."""

    group: str  # the producer's
    uniq_key: str
    outcome: TransactionOutcome  # as its listener returned
    error: str  # of the listener; empty: none


class TransactionCheckDropped(Fact, frozen=True):
    """A producer dropped a broker's check, because too many wait for its listener.

    The broker asks again, if it has not asked transactionCheckMax times.
    """

    severity: ClassVar[Severity] = "warning"
    advice: ClassVar[str] = "a listener that hangs or is slow holds up the checks of its group"

    group: str  # the producer's
    uniq_key: str
    waiting_count: int  # of checks

    def sentence(self) -> str:
        return (
            f"{self.group}: a check of a half message is dropped, {self.waiting_count} wait: "
            f"{self.advice}"
        )


# Routes -----------------------------------------------------------------------------------


class RouteQueriesFailing(Fact, frozen=True):
    """No NameServer answers a client's background route queries; noted once until one answers.

    The client continues to send and pull with the routes that it has.  A call that fails for
    this reason raises an error, too.
    """

    severity: ClassVar[Severity] = "warning"
    advice: ClassVar[str] = "check that a NameServer listens there"

    error: str  # of the last NameServer that was tried
    since_ms: int  # wall time of the first query that failed
    retry_ms: int  # until the next query, at most

    def sentence(self) -> str:
        return (
            f"no NameServer answers this client ({self.error}); it uses the routes that it has; "
            f"tried again within {self.retry_ms / 1_000:g} s; {self.advice}"
        )


class RouteQueriesRecovered(Fact, frozen=True):
    """A NameServer answers a client again.

    A warning too: each log that shows RouteQueriesFailing must show that it is over.
    """

    severity: ClassVar[Severity] = "warning"

    address: str  # of the NameServer
    failing_for_ms: int  # until now

    def sentence(self) -> str:
        return (
            f"the NameServer at {self.address} answers, "
            f"after {self.failing_for_ms / 1_000:.1f} s without any"
        )


# Membership -------------------------------------------------------------------------------


class ConsumerStarted(Fact, frozen=True):
    """A consumer became a member of its group; it has no queues yet."""

    group: str
    client: str  # its client id
    consumer_kind: Literal["push", "lite_pull", "pull"]  # a listener, poll or pull
    broadcast: bool  # every member gets every message
    orderly: bool  # its listener gets a queue's messages one after the other, under a lock
    topics: tuple[str, ...]  # subscribed at the start, without its retry topic
    expressions: tuple[str, ...]  # which messages of each: "*", "TagA || TagB", "SQL92: a > 5"
    release: str  # the RocketMQ release that it behaves as


class ConsumerStopped(Fact, frozen=True):
    """A consumer left its group and has no queues any more."""

    group: str
    client: str  # its client id


# Rebalance --------------------------------------------------------------------------------


RebalanceCause = Literal[
    "timer",
    "notice",  # a NOTIFY_CONSUMER_IDS_CHANGED of a broker, for any group
    "subscription changed",
    "lock refused",
    "offset repaired",
    "started",
    "connected",  # a broker accepted a heartbeat on a new connection (since 5.2.0)
    "resumed",
]
ReleaseReason = Literal["not mine", "pull expired", "unsubscribed", "reset", "shutdown"]


class RebalancePassed(Fact, frozen=True):
    """A consumer computed which queues of a topic are its own."""

    group: str
    topic: str
    queue_count: int  # of the topic
    members: tuple[str, ...]  # client ids, from the broker's answer
    own_count: int  # the number of queues that are this client's
    cause: RebalanceCause  # the trigger of this pass


class QueuesClaimed(Fact, frozen=True):
    """A consumer began to consume queues."""

    group: str
    queues: tuple[Queue, ...]
    offsets: tuple[int, ...] = ()  # where it begins in each


class QueuesReleased(Fact, frozen=True):
    """A consumer stopped consuming queues."""

    group: str
    queues: tuple[Queue, ...]
    reason: ReleaseReason


# Consumption ------------------------------------------------------------------------------


class MessageGivenToListener(Fact, frozen=True):
    """A listener is called with a message; of a batch: for each message."""

    severity: ClassVar[Severity] = "debug"
    on_demand: ClassVar[bool] = True

    group: str
    queue: Queue
    offset: int  # in the queue
    uniq_key: str
    reconsume_times: int  # how often it was sent back before


class MessageConsumed(Fact, frozen=True):
    """A listener has consumed a message, or requested a retry."""

    group: str
    topic: str
    queue: Queue
    offset: int  # in the queue
    uniq_key: str
    reconsume_times: int  # how often it was sent back before
    ok: bool  # False: it will be delivered again


class ListenerRaised(Fact, frozen=True):
    """A listener raised an exception, or an invalid value; its messages are retried."""

    severity: ClassVar[Severity] = "error"

    group: str
    queue: Queue
    offset: int  # of the first message it was called with
    uniq_key: str  # of the first message
    error: str  # the exception's type and text
    traceback: str
    message_count: int  # how many it was called with


class CallbackRaised(Fact, frozen=True):
    """A function of the application, other than a listener, raised; the client continues."""

    severity: ClassVar[Severity] = "error"

    group: str
    function: str  # "callback" of a send, "strategy", "on_queues", "check_local_transaction" …
    error: str  # the exception's type and text
    traceback: str


class MessagePolled(Fact, frozen=True):
    """A lite pull consumer's poll returned a message; of a batch: for each message."""

    severity: ClassVar[Severity] = "debug"
    on_demand: ClassVar[bool] = True

    group: str
    queue: Queue
    offset: int  # in the queue
    uniq_key: str


class SeekRequested(Fact, frozen=True):
    """The application of a lite pull consumer set the next offset to consume in a queue."""

    group: str
    queue: Queue
    offset: int  # of the next message it gets


class PullFailed(Fact, frozen=True):
    """A pull ended without a usable answer; it is tried again later."""

    group: str
    queue: Queue
    error: str


class OffsetRepaired(Fact, frozen=True):
    """A broker did not have the wanted offset (OFFSET_ILLEGAL) and returned another one."""

    group: str
    queue: Queue
    asked: int  # the offset that the broker does not have
    corrected: int  # where consumption continues
