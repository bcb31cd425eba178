"""Cleaning on request: what a broker does by itself, now; and what has no subject here.

Answers CLEAN_EXPIRED_CONSUMEQUEUE, CLEAN_UNUSED_TOPIC and DELETE_EXPIRED_COMMITLOG in every
release.  Refuses RESUME_CHECK_HALF_MESSAGE by its name: no transaction is checked here.

Upstream: AdminBrokerProcessor.cleanExpiredConsumeQueue, cleanUnusedTopic, deleteExpiredCommitLog.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.broker.broker import Broker
from emulator.disk.port import NOT_WRITTEN
from emulator.disk.refusals import reason
from emulator.net.results import Call, Refusal, Reply, Result
from protocol.codes import ResponseCode
from protocol.fields import Header
from protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_OP_HALF_TOPIC
from protocol.requests.admin import ResumeCheckHalfMessageRequest

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
    except NOT_WRITTEN as error:
        remark = f"nothing was cleaned: {reason(error)}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark) from error
    return Reply()
