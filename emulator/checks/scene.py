"""What a journal says of the cluster as a whole: who lives, which queues it has, what is broken.

Checkers look here; the driver keeps it up to date before they are given an entry.
"""

from __future__ import annotations

from typing import Any

import msgspec

from emulator.checks.folding import Table
from emulator.checks.topic_table import TopicTable
from emulator.facts import (
    ConsumerStarted,
    ConsumerStopped,
    FaultBegan,
    FaultEnded,
    NodeKilled,
    PowerLost,
    Queue,
    RunEnded,
    RunStarted,
    StoreOpened,
)
from emulator.journal import Entry

ENDING = frozenset({"kill", "stop", "power_off"})  # faults that end a process
DISKS = frozenset({"full_disk", "slow_disk", "failing_flush"})
EVERYTHING = ("", "*")  # expressions that take every message


class Seat(msgspec.Struct):
    """A consumer as a member of its group, on a node.  Times are ``mono_us``."""

    node: str
    started: ConsumerStarted
    from_us: int
    until_us: int | None = None  # it ended, or was ended
    was_killed: bool = False

    @property
    def lives(self) -> bool:
        """It has not ended."""
        return self.until_us is None

    @property
    def topics(self) -> tuple[str, ...]:
        """That it subscribes."""
        return self.started.topics

    def takes_all_of(self, topic: str) -> bool:
        """No message of *topic* is filtered."""
        wanted = dict(zip(self.topics, self.started.expressions, strict=False))
        return wanted.get(topic, "*") in EVERYTHING


class HeldFault(msgspec.Struct, frozen=True):
    """A fault that began."""

    word: str
    nodes: tuple[str, ...]
    began_us: int


class Scene:
    """The cluster as the facts up to now tell it."""

    def __init__(self) -> None:
        self.last: Entry | None = None  # of those that were given to the driver so far
        self.run: RunStarted | None = None
        self.run_ended: RunEnded | None = None
        self.plan: dict[str, Any] = {}
        self.seats: dict[str, list[Seat]] = {}  # group: all its members ever, in order
        self.broadcast: set[str] = set()  # groups
        self.orderly: set[str] = set()
        self.topics = TopicTable()
        self.stores: dict[str, StoreOpened] = {}  # by broker, as last opened
        self.faults: dict[int, HeldFault] = {}  # those that hold
        self.all_faults: list[HeldFault] = []
        self.healed_us: int | None = None  # when the last fault ended
        self._missing: dict[str, str] = {}
        self._takes_all: dict[tuple[str, str], bool] = {}  # by group and topic, until one joins

    def table(self) -> Table:
        """What it reads."""
        return {
            **self.topics.table(),
            RunStarted: self._run_started,
            RunEnded: self._run_ended,
            ConsumerStarted: self._consumer_started,
            ConsumerStopped: self._consumer_stopped,
            StoreOpened: self._store_opened,
            NodeKilled: self._node_killed,
            PowerLost: self._power_lost,
            FaultBegan: self._fault_began,
            FaultEnded: self._fault_ended,
        }

    # What checkers ask --------------------------------------------------------------------

    @property
    def now_us(self) -> int:
        """When the last entry was written."""
        return self.last.mono_us if self.last is not None else 0

    def living(self, group: str) -> list[Seat]:
        """The members of *group* that have not ended."""
        return [seat for seat in self.seats.get(group, ()) if seat.lives]

    def seat(self, group: str, node: str) -> Seat | None:
        """The last member of *group* on *node*."""
        return next((s for s in reversed(self.seats.get(group, ())) if s.node == node), None)

    def takes_all(self, group: str, queue: Queue) -> bool:
        """No member of *group* ever filtered messages of the queue's topic."""
        if (known := self._takes_all.get((group, queue.topic))) is not None:
            return known  # asked for each message
        found = all(seat.takes_all_of(queue.topic) for seat in self.seats.get(group, ()))
        self._takes_all[group, queue.topic] = found
        return found

    def keeps_offsets(self, group: str) -> bool:
        """A broadcasting group's members find their offsets again in a folder, says the plan."""
        return any(
            each.get("group") == group and each.get("settings", {}).get("offset_folder")
            for each in self.plan.get("consumers", ())
        )

    def kinds(self, group: str) -> set[str]:
        """The kinds of consumers that were members of *group*: push, lite_pull, pull."""
        return {seat.started.consumer_kind for seat in self.seats.get(group, ())}

    def had_bad_disk(self, node: str) -> bool:
        """Some fault of its disk held, once."""
        return any(each.word in DISKS and node in each.nodes for each in self.all_faults)

    def held_by(self, node: str) -> list[HeldFault]:
        """The faults that hold and touch *node*."""
        return [fault for fault in self.faults.values() if node in fault.nodes]

    def is_disturbed_since(self, since_us: int) -> bool:
        """Some fault holds, or held after that moment."""
        return bool(self.faults) or (self.healed_us or 0) > since_us

    def what_is_missing(self) -> str:
        """Why the journal is not whole, or empty."""
        return "; ".join(self._missing.values())

    def misses(self, node: str, seq: int, expected: int) -> None:
        """The entries of *node* jump from *expected* to *seq*: lines are missing."""
        if expected == 1:
            text = f"the journal of {node} begins in its middle, at number {seq}"
        else:
            text = f"the journal of {node} lacks what is before its number {seq}"
        self._missing.setdefault(node, text)

    # What happens -------------------------------------------------------------------------

    def _run_started(self, fact: RunStarted, entry: Entry) -> None:
        self.run = fact
        try:
            plan = msgspec.json.decode(fact.plan or "{}")
        except msgspec.DecodeError:
            plan = None
        self.plan = plan if isinstance(plan, dict) else {}

    def _run_ended(self, fact: RunEnded, entry: Entry) -> None:
        self.run_ended = fact

    def _consumer_started(self, fact: ConsumerStarted, entry: Entry) -> None:
        self._end_seats(entry.node, entry.mono_us, fact.group)
        self.seats.setdefault(fact.group, []).append(Seat(entry.node, fact, entry.mono_us))
        self._takes_all.clear()
        if fact.broadcast:
            self.broadcast.add(fact.group)
        if fact.orderly and not fact.broadcast:
            self.orderly.add(fact.group)

    def _consumer_stopped(self, fact: ConsumerStopped, entry: Entry) -> None:
        seat = self.seat(fact.group, entry.node)
        if seat is not None and seat.lives:
            seat.until_us = entry.mono_us

    def _store_opened(self, fact: StoreOpened, entry: Entry) -> None:
        self.stores[entry.node] = fact
        self.topics.restarted(entry.node)

    def _node_killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._end_seats(fact.node, entry.mono_us)

    def _power_lost(self, fact: PowerLost, entry: Entry) -> None:
        self._end_seats(entry.node, entry.mono_us)

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        held = HeldFault(_word_of(fact.fault), fact.nodes, entry.mono_us)
        self.faults[fact.fault_id] = held
        self.all_faults.append(held)
        if held.word in ENDING:
            for node in fact.nodes:
                self._end_seats(node, entry.mono_us)

    def _fault_ended(self, fact: FaultEnded, entry: Entry) -> None:
        if self.faults.pop(fact.fault_id, None) is not None:
            self.healed_us = entry.mono_us

    def _end_seats(self, node: str, at_us: int, group: str | None = None) -> None:
        """The process on *node* has ended, or a new one has taken its place."""
        for name, seats in self.seats.items():
            if group in (None, name):
                for seat in seats:
                    if seat.node == node and seat.lives:
                        seat.until_us, seat.was_killed = at_us, True


def _word_of(fault: str) -> str:
    try:
        found = msgspec.json.decode(fault)
    except msgspec.DecodeError:
        return ""
    return str(found.get("fault", "")) if isinstance(found, dict) else ""
