"""One attempt: the address, the request, the answer, and the facts about it.

Upstream: DefaultMQProducerImpl.sendKernelImpl, MQClientAPIImpl.sendMessage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from emulator.client.errors import ClientError
from emulator.client.instance.addresses import vip_channel
from emulator.client.producer.fault_strategy import MQFaultStrategy
from emulator.client.producer.latency_faults import AttemptEnding, fault_update
from emulator.client.producer.send_headers import SendHeaders
from emulator.client.producer.send_result import (
    AttemptOutcome,
    NoMaster,
    SendResult,
    describe,
    read_reply,
)
from emulator.facts import MessageSent, Queue, SendAttempted, SendFailed
from emulator.net.errors import RemoteError
from protocol.catalog import SEND_BATCH_MESSAGE, SEND_MESSAGE_V2

if TYPE_CHECKING:
    import msgspec

    from emulator.client.config import ProducerConfig
    from emulator.client.errors import SendError
    from emulator.client.instance.instance import ClientInstance
    from emulator.client.producer.outgoing_message import OutgoingMessage
    from emulator.client.producer.publish_info import PublishTable
    from emulator.net.remoting_client import OnDone
    from emulator.releases import Release
    from protocol.queues import MessageQueue
    from protocol.requests.sending import SendMessageReply, SendMessageRequestV2
    from protocol.rpc import Rpc

    # The ext fields are written already.
    SendRequest: TypeAlias = tuple[Rpc[SendMessageRequestV2, SendMessageReply], msgspec.Raw]

ONE_WAY = "ONE_WAY"  # the outcome of an attempt that no broker answers


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
            table=config.fault_table,
        )
        self._headers = SendHeaders(config)
        self._brokers = instance.brokers
        self._remoting = instance.remoting
        self._uniq_keys = instance.uniq_keys
        self._note = instance.note
        self._wants = instance.wants

    def new_key(self) -> str:
        """A unique key for one message.  Upstream: MessageClientIDSetter.setUniqID."""
        return self._uniq_keys.make(self.now_ms())

    # Attempts -------------------------------------------------------------------------

    async def attempt(
        self, outgoing: OutgoingMessage, queue: MessageQueue, timeout_ms: int
    ) -> AttemptOutcome:
        """Send and wait for the answer.

        Never raises for what the network or a broker did: it returns that.
        """
        address = await self.find_address(queue)
        if address is None:
            return NoMaster(queue.broker_name)
        rpc, header = self.request(outgoing, queue, self.now_ms())
        try:
            reply = await self._remoting.invoke(
                address, rpc, header, outgoing.body, timeout_ms=timeout_ms
            )
        except RemoteError as error:
            return error
        return read_reply(reply, queue, outgoing.msg_id)

    def attempt_async(
        self, address: str, request: SendRequest, body: bytes, timeout_ms: int, on_done: OnDone
    ) -> None:
        """Send; *on_done* is called once, with the reply or a ``RemoteError``."""
        self._remoting.invoke_async(
            address, *request, body, timeout_ms=timeout_ms, on_done=on_done
        )

    def send_oneway(
        self, outgoing: OutgoingMessage, queue: MessageQueue, address: str | None
    ) -> bool:
        """Send without an answer; False, and nothing sent, if there is no *address*."""
        began_ms = self.now_ms()
        if address is None:
            self.note_attempt(outgoing, queue, 1, began_ms, NoMaster(queue.broker_name))
            self.update_fault_item(queue.broker_name, AttemptEnding.NO_MASTER, 0)
            return False
        request = self.request(outgoing, queue, began_ms)
        self._remoting.send_oneway(address, *request, outgoing.body)
        self.note_attempt(outgoing, queue, 1, began_ms, ONE_WAY)
        self.update_fault_item(queue.broker_name, AttemptEnding.HANDED_OVER, 0)
        return True

    def request(self, outgoing: OutgoingMessage, queue: MessageQueue, born_ms: int) -> SendRequest:
        """The call and its ext fields."""
        rpc = SEND_BATCH_MESSAGE if outgoing.is_batch else SEND_MESSAGE_V2
        return rpc, self._headers.text(outgoing, queue, born_ms)

    def address(self, broker: str) -> str | None:
        """The master's, or its second port; None if no route names a master."""
        address = self._brokers.to_publish(broker)
        if address is not None and self.config.vip_channel_enabled:
            return vip_channel(address)
        return address

    async def find_address(self, queue: MessageQueue) -> str | None:
        """As ``address``, but looks for the topic's route if none is known yet."""
        if (address := self.address(queue.broker_name)) is not None:
            return address
        try:
            await self.table.find(queue.topic)
        except ClientError:
            return None
        return self.address(queue.broker_name)

    # What follows from an attempt -----------------------------------------------------

    def update_fault_item(self, broker: str, ending: AttemptEnding, latency_ms: int) -> None:
        """An attempt at *broker* ended after *latency_ms*.  Upstream: updateFaultItem."""
        if not self.strategy.enabled:
            return  # nothing is kept
        config = self.config
        update = fault_update(ending, config.rules, detector=config.start_detector_enable)
        self.strategy.update(
            broker,
            latency_ms,
            self.now_ms(),
            isolate=update.isolate,
            reachable=update.reachable,
        )

    def note_attempt(
        self,
        outgoing: OutgoingMessage,
        queue: MessageQueue,
        attempt: int,
        began_ms: int,
        outcome: AttemptOutcome | str | None,
    ) -> None:
        """The attempt that began at *began_ms* has ended; None: there was no time for it."""
        if not self._wants(SendAttempted):
            return
        self._note(
            SendAttempted(
                outgoing.topic,
                _as_fact(queue),
                outgoing.uniq_keys[0],
                attempt,
                took_ms=self.now_ms() - began_ms,
                outcome=_outcome_text(outcome, self.config.rules),
            )
        )

    def note_sent(
        self, outgoing: OutgoingMessage, result: SendResult, attempts: int, took_ms: int
    ) -> None:
        """One fact for each message, also of a batch."""
        if not self._wants(MessageSent):
            return
        queue = _as_fact(result.queue)
        for place, key in enumerate(outgoing.uniq_keys):
            offset = result.queue_offset + place
            self._note(
                MessageSent(
                    outgoing.topic, queue, offset, key, attempts, took_ms, result.status.value
                )
            )

    def note_failed(self, outgoing: OutgoingMessage, error: SendError, attempts: int) -> None:
        """One fact for each message, also of a batch."""
        text = f"{type(error).__name__}: {error}"
        for key in outgoing.uniq_keys:
            self._note(SendFailed(outgoing.topic, key, attempts, text, error.maybe_stored))


def _as_fact(queue: MessageQueue) -> Queue:
    return Queue(queue.topic, queue.broker_name, queue.queue_id)


def _outcome_text(outcome: AttemptOutcome | str | None, release: Release) -> str:
    match outcome:
        case str():
            return outcome
        case SendResult() | None:
            return describe(outcome, release)
    return f"{type(outcome).__name__}: {describe(outcome, release)}"
