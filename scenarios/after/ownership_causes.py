"""Causes that lie in the owners of queues: two owners, none, late rebalances, needless moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rocketmq_emulator.checks.judging.judging import Judging
from rocketmq_emulator.checks.rules.ownership import OneOwner, OwnerTime
from rocketmq_emulator.facts import (
    ConsumerStarted,
    ConsumerStopped,
    Fact,
    MemberLeft,
    NodeStarted,
    Queue,
    QueuesClaimed,
    QueuesLocked,
    QueuesReleased,
    QueuesUnlocked,
    RebalancePassed,
    RouteChanged,
    TopicChanged,
    TopicCreated,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.after.cause_journal import (
    CauseJournal,
    CauseSubject,
    between,
    joined,
    place,
    seconds,
    times,
)
from rocketmq_emulator.scenarios.descriptions.queue_history import OwnershipPeriod
from rocketmq_emulator.scenarios.descriptions.sentences import many

PASS_S = 20  # the interval of rebalances
ROUTE_POLL_S = 30  # ClientConfig.pollNameServerInterval
LOCK_EVERY_S = 20  # ConsumeMessageOrderlyService locks queues, and each rebalance does
LOCK_S = 60  # RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME
CLAIM_US = 1_000_000  # between a rebalance and its claim, at most
CHANGES: Mapping[type[Fact], str] = {ConsumerStarted: "joined", ConsumerStopped: "left"}


def ownership(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """Of the rule: two owners if the sentence says so, else none."""
    return (no_owner if about.what.startswith("no member") else two_owners)(journal, about)


# Two owners -----------------------------------------------------------------------------------


def two_owners(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The longest time with two owners: the lists of members that each of them had."""
    times = [each for each in _owner_times(journal).overlaps() if _is_about(each, about)]
    if not times:
        yield from _both_claimed(journal, about)
        return
    time = times[0]
    owners = journal.history(time.group, time.queue, time.until_us - 1).owners()
    if len(owners) < 2:
        return
    first, *_, last = sorted(owners, key=lambda hold: hold.from_us)
    brokers = _brokers_of(journal, time.queue.topic)
    yield from journal.faults({first.node, last.node, *brokers}, time.from_us, time.until_us)
    yield from _two_lists(journal, time, first, last)
    queue, claimed = place(time.queue), seconds(last.from_us)
    yield (
        f"{last.node} claimed {queue} at {claimed}, which {first.node} held since "
        f"{seconds(first.from_us)}."
    )
    yield _end_of_two(journal, time, last.from_us)


def longest_overlap(journal: CauseJournal, _: str, scope: str) -> OwnerTime | None:
    """The longest time with two owners, of the group *scope* if it is not empty."""
    times = _owner_times(journal).overlaps()
    return next((time for time in times if scope in ("", time.group)), None)


def _two_lists(
    journal: CauseJournal, time: OwnerTime, first: OwnershipPeriod, last: OwnershipPeriod
) -> Iterator[str]:
    group, topic = time.group, time.queue.topic
    new = journal.last_pass(last.node, group, topic, last.from_us + 1)
    old = journal.last_pass(first.node, group, topic, time.until_us)
    if new is None or old is None:
        return
    (new_entry, new_fact), (old_entry, old_fact) = new, old
    new_list, old_list = journal.members_in(new_fact), journal.members_in(old_fact)
    start = "Two"
    if first.node not in new_list:
        dropped, kept = journal.listings(group, first.node, new_entry.mono_us)
        if dropped:
            yield f"{joined(dropped)}{f'; {joined(kept)} kept it' if kept else ''}."
            start = "So two"
    elif last.node not in old_list:
        yield (
            f"{first.node} rebalanced last at {seconds(old_entry.mono_us)}, before a broker "
            f"listed {last.node} for it."
        )
        start = "So two"
    if set(new_list) != set(old_list):
        yield (
            f"{start} lists of the members of {group} were in use: {last.node} had "
            f"{joined(new_list)}, {first.node} had {joined(old_list)}."
        )
    elif new_fact.queue_count != old_fact.queue_count:
        yield (
            f"They shared out different queues of {topic}: {last.node} counted "
            f"{new_fact.queue_count}, {first.node} {old_fact.queue_count}."
        )
        for entry in (old_entry, new_entry):
            yield from _route(journal, topic, entry.node, entry.mono_us)


def _route(journal: CauseJournal, topic: str, node: str, at_us: int) -> Iterator[str]:
    """The route of *node* at that time, if it was noted."""
    routes = [
        (entry, fact)
        for entry, fact in journal.of(RouteChanged, topic=topic)
        if entry.node == node and entry.mono_us <= at_us
    ]
    for entry, fact in routes[-1:]:
        since = seconds(entry.mono_us)
        yield f"The route of {node} had {joined(sorted(fact.brokers))} since {since}."


def _end_of_two(journal: CauseJournal, time: OwnerTime, from_us: int) -> str:
    lasted = seconds(time.until_us - from_us)
    for entry, fact in journal.of(QueuesReleased, group=time.group):
        if entry.mono_us == time.until_us and time.queue in fact.queues:
            return (
                f"Both held it for {lasted}, until {entry.node} released it at "
                f"{seconds(time.until_us)} ({fact.reason})."
            )
    if time.until_us >= journal.end_us:
        return f"Both held it for {lasted}, to the end."
    return f"Both held it for {lasted}, until one of them ended at {seconds(time.until_us)}."


def _both_claimed(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """Two claims under one lock have no time between them: the lock's story."""
    if about.queue is None:
        return
    yield from journal.faults({about.queue.broker}, about.at_us, about.at_us)
    starts = [
        entry
        for entry, _ in journal.of(NodeStarted)
        if entry.node == about.queue.broker and entry.mono_us <= about.at_us
    ]
    if len(starts) > 1:
        yield (
            f"{about.queue.broker} was started again at {seconds(starts[-1].mono_us)}, and locks "
            "are in its memory only."
        )
    grants = [
        (entry, journal.names.node_of(fact.client))
        for entry, fact in journal.of(QueuesLocked, group=about.group)
        if about.queue in fact.granted and entry.mono_us <= about.at_us
    ]
    for entry, who in grants[-2:]:
        yield f"{entry.node} gave the lock to {who} at {seconds(entry.mono_us)}."
    if about.evidence:
        entry = about.evidence[-1]
        yield (
            f"{entry.node} claimed {place(about.queue)} at {seconds(entry.mono_us)}, while the "
            "other one held it."
        )


# No owner -------------------------------------------------------------------------------------


def no_owner(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The longest time without an owner: how the last one ended, and what the others did."""
    for time in _owner_times(journal).unowned():
        if _is_about(time, about):
            yield from without_owner(journal, time)
            return


def without_owner(journal: CauseJournal, time: OwnerTime) -> Iterator[str]:
    """The sentences of one time in which a queue had no owner."""
    history = journal.history(time.group, time.queue, time.from_us)
    last = max(history.holds, key=lambda hold: hold.until_us or time.from_us, default=None)
    nodes = {time.queue.broker} if last is None else {time.queue.broker, last.node}
    told = "" if last is None else f"{last.node} {last.ended} at"
    for sentence in journal.faults(nodes, time.from_us, time.until_us):
        if not told or not sentence.startswith(told):
            yield sentence
    grown = [*_growth(journal, time)]
    yield from grown
    yield _became_unowned(journal, time, last, is_told=bool(grown))
    yield from _meanwhile(journal, time, "" if last is None else last.node)
    for entry, fact in journal.of(QueuesClaimed, group=time.group):
        if entry.mono_us == time.until_us and time.queue in fact.queues:
            yield from _new_route(journal, time, entry.node)
            yield (
                f"{entry.node} claimed it at {seconds(time.until_us)}, after "
                f"{seconds(time.until_us - time.from_us)}."
            )
            return
    lasted = seconds(time.until_us - time.from_us)
    is_end = time.until_us >= journal.end_us
    yield f"That lasted {lasted}, to {'the end' if is_end else seconds(time.until_us)}."


def _became_unowned(
    journal: CauseJournal, time: OwnerTime, last: OwnershipPeriod | None, *, is_told: bool
) -> str:
    """How the queue lost its last owner, or that it had none yet."""
    queue, from_s = place(time.queue), seconds(time.from_us)
    if last is None:
        return f"No member had claimed {queue} before{'' if is_told else f' {from_s}'}."
    if last.until_us is None:
        dropped, _ = journal.listings(time.group, last.node, time.from_us)
        mine = [each for each in dropped if each.startswith(f"{time.queue.broker} ")] or dropped
        how = f" {joined(mine[:1])}:" if mine else ""
        return f"{last.node} held {queue} then.{how} from {from_s} on it counts as no owner."
    ended = f"{last.node} {last.ended} at {seconds(last.until_us)}"
    if time.from_us - last.until_us < CLAIM_US:
        return f"{ended}, and {queue} had no owner in {time.group} from then on."
    return f"{ended}, and {queue}, which can be read since {from_s}, had no owner in {time.group}."


def _growth(journal: CauseJournal, time: OwnerTime) -> Iterator[str]:
    """The change of the topic that made the queue."""
    before = None
    for entry, fact in sorted(
        journal.of_any(TopicCreated, TopicChanged, topic=time.queue.topic),
        key=lambda pair: pair[0].mono_us,
    ):
        if entry.node != time.queue.broker or entry.mono_us > time.from_us + CLAIM_US:
            continue
        if before is not None and before <= time.queue.queue_id < fact.read_queue_count:
            yield (
                f"{entry.node} got {many(fact.read_queue_count, 'queue')} of {fact.topic} instead "
                f"of {before} at {seconds(entry.mono_us)}."
            )
        before = fact.read_queue_count


def _new_route(journal: CauseJournal, time: OwnerTime, node: str) -> Iterator[str]:
    """The last route that *node* got in that time, if there was one."""
    routes = [
        entry.mono_us
        for entry, _ in journal.of(RouteChanged, topic=time.queue.topic)
        if entry.node == node and time.from_us < entry.mono_us <= time.until_us
    ]
    if routes:
        yield (
            f"{node} got the new route at {seconds(routes[-1])}, with its next poll (every "
            f"{ROUTE_POLL_S} s), and rebalanced after it."
        )


def _meanwhile(journal: CauseJournal, time: OwnerTime, former: str) -> Iterator[str]:
    """The rebalances of the others while the queue had no owner."""
    passes = [
        (entry, fact)
        for entry, fact in journal.of(RebalancePassed, group=time.group, topic=time.queue.topic)
        if time.from_us <= entry.mono_us < time.until_us
    ]
    # The pass that ended it came just before its claim: it does not show why it lasted.
    passes = [pair for pair in passes if pair[0].mono_us < time.until_us - CLAIM_US] or passes
    if not passes:
        yield f"No member of {time.group} rebalanced {time.queue.topic} in that time."
        return
    listing = [
        each
        for each in passes
        if former in journal.members_in(each[1]) and journal.is_gone(former, each[0].mono_us)
    ]
    running = {entry.node for entry, _ in passes}
    if former and former not in running and listing:
        entry, _ = listing[-1]
        yield (
            f"Lists of members still had {former}: {entry.node} left the queue to it in its "
            f"rebalance at {seconds(entry.mono_us)}."
        )
        dropped, kept = journal.listings(time.group, former, time.until_us)
        if dropped:
            yield f"{joined(dropped)}."
        if kept:
            yield f"{joined(kept)} kept it in the list."
        return
    refused = [
        entry
        for entry, fact in journal.of(QueuesLocked, group=time.group)
        if time.queue in fact.refused and time.from_us <= entry.mono_us <= time.until_us
    ]
    if refused:
        yield from lock_refusals(journal, time.group, time.queue, refused)
    else:
        yield from _shares(journal, time, passes)


def lock_refusals(
    journal: CauseJournal, group: str, queue: Queue, refused: Sequence[Entry]
) -> Iterator[str]:
    """Sentences: the member that was *refused* the queue's lock, the lock's holder, its end."""
    client = getattr(refused[-1].fact, "client", "")
    refused = [entry for entry in refused if getattr(entry.fact, "client", "") == client]
    first_us, last_us = refused[0].mono_us, refused[-1].mono_us
    who = journal.names.node_of(client)
    when = f"at {seconds(first_us)}"
    if len(refused) > 1:
        when = f"{times(len(refused))}, {between(first_us, last_us)}"
    yield f"{refused[0].node} refused {who} the lock {when}; members ask every {LOCK_EVERY_S} s."
    granted = [
        (entry, fact.client)
        for entry, fact in journal.of(QueuesLocked, group=group)
        if queue in fact.granted and entry.mono_us <= first_us
    ]
    if not granted or granted[-1][1] == client:
        return
    entry, client = granted[-1]
    renewed = [
        each.mono_us
        for each, fact in journal.of(QueuesLocked, group=group, client=client)
        if queue in fact.granted and each.mono_us > first_us
    ]
    freed = [
        each.mono_us
        for each, fact in journal.of(QueuesUnlocked, group=group, client=client)
        if queue in fact.queues and each.mono_us > entry.mono_us
    ]
    got = f"got or renewed it at {seconds(entry.mono_us)}"
    if renewed:
        until = f"and again at {seconds(renewed[0])}"
    elif freed:
        until = f"and unlocked it at {seconds(freed[0])}"
    else:
        until = f"and a lock lasts {LOCK_S} s: until {seconds(entry.mono_us + LOCK_S * 1_000_000)}"
    yield f"{journal.names.node_of(client)} had it, {got}, {until}."


def _shares(
    journal: CauseJournal, time: OwnerTime, passes: list[tuple[Entry, RebalancePassed]]
) -> Iterator[str]:
    last = {entry.node: fact for entry, fact in passes}
    counts = {node: fact.queue_count for node, fact in last.items()}
    known = _queue_count(journal, time.queue.topic, time.until_us)
    if known and min(counts.values()) < known:
        node = min(counts, key=lambda each: counts[each])
        yield (
            f"{node} counted {many(counts[node], 'queue')} of {time.queue.topic}, while brokers "
            f"had {known}: its route was another."
        )
        at_us = max(entry.mono_us for entry, _ in passes if entry.node == node)
        if not [*_growth(journal, time)]:
            yield from _route(journal, time.queue.topic, node, at_us)
        return
    shares = joined(f"{node} took {fact.own_count}" for node, fact in sorted(last.items()))
    total = max(counts.values())
    yield f"Of {many(total, 'queue')} of {time.queue.topic} {shares}."
    twice = [each for fact in last.values() for each, n in Counter(fact.members).items() if n > 1]
    if twice:
        who = journal.names.node_of(twice[0])
        yield f"The list had {who} twice, and it takes the share of one place only."
    else:
        yield from _absent(journal, time, last)


def _absent(
    journal: CauseJournal, time: OwnerTime, last: Mapping[str, RebalancePassed]
) -> Iterator[str]:
    """Members that the lists had, and that did not rebalance the topic in that time, or late."""
    lists = {frozenset(journal.members_in(fact)) for fact in last.values()}
    passed: dict[str, int] = {}
    for entry, _ in journal.of(RebalancePassed, group=time.group, topic=time.queue.topic):
        if time.from_us <= entry.mono_us <= time.until_us:
            passed.setdefault(entry.node, entry.mono_us)
    for node in sorted({node for each in lists for node in each} - set(last)):
        starts = [
            entry.mono_us
            for entry, _ in journal.of(ConsumerStarted, group=time.group)
            if entry.node == node and time.from_us <= entry.mono_us <= time.until_us
        ]
        if node in passed and starts and starts[-1] < passed[node]:
            yield (
                f"{node} started at {seconds(starts[-1])}, and rebalanced first at "
                f"{seconds(passed[node])}."
            )
    absent = sorted({node for each in lists for node in each} - set(passed))
    own, total = (
        sum(f.own_count for f in last.values()),
        max(f.queue_count for f in last.values()),
    )
    if absent and len(lists) == 1 and own < total:
        yield (
            f"The list had {joined(absent)} as well, which did not rebalance {time.queue.topic} "
            "in that time."
        )


# Rebalances -----------------------------------------------------------------------------------


def late_pass(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The longest time between two rebalances of one topic by one member."""
    last: dict[tuple[str, str, str], Entry] = {}
    worst: tuple[int, Entry, Entry] | None = None
    for entry, fact in journal.of(RebalancePassed):
        if about.group and fact.group != about.group:
            continue
        at = (entry.node, fact.group, fact.topic)
        before = last.get(at)
        if before is not None and (worst is None or entry.mono_us - before.mono_us > worst[0]):
            worst = entry.mono_us - before.mono_us, before, entry
        last[at] = entry
    if worst is None:
        return
    gap_us, before, after = worst
    node, passed = after.node, after.fact
    assert isinstance(passed, RebalancePassed)
    group, topic = passed.group, passed.topic
    yield (
        f"{node} rebalanced {topic} at {seconds(before.mono_us)} and not again until "
        f"{seconds(after.mono_us)}: {seconds(gap_us)} instead of {PASS_S} s."
    )
    brokers = _brokers_of(journal, topic)
    yield from journal.faults({node, *brokers}, before.mono_us, after.mono_us)
    others = Counter(
        each.topic
        for entry, each in journal.of(RebalancePassed, group=group)
        if entry.node == node and before.mono_us < entry.mono_us < after.mono_us
    )
    if others:
        yield (
            f"Meanwhile it rebalanced {many(len(others), 'other topic')}, one after the other: "
            "a call that waits delays all topics after it."
        )
    else:
        yield "It rebalanced no other topic meanwhile."


def queueless(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """Members without queues at the end: their last rebalance and its list."""
    last: dict[tuple[str, str, str], tuple[Entry, RebalancePassed]] = {}
    for entry, fact in journal.of(RebalancePassed):
        if about.scope in ("", fact.group) and not fact.topic.startswith("%"):
            last[fact.group, fact.topic, entry.node] = entry, fact
    without = [(entry, fact) for entry, fact in last.values() if not fact.own_count]
    if not without:
        return
    entry, fact = without[-1]
    nodes = sorted(e.node for e, f in without if (f.group, f.topic) == (fact.group, fact.topic))
    yield (
        f"{fact.group} had {many(len(fact.members), 'member')} and {fact.topic} "
        f"{many(fact.queue_count, 'queue')} at {seconds(entry.mono_us)}."
    )
    if len(fact.members) > fact.queue_count:
        yield (
            f"A queue has one owner in a group, so at most {fact.queue_count} members get one; "
            f"the members that sort last get none: {joined(nodes)}."
        )
    else:
        yield f"Its strategy gave {joined(nodes)} no queue, and other members more than one."
    yield f"The last rebalance of {entry.node} gave it 0 of {many(fact.queue_count, 'queue')}."


def needless_moves(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The change of a group after which most queues moved."""
    changes = [
        (entry.mono_us, entry.node, fact.group, CHANGES[type(fact)])
        for entry, fact in journal.of_any(*CHANGES)
    ]
    changes += [
        (
            entry.mono_us,
            journal.names.node_of(fact.client),
            fact.group,
            "was dropped by a broker of",
        )
        for entry, fact in journal.of(MemberLeft)
        if fact.reason != "unregistered"
    ]
    moved: Counter[tuple[int, str, str, str]] = Counter()
    for entry, fact in journal.of(QueuesReleased):
        before = [each for each in changes if each[0] <= entry.mono_us and each[2] == fact.group]
        if before and fact.reason == "not mine" and about.scope in ("", fact.group):
            moved[max(before)] += len(fact.queues)
    if not moved:
        return
    (at_us, node, group, how), count = moved.most_common(1)[0]
    yield f"{node} {how} {group} at {seconds(at_us)}."
    yield (
        "Every member then computed its share anew, from the lists of queues and members alone: "
        "the shares of all shift, and earlier owners do not count."
    )
    yield f"So members that stayed released {many(count, 'queue')} to each other."
    total, needed = (about.metrics.get(name) for name in ("moved_queues", "necessary_moves"))
    if total is not None and needed is not None:
        yield f"In all {total:g} queues moved, where {needed:g} had to."


def expired_queues(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """A member replaced a queue that it had not pulled for 120 s."""
    found = [*journal.of(QueuesReleased, reason="pull expired")]
    found = [(entry, fact) for entry, fact in found if about.scope in ("", fact.group)]
    if not found:
        return
    entry, fact = found[0]
    queue = fact.queues[0]
    yield (
        f"{entry.node} released {place(queue)} at {seconds(entry.mono_us)}, as it had not pulled "
        "it for 120 s; it claims it again at once."
    )
    yield from journal.faults({entry.node, queue.broker}, entry.mono_us, entry.mono_us)
    acts = journal.history(fact.group, queue, entry.mono_us).acts.get(entry.node, {})
    if (given := acts.get("given") or acts.get("finished")) is not None:
        yield (
            f"Its listener last got or finished a message of it at {seconds(given.mono_us)}: a "
            "listener that takes so long, or suspends the queue, keeps it from pulling."
        )
    yield "A queue that is not pulled for so long is replaced: what waits in it is pulled again."


# Parts ----------------------------------------------------------------------------------------


def _owner_times(journal: CauseJournal) -> OneOwner:
    judging = Judging((OneOwner,))
    judging.take(journal.entries)
    judging.end()
    (checker,) = judging.checkers
    assert isinstance(checker, OneOwner)
    return checker


def _is_about(time: OwnerTime, about: CauseSubject) -> bool:
    return about.group in ("", time.group) and about.queue in (None, time.queue)


def _brokers_of(journal: CauseJournal, topic: str) -> set[str]:
    return {entry.node for entry, _ in journal.of(TopicCreated, topic=topic)}


def _queue_count(journal: CauseJournal, topic: str, until_us: int) -> int:
    """How many queues of *topic* all brokers had then; 0 if it is not known."""
    known: dict[str, tuple[int, int]] = {}
    for entry, fact in journal.of_any(TopicCreated, TopicChanged, topic=topic):
        if entry.mono_us < until_us:
            new = entry.mono_us, fact.read_queue_count
            known[entry.node] = max(known.get(entry.node, new), new)
    return sum(count for _, count in known.values())
