"""How long nothing was written, and nothing was read, as clients see it.

A producer that sends at a steady rate, and a group with a backlog, show by their longest pause how
long a cluster was away for them, whatever the reason: a dead master, one that hangs, a route that
is old.  ``MasterAbsences`` begins at the death of a process; a hang has none.
"""

from __future__ import annotations

from rocketmq_emulator.checks.state.checker import Checker, CheckerContext, Metric
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    HalfMessageSent,
    MessageConsumed,
    MessagePolled,
    MessageSent,
    SendFailed,
)
from rocketmq_emulator.facts.journal import Entry

Sent = MessageSent | HalfMessageSent


class Interruptions(Checker):
    """The longest pause of the acknowledged sends of a topic, and of what a group gets."""

    name = "interruptions"
    is_measure = True
    rule = "a topic is written, and read by its groups, without long pauses"
    metrics = (
        Metric(
            "write_pause_s",
            "s",
            "the longest between two acknowledged sends, or up to a failed one after the last",
            "topic",
            "max",
        ),
        Metric(
            "read_pause_s",
            "s",
            "the longest between two messages that the group consumed",
            "group",
            "max",
        ),
    )
    needs = (MessageSent,)
    needs_whole = False

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._written_us: dict[str, int] = {}  # by topic: when a send was acknowledged last
        self._read_us: dict[str, int] = {}  # by group
        self._longest_us: dict[tuple[str, str], int] = {}  # by metric and scope

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MessageSent: self._sent,
            HalfMessageSent: self._sent,
            SendFailed: self._failed,
            MessageConsumed: self._got,
            MessagePolled: self._got,
        }

    def end(self) -> None:
        """Set the metrics of each topic and group."""
        for (metric, scope), pause_us in self._longest_us.items():
            self.set_metric(metric, pause_us / 1e6, scope)

    def _sent(self, fact: Sent, entry: Entry) -> None:
        self._pause("write_pause_s", fact.topic, self._written_us, entry.mono_us)
        self._written_us[fact.topic] = entry.mono_us

    def _failed(self, fact: SendFailed, entry: Entry) -> None:
        self._pause("write_pause_s", fact.topic, self._written_us, entry.mono_us)

    def _got(self, fact: MessageConsumed | MessagePolled, entry: Entry) -> None:
        self._pause("read_pause_s", fact.group, self._read_us, entry.mono_us)
        self._read_us[fact.group] = entry.mono_us

    def _pause(self, metric: str, scope: str, last_us: dict[str, int], now_us: int) -> None:
        place = metric, scope
        pause_us = now_us - last_us.get(scope, now_us)
        if pause_us > self._longest_us.get(place, 0):
            self._longest_us[place] = pause_us
