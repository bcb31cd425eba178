"""Facts of any process: its connections, the requests it received, its settings."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from rocketmq_emulator.facts.fact import SCHEMA_VERSION, Fact, Severity
from rocketmq_emulator.protocol.messages.misuses import FoundMisuse

# Processes and connections ----------------------------------------------------------------


class NodeStarted(Fact, frozen=True):
    """A server is ready to answer, or a client's process has started."""

    role: str  # "nameserver", "broker", "consumer" …
    address: str  # where it listens; empty if it does not
    release: str  # the RocketMQ release that it behaves as
    schema: int = SCHEMA_VERSION  # of this journal's facts


class NodeStopped(Fact, frozen=True):
    """A process ends on request."""

    role: str
    reason: str


class ConnectionOpened(Fact, frozen=True):
    """A connection was accepted, or made."""

    peer: str
    by: str  # the side that opened it: "peer" or "us"


class ConnectionClosed(Fact, frozen=True):
    """A connection ended."""

    peer: str
    reason: str


class NameServersChanged(Fact, frozen=True):
    """An address server gave its first list of NameServers, or one that has changed."""

    url: str  # of the address server
    name_servers: tuple[str, ...]  # addresses


class AddressServerFailed(Fact, frozen=True):
    """An address server gave no list of NameServers: the last one stays in use."""

    severity: ClassVar[Severity] = "warning"

    url: str  # of the address server
    error: str


class FrameRefused(Fact, frozen=True):
    """A peer sent bytes that are no frame, or a request with fields that cannot be read."""

    severity: ClassVar[Severity] = "warning"

    peer: str
    reason: str
    closed: bool  # a bad frame closes its connection, bad fields get a coded reply


class PushDropped(Fact, frozen=True):
    """A one-way request was not sent: the peer reads too slowly, or no frame can hold it."""

    severity: ClassVar[Severity] = "warning"

    peer: str
    code: int  # of the request
    waiting_bytes: int  # that wait to be sent before it


class SlowReaderClosed(Fact, frozen=True):
    """A server closed a connection: too many bytes wait for its peers, and this peer read least.

    The peer does not get the bytes that wait; its requests were carried out.
    """

    severity: ClassVar[Severity] = "warning"
    advice: ClassVar[str] = "make the clients read faster, or raise net.outboxes_bytes_max"

    peer: str
    waiting_bytes: int  # for this peer
    all_waiting_bytes: int  # for all peers together


class OpenFilesRanOut(Fact, frozen=True):
    """The process cannot open more files (ulimit -n); noted once until it can again.

    Connections that are open are served, new ones wait until others have closed.
    """

    severity: ClassVar[Severity] = "error"
    advice: ClassVar[str] = "allow more open files (ulimit -n), or let fewer clients connect"

    wanted: str  # what could not be opened: "connections", a document, a file of the log


class OpenFilesFreed(Fact, frozen=True):
    """The process can open files again: new connections are accepted.

    An error too: each log that shows OpenFilesRanOut must show that it is over.
    """

    severity: ClassVar[Severity] = "error"

    wanted: str  # as in OpenFilesRanOut
    lacking_for_ms: int  # how long it could open no files


class FactsLeftOut(Fact, frozen=True):
    """The disk of this journal was full: facts from here on are missing in it.

    Its number and time are those of the first missing fact; the next entry's number is greater
    by ``missing_count``.  The node itself went on.  A log shows it at the first missing fact, and
    again, with ``is_over``, when facts are written again or the node ends.
    """

    severity: ClassVar[Severity] = "error"
    advice: ClassVar[str] = "make room on the disk of the journal; this run cannot be judged"

    missing_count: int  # facts, up to now
    is_over: bool  # in logs only

    def sentence(self) -> str:
        """What is missing, and what to do."""
        if self.is_over:
            return f"the disk of the journal was full: it lacks {self.missing_count:,} facts"
        return f"the disk of the journal is full: facts are missing from now on; {self.advice}"


# Requests ---------------------------------------------------------------------------------


class RequestReceived(Fact, frozen=True):
    """A request arrived and goes to its handler."""

    severity: ClassVar[Severity] = "debug"
    on_demand: ClassVar[bool] = True

    peer: str
    code: int  # of the request
    opaque: int  # its number on that connection


class RequestAnsweredSlowly(Fact, frozen=True):
    """A request that was not held took long from its arrival to its answer."""

    peer: str
    code: int  # of the request
    took_ms: int


class HandlerFailed(Fact, frozen=True):
    """A defect of the emulator: a handler raised, and the peer was answered SYSTEM_ERROR."""

    severity: ClassVar[Severity] = "error"

    peer: str
    code: int  # of the request
    error: str  # the exception's type and text
    traceback: str


# Reply rules ------------------------------------------------------------------------------


class ReplyRuleSet(Fact, frozen=True):
    """A reply rule was added to a server."""

    rule_id: int  # given by the server, from 1
    rule: str  # the rule as JSON
    peer: str  # address of the client that set it; empty: this process itself


class ReplyRuleRemoved(Fact, frozen=True):
    """A reply rule was removed, or has ended."""

    rule_id: int  # as in ReplyRuleSet
    reason: Literal["asked", "count reached", "time is up"]
    applied_count: int  # how many requests it was applied to


class ReplyRuleApplied(Fact, frozen=True):
    """A reply rule was applied to a request."""

    rule_id: int  # as in ReplyRuleSet
    peer: str
    code: int  # of the request
    verdict: str  # "error", "delay", "no answer", "cut"


class BusyPoolSet(Fact, frozen=True):
    """A pool of a broker was made busy, its load was changed, or its load was removed (0 µs)."""

    pool: str  # "send", "pull", "heartbeat" …
    threads: int  # that work on its requests
    service_us: int  # that a request occupies a thread, microseconds
    queue_max: int  # requests that may wait
    peer: str  # address of the client that set it


ShedReason: TypeAlias = Literal["waited too long", "queue is full", "page cache is busy"]


class RequestShed(Fact, frozen=True):
    """A busy pool did not handle a request: it was answered SYSTEM_BUSY, nothing was done."""

    severity: ClassVar[Severity] = "debug"

    peer: str
    code: int  # of the request
    pool: str  # as in BusyPoolSet
    waited_ms: int  # for a thread, in the queue of the pool
    reason: ShedReason


class MisuseNoticed(Fact, frozen=True):
    """A client uses RocketMQ in a way that it accepts in silence, almost surely by mistake.

    Noted once for a group and a topic.  Nothing else changes: docs/pytest.md lists all misuses.
    """

    severity: ClassVar[Severity] = "warning"

    misuse: str  # its name: "subscriptions_differ", "single_bar" …
    client: str  # its client id, or its address if it has sent none
    group: str  # of consumers, or of producers
    topic: str
    detail: str  # the expression, the tag or the property

    def sentence(self) -> str:
        found = FoundMisuse(self.misuse, self.client, self.group, self.topic, self.detail)
        return f"{self.misuse}: {found.text}"


class SettingsChanged(Fact, frozen=True):
    """An operator changed settings while a node runs."""

    peer: str
    settings: tuple[str, ...]  # each as name=value, by RocketMQ's names


class SettingsIgnored(Fact, frozen=True):
    """An operator sent new settings; the answer was SUCCESS, but these did not change."""

    severity: ClassVar[Severity] = "warning"
    advice: ClassVar[str] = (
        "set them when the node starts; the documentation lists those that can be changed later"
    )

    peer: str
    names: tuple[str, ...]  # unknown, not changeable while the node runs, or with an invalid value
