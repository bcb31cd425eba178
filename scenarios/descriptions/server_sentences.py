"""Sentences of facts about nodes themselves: connections, requests, stores, settings, faults.

``sentences`` has those of messages and members, and joins both tables.  The subject is the node
that recorded the fact, so a sentence begins with a verb.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from rocketmq_emulator.checks.state.violation import place_of
from rocketmq_emulator.facts import (
    AddressServerFailed,
    BrokerReset,
    BusyPoolSet,
    ConnectionClosed,
    ConnectionOpened,
    Fact,
    FaultActed,
    FlushFailed,
    FrameRefused,
    GroupCreated,
    GroupDeleted,
    HandlerFailed,
    HeartbeatReceived,
    LogFlushed,
    LogRecovered,
    LogRecovering,
    MemberAnswerIgnored,
    NameServerReset,
    NameServersChanged,
    OldestDropped,
    OpenFilesFreed,
    OpenFilesRanOut,
    PowerLost,
    PushDropped,
    RegisteredWith,
    ReplyRuleApplied,
    ReplyRuleRemoved,
    ReplyRuleSet,
    RequestAnsweredSlowly,
    RequestReceived,
    RequestShed,
    RunStarted,
    SettingsChanged,
    SettingsIgnored,
    SlowReaderClosed,
    StoreOpened,
    StoreRefused,
    TimeAdvanced,
    TimerMessageDelivered,
    TimerMessageDropped,
    TimerMessagePutAside,
    TimerMessageRecalled,
    TimerMessageRolled,
    TimersRecovering,
    TopicDeleted,
    WritePermChanged,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.scenarios.descriptions.acting_master_sentences import (
    ACTING_MASTER_SENTENCES,
)
from rocketmq_emulator.scenarios.descriptions.names import NodeNames
from rocketmq_emulator.scenarios.descriptions.replication_sentences import REPLICATION_SENTENCES

Sentence: TypeAlias = Callable[[Any, Entry, NodeNames], str]

REQUESTS = {code: name for name, code in vars(RequestCode).items() if name.isupper()}


def request_in_words(code: int) -> str:
    """``PULL_MESSAGE (11)``; ``request 9999`` for a code without a name."""
    return f"{REQUESTS[code]} ({code})" if code in REQUESTS else f"request {code}"


def _peer(entry: Entry, names: NodeNames) -> str:
    """The node at the other end of the connection that the fact of *entry* is about."""
    return names.at(entry.node, getattr(entry.fact, "peer", ""), entry.mono_us)


def _all(parts: Iterable[str]) -> str:
    return ", ".join(parts) or "none"


# Connections and requests ---------------------------------------------------------------------


def _opened(fact: ConnectionOpened, entry: Entry, names: NodeNames) -> str:
    did = "accepted a connection of" if fact.by == "peer" else "connected to"
    return f"{did} {_peer(entry, names)}"


def _frame(fact: FrameRefused, entry: Entry, names: NodeNames) -> str:
    end = "closed the connection" if fact.closed else "refused it"
    return f"could not read a request of {_peer(entry, names)} and {end}: {fact.reason}"


def _handler(fact: HandlerFailed, entry: Entry, names: NodeNames) -> str:
    return (
        f"failed at {request_in_words(fact.code)} of {_peer(entry, names)}, by a defect of "
        f"the emulator: {fact.error}"
    )


def _push_dropped(fact: PushDropped, entry: Entry, names: NodeNames) -> str:
    return (
        f"did not send {request_in_words(fact.code)} to {_peer(entry, names)}, for which "
        f"{fact.waiting_bytes:,} bytes wait"
    )


def _shed(fact: RequestShed, entry: Entry, names: NodeNames) -> str:
    return (
        f"refused {request_in_words(fact.code)} of {_peer(entry, names)}, which waited "
        f"{fact.waited_ms} ms for the pool {fact.pool}: {fact.reason}"
    )


def _slow_reader(fact: SlowReaderClosed, entry: Entry, names: NodeNames) -> str:
    return (
        f"closed the connection of {_peer(entry, names)}, which reads too slowly: "
        f"{fact.waiting_bytes:,} bytes wait for it, of {fact.all_waiting_bytes:,} in all"
    )


def _rule_set(fact: ReplyRuleSet, *_: object) -> str:
    by = f" of {fact.peer}" if fact.peer else ""
    return f"got the reply rule {fact.rule_id}{by}: {fact.rule}"


def _rule_applied(fact: ReplyRuleApplied, entry: Entry, names: NodeNames) -> str:
    return (
        f"applied the reply rule {fact.rule_id} to {request_in_words(fact.code)} of "
        f"{_peer(entry, names)}: {fact.verdict}"
    )


# Stores ---------------------------------------------------------------------------------------


def _power(fact: PowerLost, *_: object) -> str:
    unflushed = fact.end_position - fact.flushed_position
    kept = fact.kept_position - fact.flushed_position
    older = f"; {_all(fact.documents)} went back to older content" if fact.documents else ""
    return f"lost power: of {unflushed:,} bytes not flushed it kept {kept:,}{older}"


def _store(fact: StoreOpened, *_: object) -> str:
    kept = "keeps" if fact.outlives_process else "does not keep"
    awaited = fact.slaves_awaited
    copies = "a slave has" if awaited == 1 else f"{awaited} slaves have"
    waits = f"; it acknowledges a message when {copies} it" if awaited else ""
    return (
        f"opened its store ({fact.flush_disk_type}), which {kept} messages when the process ends, "
        f"and deletes them after {fact.retained_hours_max} hours{waits}"
    )


def _timer(did: str) -> Sentence:
    def tell(fact: TimerMessageRolled | TimerMessageRecalled, *_: object) -> str:
        return f"{did} the timer message {fact.uniq_key} of {place_of(fact.queue)}"

    return tell


# Brokers, NameServers, settings ---------------------------------------------------------------


def _reset(fact: BrokerReset, *_: object) -> str:
    return (
        "was reset without its messages, topics and offsets; it kept the groups "
        f"{_all(fact.kept_groups)} and the topics {_all(fact.kept_topics)}"
    )


def _busy(fact: BusyPoolSet, *_: object) -> str:
    if not fact.service_us:
        return f"has no load in the pool {fact.pool} any more"
    return (
        f"has a load in the pool {fact.pool}: {fact.threads} threads, {fact.service_us:,} µs for "
        f"a request, and {fact.queue_max:,} may wait"
    )


def _registered(fact: RegisteredWith, *_: object) -> str:
    failed = f"; {_all(fact.failed)} did not accept it" if fact.failed else ""
    return f"registered with the NameServers {_all(fact.accepted)}{failed}"


def _write_perm(fact: WritePermChanged, *_: object) -> str:
    did = "allowed" if fact.writable else "forbade"
    return f"{did} writing to {fact.topic_count} topics of {fact.broker}"


SERVER_SENTENCES: Mapping[type[Fact], Sentence] = {
    **REPLICATION_SENTENCES,
    **ACTING_MASTER_SENTENCES,
    ConnectionOpened: _opened,
    ConnectionClosed: lambda fact, entry, names: (
        f"has no connection with {_peer(entry, names)} any more: {fact.reason}"
    ),
    FrameRefused: _frame,
    HandlerFailed: _handler,
    RequestReceived: lambda fact, entry, names: (
        f"received {request_in_words(fact.code)} of {_peer(entry, names)}"
    ),
    RequestAnsweredSlowly: lambda fact, entry, names: (
        f"answered {request_in_words(fact.code)} of {_peer(entry, names)} after "
        f"{fact.took_ms:,} ms"
    ),
    RequestShed: _shed,
    PushDropped: _push_dropped,
    SlowReaderClosed: _slow_reader,
    ReplyRuleSet: _rule_set,
    ReplyRuleApplied: _rule_applied,
    ReplyRuleRemoved: lambda fact, *_: (
        f"removed the reply rule {fact.rule_id} ({fact.reason}), applied to "
        f"{fact.applied_count} requests"
    ),
    OpenFilesRanOut: lambda fact, *_: (
        f"cannot open {fact.wanted}: its process has too many open files"
    ),
    OpenFilesFreed: lambda fact, *_: (
        f"can open {fact.wanted} again, after {fact.lacking_for_ms / 1_000:g} s"
    ),
    HeartbeatReceived: lambda fact, _, names: f"got a heartbeat of {names.node_of(fact.client)}",
    MemberAnswerIgnored: lambda fact, _, names: (
        f"ignored an answer of {names.node_of(fact.client)} ({fact.group}) that it could not "
        f"read: {fact.error}"
    ),
    GroupCreated: lambda fact, *_: f"created the group {fact.group} (by: {fact.by})",
    GroupDeleted: lambda fact, *_: f"deleted the group {fact.group}",
    TopicDeleted: lambda fact, *_: f"deleted the topic {fact.topic}",
    WritePermChanged: _write_perm,
    BrokerReset: _reset,
    NameServerReset: lambda *_: "was reset: it kept its brokers, and not their topics",
    RegisteredWith: _registered,
    AddressServerFailed: lambda fact, *_: (
        f"got no list of NameServers from {fact.url}, and uses the last one: {fact.error}"
    ),
    NameServersChanged: lambda fact, *_: (
        f"got a list of NameServers from {fact.url}: {_all(fact.name_servers)}"
    ),
    BusyPoolSet: _busy,
    SettingsChanged: lambda fact, entry, names: (
        f"changed settings for {_peer(entry, names)}: {_all(fact.settings)}"
    ),
    SettingsIgnored: lambda fact, entry, names: (
        f"ignored settings of {_peer(entry, names)}: {_all(fact.names)}"
    ),
    StoreOpened: _store,
    StoreRefused: lambda fact, *_: f"cannot store messages: {fact.reason}",
    LogFlushed: lambda fact, *_: (
        f"flushed its log up to byte {fact.position:,}: {fact.message_count:,} messages, "
        f"{fact.flushed_bytes:,} bytes"
    ),
    FlushFailed: lambda fact, *_: (
        f"cannot flush its log beyond byte {fact.position:,}: {fact.error}"
    ),
    LogRecovering: lambda fact, *_: (
        f"has read {fact.done_bytes:,} of {fact.total_bytes:,} bytes of its log"
    ),
    LogRecovered: lambda fact, *_: (
        f"has read its log: {fact.message_count:,} messages, from byte {fact.min_position:,} to "
        f"{fact.end_position:,}"
    ),
    OldestDropped: lambda fact, *_: (
        f"deleted the oldest messages, those before byte {fact.min_position:,}, of "
        f"{fact.freed_bytes:,} bytes"
    ),
    PowerLost: _power,
    TimerMessagePutAside: lambda fact, entry, _: (
        f"put aside the timer message {fact.uniq_key} of {place_of(fact.queue)}, for "
        f"{(fact.out_ms - entry.at_ms) / 1_000:.1f} s"
    ),
    TimerMessageRolled: _timer("put aside again"),
    TimerMessageDelivered: lambda fact, *_: (
        f"delivered the timer message {fact.uniq_key} to {place_of(fact.queue)}, "
        f"{fact.late_by_ms} ms late"
    ),
    TimerMessageRecalled: _timer("did not deliver, as it was recalled,"),
    TimerMessageDropped: lambda fact, *_: (
        f"dropped the timer message {fact.uniq_key} of {place_of(fact.queue)}: {fact.reason}"
    ),
    TimersRecovering: lambda fact, *_: (
        f"has read {fact.done_count:,} of {fact.total_count:,} timer messages in its log"
    ),
    TimeAdvanced: lambda fact, *_: (
        f"advanced the time of waiting messages by {fact.ms / 1_000:g} s: {fact.due_count:,} of "
        f"{fact.waiting_count:,} are due"
    ),
    FaultActed: lambda fact, _, names: (
        f"the fault acted for the first time: {names.fault(fact.fault_id)}; it {fact.what}"
    ),
    RunStarted: lambda fact, *_: (
        f"a run of {fact.scenario} began (seed {fact.seed}, world {fact.world}, release "
        f"{fact.release})"
    ),
}
