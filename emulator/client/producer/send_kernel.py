"""One attempt: the address, the request, the answer, and what is learnt and noted of it.

Upstream: DefaultMQProducerImpl.sendKernelImpl, MQClientAPIImpl.sendMessage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from emulator.client.errors import ClientError
from emulator.client.instance.addresses import vip_channel
from emulator.client.producer.fault_events import Ending, lesson
from emulator.client.producer.fault_strategy import MQFaultStrategy
from emulator.client.producer.send_result import NoMaster, Outcome, Refused, SendResult, read_reply
from emulator.facts import MessageSent, Queue, SendFailed
from emulator.net.errors import RemoteError
from protocol.catalog import SEND_BATCH_MESSAGE, SEND_MESSAGE_V2

if TYPE_CHECKING:
    from emulator.client.config import ProducerConfig
    from emulator.client.errors import SendError
    from emulator.client.instance.instance import ClientInstance
    from emulator.client.producer.outgoing import Outgoing
    from emulator.client.producer.publish_table import PublishTable
    from emulator.net.remoting_client import OnDone
    from protocol.queues import MessageQueue
    from protocol.requests.sending import SendMessageReply, SendMessageRequestV2
    from protocol.rpc import Rpc

    Request: TypeAlias = tuple[Rpc[SendMessageRequestV2, SendMessageReply], SendMessageRequestV2]


class SendKernel:
    """What every form of sending uses."""

    def __init__(
        self, instance: ClientInstance, config: ProducerConfig, table: PublishTable
    ) -> None:
        self.config = config
        self.table = table
        self.now_ms = instance.clock.now_ms
        self.strategy = MQFaultStrategy(
            config.rules,
            instance.rng,
            enabled=config.send_latency_fault_enable,
            note=instance.note,
        )
        self._instance = instance
        self._remoting = instance.remoting

    def new_key(self) -> str:
        return self._instance.uniq_keys.make(self.now_ms())

    # Asking ---------------------------------------------------------------------------

    async def attempt(self, outgoing: Outgoing, queue: MessageQueue, timeout_ms: int) -> Outcome:
        """Never raises for what the network or a broker did: it returns that."""
        address = await self.find_address(queue)
        if address is None:
            return NoMaster(queue.broker_name)
        rpc, header = self.request(outgoing, queue)
        try:
            reply = await self._remoting.invoke(
                address, rpc, header, outgoing.body, timeout_ms=timeout_ms
            )
        except RemoteError as error:
            return error
        return read_reply(reply, queue, outgoing.msg_id)

    def attempt_soon(
        self, address: str, request: Request, body: bytes, timeout_ms: int, on_done: OnDone
    ) -> None:
        self._remoting.invoke_async(
            address, *request, body, timeout_ms=timeout_ms, on_done=on_done
        )

    def tell(self, outgoing: Outgoing, queue: MessageQueue, address: str) -> None:
        self._remoting.send_oneway(address, *self.request(outgoing, queue), outgoing.body)

    def request(self, outgoing: Outgoing, queue: MessageQueue) -> Request:
        rpc = SEND_BATCH_MESSAGE if outgoing.is_batch else SEND_MESSAGE_V2
        return rpc, outgoing.header(self.config, queue, self.now_ms())

    def address(self, broker: str) -> str | None:
        """The master's, or its second port."""
        address = self._instance.brokers.to_publish(broker)
        if address is not None and self.config.vip_channel_enabled:
            return vip_channel(address)
        return address

    async def find_address(self, queue: MessageQueue) -> str | None:
        """If none is known, the topic's route may not have been asked for yet."""
        if (address := self.address(queue.broker_name)) is not None:
            return address
        try:
            await self.table.find(queue.topic)
        except ClientError:
            return None
        return self.address(queue.broker_name)

    # Learning and noting --------------------------------------------------------------

    def learn(self, broker: str, ending: Ending, latency_ms: int) -> None:
        config = self.config
        taught = lesson(ending, config.rules, detector=config.start_detector_enable)
        self.strategy.update(
            broker,
            latency_ms,
            self.now_ms(),
            isolate=taught.isolate,
            reachable=taught.reachable,
        )

    def note_sent(
        self, outgoing: Outgoing, result: SendResult, attempts: int, took_ms: int
    ) -> None:
        """One fact for each message, also of a batch."""
        queue = Queue(result.queue.topic, result.queue.broker_name, result.queue.queue_id)
        for place, key in enumerate(outgoing.uniq_keys):
            offset = result.queue_offset + place
            self._instance.note(
                MessageSent(
                    outgoing.topic, queue, offset, key, attempts, took_ms, result.status.value
                )
            )

    def note_failed(self, outgoing: Outgoing, error: SendError, attempts: int) -> None:
        text = f"{type(error).__name__}: {error}"
        for key in outgoing.uniq_keys:
            self._instance.note(
                SendFailed(outgoing.topic, key, attempts, text, error.maybe_stored)
            )


def ending_of(outcome: Outcome) -> Ending:
    """What a synchronous attempt's outcome is to the fault table."""
    if isinstance(outcome, SendResult):
        return Ending.ANSWERED
    if isinstance(outcome, Refused):
        return Ending.REFUSED
    return Ending.NO_MASTER if isinstance(outcome, NoMaster) else Ending.REMOTE_ERROR
