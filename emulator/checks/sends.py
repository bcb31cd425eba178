"""What sends came to: how many failed, were retried, may be stored, and how long they took."""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric, Shared
from emulator.checks.folding import Table
from emulator.checks.quantiles import Quantiles
from emulator.facts import MessageSent, SendAttempted, SendFailed
from emulator.journal import Entry

ATTEMPTS_MAX = 3  # of a synchronous send: retryTimesWhenSendFailed + 1


class Sends(Checker):
    """Counts; nothing here is against a rule."""

    name = "sends"
    is_measure = True
    rule = "a send ends with an answer or an error"
    metrics = (
        Metric("sends", "messages", "whose send was acknowledged", "topic"),
        Metric("failed_sends", "messages", "whose send raised an error", "topic"),
        Metric("maybe_stored", "messages", "whose send failed without an answer", "topic"),
        Metric("retried_sends", "messages", "acknowledged after more than one attempt", "topic"),
        Metric("unsafe_sends", "messages", "acknowledged with less than SEND_OK", "topic"),
        Metric("send_ms_mean", "ms", "the mean time of an acknowledged send", "topic", "max"),
        Metric("send_ms_p50", "ms", "the median time of an acknowledged send", "topic", "max"),
        Metric("send_ms_p99", "ms", "99 of 100 acknowledged sends took no longer", "topic", "max"),
        Metric("longest_send_ms", "ms", "the longest acknowledged send", "topic", "max"),
    )
    needs = (MessageSent, SendFailed, SendAttempted)
    needs_whole = False

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._topics: dict[str, _Count] = {}

    def table(self) -> Table:
        """What it reads."""
        return {MessageSent: self._sent, SendFailed: self._failed}

    def _sent(self, fact: MessageSent, entry: Entry) -> None:
        try:
            count = self._topics[fact.topic]
        except KeyError:
            count = self._of(fact.topic)
        count.sent += 1
        count.took.add(fact.took_ms)
        count.took_ms += fact.took_ms
        if fact.attempts > 1:
            count.retried += 1
        if fact.status != "SEND_OK":
            count.unsafe += 1

    def _failed(self, fact: SendFailed, entry: Entry) -> None:
        count = self._of(fact.topic)
        count.failed += 1
        count.maybe_stored += fact.maybe_stored

    def end(self) -> None:
        """The numbers of each topic; a run without any sent nothing."""
        for topic, count in self._topics.items():
            self.measures("sends", count.sent, topic)
            self.measures("failed_sends", count.failed, topic)
            self.measures("maybe_stored", count.maybe_stored, topic)
            self.measures("retried_sends", count.retried, topic)
            self.measures("unsafe_sends", count.unsafe, topic)
            self.measures("send_ms_mean", count.took_ms / max(1, count.sent), topic)
            self.measures("send_ms_p50", count.took.at(0.5), topic)
            self.measures("send_ms_p99", count.took.at(0.99), topic)
            self.measures("longest_send_ms", count.took.max, topic)

    def _of(self, topic: str) -> _Count:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _Count()
        return found


class _Count:
    """Of one topic."""

    __slots__ = ("failed", "maybe_stored", "retried", "sent", "took", "took_ms", "unsafe")

    def __init__(self) -> None:
        self.sent = self.failed = self.maybe_stored = self.retried = self.unsafe = 0
        self.took = Quantiles()
        self.took_ms = 0
