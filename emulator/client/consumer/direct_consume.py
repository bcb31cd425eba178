"""One message given to the listener because somebody asked for it, and what it said.

Nothing is acknowledged, nothing sent back.
Upstream: ConsumeMessageConcurrentlyService.consumeMessageDirectly, and the orderly one's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.client.consumer.consume_concurrently import restore_topic
from emulator.client.consumer.listening import ConsumeContext, ConsumeResult, Ear
from protocol.bodies.running import CMResult, ConsumeMessageDirectlyResult
from protocol.queues import MessageQueue

if TYPE_CHECKING:
    from emulator.client.consumer.member import Member
    from protocol.message import MessageExt

RESULTS: dict[ConsumeResult, CMResult] = {
    ConsumeResult.SUCCESS: "CR_SUCCESS",
    ConsumeResult.RECONSUME_LATER: "CR_LATER",
    ConsumeResult.SUSPEND: "CR_LATER",
    ConsumeResult.COMMIT: "CR_COMMIT",
    ConsumeResult.ROLLBACK: "CR_ROLLBACK",
}


class DirectConsume:
    """One consumer's listener, out of turn."""

    def __init__(self, member: Member, ear: Ear) -> None:
        self._member = member
        self._ear = ear

    async def consume(self, message: MessageExt) -> ConsumeMessageDirectlyResult:
        member = self._member
        restore_topic(message, member.retry_topic)
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        began_ms = member.now_ms()
        heard = await self._ear.wait_heard(
            [message], ConsumeContext(queue), ConsumeResult.RECONSUME_LATER
        )
        return ConsumeMessageDirectlyResult(
            order=member.config.orderly,
            auto_commit=heard.context.auto_commit,
            consume_result="CR_THROW_EXCEPTION" if heard.error else RESULTS[heard.result],
            remark=repr(heard.error) if heard.error else None,
            spent_time_mills=member.now_ms() - began_ms,
        )
