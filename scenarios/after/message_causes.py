"""Causes of what happened to messages: lost, late, repeated, out of order, not sent, left over."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from rocketmq_emulator.checks.rules.ownership import OwnerTime
from rocketmq_emulator.facts import (
    DelayedDelivered,
    MessageConsumed,
    MessageGivenToListener,
    MessageSentBack,
    MessageStored,
    OffsetCommitted,
    PowerLost,
    PullAnswered,
    PullFailed,
    PullHeld,
    Queue,
    QueuesClaimed,
    SendAttempted,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC
from rocketmq_emulator.scenarios.after.cause_journal import (
    SHUTDOWN_US,
    CauseJournal,
    CauseSubject,
    between,
    joined,
    place,
    seconds,
    times,
)
from rocketmq_emulator.scenarios.after.ownership_causes import without_owner
from rocketmq_emulator.scenarios.after.rebalance_changes import (
    changes_before,
    chosen_sentences,
    led_to,
)
from rocketmq_emulator.scenarios.after.remaining_messages import remaining_at_end
from rocketmq_emulator.scenarios.descriptions.queue_history import GroupQueueHistory
from rocketmq_emulator.scenarios.descriptions.sentences import code_in_words, many, without_advice

STALE_US = 30_000_000  # a pull is held for 20 s at most
SOON_US = 1_000_000
GOOD_OUTCOMES = ("SEND_OK", "ONE_WAY")


class Claim(NamedTuple):
    """A claim of a queue; *start*: the first offset that it consumes, None if it is not noted."""

    at_us: int
    node: str
    start: int | None


# By group, queue, and the earlier and later of two claims: offsets that were consumed under both,
# each with the node that consumed it first.
Repeats: TypeAlias = dict[tuple[str, Queue, Claim, Claim], list[tuple[int, str]]]


# Lost -----------------------------------------------------------------------------------------


def lost(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """A message that no member consumed: where it is, and what passed over it."""
    queue, offset = about.queue, _offset_in(about.what)
    stored = [e for e in about.evidence if isinstance(e.fact, MessageStored)]
    if queue is None or not stored:
        return
    if queue.topic == SCHEDULE_TOPIC or "waits at offset" in about.what:
        yield from _waiting_copy(journal, about, stored[-1])
    elif offset is not None:
        yield from _passed_over(journal, about, queue, offset)


def _passed_over(
    journal: CauseJournal, about: CauseSubject, queue: Queue, offset: int
) -> Iterator[str]:
    stored = [(e, f) for e, f in journal.of(MessageStored, queue=queue) if f.offset == offset]
    if stored:
        at = seconds(stored[-1][0].mono_us)
        yield f"{queue.broker} stored {offset} of {place(queue)} at {at}."
    if len(stored) > 1:
        at = seconds(stored[-2][0].mono_us)
        yield f"An earlier one had this offset, stored at {at}, and was lost with the log's end."
    stored_us = stored[-1][0].mono_us if stored else 0
    claims = [
        (e, f.offsets[f.queues.index(queue)])
        for e, f in journal.of(QueuesClaimed, group=about.group)
        if queue in f.queues and f.offsets and e.mono_us <= about.at_us
    ]
    beyond = [(e, start) for e, start in claims if start > offset and e.mono_us >= stored_us]
    commits = [
        (e, f)
        for e, f in journal.of(OffsetCommitted, group=about.group, queue=queue)
        if f.offset > offset and e.mono_us >= stored_us
    ]
    given = [
        e
        for e, f in journal.of(MessageGivenToListener, group=about.group, queue=queue)
        if f.offset == offset and e.mono_us >= stored_us  # before, it was a message that was lost
    ]
    if given:
        yield (
            f"{given[-1].node} gave it to its listener at {seconds(given[-1].mono_us)}, and no "
            "listener finished it."
        )
    else:
        yield f"No member of {about.group} gave it to a listener."
    if commits:
        entry, fact = commits[0]
        who = journal.names.at(entry.node, fact.peer, entry.mono_us)
        yield (
            f"{who} committed {fact.offset} at {seconds(entry.mono_us)} and so passed it: no pull "
            "of the group begins before a committed offset."
        )
    if beyond:
        entry, start = beyond[-1]
        yield f"{entry.node} claimed the queue at {seconds(entry.mono_us)} and began at {start}."
    nodes = {queue.broker, *(e.node for e, _ in claims)}
    yield from journal.faults(nodes, stored_us, about.at_us)


def _waiting_copy(journal: CauseJournal, about: CauseSubject, stored: Entry) -> Iterator[str]:
    """A retry or a delayed message that its broker has not delivered."""
    fact = stored.fact
    assert isinstance(fact, MessageStored)
    failed = [e for e, f in journal.of(MessageConsumed, uniq_key=fact.uniq_key) if not f.ok]
    if failed:
        yield (
            f"The listener of {failed[-1].node} failed at {seconds(failed[-1].mono_us)}, so the "
            "message was sent back for a retry."
        )
    backs = [e for e, _ in journal.of(MessageSentBack) if e.mono_us <= stored.mono_us]
    level = fact.queue.queue_id + 1
    yield (
        f"{stored.node} stored the copy that waits at {seconds(stored.mono_us)}"
        f"{f', at delay level {level}' if fact.queue.topic == SCHEDULE_TOPIC else ''}"
        f"{', after it had been sent back' if backs and not failed else ''}."
    )
    went = [
        e
        for e, f in journal.of(DelayedDelivered, delay_level=level)
        if e.node == stored.node and e.mono_us >= stored.mono_us
    ]
    if went:
        yield (
            f"{stored.node} reports that it delivered {many(len(went), 'message')} of that level "
            f"since, the last at {seconds(went[-1].mono_us)}, but it stored no copy of this one."
        )
    else:
        yield f"{stored.node} delivered no message of that level since."
    yield from journal.faults({stored.node}, stored.mono_us, about.at_us)
    yield "No other copy of it is left that a member could pull."


def after_power_loss(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """Messages that went with the power of a broker, or that hide behind committed offsets."""
    losses = [(e, f) for e, f in journal.of(PowerLost) if e.mono_us <= about.at_us]
    if not losses:
        return
    entry, loss = losses[0]
    unflushed = loss.end_position - loss.flushed_position
    yield (
        f"{entry.node} lost power at {seconds(entry.mono_us)} with {unflushed:,} bytes of its log "
        f"not flushed, and kept {loss.kept_position - loss.flushed_position:,} of them."
    )
    gone: dict[Queue, list[int]] = defaultdict(list)
    for stored, message in journal.of(MessageStored):
        is_beyond = message.position + message.size_bytes > loss.kept_position
        if stored.node == entry.node and stored.mono_us <= entry.mono_us and is_beyond:
            gone[message.queue].append(message.offset)
    if not gone:
        return
    queue = max(gone, key=lambda each: len(gone[each]))
    count = sum(map(len, gone.values()))
    yield (
        f"So it lost {many(count, 'message')}, among them those of {place(queue)} from "
        f"{min(gone[queue])} on."
    )
    again = [
        (e, f)
        for e, f in journal.of(MessageStored, queue=queue)
        if e.mono_us > entry.mono_us and f.offset in gone[queue]
    ]
    if again:
        used = seconds(again[0][0].mono_us)
        yield f"After its restart it used these offsets again, from {used} on."
    commits = [
        (e, f)
        for e, f in journal.of(OffsetCommitted, queue=queue)
        if e.mono_us <= entry.mono_us and f.offset > min(gone[queue])
    ]
    if again and commits:
        _, fact = commits[-1]
        yield (
            f"{fact.group} had committed {fact.offset} there: it continues from that offset, and "
            "never gets new messages before it."
        )


# Left over ------------------------------------------------------------------------------------


def unfinished(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """Messages that a group has not finished: the owner of their queue, and what it did last."""
    left = [
        each
        for each in remaining_at_end(journal.entries)
        if about.group in ("", each.group) and about.queue in (None, each.queue)
    ]
    if not left:
        return
    most = left[0]
    yield (
        f"{most.group} has not finished {many(most.count, 'message')} of {place(most.queue)}, "
        f"from {most.first} on."
    )
    history = journal.history(most.group, most.queue, journal.end_us)
    owners = history.owners()
    if not owners:
        since_us = max((hold.until_us or 0 for hold in history.holds), default=0)
        yield from without_owner(
            journal, OwnerTime(most.group, most.queue, since_us, journal.end_us)
        )
        return
    owner = owners[-1]
    yield f"{owner.node} holds the queue since {seconds(owner.from_us)}."
    yield from what_the_owner_does(journal, history, owner.node, most.first)
    nodes = {owner.node, most.queue.broker}
    yield from journal.faults(nodes, journal.end_us, journal.end_us)


def what_the_owner_does(
    journal: CauseJournal, history: GroupQueueHistory, node: str, first: int
) -> Iterator[str]:
    """What *node*, the owner of the queue, did last there; messages from *first* on are left."""
    acts = history.acts.get(node, {})
    pull, given, finished = (acts.get(name) for name in ("pull", "given", "finished"))
    failures = [
        (e, f)
        for e, f in journal.of(PullFailed, group=history.group, queue=history.queue)
        if e.node == node and (finished is None or e.mono_us > finished.mono_us)
    ]
    if failures and pull is not None and isinstance(pull.fact, PullFailed):
        errors = Counter(without_advice(fact.error) for _, fact in failures)
        first_us, last_us = failures[0][0].mono_us, failures[-1][0].mono_us
        when = between(first_us, last_us) if len(failures) > 1 else f"at {seconds(first_us)}"
        yield (
            f"{times(len(failures)).capitalize()} its pull failed, {when}: "
            f"{errors.most_common(1)[0][0]}."
        )
    elif pull is None:
        yield f"{node} has never pulled it."
    elif isinstance(pull.fact, PullHeld):
        yield (
            f"Its pull from {pull.fact.offset} waits at {pull.node} since "
            f"{seconds(pull.mono_us)}"
            + (
                ", which should have answered it with these messages."
                if pull.fact.offset <= first
                else ": it had pulled these messages before."
            )
        )
    elif journal.end_us - pull.mono_us > STALE_US:
        yield f"Its last pull was at {seconds(pull.mono_us)}, and it has not pulled since."
    if isinstance(pull and pull.fact, PullAnswered):
        assert pull is not None
        fact = pull.fact
        assert isinstance(fact, PullAnswered)
        if fact.response_code:
            yield f"{pull.node} answered its last pull {code_in_words(fact.response_code)}."
    if given is not None and (finished is None or given.mono_us > finished.mono_us):
        offset = getattr(given.fact, "offset", first)
        yield (
            f"Its listener was given {offset} at {seconds(given.mono_us)} and has not finished it."
        )
    elif finished is not None:
        yield (
            f"It finished its last message there, {getattr(finished.fact, 'offset', 0)}, at "
            f"{seconds(finished.mono_us)}."
        )


# Late -----------------------------------------------------------------------------------------


def late_wake(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """A held pull that a message did not wake: when it was held, and when it was answered."""
    queue = about.queue
    stored = [e for e in about.evidence if isinstance(e.fact, MessageStored)]
    if queue is None or not stored:
        return
    came_us = stored[-1].mono_us
    held = [
        (e, f)
        for e, f in journal.of(PullHeld, queue=queue)
        if f.group in about.what and e.mono_us <= came_us
    ]
    if held:
        entry, fact = held[-1]
        who = journal.names.at(entry.node, fact.peer, entry.mono_us)
        yield (
            f"{entry.node} held the pull of {who} ({fact.group}) from {fact.offset} of "
            f"{place(queue)} since {seconds(entry.mono_us)}."
        )
    yield f"A message came at {seconds(came_us)}, which the pull waited for."
    answers = [(e, f) for e, f in journal.of(PullAnswered, queue=queue) if e.mono_us >= came_us]
    ours = [(e, f) for e, f in answers if f.group in about.what]
    beside = {
        f.group for e, f in answers if f.group not in about.what and e.mono_us < came_us + 10**6
    }
    if beside:
        yield f"The pulls of {joined(sorted(beside))} were answered at once."
    if ours:
        at, late = seconds(ours[0][0].mono_us), seconds(ours[0][0].mono_us - came_us)
        yield f"This one was answered at {at}, {late} later: the message did not wake it."
    else:
        yield "This one was not answered: the message did not wake it."
    yield from journal.faults({queue.broker}, came_us, came_us)


# Again, or out of order -----------------------------------------------------------------------


def repeats(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """Messages that were consumed again: the two claims with most of them."""
    again = _repeated(journal, about.scope)
    if not again:
        yield from _sent_twice(journal, about)
        return
    (group, queue, early, late), pairs = max(again.items(), key=lambda item: len(item[1]))
    total = sum(map(len, again.values()))
    numbers = sorted({offset for offset, _ in pairs})
    yield (
        f"{group} consumed {many(total, 'message')} again; {_part(len(pairs), total)} "
        f"{_range(numbers)} of {place(queue)}: {_consumers(pairs, early, late)}."
    )
    if early == late:
        yield from _under_one_claim(journal, (group, queue), late, numbers[0])
        return
    yield from _before_claim(journal, (group, queue), early, late)
    if not late.at_us:
        return
    yield from _end_of_claim(journal, (group, queue), early, late)
    began = "" if late.start is None else f" and began at {late.start}"
    yield f"{late.node} claimed the queue at {seconds(late.at_us)}{began}."
    yield _last_commit(journal, (group, queue), late)


def _consumers(pairs: list[tuple[int, str]], early: Claim, late: Claim) -> str:
    """Who consumed the messages of *pairs* first and who again, if it is so for all of them."""
    it = "it" if len(pairs) == 1 else "them"
    firsts = {node for _, node in pairs}
    if early == late:
        return f"{late.node} consumed {it} again under the same claim"
    if early.node == late.node:
        return f"{early.node} consumed {it}, and again after its next claim"
    if len(firsts) > 1:
        return f"{early.node} and {late.node} both consumed {it}"
    first, then = (early, late) if early.node in firsts else (late, early)
    return f"{first.node} consumed {it}, then {then.node}"


def _under_one_claim(
    journal: CauseJournal, pair: tuple[str, Queue], claim: Claim, offset: int
) -> Iterator[str]:
    """When *offset* was consumed twice, by a member that did not claim the queue between."""
    group, queue = pair
    at_us = [
        entry.mono_us
        for entry, fact in journal.of(MessageConsumed, group=group, queue=queue, offset=offset)
        if fact.ok and entry.node == claim.node and entry.mono_us >= claim.at_us
    ]
    yield from journal.faults({claim.node, queue.broker}, at_us[-1], at_us[-1])
    if claim.at_us:
        yield f"{claim.node} had claimed the queue at {seconds(claim.at_us)}, and not again."
    yield f"It consumed {offset} at {seconds(at_us[0])}, and again at {seconds(at_us[-1])}."


def _before_claim(
    journal: CauseJournal, pair: tuple[str, Queue], early: Claim, late: Claim
) -> list[str]:
    """What led to the claim *late*; faults of the queue's broker and the member before."""
    group, queue = pair
    changes = changes_before(journal, late.node, group, queue.topic, late.at_us)
    reasons = led_to(journal, changes)
    since_us = late.at_us - SHUTDOWN_US if reasons else None
    nodes = {early.node, queue.broker}
    own = journal.troubles_of(nodes, late.at_us, late.at_us, ended_since_us=since_us)
    return chosen_sentences(reasons, own)


def _end_of_claim(
    journal: CauseJournal, pair: tuple[str, Queue], early: Claim, late: Claim
) -> Iterator[str]:
    """How the claim *early* ended, which may be after the claim *late*."""
    for hold in journal.history(*pair, journal.end_us).holds:
        if (hold.node, hold.from_us) != (early.node, early.at_us) or early.node == late.node:
            continue
        if hold.until_us is None:
            yield f"{early.node} still held the queue, to the end, so it had two owners."
        elif hold.until_us > late.at_us:
            until = seconds(hold.until_us)
            yield f"{early.node} still held the queue until {until}, so it had two owners."
        else:
            yield f"{early.node} {hold.ended} at {seconds(hold.until_us)}."


def _last_commit(journal: CauseJournal, pair: tuple[str, Queue], claim: Claim) -> str:
    """The last commit in the queue of *pair* before *claim*."""
    group, queue = pair
    commits = [
        (e, f.offset)
        for e, f in journal.of(OffsetCommitted, group=group, queue=queue)
        if e.mono_us <= claim.at_us
    ]
    if not commits:
        return "No offset had been committed there."
    entry, offset = commits[-1]
    back_us = journal.next_start_us(queue.broker, entry.mono_us)
    if back_us is not None and back_us <= claim.at_us:
        return (
            f"The last commit before was of {offset}, at {seconds(entry.mono_us)}; {queue.broker} "
            f"started again since, at {seconds(back_us)}."
        )
    if claim.start is not None and offset > claim.start:
        return (
            f"The commit of {offset} came at {entry.mono_us / 1e6:.3f} s, after {claim.node} had "
            "asked where to begin."
        )
    return f"The last commit before was of {offset}, at {seconds(entry.mono_us)}."


def _sent_twice(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """Messages that are stored twice, as a send that seemed to fail was retried."""
    places: dict[str, set[tuple[Queue, int]]] = defaultdict(set)
    for _, fact in journal.of(MessageConsumed):
        if fact.ok and about.scope in ("", fact.group):
            places[fact.uniq_key].add((fact.queue, fact.offset))
    twice = {key: found for key, found in places.items() if len(found) > 1}
    failed = [
        (e, f)
        for e, f in journal.of(SendAttempted)
        if f.uniq_key in twice and f.outcome not in GOOD_OUTCOMES
    ]
    if not failed:
        return
    broker = Counter(f.queue.broker for _, f in failed).most_common(1)[0][0]
    mine = [e.mono_us for e, f in failed if f.queue.broker == broker]
    count = len(twice)
    yield (
        f"{many(count, 'message')} {'was' if count == 1 else 'were'} stored twice, and both "
        "copies were consumed."
    )
    yield from journal.faults({broker}, mine[0], mine[-1])
    when = between(mine[0], mine[-1]) if len(mine) > 1 else f"at {seconds(mine[0])}"
    yield (
        f"{many(len(mine), 'attempt')} to send {'it' if count == 1 else 'them'} to {broker} had "
        f"no answer in time, {when}, but {broker} stored the message later."
    )
    yield "The producer sent again, to another queue: it cannot know that the first one is stored."


def _part(count: int, total: int) -> str:
    """``it is``, ``all are``, ``one of them is``, ``4 of them are``."""
    if count == total:
        return "it is" if count == 1 else "all are"
    return "one of them is" if count == 1 else f"{count:,} of them are"


def _range(numbers: list[int]) -> str:
    """``84``; ``from 2 to 5``; ``between 2 and 9`` if not all between are among them."""
    first, last = numbers[0], numbers[-1]
    if first == last:
        return str(first)
    is_all = last - first + 1 == len(numbers)
    return f"from {first} to {last}" if is_all else f"between {first} and {last}"


def _repeated(journal: CauseJournal, scope: str) -> Repeats:
    """Consumptions of messages that were consumed before, by the claims of both times."""
    claims: dict[tuple[str, Queue, str], Claim] = {}
    last: dict[tuple[str, Queue, int], Claim] = {}
    found: Repeats = defaultdict(list)
    for entry in journal.entries:
        fact = entry.fact
        if isinstance(fact, QueuesClaimed):
            for at, queue in enumerate(fact.queues):
                start = fact.offsets[at] if fact.offsets else None
                claims[fact.group, queue, entry.node] = Claim(entry.mono_us, entry.node, start)
        elif isinstance(fact, MessageConsumed) and fact.ok and scope in ("", fact.group):
            unknown = Claim(0, entry.node, None)
            claim = claims.get((fact.group, fact.queue, entry.node), unknown)
            before = last.get((fact.group, fact.queue, fact.offset))
            if before is not None:
                early, late = sorted((before, claim), key=lambda each: each.at_us)
                found[fact.group, fact.queue, early, late].append((fact.offset, before.node))
            last[fact.group, fact.queue, fact.offset] = claim
    return found


def out_of_order(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """An orderly group consumed a message where an earlier one was next."""
    queue = about.queue
    match = re.search(r"consumed offset (\d+) .* where (\d+) was next", about.what)
    if queue is None or match is None:
        return
    offset, expected = int(match[1]), int(match[2])
    done = [*journal.of(MessageConsumed, queue=queue)]
    failed = [e for e, f in done if f.offset == expected and not f.ok and e.mono_us <= about.at_us]
    later = [e for e, f in done if f.offset == expected and e.mono_us > about.at_us]
    if failed:
        yield (
            f"{failed[-1].node} failed to consume {expected} of {place(queue)} at "
            f"{seconds(failed[-1].mono_us)}: an orderly listener gets it again before later ones."
        )
    else:
        yield f"{expected} of {place(queue)} had not been consumed."
    who = about.evidence[-1].node if about.evidence else "A member"
    yield f"{who} consumed {offset} at {seconds(about.at_us)} nevertheless."
    history = journal.history(about.group, queue, about.at_us)
    owners = joined(f"{hold.node} since {seconds(hold.from_us)}" for hold in history.owners())
    yield f"The queue was held by {owners}."
    if later:
        yield f"{expected} was consumed at {seconds(later[0].mono_us)}, after it."
    else:
        yield f"{expected} was not consumed later."
    yield from journal.faults({who, queue.broker}, about.at_us, about.at_us)


def early_commit(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """A commit that passed a message which was not finished."""
    queue = about.queue
    commits = [e for e in about.evidence if isinstance(e.fact, OffsetCommitted)]
    if queue is None or not commits:
        return
    commit = commits[-1]
    fact = commit.fact
    assert isinstance(fact, OffsetCommitted)
    done = [
        f.offset
        for e, f in journal.of(MessageConsumed, queue=queue, group=fact.group)
        if e.mono_us <= commit.mono_us and f.ok
    ]
    given = [
        (e, f)
        for e, f in journal.of(MessageGivenToListener, queue=queue, group=fact.group)
        if e.mono_us <= commit.mono_us and f.offset < fact.offset and f.offset not in done
    ]
    who = journal.names.at(commit.node, fact.peer, commit.mono_us)
    if given:
        entry, message = given[0]
        yield (
            f"{entry.node} gave {message.offset} of {place(queue)} to its listener at "
            f"{seconds(entry.mono_us)}, and the listener had not finished it."
        )
    else:
        yield f"Not all messages of {place(queue)} before {fact.offset} were finished."
    yield f"{who} committed {fact.offset} at {seconds(commit.mono_us)}, beyond it."
    ends = [
        e
        for e, f in journal.of(MessageConsumed, queue=queue, group=fact.group)
        if given and f.offset == given[0][1].offset and e.mono_us > commit.mono_us
    ]
    if ends:
        yield f"The listener finished it at {seconds(ends[0].mono_us)}."
    elif given:
        yield "The listener never finished it."
    yield "If the member ends between the two, no member of the group gets the message."
    yield from journal.faults({who, queue.broker}, commit.mono_us, commit.mono_us)


# Parts ----------------------------------------------------------------------------------------


def _offset_in(what: str) -> int | None:
    match = re.search(r"offset[s]? (\d+)", what)
    return int(match[1]) if match else None
