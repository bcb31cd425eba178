"""Causes of sends that failed: at which brokers, when and how, and the faults that held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import shorten

from rocketmq_emulator.facts import MessageSent, RouteChanged, SendAttempted, SendFailed
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.after.cause_journal import (
    CauseJournal,
    CauseSubject,
    between,
    seconds,
)
from rocketmq_emulator.scenarios.after.message_causes import GOOD_OUTCOMES
from rocketmq_emulator.scenarios.descriptions.sentences import many, without_advice

BROKERS_MAX = 3  # with failed sends
OUTCOME_MAX = 120  # characters


def failed_sends(journal: CauseJournal, about: CauseSubject) -> Iterator[str]:
    """Sends that failed: at which broker, how, and which fault held."""
    scope = about.scope
    failed = [(e, f) for e, f in journal.of(SendFailed) if scope in ("", f.topic)]
    sent = sum(1 for _, f in journal.of(MessageSent) if scope in ("", f.topic))
    attempts = [
        (e, f)
        for e, f in journal.of(SendAttempted)
        if scope in ("", f.topic, f.queue.broker) and f.outcome not in GOOD_OUTCOMES
    ]
    if failed and about.metric in ("failed_sends", "maybe_stored"):
        keys, total = {f.uniq_key for _, f in failed}, len(failed) + sent
        attempts = [(e, f) for e, f in attempts if f.uniq_key in keys]
        ends = [entry.mono_us for entry, _ in failed]
        when = between(ends[0], ends[-1]) if len(ends) > 1 else f"at {seconds(ends[0])}"
        yield f"{len(failed):,} of {many(total, 'send')} failed, {when}."
    if not attempts:
        return
    brokers = Counter(f.queue.broker for _, f in attempts)
    shown = brokers.most_common(BROKERS_MAX)
    all_attempts = many(len(attempts), "attempt")
    parts = [
        _attempts_at(attempts, broker, f"of {all_attempts} that failed went " if not at else "")
        for at, (broker, _) in enumerate(shown)
    ]
    more = (
        f"; {len(attempts) - sum(n for _, n in shown):,} to others"
        if len(brokers) > BROKERS_MAX
        else ""
    )
    yield f"{'; '.join(parts)}{more}."
    first_us, last_us = attempts[0][0].mono_us, attempts[-1][0].mono_us
    nodes = {broker for broker, _ in shown} | {entry.node for entry, _ in attempts}
    yield from journal.faults(nodes, first_us, last_us, most=len(shown))
    if len(brokers) == 1:
        yield from _route_of_sender(journal, attempts)
    if failed:
        longest = max(f.attempts for _, f in failed)
        yield f"A send that failed had made {many(longest, 'attempt')} at most."


def _attempts_at(attempts: Sequence[tuple[Entry, SendAttempted]], broker: str, of: str) -> str:
    """``80 to broker-a, from 40.0 s to 47.9 s: NeverSent``, with *of* after the number."""
    mine = [(e, f) for e, f in attempts if f.queue.broker == broker]
    outcome = Counter(without_advice(f.outcome) for _, f in mine).most_common(1)[0][0]
    first_us, last_us = mine[0][0].mono_us, mine[-1][0].mono_us
    when = between(first_us, last_us) if len(mine) > 1 else f"at {seconds(first_us)}"
    why = shorten(outcome, OUTCOME_MAX, placeholder=" …").rstrip(".")
    return f"{len(mine):,} {of}to {broker}, {when}: {why}"


def _route_of_sender(
    journal: CauseJournal, attempts: Sequence[tuple[Entry, SendAttempted]]
) -> Iterator[str]:
    """Whether the sender's route had the broker of its failed *attempts*, if that is noted."""
    entry, fact = attempts[-1]
    node, broker, first_us = entry.node, fact.queue.broker, attempts[0][0].mono_us
    routes = [
        (e.mono_us, broker in f.brokers)
        for e, f in journal.of(RouteChanged, topic=fact.topic)
        if e.node == node
    ]
    before = [has for at_us, has in routes if at_us <= first_us]
    later = [at_us for at_us, has in routes if at_us > first_us and not has]
    if not before or not before[-1]:
        return
    if not later or later[0] > entry.mono_us:
        yield f"The route of {node} had {broker} in all that time."
    else:
        yield f"The route of {node} had {broker} until {seconds(later[0])}."
