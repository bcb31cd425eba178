"""When failed messages are delivered again: retries by level, local repeats by their delays.

A concurrent group sends a failed message back to a broker, and gets it again at another offset;
it gets it at the same offset only if it could not be sent back.
"""

from __future__ import annotations

from rocketmq_emulator.checks.monitors.monitor import Monitor
from rocketmq_emulator.checks.state.checker import CheckerContext
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    ConsumerStarted,
    MessageConsumed,
    MessageSentBack,
    Queue,
    QueuesClaimed,
    SeekRequested,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.messages.names import DLQ_GROUP_TOPIC_PREFIX

FIRST_LEVEL = 3  # of the first retry: 10 s
LEVEL_MAX = 18  # 2 h
AGAIN_US = 5_000_000  # ConsumeMessageConcurrentlyService.submitConsumeRequestLater
ORDERLY_US = 1_000_000  # suspendCurrentQueueTimeMillis


class RetryLevels(Monitor):
    """Client invariant 46."""

    name = "retry_levels"
    rule = "the k-th retry of a message waits level k+2: 10 s, 30 s, 1 m … (client invariant 46)"
    invariants = (46,)
    servers_suffice = True
    needs = (MessageSentBack,)

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {MessageSentBack: self._sent_back}

    def _sent_back(self, fact: MessageSentBack, entry: Entry) -> None:
        if fact.target_topic.startswith(DLQ_GROUP_TOPIC_PREFIX):
            return
        self.count_tried()
        level = min(FIRST_LEVEL - 1 + fact.reconsume_times, LEVEL_MAX)
        if fact.delay_level != level:
            self.report_violation(
                f"retry {fact.reconsume_times} of a message of {fact.origin_topic} by "
                f"{fact.group} waits level {fact.delay_level} where {level} is due",
                entry,
            )


class RepeatsWait(Monitor):
    """Client invariants 47, 48 and 50."""

    name = "repeats_wait"
    rule = (
        "a message that failed comes again at its place after 5 s at least (client invariant 47), "
        "to an orderly group after 1 s (50), and to a broadcasting one never (48)"
    )
    invariants = (47, 48, 50)
    needs = (MessageConsumed,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._failed: dict[tuple[str, str, Queue], dict[int, EntryKey]] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MessageConsumed: self._consumed,
            QueuesClaimed: self._claimed,
            SeekRequested: self._sought,
            ConsumerStarted: self._started,
            MessageSentBack: self._sent_back,
        }

    def _consumed(self, fact: MessageConsumed, entry: Entry) -> None:
        if fact.ok and not self._failed:
            return
        failed = self._failed.get((entry.node, fact.group, fact.queue))
        if self._is_of_before(entry.node):
            # Both claims gave the same message: the failure under the new claim is still known.
            if failed and fact.offset in failed:
                self.count_excused()
            return
        if failed:
            before = failed.pop(fact.offset, None)
            if before is not None:
                self._comes_again(fact, before, entry)
        if not fact.ok:
            known = entry.node, fact.group, fact.queue
            key = EntryKey(entry.mono_us, entry.node, entry.seq)
            self._failed.setdefault(known, {})[fact.offset] = key

    def _is_of_before(self, node: str) -> bool:
        """Whether the message was given before the member claimed the queue again."""
        given, hold = self.progress.given, self.progress.reading.claims[node]
        if given is None or hold.claimed is None:
            return False
        return given.mono_us < hold.claimed.mono_us

    def _comes_again(self, fact: MessageConsumed, before: EntryKey, entry: Entry) -> None:
        self.count_tried()
        passed_us = entry.mono_us - before.mono_us
        is_ours = self.sets(fact.group, "suspend_queue_ms", "consume_again_delay_ms")
        if fact.group in self.cluster.broadcast:
            text = "although the group broadcasts"
        elif passed_us < self._least_us(fact.group) and not is_ours:
            text = f"{passed_us / 1e6:.3f} s after it failed"
        else:
            return
        place = place_of(fact.queue)
        self.report_violation(
            f"{entry.node} was given offset {fact.offset} of {place} again, {text}", before, entry
        )

    def _least_us(self, group: str) -> int:
        return ORDERLY_US if group in self.cluster.orderly else AGAIN_US

    def _sent_back(self, fact: MessageSentBack, entry: Entry) -> None:
        if fact.group in self.cluster.broadcast:
            self.report_violation(
                f"{fact.group} broadcasts, and sent a failed message back", entry
            )

    # New process queues: messages may come at once -----------------------------------------

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        for queue in fact.queues:
            self._failed.pop((entry.node, fact.group, queue), None)

    def _sought(self, fact: SeekRequested, entry: Entry) -> None:
        self._failed.pop((entry.node, fact.group, fact.queue), None)

    def _started(self, fact: ConsumerStarted, entry: Entry) -> None:
        for known in [each for each in self._failed if each[0] == entry.node]:
            del self._failed[known]
