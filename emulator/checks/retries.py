"""Messages that were sent back: each waits, comes again, and in the end is a dead letter."""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric
from emulator.checks.folding import Table
from emulator.facts import ConsumerStarted, MessageConsumed, MessageSentBack
from emulator.journal import Entry
from protocol.names import DLQ_GROUP_TOPIC_PREFIX

RETRIES_MAX = 16  # of a group that says nothing else; then the dead-letter queue


class Retries(Checker):
    """Client invariant 46, as far as counts go."""

    name = "retries"
    rule = "a message is sent back at most as often as its group allows, then it is a dead letter"
    metrics = (
        Metric("failed_deliveries", "messages", "that a listener did not take", "group"),
        Metric("sent_back", "messages", "given back to a broker, for a retry", "group"),
        Metric("dead_letters", "messages", "stored in the dead-letter queue", "group"),
        Metric("waiting_retries", "messages", "that failed and have not come again at the end"),
    )
    needs = (ConsumerStarted,)

    def table(self) -> Table:
        """What it reads."""
        return {
            MessageConsumed: self._consumed,
            MessageSentBack: self._sent_back,
        }

    def end(self) -> None:
        """Every group has numbers."""
        for group in self.scene.seats:
            for name in ("failed_deliveries", "sent_back", "dead_letters"):
                self.adds(name, 0, group)
        for queue, records in self.progress.messages.queues.items():
            if records.place == "dead" and records.stored_count:
                group = queue.topic.removeprefix(DLQ_GROUP_TOPIC_PREFIX)
                self.adds("dead_letters", records.stored_count, group)
        failures = self.progress.messages.chains.failures.values()
        waiting = sum(
            failure.passed != "dead"
            for groups in failures
            for of_group in groups.values()
            for failure in of_group
        )
        self.measures("waiting_retries", waiting)

    def _consumed(self, fact: MessageConsumed, entry: Entry) -> None:
        if not fact.ok:
            self.adds("failed_deliveries", 1, fact.group)

    def _sent_back(self, fact: MessageSentBack, entry: Entry) -> None:
        if fact.target_topic.startswith(DLQ_GROUP_TOPIC_PREFIX):
            self._dies(fact, entry)
            return
        self.tries()
        self.adds("sent_back", 1, fact.group)
        if fact.reconsume_times > self._retries_max(fact.group):
            self.objects(
                f"a message of {fact.origin_topic} was sent back for the {fact.reconsume_times}th "
                f"time by {fact.group}, and is no dead letter",
                entry,
            )

    def _dies(self, fact: MessageSentBack, entry: Entry) -> None:
        """It is a dead letter when its group allows no more retries, and not before."""
        self.tries()
        if self.scene.seats.get(fact.group) and fact.reconsume_times <= self._retries_max(
            fact.group
        ):
            self.objects(
                f"a message of {fact.origin_topic} is a dead letter of {fact.group} after "
                f"{fact.reconsume_times - 1} retries, where {self._retries_max(fact.group)} are "
                "allowed",
                entry,
            )

    def _retries_max(self, group: str) -> int:
        """As the plan sets it for the group, or upstream's 16."""
        for each in self.scene.plan.get("consumers", []):
            given = each.get("settings", {}).get("reconsume_times_max", -1)
            if each.get("group") == group and given >= 0:
                return int(given)
        return RETRIES_MAX
