"""Causes of messages that were delivered late: faults, pulls and listeners while they waited.

A message is stored, pulled, given to a listener and consumed.  The longest of the three steps
between shows where it waited: for a pull, for a free listener, or for the listener itself.  What
the members and the broker did in that time says why.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from rocketmq_emulator.checks.judging.judging import Judging
from rocketmq_emulator.checks.rules.timing import DeliveryGap, DeliveryTimes
from rocketmq_emulator.facts import (
    MemberJoined,
    MessageConsumed,
    MessageGivenToListener,
    MessagePolled,
    MessageStored,
    PullAnswered,
    PullFailed,
    PullHeld,
    Queue,
    QueuesLocked,
    RouteChanged,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.after.cause_journal import (
    RESTARTED_US,
    SHUTDOWN_US,
    CauseJournal,
    CauseSubject,
    between,
    place,
    seconds,
)
from rocketmq_emulator.scenarios.after.message_causes import what_the_owner_does
from rocketmq_emulator.scenarios.after.ownership_causes import lock_refusals
from rocketmq_emulator.scenarios.after.rebalance_changes import (
    changes_before,
    chosen_sentences,
    led_to,
    near_in_time,
)
from rocketmq_emulator.scenarios.after.remaining_messages import remaining_at_end
from rocketmq_emulator.scenarios.descriptions.queue_history import (
    GroupQueueHistory,
    OwnershipPeriod,
)
from rocketmq_emulator.scenarios.descriptions.sentences import many, without_advice
from rocketmq_emulator.scenarios.descriptions.summaries import ROUTINE_CODES

REASONS_MAX = 3  # of failed pulls
MIDDLE_MAX = 4  # sentences between what waited and how it ended
BEFORE_US = 60_000_000  # an owner that ended so long before a gap may be its cause
PULL_AGAIN_US = 3_000_000  # after a failed pull a member waits so long at most
GOT = "with a pull that was answered at"
POLLED_US = 5_000_000  # a rebalance follows a new route so soon, if the route led to it
CODE = re.compile(r"\bcode:? ?(\d+)", re.IGNORECASE)
GAPS: Mapping[str, Callable[[DeliveryTimes], list[DeliveryGap]]] = {
    "consumer_failover_s": DeliveryTimes.longest_failovers,
    "open_failover_s": DeliveryTimes.longest_open_failovers,
    "startup_delivery_gap_s": DeliveryTimes.longest_startup_gaps,
}
CODES = {  # of refused pulls: why, and until when
    24: "the broker did not know the group (24) until a heartbeat came",
    25: "the broker had no current subscription of the group (25) until a heartbeat came",
}


def delivery_gap(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The longest time in which a queue had messages and its group consumed none."""
    gap = worst_gap(journal, about.metric, about.scope)
    if gap is None:
        return
    yield (
        f"{place(gap.queue)} had messages {between(gap.from_us, gap.until_us)}, and {gap.group} "
        "consumed none of them."
    )
    history = journal.history(gap.group, gap.queue, gap.until_us - 1)
    yield from _middle(journal, gap, history)[:MIDDLE_MAX]
    if gap.until_us < journal.end_us:
        yield f"The next message was consumed at {seconds(gap.until_us)}."


def worst_gap(journal: CauseJournal, metric: str, scope: str) -> DeliveryGap | None:
    """The gap that *metric* measures: a queue's longest, or the wait for its next owner."""
    judging = Judging((DeliveryTimes,))
    judging.take(journal.entries)
    judging.end()
    (checker,) = judging.checkers
    assert isinstance(checker, DeliveryTimes)
    gaps = GAPS.get(metric, DeliveryTimes.longest_gaps)(checker)
    return next((gap for gap in gaps if scope in ("", gap.group)), None)


def slow_delivery(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The message that took longest from stored to consumed: where it waited."""
    stored = {(f.queue, f.offset): e.mono_us for e, f in journal.of(MessageStored)}
    seen: set[tuple[str, Queue, int]] = set()
    worst: tuple[int, Entry, MessageConsumed] | None = None
    for entry, fact in journal.of(MessageConsumed):
        at = (fact.group, fact.queue, fact.offset)
        if at in seen or fact.reconsume_times or about.scope not in ("", fact.group):
            continue
        seen.add(at)
        took_us = entry.mono_us - stored.get((fact.queue, fact.offset), entry.mono_us)
        if worst is None or took_us > worst[0]:
            worst = took_us, entry, fact
    if worst is None:
        return
    took_us, entry, fact = worst
    gap = DeliveryGap(fact.group, fact.queue, entry.mono_us - took_us, entry.mono_us)
    yield (
        f"Of {fact.group}, {fact.offset} of {place(fact.queue)} took longest: {seconds(took_us)}, "
        f"{between(gap.from_us, gap.until_us)}."
    )
    yield from journal.faults({entry.node, fact.queue.broker}, gap.from_us, gap.until_us)
    if (moments := _moments_of(journal, gap, entry, fact)) is not None:
        pulled, given = map(seconds, moments)
        yield (
            f"It was stored at {seconds(gap.from_us)}, pulled at {pulled}, given to a listener at "
            f"{given}, and consumed at {seconds(gap.until_us)}."
        )
    yield from _steps(journal, gap, entry, fact)


# Faults, pulls and owners in a gap ------------------------------------------------------------


def _middle(journal: CauseJournal, gap: DeliveryGap, history: GroupQueueHistory) -> list[str]:
    """What happened in the gap, in the order of time; the faults first."""
    near = [h for h in history.holds if (h.until_us or gap.until_us) >= gap.from_us - BEFORE_US]
    former, claim = _former_owner(gap, near), _next_owner(journal, gap, history)
    refused = [
        entry
        for entry in history.refusals
        if gap.from_us - PULL_AGAIN_US <= entry.mono_us and isinstance(entry.fact, QueuesLocked)
    ]
    failed = _failed_pulls(gap, history)
    faults = _faults(journal, gap, near, former, is_known=bool(failed or refused))
    found: list[tuple[int, Iterable[str]]] = []
    near_us = gap.from_us - (PULL_AGAIN_US if claim is not None else BEFORE_US)
    is_near = former is not None and (former.until_us or 0) >= near_us
    if former is not None and is_near and not (faults and _ended_by_fault(former)):
        found.append((former.until_us or 0, [_end_of_owner(gap, former)]))
    if refused:
        locks = lock_refusals(journal, gap.group, gap.queue, refused)
        found.append((refused[0].mono_us, locks))
    if failed:
        found.append((failed[0].mono_us, _why_pulls_failed(journal, gap, failed)))
    if claim is not None:
        found += [*_claimed(journal, gap, claim)]
    found.sort(key=lambda pair: pair[0])
    sentences = [*faults, *(sentence for _, said in found for sentence in said)]
    owners = history.owners()
    if not owners:
        sentences.append("No member held the queue at its end.")
    elif not refused:
        owner = claim or min(owners, key=lambda hold: hold.from_us)
        is_new = claim is not None or owner.from_us > gap.from_us
        told = [*_by_the_owner(journal, gap, history, owner, is_new=is_new)]
        sentences += [each for each in told if not (failed and GOT in each)]
    return sentences


def _former_owner(gap: DeliveryGap, holds: list[OwnershipPeriod]) -> OwnershipPeriod | None:
    """The owner at the beginning of *gap* that ended in it; else the last one before *gap*.

    None if an owner stayed for all of the gap.
    """
    at_start = [
        hold
        for hold in holds
        if hold.from_us <= gap.from_us and (hold.until_us or gap.until_us) > gap.from_us
    ]
    if any(hold.until_us is None for hold in at_start):
        return None
    ended = at_start or [hold for hold in holds if hold.from_us <= gap.from_us]
    return max(ended, key=lambda hold: hold.until_us or 0, default=None)


def _end_of_owner(gap: DeliveryGap, hold: OwnershipPeriod) -> str:
    whose = "Its owner" if (hold.until_us or 0) > gap.from_us else "Its last owner"
    return f"{whose} {hold.node} {hold.ended} at {seconds(hold.until_us or 0)}."


def _next_owner(
    journal: CauseJournal, gap: DeliveryGap, history: GroupQueueHistory
) -> OwnershipPeriod | None:
    """The owner that consumed the message which ended *gap*, if it claimed the queue in it."""
    ends = [
        entry.node
        for entry, _ in journal.of_any(
            MessageConsumed, MessagePolled, group=gap.group, queue=gap.queue
        )
        if entry.mono_us == gap.until_us
    ]
    claims = [h for h in history.owners() if h.from_us > gap.from_us - PULL_AGAIN_US]
    return next((h for h in reversed(claims) if not ends or h.node in ends), None)


def _faults(
    journal: CauseJournal,
    gap: DeliveryGap,
    near: list[OwnershipPeriod],
    former: OwnershipPeriod | None,
    *,
    is_known: bool,
) -> list[str]:
    """The faults of the queue's broker and owners; of a release: those that led to it.

    *is_known*: failed pulls or refused locks show that those of the broker matter.
    """
    nodes = {gap.queue.broker, *(hold.node for hold in near)}
    if former is None or "not mine" not in former.ended:
        return journal.faults(nodes, gap.from_us, gap.until_us)
    later = [h for h in near if (h.until_us or gap.until_us) > gap.from_us - PULL_AGAIN_US]
    nodes = {gap.queue.broker, former.node, *(hold.node for hold in later)}
    released_us = former.until_us or gap.from_us
    changes = changes_before(journal, former.node, gap.group, gap.queue.topic, released_us)
    since_us = gap.from_us - (RESTARTED_US if is_known else SHUTDOWN_US)
    own = journal.troubles_of(nodes, gap.from_us, gap.until_us, ended_since_us=since_us)
    reasons = led_to(journal, changes)
    if not reasons and not own:
        reasons = near_in_time(journal, released_us)
    return chosen_sentences(reasons, own)


def _ended_by_fault(hold: OwnershipPeriod) -> bool:
    return hold.ended.startswith(("met the fault", "was killed"))


def _claimed(
    journal: CauseJournal, gap: DeliveryGap, claim: OwnershipPeriod
) -> Iterator[tuple[int, list[str]]]:
    """The claim, and the route of the broker that led to it, each with its time."""
    routes = [
        (entry, gap.queue.broker in fact.brokers)
        for entry, fact in journal.of(RouteChanged, topic=gap.queue.topic)
        if entry.node == claim.node and entry.mono_us <= claim.from_us
    ]
    is_new = len(routes) > 1 and routes[-1][1] and not routes[-2][1]
    if is_new and claim.from_us - routes[-1][0].mono_us < POLLED_US:
        polled_us = routes[-1][0].mono_us
        text = f"The route of {claim.node} had {gap.queue.broker} again with its poll at"
        yield polled_us, [f"{text} {seconds(polled_us)}."]
    yield claim.from_us, [f"{claim.node} claimed the queue at {seconds(claim.from_us)}."]


def _failed_pulls(gap: DeliveryGap, history: GroupQueueHistory) -> list[Entry]:
    """The failed pulls in the gap of the member with most of them; else the last just before."""
    since_us = gap.from_us - PULL_AGAIN_US
    failed = [
        entry
        for entry in history.refusals
        if isinstance(entry.fact, PullFailed) and entry.mono_us >= since_us
    ]
    failed = [entry for entry in failed if entry.mono_us >= gap.from_us] or failed[-1:]
    most = Counter(entry.node for entry in failed).most_common(1)
    return [entry for entry in failed if entry.node == most[0][0]]


def _why_pulls_failed(
    journal: CauseJournal, gap: DeliveryGap, failed: list[Entry]
) -> Iterator[str]:
    """Why the pulls of a member *failed*, each reason with its times, and the next good pull."""
    node, last_us = failed[0].node, failed[-1].mono_us
    reasons: dict[str, list[int]] = {}
    for entry in failed:
        reasons.setdefault(why_refused(getattr(entry.fact, "error", "")), []).append(entry.mono_us)
    parts: list[str] = []
    for why, at_us in [*reasons.items()][:REASONS_MAX]:
        when = f"at {seconds(at_us[0])}"
        if len(at_us) > 1:
            when = between(at_us[0], at_us[-1])
        count = f"{len(at_us):,}"
        if not parts:
            count = "A pull" if len(at_us) == 1 else f"{count} pulls"
            count = f"{count} by {node} failed{',' if len(at_us) > 1 else ''}"
        parts.append(f"{count} {when}: {why}")
    pulls = _pulls(journal, gap, node, last_us)
    again = f"; its next pull came at {seconds(pulls[0].mono_us)}" if pulls else ""
    yield f"{'; '.join(parts)}{again}."
    unknown = [
        at_us for why, times_us in reasons.items() if "heartbeat" in why for at_us in times_us
    ]
    if len(unknown) > 1:
        yield from _heartbeat(journal, gap, node, unknown[-1])


def _heartbeat(journal: CauseJournal, gap: DeliveryGap, node: str, since_us: int) -> Iterator[str]:
    """When the broker got the heartbeat that it lacked."""
    for entry, fact in journal.of(MemberJoined, group=gap.group):
        is_it = entry.node == gap.queue.broker and journal.names.node_of(fact.client) == node
        if is_it and since_us - PULL_AGAIN_US <= entry.mono_us <= gap.until_us:
            yield (
                f"The first heartbeat of {node} came to {entry.node} at {seconds(entry.mono_us)}: "
                "members send one every 30 s."
            )
            return


def why_refused(error: str) -> str:
    """Why a pull failed, by its *error*."""
    match = CODE.search(error)
    known = CODES.get(int(match[1])) if match else None
    return known or without_advice(error)


def _pulls(journal: CauseJournal, gap: DeliveryGap, node: str, from_us: int) -> list[Entry]:
    """Pulls of the queue by *node* that a broker held or answered from then on, in order."""
    found = [
        entry
        for entry, fact in journal.of_any(PullHeld, PullAnswered, group=gap.group, queue=gap.queue)
        if from_us < entry.mono_us <= gap.until_us
        and getattr(fact, "response_code", 0) in ROUTINE_CODES
        and journal.names.at(entry.node, fact.peer, entry.mono_us) == node
    ]
    return sorted(found, key=lambda entry: entry.mono_us)


# Where a message waited -----------------------------------------------------------------------


def _by_the_owner(
    journal: CauseJournal,
    gap: DeliveryGap,
    history: GroupQueueHistory,
    owner: OwnershipPeriod,
    *,
    is_new: bool,
) -> Iterator[str]:
    ends = [
        (entry, fact)
        for entry, fact in journal.of_any(
            MessageConsumed, MessagePolled, group=gap.group, queue=gap.queue
        )
        if entry.mono_us == gap.until_us
    ]
    if not is_new:
        yield f"{owner.node} held it all the time, since {seconds(owner.from_us)}."
    if ends:
        yield from _steps(journal, gap, *ends[-1])
        return
    left = [
        each.first
        for each in remaining_at_end(journal.entries)
        if (each.group, each.queue) == (gap.group, gap.queue)
    ]
    yield from what_the_owner_does(journal, history, owner.node, min(left, default=0))


def _moments_of(
    journal: CauseJournal, gap: DeliveryGap, entry: Entry, fact: MessageConsumed | MessagePolled
) -> tuple[int, int] | None:
    """When the message that ended the gap was pulled, and given to a listener; None: not noted."""
    given = [
        each.mono_us
        for each, one in journal.of(MessageGivenToListener, group=gap.group, queue=gap.queue)
        if one.offset == fact.offset and each.node == entry.node and each.mono_us <= gap.until_us
    ]
    pulled = [
        each.mono_us
        for each, one in journal.of(PullAnswered, group=gap.group, queue=gap.queue)
        if one.offset <= fact.offset < one.next_offset
        and one.message_count
        and each.mono_us <= gap.until_us
        and journal.names.at(each.node, one.peer, each.mono_us) == entry.node
    ]
    return (pulled[-1], given[-1]) if given and pulled else None


def _steps(
    journal: CauseJournal, gap: DeliveryGap, entry: Entry, fact: MessageConsumed | MessagePolled
) -> Iterator[str]:
    """Where the message that ended the gap waited: the longest step from stored to consumed."""
    moments = _moments_of(journal, gap, entry, fact)
    if moments is None:
        return
    (pulled_us, given_us), offset = moments, fact.offset
    waits_us = {
        "pull": pulled_us - gap.from_us,
        "turn": given_us - max(pulled_us, gap.from_us),
        "listener": gap.until_us - max(given_us, gap.from_us),
    }
    longest = max(waits_us, key=lambda name: waits_us[name])
    if longest == "pull":
        yield f"{entry.node} got {offset} {GOT} {seconds(pulled_us)}."
    elif longest == "turn":
        before = _unfinished_before(journal, gap, entry.node, given_us)
        yield (
            f"{entry.node} had pulled {offset} at {seconds(pulled_us)}, and it waited there until "
            f"{seconds(given_us)}: {many(before, 'message')} of all queues went to its listeners "
            "in that time."
        )
    else:
        yield (
            f"The listener of {entry.node} had {offset} for "
            f"{seconds(gap.until_us - given_us)}, {between(given_us, gap.until_us)}."
        )


def _unfinished_before(journal: CauseJournal, gap: DeliveryGap, node: str, until_us: int) -> int:
    """How many messages *node* gave to its listeners in the gap before that time."""
    return sum(
        entry.node == node and gap.from_us <= entry.mono_us < until_us
        for entry, _ in journal.of(MessageGivenToListener, group=gap.group)
    )
