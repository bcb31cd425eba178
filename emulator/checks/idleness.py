"""Members that get nothing while their group works (S21): they have no queue, or silent ones."""

from __future__ import annotations

from collections import Counter

from emulator.checks.checker import Checker, Metric, Shared
from emulator.checks.folding import Table
from emulator.facts import MessageConsumed, MessagePolled
from emulator.journal import Entry

IDLE_US = 10_000_000
NEVER = (-IDLE_US - 1, 0)  # when, at what count
FAIR_MESSAGES_MIN = 5  # a member's even share of what the others consumed meanwhile


class Idleness(Checker):
    """Counts: under some strategies idleness is what one asks for."""

    name = "idleness"
    is_measure = True
    rule = "every member of a group that works gets work"
    metrics = (
        Metric(
            "idle_members",
            "members",
            "that got nothing for 10 s or more, while their share would have been five messages",
            "group",
        ),
        Metric("idle_s", "s", "for which members were idle so, summed over members", "group"),
    )
    needs = (MessageConsumed, MessagePolled)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._counts: Counter[str] = Counter()  # messages consumed, by group
        self._last: dict[str, dict[str, tuple[int, int]]] = {}  # group, node: when, at what count
        self._idle: dict[str, set[str]] = {}

    def table(self) -> Table:
        """What it reads."""
        return {MessageConsumed: self._consumed, MessagePolled: self._consumed}

    def end(self) -> None:
        """Members that are idle to the end, or were when they ended."""
        for group, seats in self.scene.seats.items():
            self.adds("idle_s", 0, group)
            if group not in self.scene.broadcast:
                for seat in seats:
                    until = seat.until_us if seat.until_us is not None else self.scene.now_us
                    self._looks(group, seat.node, until)
            self.measures("idle_members", len(self._idle.get(group, ())), group)

    def _consumed(self, fact: MessageConsumed | MessagePolled, entry: Entry) -> None:
        group, node, now_us = fact.group, entry.node, entry.mono_us
        count = self._counts.get(group, 0) + 1
        self._counts[group] = count
        nodes = self._last.get(group)
        if nodes is None:
            nodes = self._last[group] = {}
        if now_us - nodes.get(node, NEVER)[0] > IDLE_US:
            self._looks(group, node, now_us)
        nodes[node] = now_us, count

    def _looks(self, group: str, node: str, until_us: int) -> None:
        """Was *node* idle from its last message until now?"""
        seat = self.scene.seat(group, node)
        if seat is None or group in self.scene.broadcast:
            return
        since_us, count = self._last.get(group, {}).get(node, (seat.from_us, 0))
        since_us = max(since_us, seat.from_us)
        members = max(1, len(self.scene.living(group)))
        fair = (self._counts[group] - count) / members
        if until_us - since_us > IDLE_US and fair >= FAIR_MESSAGES_MIN:
            self.adds("idle_s", (until_us - since_us) / 1e6, group)
            self._idle.setdefault(group, set()).add(node)
