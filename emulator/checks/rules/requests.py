"""Requests and their replies: how many were lost, and for how long none came.

A request is stored, consumed and replied to by applications, and its reply needs a connection of
the requester: no rule says that each gets one.  So this measures and does not judge.
"""

from __future__ import annotations

from rocketmq_emulator.checks.state.checker import Checker, CheckerContext, Metric
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    ReplyDropped,
    ReplyNotPushed,
    ReplyReceived,
    RequestGivenUp,
    RequestSent,
)
from rocketmq_emulator.facts.journal import Entry

US_A_SECOND = 1_000_000


class Requests(Checker):
    """Requests without a reply; a measure."""

    name = "requests"
    is_measure = True
    rule = "a request that was stored gets its reply"
    metrics = (
        Metric("requests_sent", "requests", "that were stored", "topic"),
        Metric("requests_unanswered", "requests", "that were stored and got no reply", "topic"),
        Metric(
            "unanswered_s",
            "s",
            "the longest time from a request that stayed without a reply to the next reply",
            "topic",
            "max",
        ),
        Metric("replies_not_pushed", "replies", "that a broker could not push"),
        Metric("replies_dropped", "replies", "second, late or unwanted ones"),
    )
    needs = (RequestSent,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._since_us: dict[str, int] = {}  # by topic: the first request without a reply

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            RequestSent: self._sent,
            ReplyReceived: self._received,
            RequestGivenUp: self._given_up,
            ReplyNotPushed: self._not_pushed,
            ReplyDropped: self._dropped,
        }

    def end(self) -> None:
        """Count topics that have no reply at the end."""
        for topic in list(self._since_us):
            self._answered_again(topic, self.cluster.now_us)

    def _sent(self, fact: RequestSent, _entry: Entry) -> None:
        self.add_to_metric("requests_sent", 1, fact.topic)
        self.add_to_metric("requests_unanswered", 0, fact.topic)

    def _received(self, fact: ReplyReceived, entry: Entry) -> None:
        self._answered_again(fact.topic, entry.mono_us)

    def _given_up(self, fact: RequestGivenUp, entry: Entry) -> None:
        if fact.stored and fact.reason != "cancelled":
            self.add_to_metric("requests_unanswered", 1, fact.topic)
            self._since_us.setdefault(fact.topic, entry.mono_us - fact.after_ms * 1_000)

    def _answered_again(self, topic: str, now_us: int) -> None:
        since_us = self._since_us.pop(topic, None)
        if since_us is not None:
            lasted_s = (now_us - since_us) / US_A_SECOND
            longest_s = max(lasted_s, self.measured.get(f"unanswered_s.{topic}", 0.0))
            self.set_metric("unanswered_s", longest_s, topic)

    def _not_pushed(self, _fact: ReplyNotPushed, _entry: Entry) -> None:
        self.add_to_metric("replies_not_pushed", 1)

    def _dropped(self, _fact: ReplyDropped, _entry: Entry) -> None:
        self.add_to_metric("replies_dropped", 1)
