"""The history of a failed test, for a terminal: what its cluster did, and what was left to do.

At most ``LINES_MAX`` lines of ``COLUMNS_MAX`` columns.  First events in the order of time, many
of a kind as one line; then the state at the moment of the failure: what became of the messages of
each topic in each group, and which members and brokers are missing.  Times are seconds since the
test began.  If there are too many lines, the least telling events are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from rocketmq_emulator.facts import (
    CallbackRaised,
    ConsumerStarted,
    ConsumerStopped,
    Fact,
    FaultBegan,
    FaultEnded,
    HalfMessageStored,
    ListenerRaised,
    MemberJoined,
    MemberLeft,
    MessageConsumed,
    MessageSentBack,
    MessageStored,
    MisuseNoticed,
    NodeKilled,
    NodePaused,
    NodeResumed,
    NodeStarted,
    NodeStopped,
    PowerLost,
    PullFailed,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    ReplyRuleApplied,
    RequestShed,
    SendFailed,
    SendRefused,
    TimeAdvanced,
    TransactionChecked,
    TransactionEnded,
    TransactionGivenUp,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.messages.names import (
    SCHEDULE_TOPIC,
    is_dlq_topic,
    is_retry_topic,
    is_system_topic,
)
from rocketmq_emulator.scenarios.descriptions.names import fault_in_words
from rocketmq_emulator.scenarios.descriptions.sentences import (
    code_in_words,
    listed,
    many,
    without_advice,
)
from rocketmq_emulator.testing.group_waits import misspelt_topics
from rocketmq_emulator.testing.message_fates import (
    MessageFates,
    PlacedMessage,
    State,
    most_common,
)

LINES_MAX = 15
COLUMNS_MAX = 100
STATE_LINES_MAX = 7
TAGS_SHOWN_MAX = 3
# A member's first pull may come before its subscription; the state names it if a message waits.
NOT_LATEST = f"code {ResponseCode.SUBSCRIPTION_NOT_LATEST}"
FATES: Mapping[State, str] = {  # the states of messages, the one that explains most first
    "dead": "dead letter",
    "retried": "failed",
    "dropped": "failed",
    "lost": "lost",
    "filtered": "filtered out",
    "skipped": "skipped",
    "waits": "waiting",
    "running": "not finished",
    "consumed": "consumed",
}
assert set(FATES) == set(State.__args__)  # type: ignore[attr-defined]


REQUESTS = {code: name for name, code in vars(RequestCode).items() if name.isupper()}


class Event(NamedTuple):
    """One line of the history: facts of one kind with the same key, in ``WORDS``."""

    at_us: int
    rank: int  # how telling it is, 0 the most
    text: str


class FailedTest(NamedTuple):
    """A test's clock: it began at *began_us* and failed at *failed_us* with the error *error*."""

    began_us: int
    failed_us: int
    error: str


def history_of(entries: Sequence[Entry], failed: FailedTest, fates: MessageFates) -> list[str]:
    """The lines of the history; *fates* are those at ``failed.failed_us``."""
    until_us = failed.failed_us
    during = [entry for entry in entries if failed.began_us <= entry.mono_us <= until_us]
    events = list(_events(during, fates))
    state = [*_misspelt(during), *_state(fates)]
    if len(state) > STATE_LINES_MAX:
        more = len(state) - STATE_LINES_MAX + 1
        state = [*state[: STATE_LINES_MAX - 1], f"… and {more} more, on the page"]
    room = LINES_MAX - len(state) - 2  # the failure, and the end
    kept = events if len(events) <= room else _of_lowest_rank(events, room - 1)
    shown = [_at(event.at_us - failed.began_us, event.text) for event in kept]
    if len(kept) < len(events):
        shown.append(f"{'':9} … and {many(len(events) - len(kept), 'event')} more, on the page")
    if not events and not state:
        shown = [_at(0, "nothing: no message, no member, no fault")]
    failure = _at(until_us - failed.began_us, f"the test failed: {failed.error}")
    return [_cut(line) for line in (*shown, failure, *(f"{'':9} {line}" for line in state))]


def _at(since_us: int, text: str) -> str:
    return f"{since_us / 1e6:7.3f} s {text}"


def _cut(line: str) -> str:
    line = " ".join(line.splitlines())
    return line if len(line) <= COLUMNS_MAX else f"{line[: COLUMNS_MAX - 1]}…"


def _of_lowest_rank(events: list[Event], room: int) -> list[Event]:
    """The *room* events of the lowest ranks, in the order of time."""
    best = sorted(range(len(events)), key=lambda number: (events[number].rank, number))[:room]
    return [events[number] for number in sorted(best)]


# The state at the failure -----------------------------------------------------------------


def _misspelt(entries: Sequence[Entry]) -> Iterator[str]:
    for topic, found in misspelt_topics(entries).items():
        sent = f"{many(found.message_count, 'message')} sent to {topic}"
        yield f"likely mistake: {sent}, and {found.group} reads {found.meant}"


def _state(fates: MessageFates) -> Iterator[str]:
    """A line for each topic, group and fate of its messages; then groups without messages."""
    by_topic = sorted(fates.messages, key=lambda message: message.queue.topic)
    if fates.conditions:
        yield listed(f"{node} {how}" for node, how in sorted(fates.conditions.items()))
    silent = set(fates.members)
    for topic, count in sorted(Counter(fates.open_halves.values()).items()):
        yield (
            f"{topic}: {many(count, 'half message')} without a commit: no group gets "
            f"{'it' if count == 1 else 'them'}"
        )
    for topic, messages in groupby(by_topic, lambda message: message.queue.topic):
        stored = list(messages)
        groups = fates.groups_of(topic)
        silent.difference_update(groups)
        if not groups:
            yield f"{topic}: {many(len(stored), 'message')}, and no group reads it"
        for group in groups:
            yield from _state_of(topic, stored, group, fates)
    for group in sorted(silent):
        present = [name for name, left in fates.members[group].items() if not left]
        yield f"{group}: {listed(present) if present else 'no member'}; no message to consume"


def _state_of(
    topic: str, messages: list[PlacedMessage], group: str, fates: MessageFates
) -> Iterator[str]:
    found = fates.reasons(messages, group)
    for state in sorted(found, key=list(FATES).index):
        whys = found[state]
        count = sum(whys.values())
        why = most_common(whys)
        of = f" of {len(messages)}" if count < len(messages) else ""
        told = f": {why}" if why else ""
        yield f"{topic} → {group}: {count}{of} {FATES[state]}{told}"


# Events -----------------------------------------------------------------------------------

Key: TypeAlias = tuple[Any, ...]


class Words(NamedTuple):
    """How facts of one kind are told: those with the same *key* are one line, by *text*.

    A *turn* is an event that splits the lines of other kinds: what was before it, and after it.
    """

    rank: int
    key: Callable[[Any, Entry, MessageFates], Key | None]  # None: not told
    text: Callable[[Sequence[Any], Entry, MessageFates], str]
    turn: bool = False


def _events(entries: Iterable[Entry], fates: MessageFates) -> Iterator[Event]:
    runs: dict[Key, list[Entry]] = {}
    closed: list[list[Entry]] = []
    for entry in entries:
        words = WORDS.get(type(entry.fact))
        key = None if words is None else words.key(entry.fact, entry, fates)
        if words is None or key is None:
            continue
        if words.turn:
            closed += [*runs.values(), [entry]]
            runs.clear()
        else:
            runs.setdefault((type(entry.fact), *key), []).append(entry)
    for run in sorted([*closed, *runs.values()], key=lambda run: run[0].mono_us):
        words = WORDS[type(run[0].fact)]
        text = words.text([entry.fact for entry in run], run[0], fates)
        yield Event(run[0].mono_us, words.rank, text)


def _stored_key(fact: MessageStored, *_: object) -> Key | None:
    topic = fact.queue.topic
    if fact.real_topic and not is_retry_topic(fact.real_topic):
        return (fact.real_topic, fact.queue)
    if is_dlq_topic(topic):
        return (topic,)
    return None if is_system_topic(topic) or is_retry_topic(topic) else (topic,)


def _stored(facts: Sequence[MessageStored], *_: object) -> str:
    topic = facts[0].queue.topic
    if is_dlq_topic(topic):
        return f"{many(len(facts), 'dead letter')} in {topic}"
    if delayed_to := facts[0].real_topic:
        level = f" (delay level {facts[0].queue.queue_id + 1})" if topic == SCHEDULE_TOPIC else ""
        what = f"{many(len(facts), 'message')} sent to {delayed_to}, delayed{level}"
        return f"{what}: until due, or until time is advanced"
    tags = Counter(fact.tags for fact in facts)
    named = listed(tag or "none" for tag in tags) if set(tags) != {""} else ""
    tagged = f", tag {named}" if named and len(tags) <= TAGS_SHOWN_MAX else ""
    places = _places(fact.queue for fact in facts)
    return f"{many(len(facts), 'message')} sent to {topic}, stored: {places}{tagged}"


def _of_topic(fact: HalfMessageStored | TransactionGivenUp, *_: object) -> Key:
    return (fact.queue.topic,)


def _ended(facts: Sequence[TransactionEnded], *_: object) -> str:
    fact = facts[0]
    done = "committed" if fact.outcome == "commit" else "rolled back"
    after = ", after a check" if fact.by_check else ""
    return f"{many(len(facts), 'half message')} of {fact.queue.topic} {done}{after}"


def _checked(facts: Sequence[TransactionChecked], *_: object) -> str:
    fact = facts[0]
    halves = many(len({each.uniq_key for each in facts}), "half message")
    about = f"about {halves} of {fact.queue.topic}"
    if not fact.client:
        return f"{fact.queue.broker} asked nobody {about}: {fact.group} is not connected"
    return f"{fact.queue.broker} asked {fact.group} {about}"


def _send_failed(facts: Sequence[SendFailed], *_: object) -> str:
    maybe = ", perhaps stored" if facts[0].maybe_stored else ""
    error = without_advice(facts[0].error).replace(f": {facts[0].topic}: ", ": ", 1)
    return f"{many(len(facts), 'send')} to {facts[0].topic} failed{maybe}: {error}"


def _started(facts: Sequence[ConsumerStarted], entry: Entry, _: MessageFates) -> str:
    fact = facts[0]
    wanted = zip(fact.topics, fact.expressions, strict=False)
    reads = listed(
        topic if tags in ("", "*") else f"{topic} (tag {tags})" for topic, tags in wanted
    )
    return f"{entry.node} joined {fact.group}, reads {reads}"


def _joined_key(fact: MemberJoined, _: Entry, fates: MessageFates) -> Key | None:
    name = fates.names.node_of(fact.client)
    is_told = name in fates.names.consumers or fact.group not in fates.members
    return None if is_told else (fact.group, name)


def _joined(facts: Sequence[MemberJoined], _: Entry, fates: MessageFates) -> str:
    fact = facts[0]
    name = fates.names.node_of(fact.client)
    return f"{name} ({fact.language}) joined {fact.group}"


def _claimed(facts: Sequence[QueuesClaimed], entry: Entry, _: MessageFates) -> str:
    return f"{entry.node} owns {_owned(_queues_in(facts))}"


def _released(facts: Sequence[QueuesReleased], entry: Entry, _: MessageFates) -> str:
    return f"{entry.node} released {_owned(_queues_in(facts))} ({facts[0].reason})"


def _queues_in(facts: Sequence[QueuesClaimed] | Sequence[QueuesReleased]) -> list[Queue]:
    """The queues of all facts, each once: it may be claimed, given up and claimed again."""
    queues = (queue for fact in facts for queue in fact.queues if not _is_retry(queue))
    return [*dict.fromkeys(queues)]


def _advanced(facts: Sequence[TimeAdvanced], *_: object) -> str:
    """Each running broker notes a fact."""
    due = sum(fact.due_count for fact in facts)
    return f"time was advanced by {_length(facts[0].ms)}: {many(due, 'message')} fell due"


def _length(ms: int) -> str:
    for unit_ms, unit in ((3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if ms >= unit_ms:
            return f"{ms / unit_ms:g} {unit}"
    return f"{ms} ms"


def _of_queues(fact: QueuesClaimed | QueuesReleased, entry: Entry, _: MessageFates) -> Key | None:
    if all(map(_is_retry, fact.queues)):
        return None
    return fact.group, entry.node, getattr(fact, "reason", "")


def _consumed(facts: Sequence[MessageConsumed], entry: Entry, _: MessageFates) -> str:
    return f"{entry.node} consumed {many(len(facts), 'message')} of {facts[0].topic}"


def _raised(facts: Sequence[ListenerRaised], entry: Entry, _: MessageFates) -> str:
    fact = facts[0]
    again = f", {len(facts)} times" if len(facts) > 1 else ""
    return f"the listener of {entry.node} raised {fact.error}{again}"


def _sent_back(facts: Sequence[MessageSentBack], *_: object) -> str:
    fact = facts[-1]
    retries = f"retry {facts[0].reconsume_times}"
    if fact.reconsume_times > facts[0].reconsume_times:
        retries += f"-{fact.reconsume_times}"
    return f"{many(len(facts), 'message')} sent back by {fact.group}: {retries}"


def _left(facts: Sequence[MemberLeft], _: Entry, fates: MessageFates) -> str:
    fact = facts[0]
    return f"{fates.names.node_of(fact.client)} is gone from {fact.group} ({fact.reason})"


def _left_key(fact: MemberLeft, _: Entry, fates: MessageFates) -> Key | None:
    told = fact.reason == "unregistered" or fact.group not in fates.members
    return None if told else (fact.group, fact.client)


def _rule_key(fact: ReplyRuleApplied, entry: Entry, _: MessageFates) -> Key:
    return entry.node, fact.code, fact.verdict


def _rule(facts: Sequence[ReplyRuleApplied], entry: Entry, _: MessageFates) -> str:
    fact = facts[0]
    request = REQUESTS.get(fact.code, f"request {fact.code}")
    return f"a reply rule of {entry.node} changed {len(facts)} {request}: {fact.verdict}"


def _pull_failed_key(fact: PullFailed, entry: Entry, fates: MessageFates) -> Key | None:
    is_over = (fact.group, fact.queue) not in fates.pull_errors  # a later pull succeeded
    is_usual = fact.error.startswith(NOT_LATEST)
    return None if is_over or is_usual else (entry.node, fact.queue.broker, fact.error)


def _at_node(_fact: Fact, entry: Entry, _: MessageFates) -> Key:
    return (entry.node,)


def _misuse_key(fact: MisuseNoticed, *_: object) -> Key | None:
    """Tags that match nothing are in the fates of their messages."""
    is_told = fact.misuse == "tags_match_nothing"
    return None if is_told else (fact.misuse, fact.group, fact.topic)


WORDS: Mapping[type[Fact], Words] = {
    MessageStored: Words(1, _stored_key, _stored),
    HalfMessageStored: Words(
        1,
        _of_topic,
        lambda facts, *_: (
            f"{many(len(facts), 'half message')} sent to {facts[0].queue.topic}, put aside: "
            f"{_places(fact.queue for fact in facts)}"
        ),
    ),
    TransactionEnded: Words(
        1, lambda fact, *_: (fact.queue.topic, fact.outcome, fact.by_check), _ended
    ),
    TransactionChecked: Words(
        2,
        lambda fact, *_: (fact.queue.broker, fact.queue.topic, fact.group, fact.client),
        _checked,
    ),
    TransactionGivenUp: Words(
        0,
        _of_topic,
        lambda facts, *_: (
            f"{many(len(facts), 'half message')} of {facts[0].queue.topic} given up: "
            f"{facts[0].reason}"
        ),
    ),
    SendFailed: Words(0, lambda fact, *_: (fact.topic, fact.error), _send_failed),
    SendRefused: Words(
        1,
        lambda fact, entry, _: (entry.node, fact.topic, fact.response_code),
        lambda facts, entry, _: (
            f"{entry.node} refused {many(len(facts), 'message')} of {facts[0].topic}: "
            f"{code_in_words(facts[0].response_code)}"
        ),
    ),
    ConsumerStarted: Words(2, lambda fact, entry, _: (fact.group, entry.node), _started),
    ConsumerStopped: Words(
        3,
        lambda fact, entry, _: (fact.group, entry.node),
        lambda facts, entry, _: f"{entry.node} left {facts[0].group}",
    ),
    MemberJoined: Words(2, _joined_key, _joined),
    MemberLeft: Words(2, _left_key, _left),
    QueuesClaimed: Words(3, _of_queues, _claimed),
    QueuesReleased: Words(4, _of_queues, _released),
    MessageConsumed: Words(
        3,
        lambda fact, entry, _: (fact.group, entry.node, fact.topic) if fact.ok else None,
        _consumed,
    ),
    ListenerRaised: Words(0, lambda fact, entry, _: (fact.group, entry.node, fact.error), _raised),
    CallbackRaised: Words(
        0,
        lambda fact, entry, _: (entry.node, fact.function, fact.error),
        lambda facts, entry, _: f"{facts[0].function} of {entry.node} raised {facts[0].error}",
    ),
    MessageSentBack: Words(
        3,
        lambda fact, *_: None if is_dlq_topic(fact.target_topic) else (fact.group,),
        _sent_back,
    ),
    PullFailed: Words(
        3,
        _pull_failed_key,
        lambda facts, entry, _: (
            f"{entry.node} cannot pull from {facts[0].queue.broker}: "
            f"{without_advice(facts[0].error)}"
        ),
    ),
    RequestShed: Words(
        2, _at_node, lambda facts, entry, _: f"{entry.node} was busy for {len(facts)} requests"
    ),
    ReplyRuleApplied: Words(1, _rule_key, _rule),
    TimeAdvanced: Words(3, lambda fact, *_: (fact.ms,), _advanced),
    MisuseNoticed: Words(
        0,
        _misuse_key,
        lambda facts, *_: f"likely mistake, {facts[0].sentence()}",
    ),
    NodeKilled: Words(
        0, lambda *_: ("",), lambda facts, *_: f"{facts[0].node} was killed", turn=True
    ),
    NodePaused: Words(
        0, lambda *_: ("",), lambda facts, *_: f"{facts[0].node} was paused", turn=True
    ),
    NodeResumed: Words(
        1, lambda *_: ("",), lambda facts, *_: f"{facts[0].node} was resumed", turn=True
    ),
    NodeStopped: Words(0, _at_node, lambda _, entry, __: f"{entry.node} stopped", turn=True),
    NodeStarted: Words(1, _at_node, lambda _, entry, __: f"{entry.node} started", turn=True),
    PowerLost: Words(0, _at_node, lambda _, entry, __: f"{entry.node} lost power", turn=True),
    FaultBegan: Words(
        0,
        lambda *_: ("",),
        lambda facts, *_: f"a fault began: {fault_in_words(facts[0].fault)}",
        turn=True,
    ),
    FaultEnded: Words(
        1,
        lambda *_: ("",),
        lambda facts, _, fates: f"the fault ended: {fates.names.fault(facts[0].fault_id)}",
        turn=True,
    ),
}


def _is_retry(queue: Queue) -> bool:
    return is_retry_topic(queue.topic)


def _owned(queues: Sequence[Queue]) -> str:
    """``8 queues of orders: broker-a/0-3, broker-b/0-3``."""
    topics = sorted({queue.topic for queue in queues})
    return f"{many(len(queues), 'queue')} of {listed(topics)}: {_places(queues)}"


def _places(queues: Iterable[Queue]) -> str:
    """``broker-a/0-3, broker-b/2``: the queues of one topic, by broker."""
    ids: dict[str, set[int]] = {}
    for queue in queues:
        ids.setdefault(queue.broker, set()).add(queue.queue_id)
    return listed(f"{broker}/{_ranges(sorted(found))}" for broker, found in sorted(ids.items()))


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3`` for neighbours, ``0+2`` for others."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return "+".join(str(a) if a == b else f"{a}-{b}" for a, b in found)
