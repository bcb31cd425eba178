"""Many facts of a kind as one line: ``31 commits of orders@broker-a:0 by billing-1, …``.

A run is facts of one kind at one node that differ only in what goes on by itself (offsets, keys,
times).  Others may stand between them; where the queue changes hands, or a fact comes that the
reader is to see, a new run begins, so that one reads what was before and what was after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from rocketmq_emulator.checks.state.violation import place_of
from rocketmq_emulator.facts import (
    Fact,
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
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.scenarios.descriptions.names import NodeNames, queues_of
from rocketmq_emulator.scenarios.descriptions.sentences import code_in_words, sentence_of

# What may differ between facts of one run.
VARYING_FIELDS = frozenset(
    {
        "asked",
        "attempts",
        "cause",
        "connection_count",
        "corrected",
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
        "tags",
        "took_ms",
        "traceback",
        "uniq_key",
        "until_ms",
    }
)
ROUTINE_CODES = frozenset({0, 19, 20})  # found, nothing new, nothing that the group wants


class FactLine(msgspec.Struct, frozen=True):
    """Facts in words, one or a run of them; *is_evidence*: the violation rests on it."""

    at_s: float
    node: str
    text: str
    is_evidence: bool
    until_s: float | None = None  # the last of several
    count: int = 1
    rank: int = 0  # how much it has to do with it, 0 the most


class FactRun(msgspec.Struct):
    """Facts that make one line, the earliest first."""

    entries: list[Entry]

    @property
    def first(self) -> Entry:
        """By which the line has its place."""
        return self.entries[0]


def runs_of(
    entries: Iterable[Entry], names: NodeNames, alone: Collection[EntryKey] = frozenset()
) -> list[FactRun]:
    """All of *entries* as runs, by their first facts; those of *alone* are left as they are."""
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
    """The line of a run."""
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
    """It says little about others: pulls and attempts that went well, flushes."""
    if isinstance(fact, PullAnswered):
        return fact.response_code in ROUTINE_CODES
    if isinstance(fact, SendAttempted):
        return fact.outcome in ("SEND_OK", "ONE_WAY")
    return isinstance(fact, PullHeld | LogFlushed)


def key_of(entry: Entry) -> EntryKey:
    """Where it stands in its journal."""
    return EntryKey(entry.mono_us, entry.node, entry.seq)


def _like(entry: Entry, names: NodeNames) -> tuple[Any, ...]:
    """What the facts of one run have in common."""
    fact = entry.fact
    found: list[Any] = [type(fact), entry.node]
    for name in fact.__struct_fields__:
        if name == "peer":
            found.append(names.at(entry.node, getattr(fact, name), entry.mono_us))
        elif name not in VARYING_FIELDS:
            found.append(getattr(fact, name))
    return tuple(found)


# Kinds that come often -----------------------------------------------------------------------

Many: TypeAlias = Callable[[Entry, Entry, NodeNames], str]  # of the first and the last of a run


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
}
