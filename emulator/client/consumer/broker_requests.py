"""Requests of brokers to a consumer: report its state, consume a message, reset its offsets.

The calls: RESET_CONSUMER_CLIENT_OFFSET (220), GET_CONSUMER_STATUS_FROM_CLIENT (221),
GET_CONSUMER_RUNNING_INFO (307), CONSUME_MESSAGE_DIRECTLY (309).  The instance finds the
consumer by its group.

Upstream: ClientRemotingProcessor, MQClientInstance,
ConsumeMessageConcurrentlyService.consumeMessageDirectly, and the orderly one's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from emulator.client.consumer.listeners import ConsumeContext, ConsumeResult, restore_topic
from emulator.client.consumer.running_info import running_info
from emulator.net.results import NO_REPLY, Call, Reply, Result, Wait
from protocol.bodies.body import Body, decode_long_body, encode_body
from protocol.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from protocol.bodies.running import CMResult, ConsumeMessageDirectlyResult
from protocol.fields import BadFields
from protocol.message import decode_messages
from protocol.queues import MessageQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from emulator.client.consumer.listeners import ListenerInvoker
    from emulator.client.consumer.member import PushMember
    from emulator.client.consumer.rebalance import Rebalance
    from protocol.fields import Header
    from protocol.message import MessageExt
    from protocol.requests.callbacks import (
        ConsumeMessageDirectlyRequest,
        GetConsumerStatusRequest,
    )
    from protocol.requests.offsets import ResetOffsetRequest

RESET_WAIT_S = 10  # MQClientInstance.resetOffset
DIRECT_MS_MAX = 10 * 60_000  # ours: then the request is given up

RESULTS: dict[ConsumeResult, CMResult] = {
    ConsumeResult.SUCCESS: "CR_SUCCESS",
    ConsumeResult.RECONSUME_LATER: "CR_LATER",
    ConsumeResult.SUSPEND: "CR_LATER",
    ConsumeResult.COMMIT: "CR_COMMIT",
    ConsumeResult.ROLLBACK: "CR_ROLLBACK",
}


class BrokerRequests:
    """Answers for one consumer."""

    def __init__(self, member: PushMember, reset: OffsetReset, directly: DirectConsume) -> None:
        self._member = member
        self._offset_reset = reset
        self._directly = directly

    def reset_offset(self, call: Call[ResetOffsetRequest]) -> Result:
        """Start the reset, which takes ten seconds; the request is one-way."""
        table = decode_long_body(call.body, ResetOffsetBody).offset_table
        topic = call.request.topic
        offsets = {queue: offset for queue, offset in table.items() if queue.topic == topic}
        self._member.beside(lambda: self._offset_reset.run(offsets))
        return NO_REPLY

    def consumer_status(self, call: Call[GetConsumerStatusRequest]) -> Result:
        """The offsets of one topic that are in this client's memory."""
        table = self._member.offsets.table.of_topic(call.request.topic)
        return self._reply(GetConsumerStatusBody(message_queue_table=table))

    def running_info(self, _call: Call[Header]) -> Result:
        """The consumer's settings, subscriptions, process queues and figures."""
        return self._reply(running_info(self._member))

    def consume_directly(self, call: Call[ConsumeMessageDirectlyRequest]) -> Result:
        """Answered when the listener has returned."""
        messages = decode_messages(call.body, call.request.broker_name or "")
        if not messages:
            raise BadFields("the body is no message")
        consumed = object()
        results: list[ConsumeMessageDirectlyResult] = []

        async def consume() -> None:
            results.append(await self._directly.consume(messages[0]))
            self._member.instance.remoting.ring(consumed, None)

        def resume(_now_ms: int, expired: bool) -> Result:
            return NO_REPLY if expired else self._reply(results[0])

        self._member.beside(consume)
        return Wait(on=consumed, until_ms=call.now_ms + DIRECT_MS_MAX, resume=resume)

    # Inside ---------------------------------------------------------------------------

    def _reply(self, body: Body) -> Reply:
        return Reply(body=encode_body(body, self._member.release))


class DirectConsume:
    """Gives one message to the listener on request; nothing is acknowledged or sent back."""

    def __init__(self, member: PushMember, invoker: ListenerInvoker) -> None:
        self._member = member
        self._invoker = invoker

    async def consume(self, message: MessageExt) -> ConsumeMessageDirectlyResult:
        """Call the listener; returns its outcome."""
        member = self._member
        restore_topic(message, member.retry_topic)
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        began_ms = member.now_ms()
        outcome = await self._invoker.wait_outcome(
            [message], ConsumeContext(queue), ConsumeResult.RECONSUME_LATER
        )
        return ConsumeMessageDirectlyResult(
            order=member.config.orderly,
            auto_commit=outcome.context.auto_commit,
            consume_result="CR_THROW_EXCEPTION" if outcome.error else RESULTS[outcome.result],
            remark=repr(outcome.error) if outcome.error else None,
            spent_time_mills=member.now_ms() - began_ms,
        )


class OffsetReset:
    """Moves a group to other offsets: stop, drop its queues, wait, set the offsets, resume.

    The wait is for listeners that still run; what they acknowledge is of dropped queues
    and moves nothing.  *resume* ends the pause and rebalances, which brings the queues
    back.  Upstream: MQClientInstance.resetOffset.
    """

    def __init__(
        self, member: PushMember, rebalance: Rebalance, resume: Callable[[], Awaitable[object]]
    ) -> None:
        self._member = member
        self._rebalance = rebalance
        self._resume = resume

    async def run(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Set the offsets of those queues that are held; takes ten seconds."""
        self._member.is_paused = True
        for queue, process_queue in self._member.held.items():
            if queue in offsets:
                process_queue.dropped = True
                process_queue.clear()
        await trio.sleep(RESET_WAIT_S)
        await self._rebalance.reset(offsets)
        await self._resume()
