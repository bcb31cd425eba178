"""Rows for the tables of docs/failures.md, from the journal of ``failure_run``.

The rows are the deliveries of each queue and, for each episode, the facts of each node and their
times since the fault.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from docs.generate import failure_run as story
from docs.generate.sections import DOCS

EPOCH_MS = 1_700_000_000_000
SILENCE_S_MIN = 3.0  # a queue gets a message every 1.6 s, every 0.8 s when one broker is away
Queue = tuple[str, str, int]  # topic, broker, queue


class Seen(msgspec.Struct, frozen=True):
    """A fact, with its time in seconds since the start of the run."""

    at_s: float
    node: str
    kind: str
    fact: dict[str, Any]


class Delivery(msgspec.Struct, frozen=True):
    """One message of a queue reached one consumer."""

    at_s: float
    node: str


def facts_of_a_run() -> list[Seen]:
    """The facts of a new run of ``failure_run``, in a separate interpreter."""
    env = {**os.environ, "PYTHONPATH": str(DOCS.parent)}
    command = [sys.executable, "-m", story.__name__]
    run = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE)  # noqa: S603  # ours
    return [_seen(msgspec.json.decode(line)) for line in run.stdout.splitlines()]


def _seen(line: dict[str, Any]) -> Seen:
    fact = line["fact"]
    return Seen((line["at_ms"] - EPOCH_MS) / 1000, line["node"], fact["kind"], fact)


def queues_in(fact: Seen) -> list[Queue]:
    """The queues of ``story.TOPIC`` in *fact*."""
    return [queue_of(q) for q in fact.fact["queues"] if q["topic"] == story.TOPIC]


def queue_of(fields: dict[str, Any]) -> Queue:
    return fields["topic"], fields["broker"], fields["queue_id"]


def deliveries(facts: Sequence[Seen]) -> dict[Queue, list[Delivery]]:
    found: dict[Queue, list[Delivery]] = {}
    for fact in facts:
        if fact.kind == "MessageConsumed" and fact.fact["topic"] == story.TOPIC:
            queue = found.setdefault(queue_of(fact.fact["queue"]), [])
            queue.append(Delivery(fact.at_s, fact.node))
    return dict(sorted(found.items()))


# The rows of an episode -------------------------------------------------------------------


def events(facts: Sequence[Seen], begin_s: float, end_s: float) -> list[tuple[float, str]]:
    """Seconds since *begin_s* and a text for each event; equal texts only once."""
    first_s: dict[str, float] = {}
    for fact in facts:
        if begin_s <= fact.at_s < end_s and fact.kind in TEXTS:
            for text in TEXTS[fact.kind](fact):
                first_s.setdefault(text, fact.at_s)
    for at_s, text in _delivered_again(facts):
        if begin_s <= at_s < end_s:
            first_s.setdefault(text, at_s)
    return sorted((at_s - begin_s, text) for text, at_s in first_s.items())


def _delivered_again(facts: Sequence[Seen]) -> Iterator[tuple[float, str]]:
    """The ends of gaps in deliveries, one row for all queues of a consumer in one second."""
    ends: dict[tuple[int, str], list[tuple[float, float, Queue]]] = {}
    for queue, delivered in deliveries(facts).items():
        for before, after in itertools.pairwise(delivered):
            silent_s = after.at_s - before.at_s
            if silent_s > SILENCE_S_MIN:
                end = ends.setdefault((int(after.at_s), after.node), [])
                end.append((after.at_s, silent_s, queue))
    for (_, node), silences in ends.items():
        longest_s = max(silent_s for _, silent_s, _ in silences)
        queues = queues_text([queue for *_, queue in silences])
        text = f"**{queues} delivered again**, to {node}, after {longest_s:.1f} s without messages"
        yield silences[0][0], text


def queues_text(queues: Sequence[Queue]) -> str:
    """``broker-a/0,1 broker-b/3``."""
    numbers: dict[str, list[str]] = {}
    for _, broker, number in sorted(queues):
        numbers.setdefault(broker, []).append(str(number))
    return " ".join(f"{broker}/{','.join(ids)}" for broker, ids in numbers.items())


def _member(fact: Seen) -> Iterator[str]:
    reason = f": {fact.fact['reason']}" if "reason" in fact.fact else ""
    verb = "lost" if reason else "has"
    yield f"{fact.node} {verb} a member of group {fact.fact['group']}{reason}"


def _taken(fact: Seen) -> Iterator[str]:
    if queues := queues_in(fact):
        yield f"{fact.node} claims {queues_text(queues)}"


def _given_up(fact: Seen) -> Iterator[str]:
    if queues := queues_in(fact):
        yield f"{fact.node} releases {queues_text(queues)}"


def _route(fact: Seen) -> Iterator[str]:
    if fact.fact["topic"] == story.TOPIC:
        yield f"{fact.node} has a route to {' and '.join(fact.fact['brokers'])}"


def _registered(fact: Seen) -> Iterator[str]:
    if fact.fact["first"]:
        yield f"{fact.node} registers {fact.fact['broker']}"


def _pull_failed(fact: Seen) -> Iterator[str]:
    yield f"{fact.node} pull fails: {fact.fact['error'].rpartition(': ')[2]}"


def _send_failed(fact: Seen) -> Iterator[str]:
    kind, _, text = fact.fact["error"].partition(": ")
    yield f"the first send that raises `{kind}`: {text.rpartition(': ')[2]}"


TEXTS: dict[str, Callable[[Seen], Iterator[str]]] = {
    "MemberLeft": _member,
    "MemberJoined": _member,
    "QueuesClaimed": _taken,
    "QueuesReleased": _given_up,
    "RouteChanged": _route,
    "BrokerRegistered": _registered,
    "BrokerUnregistered": lambda f: iter(
        [f"{f.node} unregisters {f.fact['broker']}: {f.fact['reason']}"]
    ),
    "LogRecovered": lambda f: iter(
        [f"{f.node} recovers {f.fact['message_count']:,} messages from its store"]
    ),
    "PullFailed": _pull_failed,
    "SendFailed": _send_failed,
}
