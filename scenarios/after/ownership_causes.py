"""Causes that lie in the owners of queues: two owners, none, locks of another member."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rocketmq_emulator.checks.judging.judging import Judging
from rocketmq_emulator.checks.rules.ownership import OneOwner, OwnerTime
from rocketmq_emulator.facts import (
    ConsumerStarted,
    ConsumerStopped,
    MisuseNoticed,
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
    PASS_S,
    RESTARTED_US,
    SENTENCES_MAX,
    SHUTDOWN_US,
    CauseJournal,
    CauseSubject,
    between,
    joined,
    place,
    seconds,
    times,
)
from rocketmq_emulator.scenarios.after.rebalance_changes import (
    ListChange,
    Pass,
    changes_before,
    changes_between,
    chosen_sentences,
    gone_broker,
    led_to,
    near_in_time,
    route_at,
)
from rocketmq_emulator.scenarios.descriptions.queue_history import OwnershipPeriod
from rocketmq_emulator.scenarios.descriptions.sentences import many

PROPERTY_FILTER_OFF = "property_filter_off"  # the misuse
ROUTE_POLL_S = 30  # ClientConfig.pollNameServerInterval
LOCK_EVERY_S = 20  # ConsumeMessageOrderlyService locks queues, and each rebalance does
LOCK_S = 60  # RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME
CLAIM_US = 1_000_000  # between a rebalance and its claim, at most


def ownership(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """Of the rule: two owners if the sentence says so, else none."""
    return (no_owner if about.what.startswith("no member") else two_owners)(journal, about)


# Two owners -----------------------------------------------------------------------------------


def two_owners(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The longest time with two owners: the lists of members that each of them had."""
    overlaps = _owner_times(journal).overlaps(in_startup=_is_startup(about))
    times = [each for each in overlaps if _is_about(each, about)]
    if not times:
        yield from _both_claimed(journal, about)
        return
    time = times[0]
    owners = journal.history(time.group, time.queue, time.until_us - 1).owners()
    if len(owners) < 2:
        return
    first, *_, last = sorted(owners, key=lambda hold: hold.from_us)
    yield from _before_two(journal, time, first, last)
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


def _passes_of_two(
    journal: CauseJournal, time: OwnerTime, first: OwnershipPeriod, last: OwnershipPeriod
) -> tuple[Pass, Pass] | None:
    """The rebalances with which *first* kept the queue and *last* claimed it."""
    group, topic = time.group, time.queue.topic
    new = journal.last_pass(last.node, group, topic, last.from_us + 1)
    # The pass that ended it came just before the release: it does not show why both held it.
    before_us = max(last.from_us + 1, time.until_us - CLAIM_US)
    old = journal.last_pass(first.node, group, topic, before_us)
    return None if new is None or old is None else (old, new)


def _before_two(
    journal: CauseJournal, time: OwnerTime, first: OwnershipPeriod, last: OwnershipPeriod
) -> list[str]:
    """What led to the different lists of the two; else the faults of the two and the broker."""
    passes = _passes_of_two(journal, time, first, last)
    reasons = [] if passes is None else led_to(journal, changes_between(journal, *passes))
    nodes = {first.node, last.node, time.queue.broker}
    since_us = time.from_us - (SHUTDOWN_US if reasons else RESTARTED_US)
    own = journal.troubles_of(nodes, time.from_us, time.until_us, ended_since_us=since_us)
    return chosen_sentences(reasons, own)


def _two_lists(
    journal: CauseJournal, time: OwnerTime, first: OwnershipPeriod, last: OwnershipPeriod
) -> Iterator[str]:
    group, topic = time.group, time.queue.topic
    passes = _passes_of_two(journal, time, first, last)
    if passes is None:
        return
    (old_entry, old_fact), (new_entry, new_fact) = passes
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
    if len(grants) > 1 and grants[-2][1] != grants[-1][1]:
        yield (
            f"A lock lasts {LOCK_S} s from its last renewal, and {grants[-2][1]} had not unlocked "
            f"{place(about.queue)}."
        )


# No owner -------------------------------------------------------------------------------------


def no_owner(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The longest time without an owner: how the last one ended, and what the others did."""
    for time in _owner_times(journal).unowned(in_startup=_is_startup(about)):
        if _is_about(time, about):
            yield from without_owner(journal, time)
            return


def without_owner(journal: CauseJournal, time: OwnerTime) -> Iterator[str]:
    """The sentences of one time in which a queue had no owner, ``SENTENCES_MAX`` at most."""
    history = journal.history(time.group, time.queue, time.from_us)
    last = max(history.holds, key=lambda hold: hold.until_us or time.from_us, default=None)
    if last is None and (refused := [*_refused_expression(journal, time)]):
        yield from refused
        return
    grown = [*_growth(journal, time)]
    start = [*_before_none(journal, time, last), *grown]
    start.append(_became_unowned(journal, time, last, is_told=bool(grown)))
    meanwhile = [*_meanwhile(journal, time, "" if last is None else last.node)]
    end = [*_end_of_none(journal, time)]
    room = SENTENCES_MAX - len(start) - len(end)
    yield from [*start, *meanwhile[: max(room, 1)], *end]


def _refused_expression(journal: CauseJournal, time: OwnerTime) -> Iterator[str]:
    """That a broker refused the group's SQL92, so that none of its members could start."""
    found = journal.of(MisuseNoticed, misuse=PROPERTY_FILTER_OFF, group=time.group)
    refused = [(e, f) for e, f in found if f.topic == time.queue.topic]
    if not refused:
        return
    entry, fact = refused[0]
    yield (
        f"{journal.names.node_of(fact.client)} of {time.group} subscribes to {fact.topic} by "
        f"{fact.detail}, and {entry.node} refused that at {seconds(entry.mono_us)}: it does not "
        "filter by properties."
    )
    stops = [*journal.of(ConsumerStopped, group=time.group)]
    nodes = sorted({stop.node for stop, _ in stops})
    yield f"So {joined(nodes)} could not start, {times(len(stops))} in all."
    yield "Brokers filter by SQL92 if they are started with enablePropertyFilter=true."


def _before_none(
    journal: CauseJournal, time: OwnerTime, last: OwnershipPeriod | None
) -> Iterator[str]:
    """What led to the release of the queue, or keeps it out of a route; faults of its nodes."""
    group, topic, queue = time.group, time.queue.topic, time.queue
    changes: list[ListChange] = []
    nodes = {queue.broker}
    is_release = last is not None and last.until_us is not None and "not mine" in last.ended
    if last is not None:
        nodes.add(last.node)
        if is_release:
            changes += changes_before(journal, last.node, group, topic, last.until_us or 0)
    changes += _lacking(journal, time)
    since_us = time.from_us - SHUTDOWN_US
    own = journal.troubles_of(nodes, time.from_us, time.until_us, ended_since_us=since_us)
    reasons = led_to(journal, changes)
    if is_release and not reasons and not own:
        reasons = near_in_time(journal, time.from_us)
    is_said = "" if last is None else f"{last.node} {last.ended} at"
    for sentence in chosen_sentences(reasons, own):
        if not is_said or not sentence.startswith(is_said):
            yield sentence


def _lacking(journal: CauseJournal, time: OwnerTime) -> list[ListChange]:
    """Why the route of the member that counted the fewest queues in that time lacks brokers."""
    passes = _passes_in(journal, time)
    known = _queue_count(journal, time.queue.topic, time.until_us)
    entry, fact = min(passes, key=lambda each: each[1].queue_count, default=(None, None))
    if entry is None or fact is None or fact.queue_count >= known:
        return []
    route = route_at(journal, entry.node, fact.topic, entry.mono_us)
    if route is None:
        return []
    missing = brokers_of(journal, fact.topic) - route.brokers
    return [gone_broker(journal, each, entry.node, route.at_us) for each in sorted(missing)]


def _end_of_none(journal: CauseJournal, time: OwnerTime) -> Iterator[str]:
    """The claim that ended it, or that nothing did."""
    lasted = seconds(time.until_us - time.from_us)
    for entry, fact in journal.of(QueuesClaimed, group=time.group):
        if entry.mono_us == time.until_us and time.queue in fact.queues:
            yield from _new_route(journal, time, entry.node)
            yield f"{entry.node} claimed it at {seconds(time.until_us)}, after {lasted}."
            return
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
    passes = _passes_in(journal, time)
    if not passes:
        late = [
            entry.mono_us
            for entry, _ in journal.of(RebalancePassed, group=time.group, topic=time.queue.topic)
            if time.from_us <= entry.mono_us < time.until_us
        ]
        until = f"before {seconds(late[0])}" if late else "meanwhile"
        yield (
            f"No member of {time.group} rebalanced {time.queue.topic} {until}: each does so every "
            f"{PASS_S} s."
        )
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


def _passes_in(journal: CauseJournal, time: OwnerTime) -> list[Pass]:
    """The rebalances of the topic while the queue had no owner."""
    passes = [
        (entry, fact)
        for entry, fact in journal.of(RebalancePassed, group=time.group, topic=time.queue.topic)
        if time.from_us <= entry.mono_us < time.until_us
    ]
    # The pass that ended it came just before its claim: it does not show why it lasted.
    end_us = time.until_us - min(CLAIM_US, (time.until_us - time.from_us) // 2)
    return [pair for pair in passes if pair[0].mono_us < end_us]


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
        # The rebalance that led to the release came just before it.
        if time.from_us - CLAIM_US <= entry.mono_us <= time.until_us:
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


# Locks ----------------------------------------------------------------------------------------


def refused_locks(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """Locks that members were refused: the queue with most of them, and the lock's holder."""
    tries: dict[tuple[str, Queue, str], list[Entry]] = {}
    for entry, fact in journal.of(QueuesLocked):
        for queue in fact.refused if about.scope in ("", fact.group) else ():
            tries.setdefault((fact.group, queue, fact.client), []).append(entry)
    if not tries:
        return
    (group, queue, client), refused = max(tries.items(), key=lambda item: len(item[1]))
    who, total = journal.names.node_of(client), sum(map(len, tries.values()))
    all_us = [entry.mono_us for entries in tries.values() for entry in entries]
    part = "that" if total == len(refused) == 1 else f"{len(refused):,} of them"
    yield (
        f"{many(total, 'request')} for the lock of a queue of {group} got a refusal, "
        f"{between(min(all_us), max(all_us))}: {part} by {who} for {place(queue)}."
    )
    first_us, last_us = refused[0].mono_us, refused[-1].mono_us
    history = journal.history(group, queue, first_us)
    holder = ""
    if history.lock is not None and isinstance(history.lock.fact, QueuesLocked):
        holder = journal.names.node_of(history.lock.fact.client)
    reasons = led_to(journal, changes_before(journal, who, group, queue.topic, first_us))
    own = journal.troubles_of(
        {who, holder, queue.broker}, first_us, last_us, ended_since_us=first_us - SHUTDOWN_US
    )
    yield from chosen_sentences(reasons, own)
    yield from lock_refusals(journal, group, queue, refused)
    granted = [
        entry.mono_us
        for entry, fact in journal.of(QueuesLocked, group=group, client=client)
        if queue in fact.granted and entry.mono_us > last_us
    ]
    yield f"{who} got it at {seconds(granted[0])}." if granted else f"{who} did not get it later."


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


def _is_startup(about: CauseSubject) -> bool:
    """Whether it is about the group's start-up, which is measured apart."""
    return about.metric.startswith("startup_")


def brokers_of(journal: CauseJournal, topic: str) -> set[str]:
    """The brokers that had *topic*."""
    return {entry.node for entry, _ in journal.of(TopicCreated, topic=topic)}


def _queue_count(journal: CauseJournal, topic: str, until_us: int) -> int:
    """How many queues of *topic* all brokers had then; 0 if it is not known."""
    known: dict[str, tuple[int, int]] = {}
    for entry, fact in journal.of_any(TopicCreated, TopicChanged, topic=topic):
        if entry.mono_us < until_us:
            new = entry.mono_us, fact.read_queue_count
            known[entry.node] = max(known.get(entry.node, new), new)
    return sum(count for _, count in known.values())
