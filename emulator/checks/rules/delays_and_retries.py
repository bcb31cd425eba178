"""Delayed messages and retries come after their level's delay, timer messages at their time.

They do not come early, unless a clock was moved or an operator advanced time; and they come soon
after they are due, unless a fault touched the broker meanwhile.

A message that was sent back waits, is delivered again, and becomes a dead letter only when its
group allows no more retries.
"""

from __future__ import annotations

from rocketmq_emulator.checks.state.checker import (
    Checker,
    CheckerContext,
    Metric,
    key_of,
)
from rocketmq_emulator.checks.state.pending_messages import WaitingCopy
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    ConsumerStarted,
    DelayedDelivered,
    MessageConsumed,
    MessageSentBack,
    MessageStored,
    Queue,
    TimeAdvanced,
    TimerMessageDelivered,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.messages.names import DLQ_GROUP_TOPIC_PREFIX

EARLY_US_MAX = 1_000_000  # times are stored in seconds in between
LATE_US_MAX = 3_000_000  # upstream looks every 100 ms, timers every second
CLOCKS_US = 70_000_000  # store times do not go back with a clock: they stay ahead so long
BACK_US = 30_000_000  # a broker has recovered from a fault by then


class DelaysAreKept(Checker):
    """Delayed messages, retries and timer messages are delivered when due, within 3 s.

    ScheduleMessageService, TimerMessageStore: server invariants 62 and 63.
    """

    name = "delays"
    rule = (
        "a delayed message comes when the delay of its level has passed, a timer message when its "
        "time has come: not before, and within 3 s"
    )
    metrics = (
        Metric("early_delays", "messages", "that came before their time"),
        Metric("late_delays", "messages", "that came late without a fault at their broker"),
        Metric("excused_late_delays", "messages", "late, and a fault touched their broker"),
        Metric(
            "excused_delays_by_clock",
            "messages",
            "early or late by no more than their broker's clock was moved",
        ),
        Metric("excused_delays_advanced", "messages", "early, as an operator advanced time"),
    )
    needs = (MessageStored,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._advanced_us: dict[str, int] = {}  # by broker: when time was advanced

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            DelayedDelivered: self._delivered,
            TimerMessageDelivered: self._delivered,
            TimeAdvanced: self._advances,
        }

    def end(self) -> None:
        """Check waiting copies, and set every metric, also without delays."""
        for metric in self.metrics:
            self.add_to_metric(metric.name, 0)
        for copies in self.progress.messages.pending.waiting.values():
            for copy in copies:
                assert self.cluster.last is not None
                self._check(copy, self.cluster.last)

    def _advances(self, fact: TimeAdvanced, entry: Entry) -> None:
        self._advanced_us[entry.node] = entry.mono_us

    def _delivered(self, fact: DelayedDelivered | TimerMessageDelivered, entry: Entry) -> None:
        copy = self.progress.messages.copy
        if copy is not None and copy.due_us is not None:
            self.count_tried()
            self._check(copy, entry, fact.queue)

    def _check(self, copy: WaitingCopy, entry: Entry, queue: Queue | None = None) -> None:
        """Judge a copy that *entry* delivered to *queue*; None: not delivered at *entry*."""
        if copy.due_us is None or copy.given_up is not None:
            return  # "lost" counts those that were given up
        late_us = entry.mono_us - copy.due_us
        if late_us <= LATE_US_MAX and (queue is None or late_us >= -EARLY_US_MAX):
            return
        if excuse := self._excuse(copy, copy.due_us, entry.mono_us):
            self.add_to_metric(excuse, 1)
            return
        broker = copy.records.queue.broker
        self.add_to_metric("early_delays" if late_us < 0 else "late_delays", 1)
        word = "before" if late_us < 0 else "after"
        what = "has not come" if queue is None else f"came to {place_of(queue)}"
        self.report_violation(
            f"{copy.key} {what} {abs(late_us) / 1e6:.1f} s {word} its time",
            copy.stored,
            key_of(entry),
            node=broker,
        )

    def _excuse(self, copy: WaitingCopy, due_us: int, now_us: int) -> str:
        """The metric of the cause that explains it; empty: there is none."""
        broker, stored_us = copy.records.queue.broker, copy.stored.mono_us
        if now_us < due_us and self._advanced_us.get(broker, -1) >= stored_us:
            return "excused_delays_advanced"
        wrong_us = due_us - now_us - EARLY_US_MAX
        moved_us = self.cluster.clock_moved_us(broker, stored_us - CLOCKS_US, now_us)
        if now_us < due_us:
            # After a clock went back its store time is in the future, so it is delivered at once
            # (ScheduleMessageService.correctDeliverTimestamp).
            is_back = self.cluster.clock_went_back(broker, stored_us - CLOCKS_US, now_us)
            is_ahead = is_back and now_us - stored_us <= moved_us
            return "excused_delays_by_clock" if is_ahead or 0 < moved_us >= wrong_us else ""
        touched = self.cluster.touched((broker,), due_us - BACK_US, due_us + LATE_US_MAX)
        within_us = BACK_US if touched else LATE_US_MAX
        quiet_us = self.cluster.undisturbed_us((broker,), due_us, now_us)
        if touched and (quiet_us <= within_us or self.cluster.is_gone(broker)):
            return "excused_late_delays"
        return "excused_delays_by_clock" if quiet_us <= within_us + moved_us else ""


# Retries and dead letters -------------------------------------------------------------


RETRIES_MAX = 16  # default of a group; then the dead-letter queue


class Retries(Checker):
    """Counts retries: a message is a dead letter after the retries that its group allows.

    Client invariant 46, the part about counts.
    """

    name = "retries"
    rule = "a message is sent back at most as often as its group allows, then it is a dead letter"
    metrics = (
        Metric("failed_deliveries", "messages", "whose listener call failed", "group"),
        Metric("sent_back", "messages", "sent back to a broker for a retry", "group"),
        Metric("dead_letters", "messages", "stored in the dead-letter queue", "group"),
        Metric("waiting_retries", "messages", "that failed and have not come again at the end"),
    )
    needs = (ConsumerStarted,)

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MessageConsumed: self._consumed,
            MessageSentBack: self._sent_back,
        }

    def end(self) -> None:
        """Set every metric of every group."""
        for group in self.cluster.consumers:
            for name in ("failed_deliveries", "sent_back", "dead_letters"):
                self.add_to_metric(name, 0, group)
        for queue, records in self.progress.messages.queues.items():
            if records.topic_kind == "dead" and records.stored_count:
                group = queue.topic.removeprefix(DLQ_GROUP_TOPIC_PREFIX)
                self.add_to_metric("dead_letters", records.stored_count, group)
        failures = self.progress.messages.pending.failures.values()
        waiting = sum(
            failure.passed != "dead"
            for groups in failures
            for of_group in groups.values()
            for failure in of_group
        )
        self.set_metric("waiting_retries", waiting)

    def _consumed(self, fact: MessageConsumed, entry: Entry) -> None:
        if not fact.ok:
            self.add_to_metric("failed_deliveries", 1, fact.group)

    def _sent_back(self, fact: MessageSentBack, entry: Entry) -> None:
        if fact.target_topic.startswith(DLQ_GROUP_TOPIC_PREFIX):
            self._check_dead_letter(fact, entry)
            return
        self.count_tried()
        self.add_to_metric("sent_back", 1, fact.group)
        if fact.reconsume_times > self._retries_max(fact.group):
            self.report_violation(
                f"a message of {fact.origin_topic} was sent back for the {fact.reconsume_times}th "
                f"time by {fact.group}, and is no dead letter",
                entry,
            )

    def _check_dead_letter(self, fact: MessageSentBack, entry: Entry) -> None:
        """Report a dead letter whose group allows more retries."""
        self.count_tried()
        if self.cluster.consumers.get(fact.group) and fact.reconsume_times <= self._retries_max(
            fact.group
        ):
            self.report_violation(
                f"a message of {fact.origin_topic} is a dead letter of {fact.group} after "
                f"{fact.reconsume_times - 1} retries, where {self._retries_max(fact.group)} are "
                "allowed",
                entry,
            )

    def _retries_max(self, group: str) -> int:
        """The group's retries by the plan, or upstream's 16."""
        for each in self.cluster.plan.get("consumers", []):
            given = each.get("settings", {}).get("reconsume_times_max", -1)
            if each.get("group") == group and given >= 0:
                return int(given)
        return RETRIES_MAX
