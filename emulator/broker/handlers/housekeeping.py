"""Scheduled work of a broker, done now on request: cleaning, and delivering waiting messages.

Answers CLEAN_EXPIRED_CONSUMEQUEUE, CLEAN_UNUSED_TOPIC and DELETE_EXPIRED_COMMITLOG in every
release, and ADVANCE_TIME, our own call.
ADVANCE_TIME moves only the due times of waiting messages (delay levels, retries among them, and
timers), and the ages of half messages, for which one check is made at once if one becomes due.
Messages are delivered in the order of their due times, over all levels and the timer wheel: ten
hours in one step or in many give the same order.  No connection, member, lock or message gets
older by it, and records carry the wall time.

Upstream: AdminBrokerProcessor.cleanExpiredConsumeQueue, cleanUnusedTopic, deleteExpiredCommitLog.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.disk.port import WRITE_ERRORS, reason
from rocketmq_emulator.facts import TimeAdvanced
from rocketmq_emulator.net.reply_rules import check_allowed, extension_body_of
from rocketmq_emulator.net.results import Call, Refusal, Reply, Result
from rocketmq_emulator.protocol.bodies.extensions import (
    AdvanceTime,
    AdvanceTimeReply,
    encode_extension_body,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.messages.names import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)

if TYPE_CHECKING:
    from rocketmq_emulator.broker.store.delays import ScheduleMessageService
    from rocketmq_emulator.broker.store.timer_messages import TimerMessageStore


# Even if they are not in the topic table.
ALWAYS_KEPT = {SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC}


class HousekeepingProcessor:
    """Cleans the store on request."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def clean_expired_queues(self, _call: Call[Header]) -> Result:
        """Let queues whose messages have all expired start from offset 0, as upstream does."""
        return _done(self._broker.store.forget_empty_queues)

    def clean_unused_topics(self, _call: Call[Header]) -> Result:
        """Drop the queues of topics that this broker does not have any more."""
        known = ALWAYS_KEPT | {topic.topic_name or "" for topic in self._broker.topics.all()}
        return _done(lambda: self._broker.store.drop_topics_except(known))

    def delete_expired(self, call: Call[Header]) -> Result:
        """Drop expired segments now, instead of at the next scheduled check."""
        self._broker.store.drop_expired(call.now_ms)
        return Reply()


def _done(clean: Callable[[], object]) -> Reply:
    try:
        clean()
    except WRITE_ERRORS as error:
        remark = f"nothing was cleaned: {reason(error)}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark) from error
    return Reply()


# Time is advanced ---------------------------------------------------------------------


class AdvanceTimeProcessor:
    """ADVANCE_TIME."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def advance(self, call: Call[Header]) -> Result:
        """Move the due times of waiting messages, and deliver the due ones; of a slave, none.

        A slave delivers nothing itself.
        """
        broker = self._broker
        check_allowed("this is", allowed=broker.config.reply_rules_allowed)
        wanted = extension_body_of(call, AdvanceTime)
        if broker.config.is_slave:
            return Reply(
                body=encode_extension_body(AdvanceTimeReply(due_count=0, waiting_count=0))
            )
        moved = advance(broker.delays, broker.timers, wanted.ms, call.now_ms)
        broker.transactions.advance(wanted.ms, call.now_ms)
        broker.puts.on_delayed()  # plan the next delivery
        broker.note(TimeAdvanced(wanted.ms, moved.due_count, moved.waiting_count))
        left = moved.waiting_count - moved.due_count
        answer = AdvanceTimeReply(due_count=moved.due_count, waiting_count=left)
        return Reply(body=encode_extension_body(answer))


# Moving and delivering ----------------------------------------------------------------


DELIVERIES_MAX = 20_000  # at once; the others are delivered in the next turns


class AdvanceResult(NamedTuple):
    """The number of messages that waited, and of those delivered."""

    waiting_count: int
    due_count: int


def advance(
    delays: ScheduleMessageService, timers: TimerMessageStore | None, ms: int, now_ms: int
) -> AdvanceResult:
    """Make all waiting messages due *ms* earlier, and deliver the due ones."""
    waiting = delays.waiting_count() + (timers.waiting_count() if timers is not None else 0)
    delays.advance(ms)
    if timers is not None:
        timers.advance(ms)
    due = 0
    while due < DELIVERIES_MAX and (done := _deliver_next(delays, timers, now_ms)):
        due += done
    return AdvanceResult(waiting, due)


def _deliver_next(
    delays: ScheduleMessageService, timers: TimerMessageStore | None, now_ms: int
) -> int:
    """Deliver from the levels or the wheel: from the one that is due first, up to the other."""
    later_ms = now_ms + 1
    level_ms = delays.first_due_ms(now_ms) or later_ms
    timer_ms = (timers.first_due_ms() if timers is not None else None) or later_ms
    if timers is not None and timer_ms < level_ms:
        return timers.deliver_due(now_ms, min(now_ms, level_ms))
    return delays.deliver_due(now_ms, min(now_ms, timer_ms)) if level_ms <= now_ms else 0
