"""Causes that lie in rebalances: late ones, queues that moved, members without queues or messages.

The checkers that measure these also have each rebalance and each idle time by itself.  A cause
takes the largest from them, so its numbers add up to the metric's value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from rocketmq_emulator.checks.judging.judging import Judging
from rocketmq_emulator.checks.rules.idleness import Idleness, IdleTime
from rocketmq_emulator.checks.rules.rebalances import Churn, Settled
from rocketmq_emulator.facts import (
    ConsumerStarted,
    MessageConsumed,
    MessagePolled,
    MessageStored,
    PullFailed,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    RebalancePassed,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.messages.names import is_retry_topic
from rocketmq_emulator.scenarios.after.cause_journal import (
    PASS_S,
    CauseJournal,
    CauseSubject,
    between,
    joined,
    place,
    seconds,
    times,
)
from rocketmq_emulator.scenarios.after.delivery_causes import why_refused
from rocketmq_emulator.scenarios.after.ownership_causes import brokers_of
from rocketmq_emulator.scenarios.after.rebalance_changes import (
    ListChange,
    changes_before,
    changes_between,
    chosen_sentences,
    in_words,
    led_to,
    near_in_time,
)
from rocketmq_emulator.scenarios.descriptions.sentences import listed, many

Span: TypeAlias = tuple[int, int]  # from and until when, in mono_us

REBALANCES_MAX = 3  # told in one cause
CHANGES_MAX = 3  # of one rebalance
CLAIM_US = 1_000_000  # between a rebalance and its claim, at most


# Moves ----------------------------------------------------------------------------------------


def moves(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The rebalances that moved most queues: how many, how many had to, and what changed."""
    judging = Judging((Churn,))
    judging.take(journal.entries)
    judging.end()
    (churn,) = judging.checkers
    assert isinstance(churn, Churn)
    settled = [each for each in churn.settled() if about.scope in ("", each.group)]
    if about.metric == "needless_moves":
        settled = _needless(settled)
    moved, needed = (
        sum(numbers) for numbers in zip(*((e.moved, e.necessary) for e in settled), strict=True)
    )
    moving = [each for each in settled if each.moved]
    groups = sorted({each.group for each in moving})
    topics = sorted({each.topic for each in moving})
    yield (
        f"{many(moved, 'queue')} of {listed(topics)} moved in {many(len(moving), 'rebalance')} of "
        f"{listed(groups)}, where {needed:,} had to for even shares."
    )
    largest = sorted(moving, key=lambda each: -each.moved)[:REBALANCES_MAX]
    for each in sorted(largest, key=lambda each: each.from_us):
        where = f"of {each.topic} in {each.group} " if len(groups) + len(topics) > 2 else ""
        yield (
            f"{_when(each)} {each.moved:,} {where}moved, where {each.necessary:,} had to: "
            f"{_what_changed(journal, each)}."
        )
    if (more := len(moving) - len(largest)) > 0:
        rest = moved - sum(each.moved for each in largest)
        yield f"And {rest:,} more moved in {many(more, 'smaller rebalance')}."
    if moved > needed:
        yield (
            "Each member computes its share from the lists of queues and members alone, in which "
            "earlier owners do not count: so queues move that need not."
        )
    else:
        yield "Even shares need these moves: no strategy moves fewer."


def _needless(settled: Sequence[Settled]) -> list[Settled]:
    """Those of topics with more moves than necessary: the metric counts no others."""
    spare: Counter[tuple[str, str]] = Counter()
    for each in settled:
        spare[each.group, each.topic] += each.moved - each.necessary
    return [each for each in settled if spare[each.group, each.topic] > 0]


def _when(settled: Settled) -> str:
    if seconds(settled.from_us) == seconds(settled.until_us):
        return f"At {seconds(settled.from_us)}"
    return between(settled.from_us, settled.until_us).capitalize()


def _what_changed(journal: CauseJournal, settled: Settled) -> str:
    """What the members' rebalances had other than the ones before."""
    changes = _changes_in(journal, settled)
    direct = [change for change in changes if not change.is_listing]
    texts = in_words(direct) + in_words(set(changes) - set(direct))
    if not texts:
        return "no list of members or queues had changed"
    more = len(texts) - CHANGES_MAX
    rest = [f"{many(more, 'more change')}"] if more > 0 else []
    return "; ".join([*texts[:CHANGES_MAX], *rest])


def _changes_in(journal: CauseJournal, settled: Settled) -> set[ListChange]:
    found: set[ListChange] = set()
    last: dict[str, tuple[Entry, RebalancePassed]] = {}
    for entry, fact in journal.of(RebalancePassed, group=settled.group, topic=settled.topic):
        before = last.get(entry.node)
        last[entry.node] = entry, fact
        if not settled.from_us - CLAIM_US <= entry.mono_us <= settled.until_us:
            continue
        if before is not None:
            found.update(changes_between(journal, before, (entry, fact)))
        else:
            found.update(_first_pass(journal, entry, settled.group))
    return found


def _first_pass(journal: CauseJournal, entry: Entry, group: str) -> Iterator[ListChange]:
    for start, _ in journal.of(ConsumerStarted, group=group):
        if start.node == entry.node and start.mono_us <= entry.mono_us:
            yield ListChange(start.mono_us, start.node, "joined", frozenset({start.node}))


# Late -----------------------------------------------------------------------------------------


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
    brokers = brokers_of(journal, topic)
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


# Members without queues -----------------------------------------------------------------------


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


# Members without messages ---------------------------------------------------------------------


def idle_members(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The longest time in which a member got no message while its group worked."""
    judging = Judging((Idleness,))
    judging.take(journal.entries)
    judging.end()
    (checker,) = judging.checkers
    assert isinstance(checker, Idleness)
    idle = [each for each in checker.times if about.scope in ("", each.group)]
    if not idle:
        return
    worst = max(idle, key=lambda each: each.until_us - each.from_us)
    fair = worst.consumed // worst.member_count
    yield (
        f"{worst.node} got no message for {seconds(worst.until_us - worst.from_us)}, "
        f"{between(worst.from_us, worst.until_us)}, in which {worst.group} consumed "
        f"{worst.consumed:,}: an even share of {many(worst.member_count, 'member')} is {fair:,}."
    )
    nodes = sorted({each.node for each in idle})
    if len(nodes) > 1:
        yield f"In all {len(nodes)} members were idle for 10 s or more: {joined(nodes)}."
    held = _held(journal, worst)
    from_us, until_us = _longest_without(worst, held)
    if (until_us - from_us) * 2 >= worst.until_us - worst.from_us:
        yield from _without_queues(journal, worst, from_us, until_us)
    else:
        yield from _with_queues(journal, worst, held)
    again = [
        entry
        for entry, _ in journal.of_any(MessageConsumed, MessagePolled, group=worst.group)
        if entry.node == worst.node and entry.mono_us == worst.until_us
    ]
    yield (
        f"It got its next message at {seconds(worst.until_us)}."
        if again
        else f"It got none until {'the end' if worst.until_us >= journal.end_us else 'its end'}."
    )


def _held(journal: CauseJournal, idle: IdleTime) -> dict[Queue, list[Span]]:
    """The queues that the member held in that time, each with when."""
    since_us: dict[Queue, int] = {}
    held: dict[Queue, list[Span]] = {}

    def ends(queue: Queue, at_us: int) -> None:
        from_us = max(since_us.pop(queue, at_us), idle.from_us)
        if from_us < (until_us := min(at_us, idle.until_us)):
            held.setdefault(queue, []).append((from_us, until_us))

    for entry, fact in sorted(
        journal.of_any(QueuesClaimed, QueuesReleased, group=idle.group),
        key=lambda pair: (pair[0].mono_us, pair[0].seq),
    ):
        for queue in fact.queues if entry.node == idle.node else ():
            if isinstance(fact, QueuesReleased):
                ends(queue, entry.mono_us)
            elif not is_retry_topic(queue.topic):
                since_us.setdefault(queue, entry.mono_us)
    for queue in [*since_us]:
        ends(queue, idle.until_us)
    return held


def _longest_without(idle: IdleTime, held: dict[Queue, list[Span]]) -> Span:
    """The longest part of the idle time in which the member held no queue."""
    longest, since_us = (idle.from_us, idle.from_us), idle.from_us
    for from_us, until_us in sorted([s for spans in held.values() for s in spans]):
        longest = max(longest, (since_us, from_us), key=_lasted_us)
        since_us = max(since_us, until_us)
    return max(longest, (since_us, idle.until_us), key=_lasted_us)


def _lasted_us(span: Span) -> int:
    return span[1] - span[0]


def _without_queues(
    journal: CauseJournal, idle: IdleTime, from_us: int, until_us: int
) -> Iterator[str]:
    passes = [
        (entry, fact)
        for entry, fact in journal.of(RebalancePassed, group=idle.group)
        if entry.node == idle.node
        and not is_retry_topic(fact.topic)
        and from_us - CLAIM_US <= entry.mono_us < until_us
    ]
    if passes:
        first, fact = passes[0]
        changes = changes_before(journal, idle.node, idle.group, fact.topic, first.mono_us)
        reasons = led_to(journal, changes) or near_in_time(journal, from_us)
        yield from chosen_sentences(
            reasons, journal.troubles_of({idle.node}, from_us, from_us), most=1
        )
    yield f"It held no queue {between(from_us, until_us)}."
    if not passes:
        yield "It did not rebalance in that time."
        return
    entry, fact = next((each for each in passes if not each[1].own_count), passes[0])
    count, queues = len(fact.members), many(fact.queue_count, "queue")
    text = (
        f"Its rebalance at {seconds(entry.mono_us)} gave it {fact.own_count} of {queues} of "
        f"{fact.topic}"
    )
    if count > fact.queue_count:
        yield f"{text}, for {many(count, 'member')}: a queue has one owner in a group."
    else:
        yield f"{text}, with {many(count, 'member')} in its list."


def _with_queues(
    journal: CauseJournal, idle: IdleTime, held: dict[Queue, list[Span]]
) -> Iterator[str]:
    """The idle member's queues, the messages stored there meanwhile, and its failed pulls."""
    half_us = (idle.until_us - idle.from_us) // 2
    most = [queue for queue, spans in held.items() if sum(map(_lasted_us, spans)) >= half_us]
    most = most or [*held]
    failed = [
        (entry.mono_us, fact.queue.broker, why_refused(fact.error))
        for entry, fact in journal.of(PullFailed, group=idle.group)
        if entry.node == idle.node and idle.from_us <= entry.mono_us < idle.until_us
    ]
    failing = Counter(broker for _, broker, _ in failed).most_common(1)
    brokers = {broker for broker, _ in failing} or {queue.broker for queue in most}
    yield from journal.faults(
        {idle.node, *brokers}, idle.from_us, idle.until_us, ended_since_us=idle.from_us, most=1
    )
    came = sum(
        any(from_us <= entry.mono_us < until_us for from_us, until_us in held[fact.queue])
        for entry, fact in journal.of(MessageStored)
        if fact.queue in most
    )
    yield (
        f"It held {many(len(most), 'queue')} then, {listed(sorted(map(place, most)))}, to which "
        f"{many(came, 'message')} came meanwhile."
    )
    if failed:
        why, count = Counter(why for _, _, why in failed).most_common(1)[0]
        at_us = [at_us for at_us, _, each in failed if each == why]
        when = between(at_us[0], at_us[-1]) if count > 1 else f"at {seconds(at_us[0])}"
        yield f"{times(count).capitalize()} its pull failed, {when}: {why}."


# Replaced ------------------------------------------------------------------------------------


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
    yield "A queue without a pull for so long is replaced: its cached messages are pulled again."
