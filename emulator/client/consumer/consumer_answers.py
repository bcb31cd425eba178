"""What brokers and operators ask of a consumer: tell how you are, try this message, move.

Upstream: ClientRemotingProcessor, MQClientInstance, DefaultMQPushConsumerImpl.consumerRunningInfo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.client.consumer.flow_control import MIB
from emulator.net.results import NO_REPLY, Call, Handler, Reply, Result, Wait
from protocol.bodies.body import Body, decode_body, encode_body
from protocol.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from protocol.bodies.running import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ProcessQueueInfo,
)
from protocol.codes import RequestCode
from protocol.fields import BadFields
from protocol.message import decode_messages

if TYPE_CHECKING:
    from emulator.client.consumer.direct_consume import DirectConsume
    from emulator.client.consumer.member import Member
    from emulator.client.consumer.offset_reset import OffsetReset
    from emulator.client.consumer.process_queue import ProcessQueue
    from protocol.fields import Header
    from protocol.queues import MessageQueue
    from protocol.requests.callbacks import (
        ConsumeMessageDirectlyRequest,
        GetConsumerStatusRequest,
    )
    from protocol.requests.offsets import ResetOffsetRequest

TRIED_MS_MAX = (
    10 * 60_000
)  # ours: when a listener is still silent then, nobody is waiting any more


class ConsumerAnswers:
    """One consumer's answers."""

    def __init__(self, member: Member, reset: OffsetReset, directly: DirectConsume) -> None:
        self._member = member
        self._offset_reset = reset
        self._directly = directly
        self._by_code: dict[int, Handler] = {
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
        }

    def answer(self, call: Call[Any]) -> Result:
        return self._by_code[call.command.code](call)

    # One for each code ----------------------------------------------------------------

    def _reset(self, call: Call[ResetOffsetRequest]) -> Result:
        """It takes ten seconds, and nobody waits for it."""
        offsets = decode_body(call.body, ResetOffsetBody).offset_table
        topic = call.request.topic
        self._member.beside(lambda: self._offset_reset.carry_out(topic, offsets))
        return NO_REPLY

    def _status(self, call: Call[GetConsumerStatusRequest]) -> Result:
        table = self._member.offsets.table.of_topic(call.request.topic)
        return self._reply(GetConsumerStatusBody(message_queue_table=table))

    def _running_info(self, _call: Call[Header]) -> Result:
        member, config = self._member, self._member.config
        held = {queue: self._about(queue, found) for queue, found in sorted(member.held.items())}
        properties = {
            "PROP_NAMESERVER_ADDR": config.namesrv,
            "PROP_THREADPOOL_CORE_SIZE": str(config.consume_threads_max),
            "PROP_CONSUMEORDERLY": str(config.orderly).lower(),
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_CLIENT_VERSION": "V" + str(member.release).replace(".", "_"),
            "PROP_CONSUMER_START_TIMESTAMP": str(member.born_ms),
        }
        return self._reply(
            ConsumerRunningInfo(
                properties=properties,
                subscription_set=list(member.subscriptions.values()),
                mq_table=held,
            )
        )

    def _consume_directly(self, call: Call[ConsumeMessageDirectlyRequest]) -> Result:
        """The answer waits for the listener."""
        messages = decode_messages(call.body, call.request.broker_name or "")
        if not messages:
            raise BadFields("the body is no message")
        tried = object()
        heard: list[ConsumeMessageDirectlyResult] = []

        async def try_it() -> None:
            heard.append(await self._directly.consume(messages[0]))
            self._member.instance.remoting.ring(tried)

        def resume(_now_ms: int, expired: bool) -> Result:
            return NO_REPLY if expired else self._reply(heard[0])

        self._member.beside(try_it)
        return Wait(on=tried, until_ms=call.now_ms + TRIED_MS_MAX, resume=resume)

    # Inside ---------------------------------------------------------------------------

    def _reply(self, body: Body) -> Reply:
        return Reply(body=encode_body(body, self._member.release))

    def _about(self, queue: MessageQueue, found: ProcessQueue) -> ProcessQueueInfo:
        first = found.first()
        waiting = found.count - len(found.taken)
        taken = [message.queue_offset for message in found.taken]
        return ProcessQueueInfo(
            commit_offset=self._member.offsets.table.get(queue) or 0,
            cached_msg_min_offset=first.queue_offset if first else 0,
            cached_msg_max_offset=first.queue_offset + found.span if first else 0,
            cached_msg_count=waiting,
            cached_msg_size_in_mib=found.bytes_cached // MIB,
            transaction_msg_min_offset=min(taken, default=0),
            transaction_msg_max_offset=max(taken, default=0),
            transaction_msg_count=len(taken),
            locked=found.locked,
            try_unlock_times=found.unlock_tries,
            last_lock_timestamp=found.last_lock_ms,
            droped=found.dropped,
            last_pull_timestamp=found.last_pull_ms,
            last_consume_timestamp=found.last_consume_ms,
        )
