"""A fact as a sentence whose subject is the node that recorded it.

    broker-a    stored 7F… at 6 of orders@broker-a:0
    billing-1   claimed orders@broker-a:0 from 4, for billing

``SENTENCES`` has an entry for each kind of fact, except those that are warnings with a
``sentence()`` of their own.  Facts of later versions are shown by their fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from rocketmq_emulator.checks.state.violation import place_of
from rocketmq_emulator.facts import (
    BrokerExpired,
    BrokerIsolated,
    BrokerRegistered,
    BrokerUnregistered,
    CallbackRaised,
    ConsumerStarted,
    ConsumerStopped,
    DelayedDelivered,
    DelayedMessageDropped,
    EndTransactionRefused,
    Fact,
    FaultBegan,
    FaultEnded,
    GroupOffsetMoved,
    HalfMessageSent,
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    ListenerRaised,
    LocalTransactionEnded,
    MemberJoined,
    MemberLeft,
    MembersNotified,
    MessageConsumed,
    MessageGivenToListener,
    MessagePolled,
    MessageSent,
    MessageSentBack,
    MessageStored,
    NodeKilled,
    NodePaused,
    NodeResumed,
    NodeStarted,
    NodeStopped,
    OffsetCommitted,
    OffsetRepaired,
    PullAnswered,
    PullDropped,
    PullFailed,
    PullHeld,
    Queue,
    QueuesClaimed,
    QueuesLocked,
    QueuesReleased,
    QueuesUnlocked,
    RebalancePassed,
    ReplyDropped,
    ReplyNotPushed,
    ReplyPushed,
    ReplyReceived,
    RequestGivenUp,
    RequestSent,
    RouteChanged,
    RunEnded,
    SeekRequested,
    SendAttempted,
    SendFailed,
    SendRefused,
    SubscriptionChanged,
    TopicChanged,
    TopicCreated,
    TransactionAnswered,
    TransactionChecked,
    TransactionEnded,
    TransactionGivenUp,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.scenarios.descriptions.names import NodeNames, fault_in_words
from rocketmq_emulator.scenarios.descriptions.server_sentences import SERVER_SENTENCES, Sentence

CODES = {code: name for name, code in vars(ResponseCode).items() if name.isupper()}
LISTED_MAX = 8  # of queues or members in one sentence
TEXT_MAX = 200  # characters of one field
ADVICE_START = "See http"


def sentence_of(entry: Entry, names: NodeNames) -> str:
    """The fact of *entry* as a sentence, without its time and its node."""
    if (told := SENTENCES.get(type(entry.fact))) is not None:
        return told(entry.fact, entry, names)
    return in_words(entry)


def in_words(entry: Entry) -> str:
    """The fact's own ``sentence()``, or one line with its kind and fields."""
    if sentence := entry.fact.sentence():
        return sentence
    fields = ((name, getattr(entry.fact, name)) for name in entry.fact.__struct_fields__)
    shown = ", ".join(f"{name} {_shown(value)}" for name, value in fields if value != "")
    kind = type(entry.fact).__name__
    return f"{kind}: {shown}" if shown else kind


def code_in_words(code: int) -> str:
    """``SUBSCRIPTION_NOT_LATEST (25)``; ``code 999`` for a number without a name."""
    return f"{CODES[code]} ({code})" if code in CODES else f"code {code}"


def many(count: int, noun: str) -> str:
    """``1 message``, ``1,200 messages``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def listed(parts: Iterable[str]) -> str:
    """The first ``LISTED_MAX`` of *parts* and the number of others; "none" if it is empty."""
    found = list(parts)
    more = len(found) - LISTED_MAX
    shown = ", ".join(found[:LISTED_MAX]) or "none"
    return f"{shown} and {more} more" if more > 0 else shown


def without_advice(error: str) -> str:
    """An error's text without the link to a help page that upstream's clients add to each."""
    return error.partition(ADVICE_START)[0].strip()


# Producers ----------------------------------------------------------------------------------


def _attempted(fact: SendAttempted, *_: object) -> str:
    return (
        f"tried to send {fact.uniq_key} to {place_of(fact.queue)}, attempt {fact.attempt}: "
        f"{fact.outcome}, {fact.took_ms} ms"
    )


def _sent(fact: MessageSent, *_: object) -> str:
    return (
        f"sent {fact.uniq_key}: acknowledged at {fact.offset} of {place_of(fact.queue)} "
        f"({fact.status}, attempt {fact.attempts}, {fact.took_ms} ms)"
    )


def _failed(fact: SendFailed, *_: object) -> str:
    stored = "; it may be stored" if fact.maybe_stored else ""
    return (
        f"failed to send {fact.uniq_key} to {fact.topic} after {many(fact.attempts, 'attempt')}: "
        f"{fact.error}{stored}"
    )


# Transactions -------------------------------------------------------------------------------


def _half_sent(fact: HalfMessageSent, *_: object) -> str:
    return (
        f"sent the half message {fact.uniq_key} to {place_of(fact.queue)}: acknowledged "
        f"({fact.status}, attempt {fact.attempts}, {fact.took_ms} ms)"
    )


def _local_ended(fact: LocalTransactionEnded, *_: object) -> str:
    error = f" ({fact.error})" if fact.error else ""
    return f"ended the local transaction of {fact.uniq_key} with {fact.outcome}{error}"


def _check_answered(fact: TransactionAnswered, *_: object) -> str:
    error = f" ({fact.error})" if fact.error else ""
    return f"answered the check of {fact.uniq_key} with {fact.outcome}{error}"


def _ended(fact: TransactionEnded, *_: object) -> str:
    by = "answered a check" if fact.by_check else "asked"
    if fact.outcome == "rollback":
        done = f"rolled back {fact.uniq_key} of {place_of(fact.queue)}"
    elif fact.stored_offset < 0:
        done = f"committed {fact.uniq_key} of {place_of(fact.queue)}, which waits for its time"
    else:
        done = f"committed {fact.uniq_key}, at {fact.stored_offset} of {place_of(fact.queue)}"
    return f"{done}, as {fact.group} {by}"


def _end_refused(fact: EndTransactionRefused, *_: object) -> str:
    what = f" of {fact.topic}" if fact.topic else ""
    key = f" {fact.uniq_key}" if fact.uniq_key else ""
    return (
        f"refused to end a transaction{key}{what} for {fact.group}: "
        f"{code_in_words(fact.response_code)}, {fact.remark}"
    )


def _checked(fact: TransactionChecked, _: Entry, names: NodeNames) -> str:
    asked = names.node_of(fact.client) if fact.client else "nobody, as no producer is connected"
    return f"asked about {fact.uniq_key}, check {fact.check_times} of {fact.group}: {asked}"


def _immune(fact: ImmuneHalfStoredAgain, *_: object) -> str:
    return (
        f"asked nobody about {fact.uniq_key}, check {fact.check_times} of {fact.group}: it is "
        f"immune for another {fact.immune_for_ms / 1_000:.1f} s"
    )


# Requests and replies -----------------------------------------------------------------------


def _request_sent(fact: RequestSent, *_: object) -> str:
    return (
        f"sent the request {fact.correlation_id} to {fact.topic}, and waits for its reply, for "
        f"{fact.timeout_ms / 1_000:g} s in all"
    )


def _request_given_up(fact: RequestGivenUp, *_: object) -> str:
    stored = "; it is stored and may be consumed" if fact.stored else ""
    return (
        f"gave up the request {fact.correlation_id} to {fact.topic} after {fact.after_ms} ms: "
        f"{fact.reason}{stored}"
    )


def _reply_dropped(fact: ReplyDropped, *_: object) -> str:
    error = f", {fact.error}" if fact.error else ""
    return (
        f"dropped a reply of {fact.sender} to the request {fact.correlation_id or 'of no id'}: "
        f"{fact.reason}{error}"
    )


def _reply_pushed(fact: ReplyPushed, _: Entry, names: NodeNames) -> str:
    who = names.node_of(fact.client)
    return f"pushed the reply to the request {fact.correlation_id} to {who}, {fact.took_ms} ms"


def _reply_not_pushed(fact: ReplyNotPushed, _: Entry, names: NodeNames) -> str:
    who = f" to {names.node_of(fact.client)}" if fact.client else ""
    stored = f"; it is stored in {fact.topic}, which no client reads" if fact.stored else ""
    return (
        f"could not push the reply to the request {fact.correlation_id or 'of no id'}{who}: "
        f"{fact.reason}{stored}"
    )


# Members ------------------------------------------------------------------------------------


def _started(fact: ConsumerStarted, *_: object) -> str:
    how = [fact.consumer_kind, *["broadcasting"] * fact.broadcast, *["orderly"] * fact.orderly]
    wanted = zip(fact.topics, fact.expressions, strict=False)
    topics = listed(topic if tags in ("", "*") else f"{topic} ({tags})" for topic, tags in wanted)
    return f"became a member of {fact.group} ({', '.join(how)}), subscribes {topics}"


def _joined(fact: MemberJoined, _: Entry, names: NodeNames) -> str:
    return f"got the first heartbeat of {names.node_of(fact.client)} for {fact.group}"


def _left(fact: MemberLeft, _: Entry, names: NodeNames) -> str:
    return f"removed {names.node_of(fact.client)} from {fact.group}: {fact.reason}"


def _passed(fact: RebalancePassed, _: Entry, names: NodeNames) -> str:
    members = listed(map(names.node_of, fact.members))
    return (
        f"computed its share of {fact.topic} for {fact.group} ({fact.cause}): {fact.own_count} of "
        f"{many(fact.queue_count, 'queue')}; members: {members}"
    )


def _claimed(fact: QueuesClaimed, *_: object) -> str:
    offsets = [f" from {offset}" for offset in fact.offsets] or [""] * len(fact.queues)
    return f"claimed for {fact.group}: {_places(fact.queues, offsets)}"


def _released(fact: QueuesReleased, *_: object) -> str:
    return f"released for {fact.group} ({fact.reason}): {_places(fact.queues)}"


def _locked(fact: QueuesLocked, _: Entry, names: NodeNames) -> str:
    found = []
    if fact.granted:
        found.append(f"locked {_places(fact.granted)} for {names.node_of(fact.client)}")
    if fact.refused:
        found.append(
            f"refused {names.node_of(fact.client)} the lock of {_places(fact.refused)}, which "
            "another member has"
        )
    return f"{'; '.join(found) or 'locked no queue'} ({fact.group})"


def _unlocked(fact: QueuesUnlocked, _: Entry, names: NodeNames) -> str:
    who = names.node_of(fact.client)
    return f"unlocked {_places(fact.queues)} for {who} ({fact.group})"


# Messages -----------------------------------------------------------------------------------


def _place(
    fact: MessageGivenToListener | MessageConsumed | MessagePolled | ListenerRaised,
) -> str:
    return f"{fact.uniq_key}, {fact.offset} of {place_of(fact.queue)}"


def _stored(fact: MessageStored, *_: object) -> str:
    tags = f", tags {fact.tags}" if fact.tags else ""
    return f"stored {fact.uniq_key} at {fact.offset} of {place_of(fact.queue)}{tags}"


def _given(fact: MessageGivenToListener, *_: object) -> str:
    again = f", retry {fact.reconsume_times}" if fact.reconsume_times else ""
    return f"gave to its listener {_place(fact)}{again}, for {fact.group}"


def _consumed(fact: MessageConsumed, *_: object) -> str:
    again = f", retry {fact.reconsume_times}" if fact.reconsume_times else ""
    did = "consumed" if fact.ok else "failed to consume"
    return f"{did} {_place(fact)}{again}, for {fact.group}"


def _sent_back(fact: MessageSentBack, entry: Entry, names: NodeNames) -> str:
    who = names.at(entry.node, fact.peer, entry.mono_us)
    return (
        f"received a message of {fact.origin_topic} sent back by {who} for {fact.target_topic}: "
        f"retry {fact.reconsume_times}, delay level {fact.delay_level}"
    )


def _delivered(fact: DelayedDelivered, *_: object) -> str:
    return (
        f"delivered a message of delay level {fact.delay_level} to {place_of(fact.queue)}, "
        f"{fact.late_by_ms} ms late"
    )


def _dropped(fact: DelayedMessageDropped, *_: object) -> str:
    place = place_of(fact.queue)
    return f"dropped {fact.uniq_key}, delayed at level {fact.delay_level}, {place}: {fact.reason}"


def _held(fact: PullHeld, entry: Entry, names: NodeNames) -> str:
    who, seconds = names.at(entry.node, fact.peer, entry.mono_us), fact.until_ms - entry.at_ms
    return (
        f"holds the pull of {who} from {fact.offset} of {place_of(fact.queue)} ({fact.group}), "
        f"for {seconds / 1_000:g} s at most"
    )


def _dropped_pull(fact: PullDropped, entry: Entry, names: NodeNames) -> str:
    who = names.at(entry.node, fact.peer, entry.mono_us)
    return (
        f"did not answer the pull of {who} from {fact.offset} of {place_of(fact.queue)} "
        f"({fact.group}): {fact.waiting_bytes} bytes wait to be sent to it"
    )


def _answered(fact: PullAnswered, entry: Entry, names: NodeNames) -> str:
    who = names.at(entry.node, fact.peer, entry.mono_us)
    code = fact.response_code
    with_what = code_in_words(code) if code else many(fact.message_count, "message")
    return (
        f"answered the pull of {who} from {fact.offset} of {place_of(fact.queue)} ({fact.group}): "
        f"{with_what}, next {fact.next_offset}"
    )


def _committed(fact: OffsetCommitted, entry: Entry, names: NodeNames) -> str:
    who = names.at(entry.node, fact.peer, entry.mono_us)
    return f"got from {who} the commit of {fact.offset} in {place_of(fact.queue)} ({fact.group})"


def _repaired(fact: OffsetRepaired, *_: object) -> str:
    return (
        f"pulled from {fact.asked} of {place_of(fact.queue)}, which does not exist, and continues "
        f"from {fact.corrected} ({fact.group})"
    )


# Brokers, NameServers, runs -----------------------------------------------------------------


def _registered(fact: BrokerRegistered, *_: object) -> str:
    again = "for the first time" if fact.first else "again"
    topics = many(fact.topic_count, "topic")
    return f"received the registration of {fact.broker} {again}, with {topics}"


def _topic(fact: TopicCreated | TopicChanged, *_: object) -> str:
    did = "created" if isinstance(fact, TopicCreated) else "changed"
    return (
        f"{did} {fact.topic}: {many(fact.read_queue_count, 'queue')} to read, "
        f"{fact.write_queue_count} to write, perm {fact.perm}"
    )


def _fault_ended(fact: FaultEnded, _: Entry, names: NodeNames) -> str:
    return (
        f"the fault ended ({fact.reason}): {names.fault(fact.fault_id)}; "
        f"it acted {many(fact.acted_count, 'time')}"
    )


def _run_ended(fact: RunEnded, *_: object) -> str:
    return f"the run ended ({fact.reason}){': ' if fact.detail else ''}{fact.detail}"


def _route_changed(fact: RouteChanged, *_: object) -> str:
    without = f" (no master of {listed(fact.without_master)})" if fact.without_master else ""
    return f"got another route of {fact.topic}: {listed(fact.brokers)}{without}"


SENTENCES: Mapping[type[Fact], Sentence] = {
    **SERVER_SENTENCES,
    RouteChanged: _route_changed,
    SendAttempted: _attempted,
    MessageSent: _sent,
    SendFailed: _failed,
    SendRefused: lambda fact, *_: (
        f"refused a message of {fact.topic}: {code_in_words(fact.response_code)}, {fact.remark}"
    ),
    HalfMessageSent: _half_sent,
    LocalTransactionEnded: _local_ended,
    TransactionAnswered: _check_answered,
    HalfMessageStored: lambda fact, *_: (
        f"put aside the half message {fact.uniq_key} of {place_of(fact.queue)}, from {fact.group}"
    ),
    TransactionEnded: _ended,
    EndTransactionRefused: _end_refused,
    TransactionChecked: _checked,
    ImmuneHalfStoredAgain: _immune,
    TransactionGivenUp: lambda fact, *_: (
        f"gave up the half message {fact.uniq_key} of {place_of(fact.queue)}: {fact.reason}"
    ),
    RequestSent: _request_sent,
    ReplyReceived: lambda fact, *_: (
        f"got the reply to the request {fact.correlation_id} to {fact.topic}, {fact.took_ms} ms "
        "after the call"
    ),
    RequestGivenUp: _request_given_up,
    ReplyDropped: _reply_dropped,
    ReplyPushed: _reply_pushed,
    ReplyNotPushed: _reply_not_pushed,
    CallbackRaised: lambda fact, *_: (
        f"got {fact.error} from the {fact.function} of its application, for {fact.group}"
    ),
    BrokerIsolated: lambda fact, *_: f"avoids {fact.broker} for {fact.for_ms / 1_000:g} s",
    ConsumerStarted: _started,
    ConsumerStopped: lambda fact, *_: f"left {fact.group}",
    MemberJoined: _joined,
    MemberLeft: _left,
    MembersNotified: lambda fact, *_: (
        f"notified {many(fact.connection_count, 'member')} of {fact.group} that the group changed"
    ),
    SubscriptionChanged: lambda fact, *_: (
        f"updated the subscription of {fact.group}: added {listed(fact.added)}, "
        f"removed {listed(fact.removed)}"
    ),
    RebalancePassed: _passed,
    QueuesClaimed: _claimed,
    QueuesReleased: _released,
    QueuesLocked: _locked,
    QueuesUnlocked: _unlocked,
    MessageStored: _stored,
    MessageGivenToListener: _given,
    MessageConsumed: _consumed,
    MessagePolled: lambda fact, *_: f"returned {_place(fact)} from a poll, for {fact.group}",
    MessageSentBack: _sent_back,
    ListenerRaised: lambda fact, *_: f"got {fact.error} from its listener for {_place(fact)}",
    DelayedDelivered: _delivered,
    DelayedMessageDropped: _dropped,
    PullHeld: _held,
    PullAnswered: _answered,
    PullDropped: _dropped_pull,
    PullFailed: lambda fact, *_: (
        f"failed to pull {place_of(fact.queue)} for {fact.group}: {without_advice(fact.error)}"
    ),
    OffsetCommitted: _committed,
    OffsetRepaired: _repaired,
    GroupOffsetMoved: lambda fact, *_: (
        f"moved {fact.group} to {fact.offset} of {place_of(fact.queue)}, as a tool asked"
    ),
    SeekRequested: lambda fact, *_: (
        f"was moved by its application to {fact.offset} of {place_of(fact.queue)}, for "
        f"{fact.group}"
    ),
    TopicCreated: _topic,
    TopicChanged: _topic,
    BrokerRegistered: _registered,
    BrokerUnregistered: lambda fact, *_: f"removed {fact.broker} from the routes: {fact.reason}",
    BrokerExpired: lambda fact, *_: (
        f"removed {fact.broker} from the routes: silent for {fact.silent_for_ms / 1_000:g} s"
    ),
    NodeStarted: lambda fact, *_: f"was started ({fact.role})",
    NodeStopped: lambda fact, *_: f"was stopped: {fact.reason}",
    NodeKilled: lambda fact, *_: f"the process of {fact.node} was killed",
    NodePaused: lambda fact, *_: f"the process of {fact.node} was paused",
    NodeResumed: lambda fact, *_: f"the process of {fact.node} was resumed",
    FaultBegan: lambda fact, *_: f"a fault began: {fault_in_words(fact.fault)}",
    FaultEnded: _fault_ended,
    RunEnded: _run_ended,
}


def _places(queues: Sequence[Queue], more: Sequence[str] = ()) -> str:
    """``orders@broker-a:0, 1, 3, steps@broker-b:0``, each followed by its text in *more*."""
    found: list[str] = []
    last: Queue | None = None
    for queue, text in zip_longest(queues, more, fillvalue=""):
        assert isinstance(queue, Queue)
        is_like = last is not None and (last.topic, last.broker) == (queue.topic, queue.broker)
        found.append(f"{queue.queue_id if is_like else place_of(queue)}{text}")
        last = queue
    return listed(found)


def _shown(value: object) -> str:
    if isinstance(value, Queue):
        return place_of(value)
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value)) or "none"
    text = str(value)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
