"""A journal as the functions that draw causes read it: facts by kind, names, faults, times.

Pure: entries in, sentences and their parts out.  It knows no rule and no metric.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import msgspec

from rocketmq_emulator.checks.state.disturbances import PROCESS_ENDING
from rocketmq_emulator.checks.state.violation import place_of
from rocketmq_emulator.facts import (
    ConnectionClosed,
    ConsumerStarted,
    ConsumerStopped,
    Fact,
    FaultBegan,
    FaultEnded,
    MemberJoined,
    MemberLeft,
    NodeKilled,
    NodeStarted,
    NodeStopped,
    Queue,
    RebalancePassed,
    RunStarted,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.descriptions.names import NodeNames, fault_in_words, word_of
from rocketmq_emulator.scenarios.descriptions.queue_history import (
    GroupQueueHistory,
    queue_histories_of,
)

F = TypeVar("F", bound=Fact)

FAULTS_MAX = 2  # named in one cause
RECENTLY_US = 180_000_000  # a fault may have effects for so long after its end
RESTARTED_US = 60_000_000  # the same of a restart: a poll of routes, a heartbeat, a rebalance
PASS_S = 20  # the interval of rebalances
REBALANCE_US = PASS_S * 1_000_000
SENTENCES_MAX = 6  # of a cause
SHUTDOWN_US = 1_000_000  # at the end of a run all nodes stop
SILENCE_S = 120  # BrokerConfig.channelExpiredTimeout
LEFT_REASONS = {
    "channel closed": "as its connection had closed",
    "unregistered": "as it unregistered",
}


class CauseSubject(msgspec.Struct, frozen=True, kw_only=True):
    """What a cause is sought for: a violation, or a metric that has not the expected value.

    *scope*: the group, topic or node of a metric; *evidence*: what a violation cites.
    """

    metric: str = ""
    scope: str = ""
    group: str = ""
    queue: Queue | None = None
    what: str = ""
    at_us: int = 0
    evidence: tuple[Entry, ...] = ()
    metrics: dict[str, float] = {}


class Trouble(NamedTuple):
    """A fault, or an end of a process; *over_us*: when it was over, None: it was not.

    *how*: it in words, after the name of a node: "was killed", "met the fault pause".
    """

    at_us: int
    sentence: str
    over_us: int | None
    nodes: tuple[str, ...]
    how: str
    ends_process: bool
    is_end: bool = False


class CauseJournal:
    """Entries in the order of time, with what the drawing of causes asks of them."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.names = NodeNames(entries)

    @cached_property
    def by_kind(self) -> dict[type[Fact], list[Entry]]:
        """The entries of each kind of fact."""
        found: dict[type[Fact], list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(type(entry.fact), []).append(entry)
        return found

    @property
    def end_us(self) -> int:
        """The time of the last fact."""
        return self.entries[-1].mono_us if self.entries else 0

    @cached_property
    def silence_s(self) -> float:
        """How long brokers wait for a silent client, by the plan."""
        settings: Any = {}
        for entry in self.by_kind.get(RunStarted, ()):
            plan = getattr(entry.fact, "plan", "") or "{}"
            settings = msgspec.json.decode(plan).get("cluster", {}).get("broker_settings", {})
        return float(settings.get("client_silence_ms_max", SILENCE_S * 1_000)) / 1_000

    def of(self, kind: type[F], **fields: object) -> Iterator[tuple[Entry, F]]:
        """Entries of *kind* whose facts have these *fields*, with the facts."""
        for entry in self.by_kind.get(kind, ()):
            fact: Any = entry.fact
            if all(getattr(fact, name) == value for name, value in fields.items()):
                yield entry, fact

    def of_any(self, *kinds: type[Fact], **fields: object) -> Iterator[tuple[Entry, Any]]:
        """The same of several *kinds*, kind by kind."""
        for kind in kinds:
            yield from self.of(kind, **fields)

    def history(self, group: str, queue: Queue, until_us: int) -> GroupQueueHistory:
        """The owners of *queue* up to *until_us*."""
        pair = (group, queue)
        return queue_histories_of(self.entries, self.names, [pair], until_us)[pair]

    def last_pass(
        self, node: str, group: str, topic: str, before_us: int
    ) -> tuple[Entry, RebalancePassed] | None:
        """The last rebalance of *topic* by *node* before that time."""
        found = None
        for entry, fact in self.of(RebalancePassed, group=group, topic=topic):
            if entry.node == node and entry.mono_us < before_us:
                found = entry, fact
        return found

    def members_in(self, fact: RebalancePassed) -> list[str]:
        """The nodes in the list of members of a rebalance, in its order."""
        return [self.names.node_of(client) for client in fact.members]

    def faults(
        self,
        nodes: Collection[str],
        from_us: int,
        until_us: int,
        *,
        ended_since_us: int | None = None,
        most: int = FAULTS_MAX,
    ) -> list[str]:
        """Sentences: faults and ends of *nodes* that held then, or ended shortly before.

        *ended_since_us*: leave out those that ended before that time; *most*: the last so many.
        """
        found = self.troubles_of(nodes, from_us, until_us, ended_since_us=ended_since_us)
        return [trouble.sentence for trouble in found[-most:]]

    def troubles_of(
        self,
        nodes: Collection[str],
        from_us: int,
        until_us: int,
        *,
        ended_since_us: int | None = None,
    ) -> list[Trouble]:
        """The faults and ends of ``faults``, all of them, in the order of time."""
        found = []
        for trouble in self.troubles:
            before_us = from_us - (RESTARTED_US if trouble.is_end else RECENTLY_US)
            since_us = before_us if ended_since_us is None else ended_since_us
            is_over = trouble.over_us is not None and trouble.over_us < since_us
            is_theirs = not set(nodes).isdisjoint(trouble.nodes)
            if trouble.at_us <= until_us and not is_over and is_theirs:
                found.append(trouble)
        return found

    @cached_property
    def troubles(self) -> list[Trouble]:
        """All faults, and all ends of processes without one, in the order of time."""
        ended = {fact.fault_id: entry.mono_us for entry, fact in self.of(FaultEnded)}
        found = []
        for entry, fact in self.of(FaultBegan):
            over_us = ended.get(fact.fault_id)
            sentence = _fault(entry.mono_us, over_us, fact)
            word = word_of(fact.fault)
            how, ends = f"met the fault {word}", word in PROCESS_ENDING
            found.append(Trouble(entry.mono_us, sentence, over_us, tuple(fact.nodes), how, ends))
        for at_us, node, end in self.ends_without_fault:
            back_us = self.next_start_us(node, at_us)
            back = "" if back_us is None else f" and started again at {seconds(back_us)}"
            sentence = f"{node} was {end} at {seconds(at_us)}{back}."
            how = f"was {end}"
            found.append(
                Trouble(at_us, sentence, back_us, (node,), how, ends_process=True, is_end=True)
            )
        return sorted(found, key=lambda each: (each.at_us, each.sentence))

    @cached_property
    def ends_without_fault(self) -> list[tuple[int, str, str]]:
        """Processes that ended by an action, no fault: when, the node, "killed" or "stopped"."""
        by_fault = {
            (node, entry.mono_us // SHUTDOWN_US)
            for entry, fact in self.of(FaultBegan)
            for node in fact.nodes
        }
        found = [(entry.mono_us, fact.node, "killed") for entry, fact in self.of(NodeKilled)]
        found += [
            (entry.mono_us, entry.node, "stopped")
            for entry, _ in self.of(NodeStopped)
            if entry.mono_us < self.end_us - SHUTDOWN_US
        ]
        return [each for each in found if (each[1], each[0] // SHUTDOWN_US) not in by_fault]

    def next_start_us(self, node: str, at_us: int) -> int | None:
        """When the next process of *node* began; None: none did."""
        starts = (
            entry.mono_us
            for entry, _ in self.of_any(NodeStarted, ConsumerStarted)
            if entry.node == node and entry.mono_us > at_us
        )
        return min(starts, default=None)

    def is_gone(self, node: str, at_us: int) -> bool:
        """Whether *node* did not run then, or was touched by a fault."""
        ended = {fact.fault_id: entry.mono_us for entry, fact in self.of(FaultEnded)}
        for entry, fact in self.of(FaultBegan):
            over_us = ended.get(fact.fault_id, self.end_us + 1)
            if node in fact.nodes and entry.mono_us <= at_us < over_us:
                return True
        ends = [entry.mono_us for entry, _ in self.of(ConsumerStopped) if entry.node == node]
        ends += [ended_us for ended_us, each, _ in self.ends_without_fault if each == node]
        last_us = max((each for each in ends if each <= at_us), default=None)
        if last_us is None:
            return False
        back_us = self.next_start_us(node, last_us)
        return back_us is None or back_us > at_us

    def listings(self, group: str, node: str, at_us: int) -> tuple[list[str], list[str]]:
        """Brokers that had dropped *node* at that time, with when and why; and that kept it."""
        state: dict[str, str] = {}
        for entry in self.entries:
            fact = entry.fact
            if entry.mono_us > at_us:
                break
            if not isinstance(fact, MemberJoined | MemberLeft) or fact.group != group:
                continue
            if self.names.node_of(fact.client) == node:
                is_in = isinstance(fact, MemberJoined)
                state[entry.node] = "" if is_in else self._dropped(entry, fact)
        dropped = [f"{broker} {how}" for broker, how in sorted(state.items()) if how]
        return dropped, [broker for broker, how in sorted(state.items()) if not how]

    def _dropped(self, entry: Entry, fact: Fact) -> str:
        node, reason = self.names.node_of(getattr(fact, "client", "")), getattr(fact, "reason", "")
        silent = f"as nothing came from it for {self.silence_s:g} s"
        why = silent if self._was_idle(entry, fact) else LEFT_REASONS.get(reason, silent)
        return f"dropped {node} at {seconds(entry.mono_us)}, {why}"

    def _was_idle(self, entry: Entry, fact: Fact) -> bool:
        """Whether a broker closed the member's connection itself, as it was silent."""
        return any(
            each.node == entry.node and each.mono_us <= entry.mono_us < each.mono_us + SHUTDOWN_US
            for each, _ in self.of(ConnectionClosed, peer=getattr(fact, "peer", ""), reason="idle")
        )


def _fault(from_us: int, until_us: int | None, fact: FaultBegan) -> str:
    words = fault_in_words(fact.fault)
    if until_us is None:
        return f"The fault {words} held from {seconds(from_us)} to the end."
    if until_us == from_us:
        return f"The fault {words} came at {seconds(from_us)}."
    return f"The fault {words} held from {seconds(from_us)} to {seconds(until_us)}."


def seconds(mono_us: int) -> str:
    """``31.2 s``; to the millisecond below 1 s."""
    value = mono_us / 1_000_000
    return f"{value:.1f} s" if value >= 1 else f"{value:.3f} s"


def between(from_us: int, until_us: int) -> str:
    """``from 31.2 s to 35.0 s``; to the millisecond if it is less than 1 s."""
    digits = 3 if until_us - from_us < 1_000_000 else 1
    return f"from {from_us / 1e6:.{digits}f} s to {until_us / 1e6:.{digits}f} s"


def times(count: int) -> str:
    """``once``, ``twice``, ``3 times``."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def place(queue: Queue | None) -> str:
    """The name of *queue*; "a queue" if it is not known."""
    return "a queue" if queue is None else place_of(queue)


def joined(parts: Iterable[str]) -> str:
    """``a, b and c``; "nobody" if there are none."""
    *most, last = [*parts] or ["nobody"]
    return f"{', '.join(most)} and {last}" if most else last
