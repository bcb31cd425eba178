"""Pulls that are held wake when a message comes, not at the broker's next sweep.

A broker's own facts show it: a pull is held, a message that it wants is stored in its queue, and
the answer follows at once.  An answer that comes later was the sweep's: somebody waited up to
5 s for nothing, and neither loss nor backlog shows that.
"""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric, Shared, place_of
from emulator.checks.folding import Table
from emulator.facts import (
    ConnectionClosed,
    FaultBegan,
    MessageStored,
    NodeStarted,
    PullAnswered,
    PullHeld,
    Queue,
)
from emulator.journal import Entry, EntryKey

WOKEN_US_MAX = 1_000_000  # upstream: within 100 ms; sweeps come every 5 s


class HeldPullsWake(Checker):
    """Server invariant 47."""

    name = "wakes"
    rule = "a message wakes the held pulls that want it, long before the next sweep"
    metrics = (Metric("late_wakes", "pulls", "answered more than 1 s after their message came"),)
    needs = (PullHeld,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._held: dict[Queue, dict[str, tuple[int, EntryKey]]] = {}  # by group
        self._due: dict[tuple[str, Queue], tuple[EntryKey, EntryKey]] = {}  # held, stored

    def table(self) -> Table:
        """What it reads."""
        return {
            PullHeld: self._hold,
            MessageStored: self._stored,
            PullAnswered: self._answered,
            NodeStarted: self._forget,
            ConnectionClosed: self._forget,  # whose pulls were held there is not known
            FaultBegan: self._disturbed,
        }

    def end(self) -> None:
        """A run in which nobody slept has a number too."""
        self.adds("late_wakes", 0)

    def _hold(self, fact: PullHeld, entry: Entry) -> None:
        key = EntryKey(entry.mono_us, entry.node, entry.seq)
        self._held.setdefault(fact.queue, {})[fact.group] = fact.offset, key

    def _stored(self, fact: MessageStored, entry: Entry) -> None:
        groups = self._held.get(fact.queue)
        if not groups or self.scene.held_by(entry.node):
            return
        stored = EntryKey(entry.mono_us, entry.node, entry.seq)
        for group in [each for each, (first, _) in groups.items() if first <= fact.offset]:
            _, held = groups.pop(group)
            if self.scene.takes_all(group, fact.queue):
                self._due[group, fact.queue] = held, stored

    def _answered(self, fact: PullAnswered, entry: Entry) -> None:
        if fact.queue in self._held:
            self._held[fact.queue].pop(fact.group, None)
        held, stored = self._due.pop((fact.group, fact.queue), (None, None))
        if held is None or stored is None or entry.mono_us - stored.mono_us <= WOKEN_US_MAX:
            return
        self.adds("late_wakes", 1)
        self.objects(
            f"a message came to {place_of(fact.queue)}, and a pull of {fact.group} that waited "
            f"for it was answered {(entry.mono_us - stored.mono_us) / 1e6:.1f} s later",
            held,
            stored,
            entry,
        )

    def _forget(self, fact: NodeStarted | ConnectionClosed, entry: Entry) -> None:
        self._forget_broker(entry.node)

    def _disturbed(self, fact: FaultBegan, entry: Entry) -> None:
        """A broker that is touched answers when it can."""
        for broker in fact.nodes:
            self._forget_broker(broker)

    def _forget_broker(self, broker: str) -> None:
        for queue in [each for each in self._held if each.broker == broker]:
            del self._held[queue]
        for known in [each for each in self._due if each[1].broker == broker]:
            del self._due[known]
