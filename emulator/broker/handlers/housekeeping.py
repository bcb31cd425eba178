"""Later work of a broker, done now on request: cleaning, and delivering messages that wait.

Answers CLEAN_EXPIRED_CONSUMEQUEUE, CLEAN_UNUSED_TOPIC and DELETE_EXPIRED_COMMITLOG in every
release, and ADVANCE_TIME, a call of ours.  Refuses RESUME_CHECK_HALF_MESSAGE by its name: no
transaction is checked here.
ADVANCE_TIME moves only the due times of messages that wait (delay levels, retries among them, and
timers).  They come in the order of the times at which they would have come, over all levels and
the timer wheel: ten hours in one step or in many come in the same order.  No connection, member,
lock or message grows older by it, and records carry the wall time.

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
    TRANS_OP_HALF_TOPIC,
)
from rocketmq_emulator.protocol.requests.admin import ResumeCheckHalfMessageRequest

if TYPE_CHECKING:
    from rocketmq_emulator.broker.store.delays import ScheduleMessageService
    from rocketmq_emulator.broker.store.timer_messages import TimerMessageStore


ALWAYS_KEPT = {SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_OP_HALF_TOPIC}  # topics of no table


class HousekeepingProcessor:
    """The store is cleaned now."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def clean_expired_queues(self, _call: Call[Header]) -> Result:
        """Queues whose messages have all expired start again from offset 0, as upstream's do."""
        return _done(self._broker.store.forget_empty_queues)

    def clean_unused_topics(self, _call: Call[Header]) -> Result:
        """Drop the queues of topics that this broker no longer has."""
        known = ALWAYS_KEPT | {topic.topic_name or "" for topic in self._broker.topics.all()}
        return _done(lambda: self._broker.store.drop_topics_except(known))

    def delete_expired(self, call: Call[Header]) -> Result:
        """Drop what has grown too old, without waiting for the next regular look."""
        self._broker.store.drop_expired(call.now_ms)
        return Reply()

    def resume_check(self, _call: Call[ResumeCheckHalfMessageRequest]) -> Result:
        """Refused, and nothing is changed."""
        raise Refusal(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            "RESUME_CHECK_HALF_MESSAGE is not supported: this broker checks no transactions",
        )


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
        """Move what waits, and deliver what is due by that."""
        broker = self._broker
        check_allowed("this is", allowed=broker.config.reply_rules_allowed)
        wanted = extension_body_of(call, AdvanceTime)
        moved = advance(broker.delays, broker.timers, wanted.ms, call.now_ms)
        broker.puts.on_delayed()  # for what is left
        broker.note(TimeAdvanced(wanted.ms, moved.due_count, moved.waiting_count))
        left = moved.waiting_count - moved.due_count
        answer = AdvanceTimeReply(due_count=moved.due_count, waiting_count=left)
        return Reply(body=encode_extension_body(answer))


# What falls due by that ---------------------------------------------------------------


DELIVERIES_MAX = 20_000  # at once; the others in the next turns


class AdvanceResult(NamedTuple):
    """How many messages waited, and how many of them have come."""

    waiting_count: int
    due_count: int


def advance(
    delays: ScheduleMessageService, timers: TimerMessageStore | None, ms: int, now_ms: int
) -> AdvanceResult:
    """Move what waits by *ms*, and deliver what is due by that."""
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
    """From the levels or the wheel, whichever is due first, up to where the other's turn is."""
    later_ms = now_ms + 1
    level_ms = delays.first_due_ms(now_ms) or later_ms
    timer_ms = (timers.first_due_ms() if timers is not None else None) or later_ms
    if timers is not None and timer_ms < level_ms:
        return timers.deliver_due(now_ms, min(now_ms, level_ms))
    return delays.deliver_due(now_ms, min(now_ms, timer_ms)) if level_ms <= now_ms else 0
