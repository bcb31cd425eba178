"""Causes of transactions that ended wrongly, late or not at all: the life of one half message.

A half message is put aside, its producer ends the transaction or not, and its broker checks it
until it has an outcome.  A cause tells these steps in the order of time, with the faults of the
broker and the producers in between; the reader sees which step is missing or wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from rocketmq_emulator.facts import (
    HalfMessageSent,
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    LocalTransactionEnded,
    MessageConsumed,
    MessageStored,
    TransactionAnswered,
    TransactionChecked,
    TransactionEnded,
    TransactionGivenUp,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.after.cause_journal import (
    SENTENCES_MAX,
    CauseJournal,
    CauseSubject,
    between,
    joined,
    place,
    seconds,
    times,
)
from rocketmq_emulator.scenarios.descriptions.sentences import many

CHECK_US = 60_000_000  # transactionCheckInterval up to 5.1.0
HALF, CHECK = "half message", "check"
ENDS_MAX = 2  # told in one cause
TROUBLES_MAX = 2
IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
DONE = {"commit": "committed it", "rollback": "rolled it back"}

Counted: TypeAlias = Iterator[
    tuple[
        Entry,
        HalfMessageStored
        | ImmuneHalfStoredAgain
        | TransactionChecked
        | TransactionEnded
        | TransactionGivenUp,
    ]
]


class Transaction(NamedTuple):
    """One half message: its key, where it was stored, and the producers of its group."""

    key: str
    stored: Entry
    half: HalfMessageStored
    producers: tuple[str, ...]  # nodes that ended transactions of the group, or answered checks

    @property
    def broker(self) -> str:
        """The broker that has it."""
        return self.stored.node


class TimedSentence(NamedTuple):
    """A sentence, and the time of its event; a missing event comes after all others."""

    at_us: int
    sentence: str


def wrong_transaction(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The half message of a violation: its life up to then."""
    keys = [key for entry in about.evidence if (key := getattr(entry.fact, "uniq_key", ""))]
    found = _transaction(journal, keys[0]) if keys else None
    if found is not None:
        yield from _life(journal, found, about.at_us, SENTENCES_MAX)


def unsettled(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """The half messages or checks that a metric counts, and the life of the first one."""
    noun, what, of = COUNTED[about.metric]
    facts = [fact for _, fact in of(journal) if about.scope in ("", fact.queue.topic)]
    found = _transaction(journal, facts[0].uniq_key) if facts else None
    if found is None:
        return
    were = "was" if len(facts) == 1 else "were"
    of_key = found.key if noun == HALF else f"about {found.key}"
    yield f"{many(len(facts), noun)} {were} {what}; the first is {of_key}."
    yield from _life(journal, found, journal.end_us, SENTENCES_MAX - 1)


# What the metrics count -----------------------------------------------------------------------


def _open(journal: CauseJournal) -> Counted:
    over = {fact.uniq_key for _, fact in journal.of_any(TransactionEnded, TransactionGivenUp)}
    return (both for both in journal.of(HalfMessageStored) if both[1].uniq_key not in over)


def _committed_again(journal: CauseJournal) -> Counted:
    commits = Counter[str]()
    for entry, fact in journal.of(TransactionEnded, outcome="commit"):
        commits[fact.uniq_key] += 1
        if commits[fact.uniq_key] > 1:
            yield entry, fact


def _forgotten(journal: CauseJournal) -> Counted:
    ended = {fact.uniq_key: entry.mono_us for entry, fact in journal.of(TransactionEnded)}
    for entry, fact in journal.of(TransactionChecked):
        if ended.get(fact.uniq_key, entry.mono_us) < entry.mono_us:
            yield entry, fact


COUNTED: Mapping[str, tuple[str, str, Callable[[CauseJournal], Counted]]] = {
    "given_up": (HALF, "given up", lambda journal: journal.of(TransactionGivenUp)),
    "open_transactions": (HALF, "open at the end of the run", _open),
    "committed_again": (HALF, "committed again", _committed_again),
    "rolled_back": (
        HALF,
        "rolled back",
        lambda journal: journal.of(TransactionEnded, outcome="rollback"),
    ),
    "unasked_checks": (
        CHECK,
        "without a producer to ask",
        lambda journal: journal.of(TransactionChecked, client=""),
    ),
    "immune_checks": (
        CHECK,
        "of immune half messages, and asked nobody",
        lambda journal: journal.of(ImmuneHalfStoredAgain),
    ),
    "ends_forgotten": (CHECK, "of half messages that had ended", _forgotten),
}


# The life of a half message -------------------------------------------------------------------


def _transaction(journal: CauseJournal, key: str) -> Transaction | None:
    stored = next(journal.of(HalfMessageStored, uniq_key=key), None)
    if stored is None:
        return None
    entry, half = stored
    ended = journal.of(LocalTransactionEnded, group=half.group)
    answered = journal.of(TransactionAnswered, group=half.group)
    nodes = {each.node for each, _ in ended} | {each.node for each, _ in answered}
    nodes |= {each.node for each, _ in journal.of(HalfMessageSent, uniq_key=key)}
    return Transaction(key, entry, half, tuple(sorted(nodes)))


def _life(journal: CauseJournal, it: Transaction, until_us: int, most: int) -> list[str]:
    """The steps up to *until_us*, at most so many; faults get the room that is left."""
    steps = [
        _beginning(journal, it, until_us),
        *_checks(journal, it, until_us),
        *_ends(journal, it, until_us),
        *_seen(journal, it, until_us),
    ]
    steps = steps[:most]
    nodes = {it.broker, *it.producers}
    troubles = [
        TimedSentence(each.at_us, each.sentence)
        for each in journal.troubles_of(nodes, it.stored.mono_us, until_us)
    ]
    room = min(TROUBLES_MAX, most - len(steps))
    told = sorted([*steps, *troubles[:room]], key=lambda each: each.at_us)
    return [each.sentence for each in told]


def _beginning(journal: CauseJournal, it: Transaction, until_us: int) -> TimedSentence:
    """When it was put aside, and how its producer ended the local transaction."""
    at_us = it.stored.mono_us
    text = f"{it.broker} put aside {it.key} of {place(it.half.queue)} at {seconds(at_us)}"
    for entry, fact in journal.of(LocalTransactionEnded, uniq_key=it.key):
        if entry.mono_us <= until_us:
            end = f"{entry.node} ended its local transaction with {fact.outcome}"
            return TimedSentence(at_us, f"{text}, and {end} at {seconds(entry.mono_us)}.")
    return TimedSentence(at_us, f"{text}, and its producer ended no local transaction.")


def _checks(journal: CauseJournal, it: Transaction, until_us: int) -> Iterator[TimedSentence]:
    """Checks by their kind: of an immune message, without a producer, and those that asked."""
    checks = [
        (entry, fact)
        for entry, fact in journal.of(TransactionChecked, uniq_key=it.key)
        if entry.mono_us <= until_us
    ]
    immune = [
        (entry, fact)
        for entry, fact in journal.of(ImmuneHalfStoredAgain, uniq_key=it.key)
        if entry.mono_us <= until_us
    ]
    unasked = [entry for entry, fact in checks if not fact.client]
    asked = [entry for entry, fact in checks if fact.client]
    if immune:
        entry, fact = immune[-1]
        ends = seconds(entry.mono_us + fact.immune_for_ms * 1_000)
        yield TimedSentence(
            immune[0][0].mono_us,
            f"{it.broker} counted {many(len(immune), 'check')} {_when([e for e, _ in immune])} "
            f"and asked nobody, as the message is immune by its {IMMUNITY} until {ends}.",
        )
    if unasked:
        yield TimedSentence(
            unasked[0].mono_us,
            f"{it.broker} counted {many(len(unasked), 'check')} {_when(unasked)} and asked "
            f"nobody, as no producer of the group {it.half.group} was connected.",
        )
    if asked:
        ended = [entry.mono_us for entry, _ in journal.of(TransactionEnded, uniq_key=it.key)]
        late = ", after its end" if ended and ended[0] < asked[0].mono_us else ""
        yield TimedSentence(
            asked[0].mono_us,
            f"{it.broker} asked about it {times(len(asked))}, {_when(asked)}{late}"
            f"{_answers(journal, it, until_us)}.",
        )
    if not checks and not immune and until_us - it.stored.mono_us > CHECK_US:
        yield TimedSentence(
            until_us + 1, f"{it.broker} did not check it until {seconds(until_us)}."
        )


def _answers(journal: CauseJournal, it: Transaction, until_us: int) -> str:
    answers = [
        (entry.node, fact.outcome)
        for entry, fact in journal.of(TransactionAnswered, uniq_key=it.key)
        if entry.mono_us <= until_us
    ]
    if not answers:
        return (
            f", and no producer of the group {it.half.group} had answered by {seconds(until_us)}"
        )
    counted = Counter(answers).items()
    return ": " + joined(
        f"{node} answered {outcome}" + (f" {times(count)}" if count > 1 else "")
        for (node, outcome), count in counted
    )


def _ends(journal: CauseJournal, it: Transaction, until_us: int) -> Iterator[TimedSentence]:
    """How its broker ended the transaction, or gave it up, or that it did neither."""
    ends = [
        (entry, fact)
        for entry, fact in journal.of(TransactionEnded, uniq_key=it.key)
        if entry.mono_us <= until_us
    ]
    for number, (entry, fact) in enumerate(ends[:ENDS_MAX]):
        again = " again" if number else ""
        by = "answered its check" if fact.by_check else "asked"
        yield TimedSentence(
            entry.mono_us,
            f"{entry.node} {DONE[fact.outcome]}{again} at {seconds(entry.mono_us)}, as a producer "
            f"{by}.",
        )
    gone = [
        (entry, fact)
        for entry, fact in journal.of(TransactionGivenUp, uniq_key=it.key)
        if entry.mono_us <= until_us
    ]
    for entry, given_up in gone[:1]:
        text = f"{entry.node} gave it up at {seconds(entry.mono_us)}: {given_up.reason}."
        yield TimedSentence(entry.mono_us, text)
    if not ends and not gone:
        yield TimedSentence(until_us + 1, f"{it.broker} had no end of it by {seconds(until_us)}.")


def _seen(journal: CauseJournal, it: Transaction, until_us: int) -> Iterator[TimedSentence]:
    """Where it was stored for consumers without a commit, and which of them consumed it first."""
    if next(journal.of(TransactionEnded, uniq_key=it.key, outcome="commit"), None):
        return
    for entry, fact in journal.of(MessageStored, uniq_key=it.key):
        if fact.queue.topic == it.half.queue.topic and entry.mono_us <= until_us:
            text = f"{entry.node} stored it at {fact.offset} of {place(fact.queue)}"
            yield TimedSentence(
                entry.mono_us, f"{text}, for consumers, at {seconds(entry.mono_us)}."
            )
            break
    for entry, _ in journal.of(MessageConsumed, uniq_key=it.key, ok=True):
        if entry.mono_us <= until_us:
            yield TimedSentence(
                entry.mono_us, f"{entry.node} consumed it at {seconds(entry.mono_us)}."
            )
            break


def _when(entries: list[Entry]) -> str:
    first_us, last_us = entries[0].mono_us, entries[-1].mono_us
    return f"at {seconds(first_us)}" if len(entries) == 1 else between(first_us, last_us)
