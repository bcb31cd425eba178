"""What has to do with a few facts of a journal: those that a reader should see beside them.

Of the same message, and of how a member that is named came and went, whenever it was; of the same
queues, members and brokers from 5 s before to 1 s after.  A table says how much each kind has to
do with it; where there is no room for all, the last rows are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from emulator.checks.checker import place_of
from emulator.facts import (
    BrokerExpired,
    BrokerRegistered,
    BrokerUnregistered,
    ConsumerStarted,
    ConsumerStopped,
    DelayedDelivered,
    FaultBegan,
    FaultEnded,
    LogRecovered,
    MemberJoined,
    MemberLeft,
    MembersNotified,
    NodeKilled,
    NodeStarted,
    NodeStopped,
    PowerLost,
    PullAnswered,
    PullFailed,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    RebalancePassed,
    RouteChanged,
    RunEnded,
    RunStarted,
    SubscriptionChanged,
    TopicChanged,
    TopicDeleted,
)
from emulator.journal import WORLD_NODE, Entry, EntryKey
from protocol.names import RETRY_GROUP_TOPIC_PREFIX, SCHEDULE_TOPIC
from scenarios.telling.names import NamesOfRun, queues_of, words_of
from scenarios.telling.runs import FactRun, Told, is_routine, key_of, runs_of, told

BEFORE_US, AFTER_US = 5_000_000, 1_000_000
BESIDE_US = 2_000  # of one moment
EVIDENCE_MAX = 14  # lines
AROUND_MAX = 24  # lines
FAR, ROUTINE = 3, 4  # how little a fact has to do with it
FAR_MAX = 4  # lines of such
LIVES = (ConsumerStarted, ConsumerStopped, MemberJoined, MemberLeft, NodeKilled, NodeStopped)
OF_MEMBERS = (
    *LIVES,
    MembersNotified,
    NodeStarted,
    PullFailed,
    RebalancePassed,
    RouteChanged,
    SubscriptionChanged,
)
OF_BROKERS = (BrokerExpired, BrokerRegistered, BrokerUnregistered, LogRecovered, PowerLost)


class Concern(msgspec.Struct, frozen=True):
    """What an explanation is about: messages, queues, groups, nodes, and a time."""

    names: NamesOfRun
    evidence: frozenset[EntryKey]
    keys: frozenset[str]
    queues: frozenset[Queue]
    topics: frozenset[str]
    groups: frozenset[str]
    nodes: frozenset[str]
    said: frozenset[str]  # members that the sentence about it names
    levels: frozenset[tuple[str, int]]  # of delays, each with its broker
    moments: tuple[int, ...]  # of the evidence
    at_us: int


def concern_of(
    evidence: Sequence[Entry], at_us: int, names: NamesOfRun, node: str = "", what: str = ""
) -> Concern:
    """What *evidence* is about; *node* is whose fault it seems, *what* happened."""
    facts = [entry.fact for entry in evidence]
    moments = [e.mono_us for e in evidence if not isinstance(e.fact, RunEnded | RunStarted)]
    named = {name for entry in evidence for name in names.named_in(entry)} | {node}
    queues = frozenset(queues_about(evidence, what))
    groups = {getattr(fact, "group", "") for fact in facts}
    groups |= {
        queue.topic.removeprefix(RETRY_GROUP_TOPIC_PREFIX)
        for queue in queues
        if queue.topic.startswith(RETRY_GROUP_TOPIC_PREFIX)
    }
    return Concern(
        names=names,
        evidence=frozenset(map(key_of, evidence)),
        keys=frozenset(getattr(fact, "uniq_key", "") for fact in facts) - {""},
        queues=queues,
        topics=frozenset(getattr(fact, "topic", "") for fact in facts)
        | {queue.topic for queue in queues},
        groups=frozenset(groups - {""}),
        nodes=frozenset(named - {"", WORLD_NODE}),
        said=frozenset(words_of(what) & names.consumers),
        levels=frozenset((q.broker, q.queue_id + 1) for q in queues if q.topic == SCHEDULE_TOPIC),
        moments=tuple(moments) or (at_us,),
        at_us=at_us,
    )


def queues_about(evidence: Iterable[Entry], what: str) -> list[Queue]:
    """The queues that the sentence *what* names; else those that all facts with queues share."""
    cited = [queues for entry in evidence if (queues := queues_of(entry.fact))]
    found = list(dict.fromkeys(queue for queues in cited for queue in queues))
    words = words_of(what)
    if said := [queue for queue in found if place_of(queue) in words]:
        return said
    return [queue for queue in found if all(queue in queues for queues in cited)] or found


def facts_around(
    entries: Sequence[Entry], evidence: Sequence[Entry], concern: Concern
) -> tuple[tuple[Told, ...], int]:
    """The *evidence*, then what has to do with it; and how many facts more there are."""
    names = concern.names
    shown = [FactRun([entry]) for entry in evidence]
    if len(shown) > EVIDENCE_MAX:
        shown = runs_of(evidence, names)[:EVIDENCE_MAX]
    related = [entry for entry in entries if rank_of(entry, concern) is not None]
    count = sum(key_of(entry) not in concern.evidence for entry in related)
    runs = runs_of(related, names, concern.evidence)
    ranked = [
        (_order(run, concern), run) for run in runs if key_of(run.first) not in concern.evidence
    ]
    ranked.sort(key=lambda pair: pair[0])
    near = sum(order[0] < FAR for order, _ in ranked)
    around = ranked[: min(near + FAR_MAX, AROUND_MAX)]
    around.sort(key=lambda pair: key_of(pair[1].first))
    facts = [told(run, names, is_evidence=True) for run in shown]
    facts += [told(run, names, rank=order[0]) for order, run in around]
    return tuple(facts), count - sum(len(run.entries) for _, run in around)


def rank_of(entry: Entry, concern: Concern) -> int | None:
    """How much *entry* has to do with it, 0 the most; None: nothing."""
    if key_of(entry) in concern.evidence:
        return 0
    if isinstance(entry.fact, RunStarted | RunEnded):
        return None
    for rank, is_related in WHENEVER:
        if is_related(entry, concern):
            return rank
    if concern.moments[0] - BEFORE_US <= entry.mono_us <= concern.at_us + AFTER_US:
        for rank, is_related in NEAR_IN_TIME:
            if is_related(entry, concern):
                return rank
    return None


def _order(run: FactRun, concern: Concern) -> tuple[int, int]:
    """What is told first if there is no room for all: what has more to do with it, and is near."""
    rank = rank_of(run.first, concern)
    ends = (run.entries[0].mono_us, run.entries[-1].mono_us)
    away_us = min(abs(at_us - moment) for at_us in ends for moment in concern.moments)
    return (ROUTINE if rank is None else rank), away_us


# What has to do with it -----------------------------------------------------------------------


def _is_same_message(entry: Entry, concern: Concern) -> bool:
    return getattr(entry.fact, "uniq_key", "") in concern.keys


def _is_life_of_named(entry: Entry, concern: Concern) -> bool:
    return (
        isinstance(entry.fact, LIVES)
        and _is_of_group(entry, concern)
        and not concern.said.isdisjoint(concern.names.named_in(entry))
    )


def _is_change_of_topic(entry: Entry, concern: Concern) -> bool:
    """A topic got another shape, or one of the nodes another route of it."""
    fact = entry.fact
    is_change = isinstance(fact, TopicChanged | TopicDeleted) or (
        isinstance(fact, RouteChanged) and entry.node in concern.nodes
    )
    return is_change and getattr(fact, "topic", "") in concern.topics


def _is_delivery_of_level(entry: Entry, concern: Concern) -> bool:
    fact = entry.fact
    return isinstance(fact, DelayedDelivered) and (entry.node, fact.delay_level) in concern.levels


def _is_pull_beside(entry: Entry, concern: Concern) -> bool:
    """A pull of another group in the same queue, in the moment of the evidence."""
    return (
        isinstance(entry.fact, PullAnswered)
        and entry.fact.queue in concern.queues
        and entry.fact.group not in concern.groups
        and any(abs(entry.mono_us - at_us) <= BESIDE_US for at_us in concern.moments)
    )


def _is_fault(entry: Entry, _: Concern) -> bool:
    return isinstance(entry.fact, FaultBegan | FaultEnded)


def _is_fault_of_nodes(entry: Entry, concern: Concern) -> bool:
    return isinstance(entry.fact, FaultBegan) and not concern.nodes.isdisjoint(entry.fact.nodes)


def _is_same_queue(entry: Entry, concern: Concern) -> bool:
    queues = queues_of(entry.fact)
    return not concern.queues.isdisjoint(queues) and _is_of_group(entry, concern)


def _is_turn_of_queue(entry: Entry, concern: Concern) -> bool:
    """The queue changes hands, or a pull of it is refused."""
    fact = entry.fact
    is_turn = isinstance(fact, QueuesClaimed | QueuesReleased | PullFailed) or (
        isinstance(fact, PullAnswered) and not is_routine(fact)
    )
    return is_turn and _is_same_queue(entry, concern)


def _is_of_member(entry: Entry, concern: Concern) -> bool:
    """Of a node that it is about: whatever changes a member's view of its group."""
    nodes = {entry.node, getattr(entry.fact, "node", "")}
    return (
        isinstance(entry.fact, OF_MEMBERS)
        and _is_of_group(entry, concern)
        and not concern.nodes.isdisjoint(nodes)
    )


def _is_of_member_and_topic(entry: Entry, concern: Concern) -> bool:
    is_ours = getattr(entry.fact, "topic", "") in {"", *concern.topics}
    return is_ours and not queues_of(entry.fact) and _is_of_member(entry, concern)


def _is_of_broker(entry: Entry, concern: Concern) -> bool:
    nodes = {entry.node, getattr(entry.fact, "broker", "")}
    return isinstance(entry.fact, OF_BROKERS) and not concern.nodes.isdisjoint(nodes)


def _is_of_group(entry: Entry, concern: Concern) -> bool:
    """It is of no group, or of one that it is about; where that is none, of the same queue."""
    group = getattr(entry.fact, "group", "")
    if not group or group in concern.groups:
        return True
    return not concern.groups and not concern.queues.isdisjoint(queues_of(entry.fact))


def _unless_routine(is_related: Related) -> Related:
    return lambda entry, concern: not is_routine(entry.fact) and is_related(entry, concern)


Related: TypeAlias = Callable[[Entry, Concern], bool]
WHENEVER: Sequence[tuple[int, Related]] = (
    (0, _unless_routine(_is_same_message)),
    (1, _is_life_of_named),
    (1, _is_change_of_topic),
    (ROUTINE, _is_same_message),
)
NEAR_IN_TIME: Sequence[tuple[int, Related]] = (
    (1, _is_delivery_of_level),
    (1, _is_pull_beside),
    (1, _is_fault_of_nodes),
    (1, _is_turn_of_queue),
    (2, _unless_routine(_is_same_queue)),
    (2, _is_of_member_and_topic),
    (FAR, _is_of_member),
    (FAR, _is_of_broker),
    (FAR, _is_fault),
    (ROUTINE, _is_same_queue),
)
