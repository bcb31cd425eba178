"""Causes of messages that an acting master lost, gave up, or sent again.

The master was away for a reason, and its slave acted from a moment on.  What it did with the
message follows from its settings and from the brokers that it could reach.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketmq_emulator.facts import (
    ActingMasterBegan,
    ActingMasterEnded,
    HalfMessageSkipped,
    MessageEscaped,
    MessageNotEscaped,
    MessageSent,
    MetadataTakenBack,
    TimerMessageDropped,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.after.cause_journal import (
    CauseJournal,
    CauseSubject,
    place,
    seconds,
)
from rocketmq_emulator.scenarios.descriptions.sentences import many

AWAY_US = 30_000_000  # before a slave acts: faults that may have made it do so


def escaped_message(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The message of a violation of ``escapes``: why it was sent away, and to where."""
    cited = [entry for entry in about.evidence if isinstance(entry.fact, MessageEscaped)]
    if not cited:
        return
    entry = cited[-1]
    fact = entry.fact
    assert isinstance(fact, MessageEscaped)
    for sent, ack in journal.of(MessageSent, uniq_key=fact.uniq_key):
        yield (
            f"{sent.node} sent {fact.uniq_key} to {place(fact.queue)}, and {ack.queue.broker} "
            f"acknowledged it at {seconds(sent.mono_us)}."
        )
        break
    yield from _away(journal, entry)
    yield (
        f"At {seconds(entry.mono_us)} it was due for its {fact.service}, and {entry.node} "
        f"noted that it had sent it to {fact.to_broker}, queue {fact.to_queue_id}."
    )
    yield f"That is the last of it in the journal: {about.what}."


def given_up(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The first message that an acting master skipped or dropped, and why."""
    found = [
        (entry, fact)
        for entry, fact in journal.of_any(HalfMessageSkipped, TimerMessageDropped)
        if about.scope in ("", fact.queue.broker) and entry.node != fact.queue.broker
    ]
    if not found:
        return
    entry, fact = found[0]
    yield from _away(journal, entry)
    kind = "half message" if isinstance(fact, HalfMessageSkipped) else "timer message"
    yield (
        f"The {kind} {fact.uniq_key} of {place(fact.queue)} had to be sent to another broker, and "
        f"could not be: {fact.reason}."
    )
    rule = (
        f"after {fact.tries} tries it was skipped, and nobody asks for its outcome"
        if isinstance(fact, HalfMessageSkipped)
        else "after three tries it was dropped (four before 5.3.2)"
    )
    more = f"; {many(len(found) - 1, 'other message')} as well" if len(found) > 1 else ""
    yield f"So at {seconds(entry.mono_us)} {rule}{more}."


def sent_again(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The first message that was sent away twice: from which progress, and after which failure."""
    before: dict[str, Entry] = {}
    for entry, fact in journal.of(MessageEscaped):
        if about.scope not in ("", fact.queue.broker):
            continue
        first = before.setdefault(fact.uniq_key, entry)
        if first is entry:
            continue
        yield from _away(journal, first)
        yield (
            f"{first.node} sent {fact.uniq_key} away at {seconds(first.mono_us)}, and "
            f"{entry.node} at {seconds(entry.mono_us)} again."
        )
        yield from _between(journal, first, entry)
        return


def _between(journal: CauseJournal, first: Entry, again: Entry) -> Iterator[str]:
    """What happened between two sends of one message."""
    for entry, failed in journal.of(MessageNotEscaped):
        if first.mono_us < entry.mono_us < again.mono_us and entry.node == again.node:
            yield f"Between them a send failed, which may have been stored: {failed.reason}."
            return
    for entry, table in journal.of(MetadataTakenBack, is_taken=False):
        if first.mono_us < entry.mono_us < again.mono_us:
            yield f"The returning master kept its own {table.table}, which were newer."
            return
    yield "A retry or a check had stored it once more, or the progress was that of an older copy."


def _away(journal: CauseJournal, entry: Entry) -> Iterator[str]:
    """Since when the slave of *entry* acts, and the faults before it."""
    began = [
        at
        for at, _ in journal.of(ActingMasterBegan)
        if at.node == entry.node and at.mono_us <= entry.mono_us
    ]
    if not began:
        return
    at_us, master = began[-1].mono_us, entry.node.rpartition("-")[0]
    yield from journal.faults({master}, at_us - AWAY_US, at_us)
    ended = [
        at.mono_us
        for at, _ in journal.of(ActingMasterEnded)
        if at.node == entry.node and at.mono_us > at_us
    ]
    until = f" until {seconds(ended[0])}" if ended else ""
    yield (
        f"From {seconds(at_us)}{until} {entry.node} acts as the master of {master}: it stores "
        "nothing, and has to send messages that are due to another broker."
    )
