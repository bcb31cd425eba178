"""What clients for asyncio await: the methods of the trio clients, by name.

Written by ``python -m docs.generate.faces`` from their source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.client import Producer, PushConsumer
from protocol.subscription import SUB_ALL, TAG
from rocketmq_emulator._aio_client import AioClient

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emulator.client.producer.selectors import Selector
    from emulator.client.producer.send_result import SendResult
    from protocol.message import Message
    from protocol.queues import MessageQueue


class ProducerMethods(AioClient[Producer]):
    """Those of ``Producer``, except what differs."""

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
        worker: int = 0,
    ) -> SendResult:
        """Store *message*, if need be at another broker than the first one tried.

        With a *queue* there is one attempt, there.  *timeout_ms* is for all attempts
        together.  Each *worker* has a round robin of its own, as upstream's threads do.
        Raises ``Misuse``, ``NotStored``, ``MaybeStored``.
        """
        return await self._call(
            self._core.send, message, queue=queue, timeout_ms=timeout_ms, worker=worker
        )

    async def send_to_selected(
        self,
        message: Message,
        selector: Selector,
        argument: Any = None,
        *,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """One attempt, at the queue that ``selector(queues, message, argument)`` picks.

        Raises ``BadSelector`` if that raises or picks no queue; and as ``send`` does.
        """
        return await self._call(
            self._core.send_to_selected, message, selector, argument, timeout_ms=timeout_ms
        )

    async def send_batch(
        self, messages: Iterable[Message], *, timeout_ms: int | None = None, worker: int = 0
    ) -> SendResult:
        """Several messages of one topic, all into one queue, in one request.

        Raises as ``send`` does; ``MessageIllegal`` if they do not fit together.
        """
        return await self._call(
            self._core.send_batch, messages, timeout_ms=timeout_ms, worker=worker
        )

    async def send_one_way(
        self, message: Message, *, queue: MessageQueue | None = None, worker: int = 0
    ) -> None:
        """One attempt without an answer: it may get lost.

        Raises ``Misuse``; ``NotStored`` if there is no broker to send it to.
        """
        await self._call(self._core.send_one_way, message, queue=queue, worker=worker)

    async def recall_message(
        self, topic: str, recall_handle: str, *, timeout_ms: int | None = None
    ) -> str:
        """Keep back for good a message that waits for its time; its ``msg_id``.

        *recall_handle* is that of the message's ``SendResult``; brokers from 5.3.2 on give one.
        A broker that has no such message succeeds too.
        Raises ``MessageIllegal`` for a topic or a handle that cannot be; ``NoRoute``,
        ``NoNameServer``; ``RecallFailed``.  Upstream: DefaultMQProducer.recallMessage.
        """
        return await self._call(
            self._core.recall_message, topic, recall_handle, timeout_ms=timeout_ms
        )

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Where messages of *topic* may go now.

        Raises ``Misuse``, ``NoRoute``, ``NoNameServer``.

        Upstream: fetchPublishMessageQueues.
        """
        return await self._call(self._core.publish_queues, topic)


class PushConsumerMethods(AioClient[PushConsumer]):
    """Those of ``PushConsumer``, except what differs."""

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues it holds now, its retry topic's included."""
        return self._plain(lambda: self._core.queues)

    def offset(self, queue: MessageQueue) -> int | None:
        """The next offset to be committed; None when nothing is known yet."""
        return self._plain(self._core.offset, queue)

    async def subscribe(self, topic: str, expression: str = SUB_ALL, kind: str = TAG) -> None:
        """Subscribe *topic* too, or with another expression; sends heartbeats at once.

        Its queues come with the next passes: the first one looks for the route.
        Raises ``BadSubscription``.
        """
        await self._call(self._core.subscribe, topic, expression, kind)

    def unsubscribe(self, topic: str) -> None:
        """The next pass drops its queues, and with them what was not yet committed."""
        self._plain(self._core.unsubscribe, topic)

    def suspend(self) -> None:
        """Stop pulls and rebalancing; what is cached is still consumed."""
        self._plain(self._core.suspend)

    async def resume(self) -> None:
        """End a pause; the pass that was missed runs now."""
        await self._call(self._core.resume)
