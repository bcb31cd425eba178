"""Sending messages back, to be delivered again later.

The message's broker makes the copy from its own log.  If it cannot be reached, or has no
master, the consumer publishes the copy itself, to any broker, through its instance's inner
producer.  If that fails too, the caller keeps the message and consumes it again.

The idle threads of upstream's pools take turns, and each has its own round robin of the producer's
queues.  So a broker that stays silent does not get every try: with two brokers, one round robin
would choose it again, as the try that found no time left has stepped it too.

Upstream: DefaultMQPushConsumerImpl.sendMessageBack, ConsumeMessageOrderlyService.sendMessageBack,
ThreadLocalIndex.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketmq_emulator.errors.call_errors import ClientError, RemoteError
from rocketmq_emulator.protocol.messages import properties as prop
from rocketmq_emulator.protocol.messages.delay_levels import FIRST_RETRY_LEVEL
from rocketmq_emulator.protocol.messages.message import Message

if TYPE_CHECKING:
    from rocketmq_emulator.client.consumer.group.member import PullMember, PushMember
    from rocketmq_emulator.protocol.messages.message import MessageExt
    from rocketmq_emulator.protocol.queues import MessageQueue


class SendBack:
    """Sends one consumer's messages back, from *threads* threads that take turns."""

    def __init__(self, member: PushMember | PullMember, threads: int = 1) -> None:
        self._member = member
        self._threads = threads
        self._turn = 0

    async def send_back(self, message: MessageExt, queue: MessageQueue, delay_level: int) -> bool:
        """Send back, or publish a copy; True if it was stored.

        With *delay_level* 0 the broker chooses the delay.
        """
        try:
            await self.send_back_or_raise(message, queue, delay_level)
        except ClientError:
            return False
        return True

    async def send_back_or_raise(
        self, message: MessageExt, queue: MessageQueue, delay_level: int
    ) -> None:
        """The same; raises the ``ClientError`` of the copy if no broker stored it."""
        member = self._member
        try:
            await member.calls.send_back(
                message, queue.broker_name, delay_level, member.config.retries_max
            )
        except (RemoteError, ClientError):
            level = FIRST_RETRY_LEVEL + message.reconsume_times
            await self._publish(message, level, message.reconsume_times + 1)

    async def publish(self, message: MessageExt, delay_level: int, reconsume_times: int) -> bool:
        """Publish a copy to the group's retry topic; True if it was stored."""
        try:
            await self._publish(message, delay_level, reconsume_times)
        except ClientError:
            return False
        return True

    async def _publish(self, message: MessageExt, delay_level: int, reconsume_times: int) -> None:
        copy = Message(
            topic=self._member.retry_topic,
            body=message.body,
            flag=message.flag,
            properties=self._properties(message, delay_level, reconsume_times),
        )
        self._turn = (self._turn + 1) % self._threads
        await self._member.instance.inner_producer.send(copy, worker=self._turn)

    def _properties(
        self, message: MessageExt, delay_level: int, reconsume_times: int
    ) -> dict[str, str]:
        carried = dict(message.properties)
        carried.pop(prop.TRAN_MSG, None)
        carried.setdefault(prop.ORIGIN_MESSAGE_ID, message.msg_id)
        carried[prop.RETRY_TOPIC] = message.topic
        carried[prop.RECONSUME_TIME] = str(reconsume_times)
        carried[prop.MAX_RECONSUME_TIMES] = str(self._member.config.retries_max)
        carried[prop.DELAY] = str(delay_level)
        return carried
