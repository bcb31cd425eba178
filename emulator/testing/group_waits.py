"""Waits of a test for a consumer group: until it has consumed, until its queues are shared.

A wait asks the brokers and the members again and again, and ends with a text: why the condition
does not hold, or an empty text if it does.  Its cluster is in real or in virtual time; ``Watched``
has all that a wait needs of it.  Unconsumed messages on a broker that is down are counted from
the facts.  Likely mistakes come first in a text, because they explain most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import trio

from rocketmq_emulator.admin.calls import ClusterUnreachable
from rocketmq_emulator.cluster.world import MaybeAwaitable, maybe_await
from rocketmq_emulator.facts import (
    ConsumerStarted,
    ConsumerStopped,
    DelayedDelivered,
    DelayedMessageDropped,
    MemberJoined,
    MessageStored,
    NodeStarted,
    Queue,
    RebalancePassed,
    SubscriptionChanged,
)
from rocketmq_emulator.protocol.error_families import NobodyAnswered, public
from rocketmq_emulator.protocol.messages.names import (
    is_dlq_topic,
    is_retry_topic,
    is_system_topic,
    retry_topic,
)
from rocketmq_emulator.scenarios.descriptions.sentences import listed, many
from rocketmq_emulator.testing.cluster_queries import (
    GroupProgress,
    GroupShares,
    is_done,
    progress_of,
    shares_of,
)
from rocketmq_emulator.testing.message_fates import MessageFates, most_common
from rocketmq_emulator.text.suggestions import nearest

if TYPE_CHECKING:
    from rocketmq_emulator.admin.calls import Admin
    from rocketmq_emulator.facts.journal import Entry
    from rocketmq_emulator.protocol.bodies.extensions import MisuseView
    from rocketmq_emulator.protocol.queues import MessageQueue

T = TypeVar("T")

HEARTBEAT_S = 30.0  # heartbeatBrokerInterval of clients in any language
REBALANCE_S = 20.0  # RebalanceService.waitInterval
FIRST_ANSWER_S = 2.0  # from all servers that run, on a busy machine
QUICK = "0.3 s for clients with the setting quick=True"
UNREGISTERED = "is not registered at a NameServer"
REMEDIES: Mapping[str, str] = {  # by the condition of a broker
    "was killed": "start it",
    "was stopped": "start it",
    "has lost power": "switch it on",
    "is paused": "resume it",
    UNREGISTERED: "a broker that runs registers every 30 s",
}


@public
class NotConsumed(NobodyAnswered, AssertionError):
    """A group did not consume all messages in time."""


@public
class NotBalanced(NobodyAnswered, AssertionError):
    """The members of a group did not share its queues in time."""


class Watched(NamedTuple):
    """What a wait needs of its cluster; times are those of the cluster."""

    entries: Callable[[], Sequence[Entry]]  # its facts up to now, in any order
    journal: Callable[[], Sequence[Entry]]  # the same in the order of time, with names of clients
    misuses: Callable[[], MaybeAwaitable[tuple[MisuseView, ...]]]
    now_us: Callable[[], int]
    poll_s: float
    declared: Collection[str] = ()  # the topics that the test declares


class WantedMessages(NamedTuple):
    """The messages that *group* must have consumed: all of its topics, with *topics* among them.

    With *brokers* only the messages on these brokers count.
    """

    group: str
    topics: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()


# Until a group has consumed ---------------------------------------------------------------


async def wait_until_consumed(
    wanted: WantedMessages,
    within_s: float,
    watched: Watched,
    admin: Admin,
    advance: Callable[[], MaybeAwaitable[int]] | None = None,
) -> str:
    """Wait until the group reads the topics, has consumed all, and no retry waits for its time.

    *advance* delivers what waits and returns how many messages fell due; it is called when the
    others are consumed.  Returns an empty text, or after *within_s* why messages are left.
    """
    group = wanted.group
    if shared := shared_client_ids(group, watched.entries()):
        return shared

    async def remaining() -> GroupProgress | None:
        progress = await progress_of(group, admin, brokers=wanted.brokers)
        if not is_done(progress, wanted.topics):
            return progress
        due = 0 if advance is None else await maybe_await(advance())
        entries = watched.entries()
        if due or waiting_retries(wanted, entries):
            return progress
        return progress if held_elsewhere(wanted, progress, entries) else None

    if (progress := await _last(remaining, within_s, watched.poll_s)) is None:
        return shared_client_ids(group, watched.entries())  # of members that started meanwhile
    if isinstance(progress, _NoAnswer):
        return f"nobody can say what {group} has consumed, {progress.described(within_s, watched)}"
    entries = watched.journal()
    misuses = await maybe_await(watched.misuses())
    told = (
        *_mistakes(group, wanted.topics, misuses, entries),
        *_undeclared(group, wanted.topics, watched.declared, entries),
        *_held_elsewhere(wanted, progress, entries),
        *_missing_heartbeats(group, progress, entries, watched.now_us()),
        *_failing(wanted, entries, watched.now_us(), advances=advance is not None),
        *_not_consumed(wanted, progress, entries),
    )
    return f"{group} has not consumed all messages after {within_s:g} s: {'; '.join(told)}"


def waiting_retries(wanted: WantedMessages, entries: Iterable[Entry]) -> int:
    """How many messages that the group has sent back wait for their time."""
    topic, waiting = retry_topic(wanted.group), 0
    for entry in entries:
        fact = entry.fact
        if not isinstance(fact, MessageStored | DelayedDelivered | DelayedMessageDropped):
            continue
        if wanted.brokers and fact.queue.broker not in wanted.brokers:
            continue
        if isinstance(fact, MessageStored):
            waiting += fact.real_topic == topic
        else:
            waiting -= fact.queue.topic == topic
    return waiting


class HeldMessages(NamedTuple):
    """Messages that the group has not consumed, of a broker that the NameServers do not list."""

    condition: str  # of the broker: "was killed"
    message_count: int
    topics: tuple[str, ...]


def held_elsewhere(
    wanted: WantedMessages, progress: GroupProgress, entries: Sequence[Entry]
) -> dict[str, HeldMessages]:
    """What brokers hold that were not asked for *progress*, by name; from the facts."""
    stored = {
        entry.fact.queue.broker for entry in entries if isinstance(entry.fact, MessageStored)
    }
    nodes = (stored & set(wanted.brokers) if wanted.brokers else stored) - set(progress.brokers)
    if not nodes:
        return {}  # the usual case costs no more
    in_order = sorted(entries, key=lambda entry: entry.mono_us)
    fates = MessageFates(in_order, in_order[-1].mono_us, {wanted.group: wanted.topics})
    consumed = {  # by members of other programs, which have no facts here
        Queue(queue.topic, queue.broker_name, queue.queue_id): offset
        for queue, offset in progress.elsewhere.items()
    }
    found: dict[str, HeldMessages] = {}
    for node in sorted(nodes):
        left = [
            message.queue.topic
            for message in fates.unconsumed_at(node, wanted.group)
            if message.offset >= consumed.get(message.queue, 0)
        ]
        if left:
            condition = fates.conditions.get(node, UNREGISTERED)
            found[node] = HeldMessages(condition, len(left), tuple(dict.fromkeys(left)))
    return found


def _held_elsewhere(
    wanted: WantedMessages, progress: GroupProgress, entries: Sequence[Entry]
) -> Iterator[str]:
    held = held_elsewhere(wanted, progress, entries)
    others = sorted({queue.broker_name for queue in progress.queues} - held.keys())
    for node, found in held.items():
        what = f"{many(found.message_count, 'message')} of {listed(found.topics)}"
        remedy = REMEDIES[found.condition]
        if others:
            remedy += f", or wait for the messages of the other brokers only: brokers={others}"
        yield (
            f"{node} {found.condition} and holds {what} that {wanted.group} has not consumed: "
            f"{remedy}"
        )


def _not_consumed(
    wanted: WantedMessages, progress: GroupProgress, entries: Sequence[Entry]
) -> Iterator[str]:
    """What the group's messages wait for, and where they are."""
    yield _members_text(wanted.group, progress.members, entries)
    read = {queue.topic for queue in progress.queues}
    for topic in wanted.topics if progress.members or read else ():
        if topic not in read:
            meant = nearest(topic, [name for name in read if not _is_internal(name)])
            yield f"it does not read {topic}{f' (did you mean {meant}?)' * bool(meant)}"
    for queue, found in progress.queues.items():
        if found.lag:
            first = max(found.first, found.consumed)
            yield f"{_place(queue)}: {found.lag} left, from offset {first} to {found.end}"
    if waiting := waiting_retries(wanted, entries):
        yield f"retries not yet delivered: {waiting}"


def _failing(
    wanted: WantedMessages, entries: Sequence[Entry], now_us: int, *, advances: bool
) -> Iterator[str]:
    """The messages that listeners failed to consume, why, and how they come at once."""
    fates = MessageFates(entries, now_us, {wanted.group: wanted.topics})
    mine = [
        message
        for message in fates.messages
        if not wanted.brokers or message.queue.broker in wanted.brokers
    ]
    if whys := fates.reasons(mine, wanted.group).get("retried"):
        comes = ""
        if waiting_retries(wanted, entries) and not advances:
            comes = ": advance_until_consumed does not wait for retries"
        yield f"{many(sum(whys.values()), 'message')} failed: {most_common(whys)}{comes}"


def _missing_heartbeats(
    group: str, progress: GroupProgress, entries: Sequence[Entry], now_us: int
) -> Iterator[str]:
    """For each broker with messages left and no heartbeat of *group*: when one will come."""
    started_us: dict[str, int] = {}  # of brokers without a heartbeat since
    for entry in entries:
        if isinstance(entry.fact, NodeStarted):
            started_us[entry.node] = entry.mono_us
        elif isinstance(entry.fact, MemberJoined) and entry.fact.group == group:
            started_us.pop(entry.node, None)
    behind = {queue.broker_name for queue, found in progress.queues.items() if found.lag}
    for broker in sorted(behind & started_us.keys() if progress.members else ()):
        since_s = (now_us - started_us[broker]) / 1_000_000
        yield (
            f"{group} has sent {broker} no heartbeat since its start {since_s:.1f} s ago: the "
            f"next one comes within {max(0.0, HEARTBEAT_S - since_s):.0f} s "
            f"(heartbeatBrokerInterval is 30 s by default, {QUICK})"
        )


# Until its queues are shared --------------------------------------------------------------


async def wait_until_balanced(
    group: str, members: int | None, within_s: float, watched: Watched, admin: Admin
) -> str:
    """Wait until *group* has *members* members (None: any number) that share its queues.

    Returns an empty text, or after *within_s* the owner of each queue and the next rebalance.
    """
    if shared := shared_client_ids(group, watched.entries()):
        return shared

    async def unshared() -> GroupShares | None:
        shares = await shares_of(group, admin)
        return None if shares.is_balanced(members) else shares

    if (shares := await _last(unshared, within_s, watched.poll_s)) is None:
        return shared_client_ids(group, watched.entries())
    if isinstance(shares, _NoAnswer):
        return (
            f"nobody can say how {group} shares its queues, {shares.described(within_s, watched)}"
        )
    entries = watched.journal()
    misuses = await maybe_await(watched.misuses())
    count = len(shares.held)
    if members not in (None, count):
        mistakes = _mistakes(group, (), misuses, entries)
        told = (*mistakes, _connected(group, tuple(shares.held), entries))
        what = f"{count} of {members} members" if count < members else f"{count}, not {members}"
        return f"{group} has {what}, after {within_s:g} s: {'; '.join(told)}"
    told = (
        *_mistakes(group, (), misuses, entries),
        *_not_balanced(group, shares, entries),
        *_next_rebalances(group, shares, entries, watched.now_us()),
    )
    return f"{group} has not shared its queues after {within_s:g} s: {'; '.join(told)}"


def _connected(group: str, members: tuple[str, ...], entries: Sequence[Entry]) -> str:
    """Which members are connected: with another number there is nothing to share."""
    if not members:
        return _members_text(group, members, entries)
    known = _names(entries)
    names = sorted(known.get(member, member) for member in members)
    return f"only {names[0]} is connected" if len(names) == 1 else f"{listed(names)} are connected"


def _not_balanced(group: str, shares: GroupShares, entries: Sequence[Entry]) -> Iterator[str]:
    yield _members_text(group, tuple(shares.held), entries)
    if shares.held and not shares.queues:
        yield "no broker has a queue of its topics"
    names = _names(entries)
    for owners, queues in _by_owners(shares).items():
        what = " and ".join(names.get(owner, owner) for owner in owners) or "nobody"
        yield f"{what} own{'s' * (len(owners) < 2)} {', '.join(map(_place, queues))}"
    for member, held in shares.held.items():
        if held is None:
            yield f"{names.get(member, member)} does not answer"
        elif not held:
            yield f"{names.get(member, member)} owns nothing"


def _by_owners(shares: GroupShares) -> dict[tuple[str, ...], list[MessageQueue]]:
    found: dict[tuple[str, ...], list[MessageQueue]] = {}
    for queue in shares.queues:
        found.setdefault(shares.owners_of(queue), []).append(queue)
    return found


def _next_rebalances(
    group: str, shares: GroupShares, entries: Sequence[Entry], now_us: int
) -> Iterator[str]:
    """When each member rebalances again, at the latest; of clients of this program only."""
    names, last_us = _names(entries), dict[str, int]()
    for entry in entries:
        if isinstance(entry.fact, RebalancePassed) and entry.fact.group == group:
            last_us[entry.node] = entry.mono_us
    times = [
        f"{name} within {max(0.0, REBALANCE_S - (now_us - last_us[name]) / 1_000_000):.0f} s"
        for member in shares.held
        if (name := names.get(member, member)) in last_us
    ]
    if shares.held:
        when = " and ".join(times) or f"each member within {REBALANCE_S:.0f} s"
        interval = f"the interval is {REBALANCE_S:.0f} s by default, {QUICK}"
        yield f"rebalances come next: {when} ({interval})"


# Words ------------------------------------------------------------------------------------


def shared_client_ids(group: str, entries: Iterable[Entry]) -> str:
    """Why no wait can be right if broadcasting members of *group* have one client id; or empty.

    A broker asked for a member by its client id asks one of them, and never the other.
    """
    nodes_by_id: dict[str, set[str]] = {}
    for entry in sorted(entries, key=lambda each: each.mono_us):
        fact = entry.fact
        if isinstance(fact, ConsumerStarted) and fact.group == group and fact.broadcast:
            nodes_by_id.setdefault(fact.client, set()).add(entry.node)
        elif isinstance(fact, ConsumerStopped) and fact.group == group:
            nodes_by_id.get(fact.client, set()).discard(entry.node)
    told = [
        f"{len(nodes)} broadcasting members of group {group} have one client id, {client}, so "
        'only one of them can be asked: give each its own instance_name="…"'
        for client, nodes in nodes_by_id.items()
        if len(nodes) > 1
    ]
    return "; ".join(told)


def _mistakes(
    group: str,
    topics: Collection[str],
    misuses: Iterable[MisuseView],
    entries: Sequence[Entry],
) -> Iterator[str]:
    """Likely mistakes that concern the group, or one of the topics."""
    read = topics_read(entries)
    own = {*topics, *read.get(group, ())}
    for each in misuses:
        if each.group == group or each.topic in own:
            yield f"likely mistake: {each.text}"
    for topic, (count, meant, reader) in misspelt_topics(entries).items():
        if reader == group or {topic, meant} & own:
            what = "1 message was" if count == 1 else f"{count} messages were"
            yield (
                f"likely mistake: {what} sent to {topic}, which no group reads, and {reader} "
                f"reads {meant}: is one of the names wrong?"
            )


def _undeclared(
    group: str, topics: Collection[str], declared: Collection[str], entries: Sequence[Entry]
) -> Iterator[str]:
    """Topics of the group whose name is like one that the test declares and nobody uses."""
    read = topics_read(entries)
    used = {topic for of_group in read.values() for topic in of_group}
    used |= {e.fact.queue.topic for e in entries if isinstance(e.fact, MessageStored)}
    for topic in sorted({*topics, *read.get(group, ())} - {*declared}):
        if not _is_internal(topic) and (meant := nearest(topic, {*declared} - used - {*topics})):
            yield (
                f"likely mistake: {topic} is not declared, and nobody uses {meant}, which is "
                "(topics=): is one of the names wrong?"
            )


def topics_read(entries: Iterable[Entry]) -> dict[str, set[str]]:
    """The topics that each group subscribes to or did, by what members and brokers noted."""
    found: dict[str, set[str]] = {}
    for entry in entries:
        if isinstance(entry.fact, ConsumerStarted):
            found.setdefault(entry.fact.group, set()).update(entry.fact.topics)
        elif isinstance(entry.fact, SubscriptionChanged):
            found.setdefault(entry.fact.group, set()).update(entry.fact.added)
    return found


class Misspelt(NamedTuple):
    """Messages were sent to a topic like *meant*, which *group* reads."""

    message_count: int
    meant: str
    group: str


def misspelt_topics(entries: Sequence[Entry]) -> dict[str, Misspelt]:
    """Topics with messages that no group reads, and whose name is like one that a group reads."""
    readers: dict[str, str] = {}
    for group, topics in topics_read(entries).items():
        readers |= {topic: group for topic in topics if not _is_internal(topic)}
    sent = Counter(
        entry.fact.queue.topic for entry in entries if isinstance(entry.fact, MessageStored)
    )
    unread = {topic: n for topic, n in sent.items() if topic not in readers}
    return {
        topic: Misspelt(count, meant, readers[meant])
        for topic, count in unread.items()
        # A topic that has messages of its own is hardly another's misspelling.
        if not _is_internal(topic) and (meant := nearest(topic, readers.keys() - sent.keys()))
    }


def _is_internal(topic: str) -> bool:
    return is_retry_topic(topic) or is_dlq_topic(topic) or is_system_topic(topic)


def _members_text(group: str, members: Sequence[str], entries: Sequence[Entry]) -> str:
    count = len(members)
    if count:
        return f"{count} member{'s' * (count != 1)}"
    groups = topics_read(entries).keys()
    if group in groups:
        known = MessageFates(entries, entries[-1].mono_us).members.get(group, {})
        left = [f"{name} {how}" for name, how in known.items() if how]
        return f"no member is connected{': ' * bool(left)}{listed(left) if left else ''}"
    meant = nearest(group, groups)
    starts = "its consumer starts by with, or by start()"
    hint = f"did you mean {meant}?" if meant else starts
    return f"no member is connected, and none ever was: {hint}"


def _names(entries: Iterable[Entry]) -> Mapping[str, str]:
    """The names of the clients of this program, by client id."""
    started = (entry for entry in entries if isinstance(entry.fact, ConsumerStarted))
    return {entry.fact.client: entry.node for entry in started}  # type: ignore[attr-defined]


def _place(queue: MessageQueue) -> str:
    return f"{queue.topic}@{queue.broker_name}#{queue.queue_id}"


def explained(error: ClusterUnreachable, watched: Watched) -> ClusterUnreachable:
    """*error*, after the nodes that do not run or are paused: they explain most."""
    down = MessageFates(watched.journal(), watched.now_us()).conditions
    reasons = [f"{node} {condition}" for node, condition in sorted(down.items())]
    return ClusterUnreachable("; ".join((*reasons, str(error))))


class _NoAnswer(NamedTuple):
    """A server that is asked did not answer, by *error*."""

    error: ClusterUnreachable

    def described(self, within_s: float, watched: Watched) -> str:
        """What the error of the wait says."""
        return f"after {within_s:g} s: {explained(self.error, watched)}"


async def _last(
    ask: Callable[[], Awaitable[T | None]], within_s: float, poll_s: float
) -> T | _NoAnswer | None:
    """The last answer to *ask*, which is repeated until it is None, or for *within_s*.

    The first one may take longer, so that a short time has an answer on a busy machine.
    """
    answer: T | _NoAnswer | None = _NoAnswer(ClusterUnreachable("no answer in time"))
    began_s = trio.current_time()
    with trio.move_on_after(max(within_s, FIRST_ANSWER_S)):
        answer = await _asked(ask)
    with trio.move_on_at(began_s + within_s):
        while answer is not None:
            await trio.sleep(poll_s)
            answer = await _asked(ask)
    return answer


async def _asked(ask: Callable[[], Awaitable[T | None]]) -> T | _NoAnswer | None:
    try:
        return await ask()
    except ClusterUnreachable as error:
        return _NoAnswer(error)
