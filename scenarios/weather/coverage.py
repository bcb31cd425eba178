"""The coverage of weather runs: how often each fault began in each state of the cluster.

It is computed from journals.  A state describes the cluster at the moment when a fault began; a
fault that began in no other state began in calm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from rocketmq_emulator.facts import (
    ConsumerStarted,
    ConsumerStopped,
    FaultBegan,
    FaultEnded,
    MemberJoined,
    MemberLeft,
    MessageConsumed,
    MessageStored,
    QueuesClaimed,
    QueuesReleased,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.plan.plan import FAULTS

FaultInState: TypeAlias = tuple[str, str]  # a fault's keyword, a state

REBALANCE_US, LEFT_US, JOINED_US, HEALED_US = 2_000_000, 20_000_000, 10_000_000, 5_000_000
BACKLOG_MIN = 20
PREFIX = "met."  # of metrics
OF_SLAVES = ("lag",)  # faults that only weather with slaves has: it places them apart
COVERED: tuple[str, ...] = tuple(word for word in FAULTS if word not in OF_SLAVES)
DOWN = ("kill", "stop", "power_off", "pause")
STATES: Mapping[str, str] = {
    "calm": "none of the states below",
    "rebalance": "queues changed their owner in the last 2 s",
    "member_joined": "a member joined a group in the last 10 s",
    "member_left": "a member left a group in the last 20 s",
    "backlog": f"at least {BACKLOG_MIN} messages were stored and not consumed",
    "another_fault": "another fault held",
    "node_down": "a node was killed, stopped, without power or paused",
    "just_healed": "a fault ended in the last 5 s",
}


class Coverage:
    """Counts by (fault, state), over any number of journals."""

    def __init__(self, counts: Mapping[FaultInState, int] | None = None) -> None:
        self.counts: Counter[FaultInState] = Counter(counts or {})

    def add(self, entries: Iterable[Entry]) -> None:
        """Count the faults of one journal."""
        watch = _RunState()
        for entry in entries:
            for met in watch.see(entry):
                self.counts[met] += 1

    def as_metrics(self) -> dict[str, float]:
        """The counts as metrics of a run's row: ``met.kill.rebalance``."""
        return {f"{PREFIX}{word}.{state}": n for (word, state), n in self.counts.items()}

    def add_metrics(self, metrics: Mapping[str, float]) -> None:
        """Add the counts that are in the metrics of a run's row."""
        for name, number in metrics.items():
            if name.startswith(PREFIX):
                _, word, state = name.split(".")
                self.counts[word, state] += int(number)

    def met(self, word: str, state: str) -> int:
        """How often the fault *word* began in *state*."""
        return self.counts[word, state]

    def missing(self, words: Iterable[str] = COVERED) -> list[FaultInState]:
        """The pairs of the faults *words* and a state that never occurred."""
        return [(word, state) for word in words for state in STATES if not self.met(word, state)]

    def table(self) -> list[tuple[str, ...]]:
        """A header, then a row for each fault: how often it began in each state."""
        rows = [(word, *(str(self.met(word, state)) for state in STATES)) for word in COVERED]
        return [("fault", *STATES), *rows]


class _RunState:
    """The state of one run's cluster, updated by each entry."""

    def __init__(self) -> None:
        self._last_us: dict[str, int] = {}  # when each state of STATE_LASTS_US last began
        self._holding: dict[int, str] = {}
        self._stored_of: Counter[str] = Counter()  # by topic
        self._consumed_of: Counter[tuple[str, str]] = Counter()  # by group and topic
        self._filtering: set[str] = set()  # groups that do not consume all tags
        self._see: Mapping[type[Any], Callable[[Any, int], None]] = {
            QueuesClaimed: lambda _, at_us: self._mark("rebalance", at_us),
            QueuesReleased: lambda _, at_us: self._mark("rebalance", at_us),
            MemberJoined: lambda _, at_us: self._mark("member_joined", at_us),
            MemberLeft: lambda _, at_us: self._mark("member_left", at_us),
            ConsumerStarted: lambda fact, _: self._started(fact),
            ConsumerStopped: lambda _, at_us: self._mark("member_left", at_us),
            MessageStored: lambda fact, _: self._stored(fact),
            MessageConsumed: lambda fact, _: self._consumed(fact),
            FaultEnded: self._ended,
        }

    def see(self, entry: Entry) -> list[FaultInState]:
        """Update the state; if *entry* begins a fault, return it with each present state."""
        fact = entry.fact
        if isinstance(fact, FaultBegan):
            word = msgspec.json.decode(fact.fault)["fault"]
            states = [*self._states(entry.mono_us)] or ["calm"]
            self._holding[fact.fault_id] = word
            return [(word, state) for state in states]
        if (see := self._see.get(type(fact))) is not None:
            see(fact, entry.mono_us)
        return []

    def _states(self, now_us: int) -> Iterable[str]:
        for state, fades_us in STATE_LASTS_US.items():
            if now_us - self._last_us.get(state, -fades_us - 1) <= fades_us:
                yield state
        if self._backlog() >= BACKLOG_MIN:
            yield "backlog"
        if self._holding:
            yield "another_fault"
        if any(word in DOWN for word in self._holding.values()):
            yield "node_down"

    def _ended(self, fact: FaultEnded, at_us: int) -> None:
        self._holding.pop(fact.fault_id, None)
        self._mark("just_healed", at_us)

    def _mark(self, state: str, at_us: int) -> None:
        self._last_us[state] = at_us

    def _started(self, fact: ConsumerStarted) -> None:
        if any(expression != "*" for expression in fact.expressions):
            self._filtering.add(fact.group)

    def _stored(self, fact: MessageStored) -> None:
        self._stored_of[fact.queue.topic] += 1

    def _consumed(self, fact: MessageConsumed) -> None:
        self._consumed_of[fact.group, fact.topic] += fact.ok

    def _backlog(self) -> int:
        """The largest backlog of a group and topic, without the groups that filter by tag."""
        if not self._consumed_of:
            return self._stored_of.total()
        behind = [
            self._stored_of[topic] - n
            for (group, topic), n in self._consumed_of.items()
            if group not in self._filtering
        ]
        return max(behind, default=0)


STATE_LASTS_US: Mapping[str, int] = {
    "rebalance": REBALANCE_US,
    "member_joined": JOINED_US,
    "member_left": LEFT_US,
    "just_healed": HEALED_US,
}
assert set(STATES) == {*STATE_LASTS_US, "calm", "backlog", "another_fault", "node_down"}
