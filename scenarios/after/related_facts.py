"""Facts related to the evidence of a violation: those that a reader should see beside it.

At any time: facts of the same message, and the joins and leaves of members that the violation
names.  From 5 s before to 1 s after: facts of the same queues, members and brokers.  Two tables
rank the relations, 0 the closest; if there is no room for all, the highest ranks are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from rocketmq_emulator.checks.state.violation import place_of
from rocketmq_emulator.facts import (
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
from rocketmq_emulator.facts.journal import WORLD_NODE, Entry, EntryKey
from rocketmq_emulator.protocol.messages.names import RETRY_GROUP_TOPIC_PREFIX, SCHEDULE_TOPIC
from rocketmq_emulator.scenarios.descriptions.names import NodeNames, queues_of, words_of
from rocketmq_emulator.scenarios.descriptions.summaries import (
    FactLine,
    FactRun,
    is_routine,
    key_of,
    line_of_run,
    runs_of,
)

BEFORE_US, AFTER_US = 5_000_000, 1_000_000
BESIDE_US = 2_000  # facts this near in time belong to one moment
EVIDENCE_MAX = 14  # lines
AROUND_MAX = 24  # lines
FAR, ROUTINE = 3, 4  # ranks of facts that are hardly related
FAR_MAX = 4  # lines of these ranks
MEMBERSHIP_FACTS = (
    ConsumerStarted,
    ConsumerStopped,
    MemberJoined,
    MemberLeft,
    NodeKilled,
    NodeStopped,
)
OF_MEMBERS = (
    *MEMBERSHIP_FACTS,
    MembersNotified,
    NodeStarted,
    PullFailed,
    RebalancePassed,
    RouteChanged,
    SubscriptionChanged,
)
OF_BROKERS = (BrokerExpired, BrokerRegistered, BrokerUnregistered, LogRecovered, PowerLost)


class ExplanationSubject(msgspec.Struct, frozen=True):
    """The subject of an explanation: messages, queues, groups, nodes, and a time."""

    names: NodeNames
    evidence: frozenset[EntryKey]
    keys: frozenset[str]
    queues: frozenset[Queue]
    topics: frozenset[str]
    groups: frozenset[str]
    nodes: frozenset[str]
    said: frozenset[str]  # members that the violation's sentence names
    levels: frozenset[tuple[str, int]]  # delay levels, each with its broker
    moments: tuple[int, ...]  # times of the evidence
    at_us: int


def subject_of(
    evidence: Sequence[Entry], at_us: int, names: NodeNames, node: str = "", what: str = ""
) -> ExplanationSubject:
    """The subject of *evidence*; *node* and *what* are those of the violation, if there is one."""
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
    return ExplanationSubject(
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
    """The queues that the sentence *what* names; else those that all facts with queues share.

    If they share none, all queues of *evidence*.
    """
    cited = [queues for entry in evidence if (queues := queues_of(entry.fact))]
    found = list(dict.fromkeys(queue for queues in cited for queue in queues))
    words = words_of(what)
    if said := [queue for queue in found if place_of(queue) in words]:
        return said
    return [queue for queue in found if all(queue in queues for queues in cited)] or found


def facts_around(
    entries: Sequence[Entry],
    evidence: Sequence[Entry],
    subject: ExplanationSubject,
    *,
    collapses: bool = False,
) -> tuple[tuple[FactLine, ...], int]:
    """Lines of the *evidence*, then of related facts; and how many related facts are left out.

    Evidence that repeats is one line if it *collapses*, or is too long.
    """
    names = subject.names
    shown = [FactRun([entry]) for entry in evidence]
    if collapses or len(shown) > EVIDENCE_MAX:
        shown = runs_of(evidence, names)[:EVIDENCE_MAX]
    related = [entry for entry in entries if rank_of(entry, subject) is not None]
    count = sum(key_of(entry) not in subject.evidence for entry in related)
    runs = runs_of(related, names, subject.evidence)
    ranked = [
        (_order(run, subject), run) for run in runs if key_of(run.first) not in subject.evidence
    ]
    ranked.sort(key=lambda pair: pair[0])
    near = sum(order[0] < FAR for order, _ in ranked)
    around = ranked[: min(near + FAR_MAX, AROUND_MAX)]
    around.sort(key=lambda pair: key_of(pair[1].first))
    facts = [line_of_run(run, names, is_evidence=True) for run in shown]
    facts += [line_of_run(run, names, rank=order[0]) for order, run in around]
    return tuple(facts), count - sum(len(run.entries) for _, run in around)


def rank_of(entry: Entry, subject: ExplanationSubject) -> int | None:
    """How closely *entry* is related to *subject*, 0 the closest; None: not at all."""
    if key_of(entry) in subject.evidence:
        return 0
    if isinstance(entry.fact, RunStarted | RunEnded):
        return None
    for rank, is_related in AT_ANY_TIME:
        if is_related(entry, subject):
            return rank
    if subject.moments[0] - BEFORE_US <= entry.mono_us <= subject.at_us + AFTER_US:
        for rank, is_related in NEAR_IN_TIME:
            if is_related(entry, subject):
                return rank
    return None


def _order(run: FactRun, subject: ExplanationSubject) -> tuple[int, int]:
    """The sort key for choosing lines: the closest relation first, then the nearest in time."""
    rank = rank_of(run.first, subject)
    ends = (run.entries[0].mono_us, run.entries[-1].mono_us)
    away_us = min(abs(at_us - moment) for at_us in ends for moment in subject.moments)
    return (ROUTINE if rank is None else rank), away_us


# Relations ------------------------------------------------------------------------------------


def _is_same_message(entry: Entry, subject: ExplanationSubject) -> bool:
    return getattr(entry.fact, "uniq_key", "") in subject.keys


def _is_membership_of_named(entry: Entry, subject: ExplanationSubject) -> bool:
    return (
        isinstance(entry.fact, MEMBERSHIP_FACTS)
        and _is_of_group(entry, subject)
        and not subject.said.isdisjoint(subject.names.named_in(entry))
    )


def _is_change_of_topic(entry: Entry, subject: ExplanationSubject) -> bool:
    """A topic was changed or deleted, or one of the nodes got another route of it."""
    fact = entry.fact
    is_change = isinstance(fact, TopicChanged | TopicDeleted) or (
        isinstance(fact, RouteChanged) and entry.node in subject.nodes
    )
    return is_change and getattr(fact, "topic", "") in subject.topics


def _is_delivery_of_level(entry: Entry, subject: ExplanationSubject) -> bool:
    fact = entry.fact
    return isinstance(fact, DelayedDelivered) and (entry.node, fact.delay_level) in subject.levels


def _is_pull_beside(entry: Entry, subject: ExplanationSubject) -> bool:
    """A pull of another group from the same queue, within ``BESIDE_US`` of the evidence."""
    return (
        isinstance(entry.fact, PullAnswered)
        and entry.fact.queue in subject.queues
        and entry.fact.group not in subject.groups
        and any(abs(entry.mono_us - at_us) <= BESIDE_US for at_us in subject.moments)
    )


def _is_fault(entry: Entry, _: ExplanationSubject) -> bool:
    return isinstance(entry.fact, FaultBegan | FaultEnded)


def _is_fault_of_nodes(entry: Entry, subject: ExplanationSubject) -> bool:
    return isinstance(entry.fact, FaultBegan) and not subject.nodes.isdisjoint(entry.fact.nodes)


def _is_same_queue(entry: Entry, subject: ExplanationSubject) -> bool:
    queues = queues_of(entry.fact)
    return not subject.queues.isdisjoint(queues) and _is_of_group(entry, subject)


def _is_ownership_change(entry: Entry, subject: ExplanationSubject) -> bool:
    """The queue is claimed or released, or a pull of it is refused."""
    fact = entry.fact
    is_turn = isinstance(fact, QueuesClaimed | QueuesReleased | PullFailed) or (
        isinstance(fact, PullAnswered) and not is_routine(fact)
    )
    return is_turn and _is_same_queue(entry, subject)


def _is_of_member(entry: Entry, subject: ExplanationSubject) -> bool:
    """A node of the subject, and a kind of fact that changes a member's view of its group."""
    nodes = {entry.node, getattr(entry.fact, "node", "")}
    return (
        isinstance(entry.fact, OF_MEMBERS)
        and _is_of_group(entry, subject)
        and not subject.nodes.isdisjoint(nodes)
    )


def _is_of_member_and_topic(entry: Entry, subject: ExplanationSubject) -> bool:
    is_ours = getattr(entry.fact, "topic", "") in {"", *subject.topics}
    return is_ours and not queues_of(entry.fact) and _is_of_member(entry, subject)


def _is_of_broker(entry: Entry, subject: ExplanationSubject) -> bool:
    nodes = {entry.node, getattr(entry.fact, "broker", "")}
    return isinstance(entry.fact, OF_BROKERS) and not subject.nodes.isdisjoint(nodes)


def _is_of_group(entry: Entry, subject: ExplanationSubject) -> bool:
    """The fact names no group, or one of the subject's; if the subject has none, its queue."""
    group = getattr(entry.fact, "group", "")
    if not group or group in subject.groups:
        return True
    return not subject.groups and not subject.queues.isdisjoint(queues_of(entry.fact))


def _unless_routine(is_related: Related) -> Related:
    return lambda entry, subject: not is_routine(entry.fact) and is_related(entry, subject)


Related: TypeAlias = Callable[[Entry, ExplanationSubject], bool]
AT_ANY_TIME: Sequence[tuple[int, Related]] = (
    (0, _unless_routine(_is_same_message)),
    (1, _is_membership_of_named),
    (1, _is_change_of_topic),
    (ROUTINE, _is_same_message),
)
NEAR_IN_TIME: Sequence[tuple[int, Related]] = (
    (1, _is_delivery_of_level),
    (1, _is_pull_beside),
    (1, _is_fault_of_nodes),
    (1, _is_ownership_change),
    (2, _unless_routine(_is_same_queue)),
    (2, _is_of_member_and_topic),
    (FAR, _is_of_member),
    (FAR, _is_of_broker),
    (FAR, _is_fault),
    (ROUTINE, _is_same_queue),
)
