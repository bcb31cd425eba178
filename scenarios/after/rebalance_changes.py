"""What changed before a rebalance: members and brokers that came or went, queues that were made.

A member computes its share from two lists alone, the members of its group and the queues of the
topic.  So two rebalances differ for one reason: a difference of these lists.  For each difference
the journal has an event (a start, an end, a broker that dropped a member), and the event's nodes
lead to the faults that may explain it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from rocketmq_emulator.facts import (
    ConsumerStarted,
    ConsumerStopped,
    MemberJoined,
    MemberLeft,
    NodeStarted,
    RebalancePassed,
    RouteChanged,
    TopicChanged,
    TopicCreated,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.after.cause_journal import (
    FAULTS_MAX,
    REBALANCE_US,
    RESTARTED_US,
    SHUTDOWN_US,
    CauseJournal,
    Trouble,
    between,
    joined,
    seconds,
)
from rocketmq_emulator.scenarios.descriptions.sentences import many

Pass: TypeAlias = tuple[Entry, RebalancePassed]
MOMENTS_MAX = 2  # each with its time; of more, the first and the last
HEARTBEAT_US = 30_000_000  # the interval of heartbeats, and of polls of routes


class ListChange(NamedTuple):
    """An event: *who* did or met *what*; *nodes*: those whose faults may have led to it.

    *is_listing*: a broker's list of members changed, and the member itself went on.
    """

    at_us: int
    who: str
    what: str
    nodes: frozenset[str]
    is_listing: bool = False


class DatedSentence(NamedTuple):
    """A sentence of a cause, and when its event began."""

    at_us: int
    sentence: str


# Differences ----------------------------------------------------------------------------------


def changes_before(
    journal: CauseJournal, node: str, group: str, topic: str, at_us: int
) -> list[ListChange]:
    """What *node*'s last rebalance of *topic* up to then had other than the one before."""
    passes = [
        (entry, fact)
        for entry, fact in journal.of(RebalancePassed, group=group, topic=topic)
        if entry.node == node and entry.mono_us <= at_us
    ]
    return changes_between(journal, *passes[-2:]) if len(passes) > 1 else []


def changes_between(journal: CauseJournal, old: Pass, new: Pass) -> list[ListChange]:
    """The events that explain what *new* had other than *old*, in the order of time.

    The two may be of two members, that had other lists at one time.
    """
    (old_entry, old_fact), (new_entry, new_fact) = old, new
    before, after = set(old_fact.members), set(new_fact.members)
    since_us, until_us = sorted((old_entry.mono_us, new_entry.mono_us))
    found = [_went(journal, client, until_us) for client in before - after]
    found += [_came(journal, client, since_us, until_us) for client in after - before]
    brokers = [*_brokers(journal, old, new)]
    found += brokers
    if not brokers and old_fact.queue_count != new_fact.queue_count:
        found += resized(journal, new_fact.topic, until_us)
    return sorted({change for change in found if change is not None})


def _went(journal: CauseJournal, client: str, until_us: int) -> ListChange | None:
    """Why a list no longer has *client*."""
    node = journal.names.node_of(client)
    started_us = max((e.mono_us for e, _ in journal.of(ConsumerStarted, client=client)), default=0)
    for entry, _ in journal.of(ConsumerStopped, client=client):
        if started_us < entry.mono_us <= until_us:
            return ListChange(entry.mono_us, node, "left", frozenset({node}))
    for trouble in journal.troubles:
        is_end = trouble.ends_process and node in trouble.nodes
        if is_end and started_us < trouble.at_us <= until_us:
            return ListChange(trouble.at_us, node, trouble.how, frozenset({node}))
    return _unlisted(journal, client, until_us)


def _unlisted(journal: CauseJournal, client: str, until_us: int) -> ListChange | None:
    """The brokers that run then and do not list *client*: they dropped it, or started again."""
    node, last = journal.names.node_of(client), _listings(journal, client, until_us)
    down = {
        broker
        for trouble in journal.troubles
        if trouble.ends_process and trouble.at_us <= until_us < (trouble.over_us or until_us + 1)
        for broker in trouble.nodes
    }
    last = {broker: entry for broker, entry in last.items() if broker not in down}
    started_us = {
        entry.node: entry.mono_us
        for entry, _ in journal.of(NodeStarted, role="broker")
        if entry.mono_us <= until_us
    }
    dropped = {
        each: entry.mono_us
        for each, entry in last.items()
        if isinstance(entry.fact, MemberLeft) and entry.mono_us > started_us.get(each, 0)
    }
    if dropped:
        what = f"was dropped by {joined(sorted(dropped))}"
        nodes = frozenset({node, *dropped})
        return ListChange(max(dropped.values()), node, what, nodes, is_listing=True)
    again = {each: at_us for each, at_us in started_us.items() if each in last}
    again = {each: at_us for each, at_us in again.items() if last[each].mono_us < at_us}
    if not again:
        return None
    broker = max(again, key=lambda each: again[each])
    what, nodes = f"was unknown to {broker} since its restart", frozenset({node, broker})
    return ListChange(again[broker], node, what, nodes, is_listing=True)


def _listings(journal: CauseJournal, client: str, until_us: int) -> dict[str, Entry]:
    """By broker: when it last began or ceased to list *client*, up to then."""
    found: dict[str, Entry] = {}
    for entry, _ in journal.of_any(MemberJoined, MemberLeft, client=client):
        before = found.get(entry.node)
        if entry.mono_us <= until_us and (before is None or before.mono_us < entry.mono_us):
            found[entry.node] = entry
    return found


def _came(journal: CauseJournal, client: str, since_us: int, until_us: int) -> ListChange | None:
    """Why a list has *client* now: it joined, or a broker lists it again."""
    node = journal.names.node_of(client)
    started = [e.mono_us for e, _ in journal.of(ConsumerStarted, client=client)]
    listed: dict[str, list[int]] = {}
    for entry, _ in journal.of(MemberJoined, client=client):
        if entry.mono_us <= until_us:
            listed.setdefault(entry.node, []).append(entry.mono_us)
    again = {broker: at_us[-1] for broker, at_us in listed.items() if len(at_us) > 1}
    again = {broker: at_us for broker, at_us in again.items() if at_us > since_us}
    is_new = bool(started) and since_us - HEARTBEAT_US < started[-1] <= until_us
    if again and not is_new:
        broker = max(again, key=lambda each: again[each])
        nodes = frozenset({node, broker})
        what = f"was listed again by {broker}"
        return ListChange(again[broker], node, what, nodes, is_listing=True)
    if is_new or not started:
        at_us = (
            started[-1]
            if started
            else min((min(all_us) for all_us in listed.values()), default=until_us)
        )
        return ListChange(at_us, node, "joined", frozenset({node}))
    return _unlisted(journal, client, until_us)


def _brokers(journal: CauseJournal, old: Pass, new: Pass) -> Iterator[ListChange]:
    """Brokers that one of the two routes had and the other had not."""
    routes = [
        route_at(journal, entry.node, fact.topic, entry.mono_us) for entry, fact in (old, new)
    ]
    (old_entry, _), (new_entry, _) = old, new
    before, after = routes
    if before is None or after is None:
        return
    until_us = max(old_entry.mono_us, new_entry.mono_us)
    for broker in sorted(before.brokers - after.brokers):
        yield gone_broker(journal, broker, new_entry.node, after.at_us)
    for broker in sorted(after.brokers - before.brokers):
        back = [each for each in journal.troubles if broker in each.nodes]
        over_us = [each.over_us for each in back if each.over_us and each.over_us <= until_us]
        if over_us:
            yield ListChange(max(over_us), broker, "was back", frozenset({broker}))
        else:
            what = f"came into the route of {new_entry.node}"
            yield ListChange(after.at_us, broker, what, frozenset({broker}))


def gone_broker(journal: CauseJournal, broker: str, node: str, route_us: int) -> ListChange:
    """Why the route that *node* got then lacks *broker*."""
    for trouble in reversed(journal.troubles):
        is_over = trouble.over_us is not None and trouble.over_us < route_us - RESTARTED_US
        if broker in trouble.nodes and trouble.at_us <= route_us and not is_over:
            return ListChange(trouble.at_us, broker, trouble.how, frozenset({broker}))
    return ListChange(route_us, broker, f"left the route of {node}", frozenset({broker}))


def resized(journal: CauseJournal, topic: str, until_us: int) -> list[ListChange]:
    """The last change of the number of queues of *topic* at each broker, up to then."""
    sizes: dict[str, int] = {}
    found: dict[str, ListChange] = {}
    shapes = [
        (entry.mono_us, entry.node, fact.read_queue_count)
        for entry, fact in journal.of_any(TopicCreated, TopicChanged, topic=topic)
        if entry.mono_us <= until_us
    ]
    for at_us, broker, count in sorted(shapes):
        before = sizes.get(broker)
        if before is not None and before != count:
            what = f"got {many(count, 'queue')} of {topic} instead of {before}"
            found[broker] = ListChange(at_us, broker, what, frozenset({broker}))
        sizes[broker] = count
    return [*found.values()]


class NotedRoute(NamedTuple):
    """The brokers of a route, and when its client got it."""

    at_us: int
    brokers: frozenset[str]


def route_at(journal: CauseJournal, node: str, topic: str, at_us: int) -> NotedRoute | None:
    """The route of *topic* that *node* had then; None: not noted."""
    found = None
    for entry, fact in journal.of(RouteChanged, topic=topic):
        if entry.node == node and entry.mono_us <= at_us:
            found = NotedRoute(entry.mono_us, frozenset(fact.brokers))
    return found


# Sentences ------------------------------------------------------------------------------------


def in_words(changes: Iterable[ListChange]) -> list[str]:
    """``billing-2 and billing-3 joined at 8.0 s and 15.0 s``: one text for each kind."""
    kinds: dict[str, list[ListChange]] = {}
    for change in sorted(changes):
        kinds.setdefault(change.what, []).append(change)
    found = []
    for what, same in kinds.items():
        who = [*dict.fromkeys(change.who for change in same)]
        moments = [*dict.fromkeys(seconds(change.at_us) for change in same)]
        when = f" at {joined(moments)}"
        if len(moments) > MOMENTS_MAX:
            when = f", {between(same[0].at_us, same[-1].at_us)}"
        is_were = len(who) > 1 and what.startswith("was ")
        found.append(f"{joined(who)} {f'were {what[4:]}' if is_were else what}{when}")
    return found


def led_to(journal: CauseJournal, changes: Iterable[ListChange]) -> list[DatedSentence]:
    """For each of *changes* the last fault or end that its nodes met; without one, itself."""
    found: set[DatedSentence] = set()
    alone: dict[str, list[ListChange]] = {}
    for change in changes:
        troubles = [each for each in journal.troubles if _explains(each, change)]
        if troubles:
            found.add(DatedSentence(troubles[-1].at_us, troubles[-1].sentence))
        else:
            alone.setdefault(change.what, []).append(change)
    for same in alone.values():
        (text,) = in_words(same)
        found.add(DatedSentence(same[0].at_us, f"{text}."))
    return sorted(found)


def _explains(trouble: Trouble, change: ListChange) -> bool:
    is_over = trouble.over_us is not None and trouble.over_us < change.at_us - RESTARTED_US
    is_begun = trouble.at_us <= change.at_us + SHUTDOWN_US
    return is_begun and not is_over and not change.nodes.isdisjoint(trouble.nodes)


def near_in_time(journal: CauseJournal, at_us: int) -> list[DatedSentence]:
    """The last fault or end within 20 s before, which nothing ties to what happened then."""
    near = [each for each in journal.troubles if at_us - REBALANCE_US <= each.at_us <= at_us]
    return [
        DatedSentence(
            each.at_us,
            f"{each.sentence.rstrip('.')}: near in time, but no fact ties it to this.",
        )
        for each in near[-1:]
    ]


def chosen_sentences(
    first: Iterable[DatedSentence], others: Iterable[Trouble], most: int = FAULTS_MAX
) -> list[str]:
    """At most *most* sentences in the order of time: of *first*, then the last of *others*."""
    chosen = [*dict.fromkeys(first)][-most:]
    rest = [DatedSentence(each.at_us, each.sentence) for each in others]
    rest = [each for each in rest if each not in chosen]
    room = most - len(chosen)
    return [each.sentence for each in sorted([*chosen, *(rest[-room:] if room else [])])]
