"""Many facts of a kind as one line: ``31 commits of orders@broker-a:0 by billing-1, …``.

A run is facts of one kind at one node that differ only in ``VARYING_FIELDS`` (offsets, keys,
times).  Other facts may come between them.  If the queue's owner changes, or a fact comes that is
shown alone, a new run begins, so the reader sees what happened before it and after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from rocketmq_emulator.checks.state.violation import place_of
from rocketmq_emulator.facts import (
    Fact,
    HalfMessageSent,
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    LogFlushed,
    MessageConsumed,
    MessageGivenToListener,
    MessagePolled,
    MessageSent,
    MessageStored,
    OffsetCommitted,
    PullAnswered,
    PullHeld,
    QueuesClaimed,
    QueuesReleased,
    SendAttempted,
    TransactionChecked,
    TransactionEnded,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.scenarios.descriptions.names import NodeNames, queues_of
from rocketmq_emulator.scenarios.descriptions.sentences import code_in_words, sentence_of

# Fields that may differ between facts of one run.
VARYING_FIELDS = frozenset(
    {
        "asked",
        "attempts",
        "cause",
        "check_times",
        "connection_count",
        "copy_offset",
        "corrected",
        "correlation_id",
        "immune_for_ms",
        "late_by_ms",
        "message_count",
        "next_offset",
        "offset",
        "opaque",
        "origin_position",
        "position",
        "reconsume_times",
        "since_ms",
        "size_bytes",
        "stored_offset",
        "tags",
        "took_ms",
        "traceback",
        "uniq_key",
        "until_ms",
    }
)
ROUTINE_CODES = frozenset({0, 19, 20})  # found, no new message, no message that the group wants


class FactLine(msgspec.Struct, frozen=True):
    """One fact or a run of facts in words; *is_evidence*: the violation cites it."""

    at_s: float
    node: str
    text: str
    is_evidence: bool
    until_s: float | None = None  # time of the last fact of a run
    count: int = 1
    rank: int = 0  # how closely it is related to the violation, 0 the closest


class FactRun(msgspec.Struct):
    """Facts that make one line, the earliest first."""

    entries: list[Entry]

    @property
    def first(self) -> Entry:
        """The earliest fact, by which lines are ordered."""
        return self.entries[0]


def runs_of(
    entries: Iterable[Entry], names: NodeNames, alone: Collection[EntryKey] = frozenset()
) -> list[FactRun]:
    """All of *entries* as runs, ordered by first fact; each entry of *alone* is its own run."""
    found: list[FactRun] = []
    open_runs: dict[Any, FactRun] = {}
    turns: Counter[Any] = Counter()  # of each queue
    for entry in entries:
        queues = queues_of(entry.fact)
        is_alone = key_of(entry) in alone
        if is_alone or isinstance(entry.fact, QueuesClaimed | QueuesReleased):
            turns.update(queues)
        if is_alone:
            found.append(FactRun([entry]))
            continue
        like = (_like(entry, names), tuple(turns[queue] for queue in queues))
        run = open_runs.get(like)
        if run is None:
            run = open_runs[like] = FactRun([])
            found.append(run)
        run.entries.append(entry)
    return found


def line_of_run(
    run: FactRun, names: NodeNames, *, is_evidence: bool = False, rank: int = 0
) -> FactLine:
    """The line of *run*: the sentence of a single fact, or a summary with count and times."""
    first, last, count = run.entries[0], run.entries[-1], len(run.entries)
    at_s, until_s = first.mono_us / 1_000_000, last.mono_us / 1_000_000
    if count == 1:
        return FactLine(at_s, first.node, sentence_of(first, names), is_evidence, rank=rank)
    between = f"between {at_s:.1f} s and {until_s:.1f} s"
    if (many := RUN_SENTENCES.get(type(first.fact))) is not None:
        text = f"{count} {many(first, last, names)}, {between}"
    else:
        text = f"{count} times {between}: {sentence_of(last, names)}"
    return FactLine(at_s, first.node, text, is_evidence, until_s, count, rank)


def is_routine(fact: Fact) -> bool:
    """Is *fact* routine: a held pull, a pull or send attempt that succeeded, or a flush?"""
    if isinstance(fact, PullAnswered):
        return fact.response_code in ROUTINE_CODES
    if isinstance(fact, SendAttempted):
        return fact.outcome in ("SEND_OK", "ONE_WAY")
    return isinstance(fact, PullHeld | LogFlushed)


def key_of(entry: Entry) -> EntryKey:
    """The key of *entry*, which is unique in its journal."""
    return EntryKey(entry.mono_us, entry.node, entry.seq)


def _like(entry: Entry, names: NodeNames) -> tuple[Any, ...]:
    """The fields that the facts of one run have in common."""
    fact = entry.fact
    found: list[Any] = [type(fact), entry.node]
    for name in fact.__struct_fields__:
        if name == "peer":
            found.append(names.at(entry.node, getattr(fact, name), entry.mono_us))
        elif name not in VARYING_FIELDS:
            found.append(getattr(fact, name))
    return tuple(found)


# Sentences for runs of frequent kinds --------------------------------------------------------

Many: TypeAlias = Callable[[Entry, Entry, NodeNames], str]  # takes a run's first and last entry


def _span(first: Entry, last: Entry) -> str:
    facts: tuple[Any, Any] = first.fact, last.fact
    begin, end = facts[0].offset, facts[1].offset
    return f"at {begin}" if begin == end else f"from {begin} to {end}"


def _commits(first: Entry, last: Entry, names: NodeNames) -> str:
    fact: Any = first.fact
    who = names.at(first.node, fact.peer, first.mono_us)
    return f"commits of {place_of(fact.queue)} by {who} ({fact.group}), {_span(first, last)}"


def _holds(first: Entry, last: Entry, names: NodeNames) -> str:
    fact: Any = first.fact
    who = names.at(first.node, fact.peer, first.mono_us)
    place = place_of(fact.queue)
    return f"pulls of {place} by {who} ({fact.group}) were held, {_span(first, last)}"


def _answers(first: Entry, last: Entry, names: NodeNames) -> str:
    fact: Any = first.fact
    who = names.at(first.node, fact.peer, first.mono_us)
    with_what = code_in_words(fact.response_code) if fact.response_code else "messages"
    return (
        f"pulls of {place_of(fact.queue)} by {who} ({fact.group}) were answered with {with_what}, "
        f"{_span(first, last)}"
    )


def _messages(did: str) -> Many:
    def tell(first: Entry, last: Entry, _: NodeNames) -> str:
        fact: Any = first.fact
        group = f" for {fact.group}" if getattr(fact, "group", "") else ""
        return f"messages of {place_of(fact.queue)} {did}{group}, {_span(first, last)}"

    return tell


def _consumed(first: Entry, last: Entry, names: NodeNames) -> str:
    did = "were consumed" if getattr(first.fact, "ok", True) else "failed"
    return _messages(did)(first, last, names)


def _halves(did: Callable[[Any, NodeNames], str]) -> Many:
    """Half messages; their offsets are those of the half topic, which no reader looks for."""

    def tell(first: Entry, _: Entry, names: NodeNames) -> str:
        fact: Any = first.fact
        return f"half messages of {place_of(fact.queue)} were {did(fact, names)}"

    return tell


def _asked_about(fact: TransactionChecked, names: NodeNames) -> str:
    who = names.node_of(fact.client) if fact.client else "nobody, as no producer is connected"
    return f"asked about ({fact.group}): {who}"


def _attempts(first: Entry, *_: object) -> str:
    fact: Any = first.fact
    return f"attempts to send to {place_of(fact.queue)} ended with {fact.outcome}"


RUN_SENTENCES: Mapping[type[Fact], Many] = {
    OffsetCommitted: _commits,
    PullHeld: _holds,
    PullAnswered: _answers,
    MessageStored: _messages("were stored"),
    MessageSent: _messages("were acknowledged"),
    MessageGivenToListener: _messages("were given to the listener"),
    MessagePolled: _messages("were returned by polls"),
    MessageConsumed: _consumed,
    SendAttempted: _attempts,
    HalfMessageSent: _halves(lambda fact, _: f"acknowledged ({fact.status})"),
    HalfMessageStored: _halves(lambda fact, _: f"put aside, from {fact.group}"),
    TransactionChecked: _halves(_asked_about),
    ImmuneHalfStoredAgain: _halves(lambda fact, _: f"immune: nobody was asked ({fact.group})"),
    TransactionEnded: _halves(
        lambda fact, _: "committed" if fact.outcome == "commit" else "rolled back"
    ),
}
