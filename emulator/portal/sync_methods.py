"""Blocking calls of the clients for threads: the methods of the trio clients, by name.

Written by ``python -m tools.faces`` from their source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketmq_emulator.client import (
    LitePullConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    TransactionProducer,
)
from rocketmq_emulator.portal.sync_client import SyncClient
from rocketmq_emulator.protocol.messages.subscription import SUB_ALL, TAG

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rocketmq_emulator.client.consumer.group.member import Expression
    from rocketmq_emulator.client.consumer.group.pull_kernel import PullResult
    from rocketmq_emulator.client.producer.publish_info import Selector
    from rocketmq_emulator.client.producer.send_kernel import SendResult
    from rocketmq_emulator.client.producer.transactions import TransactionSendResult
    from rocketmq_emulator.protocol.messages.message import Message, MessageExt
    from rocketmq_emulator.protocol.queues import MessageQueue


class ProducerMethods(SyncClient[Producer]):
    """The methods of ``Producer`` that are alike in all clients."""

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
        worker: int = 0,
    ) -> SendResult:
        """Send *message*; failed attempts are retried at other brokers.

        With a *queue* there is one attempt, at this queue.  *timeout_ms* is for all attempts
        together.  Each *worker* has its own round robin, like upstream's threads.
        Raises ``Misuse``, ``NotStored``, ``MaybeStored``.
        """
        return self._call(
            self._core.send, message, queue=queue, timeout_ms=timeout_ms, worker=worker
        )

    def send_to_selected(
        self,
        message: Message,
        selector: Selector,
        argument: object = None,
        *,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send with one attempt, to the queue of ``selector(queues, message, argument)``.

        Raises ``BadSelector`` if *selector* raises or returns no queue, and the errors of
        ``send``.
        """
        return self._call(
            self._core.send_to_selected, message, selector, argument, timeout_ms=timeout_ms
        )

    def send_batch(
        self, messages: Iterable[Message], *, timeout_ms: int | None = None, worker: int = 0
    ) -> SendResult:
        """Send several messages of one topic to one queue, in one request.

        Raises the errors of ``send``; ``MessageIllegal`` if the messages cannot form a batch.
        """
        return self._call(self._core.send_batch, messages, timeout_ms=timeout_ms, worker=worker)

    def send_oneway(
        self, message: Message, *, queue: MessageQueue | None = None, worker: int = 0
    ) -> None:
        """Send with one attempt and without a reply: the message may be lost.

        Raises ``Misuse``; ``NotStored`` if no broker is known for it.
        """
        self._call(self._core.send_oneway, message, queue=queue, worker=worker)

    def request(
        self, message: Message, *, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> MessageExt:
        """Send *message* as a request; returns the reply of a consumer (``reply_to``).

        *timeout_ms* is for the send and the reply together.
        Raises ``Misuse``, ``NotStored``, ``MaybeStored``; ``RequestUnanswered``, which has the
        place of the request, if no reply comes in time.  Upstream: DefaultMQProducer.request.
        """
        return self._call(self._core.request, message, queue=queue, timeout_ms=timeout_ms)

    def reply_to(
        self, request: MessageExt, body: bytes, *, timeout_ms: int | None = None
    ) -> SendResult:
        """Send *body* as the reply to *request*, a consumed message.

        It returns when the requester has the reply.  Raises ``NotARequest`` for a message
        that is no request; ``RequesterGone`` if no broker that was tried could push the reply;
        the errors of ``send``.  Upstream: MessageUtil.createReplyMessage.
        """
        return self._call(self._core.reply_to, request, body, timeout_ms=timeout_ms)

    def recall_message(
        self, topic: str, recall_handle: str, *, timeout_ms: int | None = None
    ) -> str:
        """Cancel the delivery of a timer message; returns its ``msg_id``.

        *recall_handle* is that of the message's ``SendResult``; brokers set it from 5.3.2 on.
        It also succeeds if the broker has no such message.
        Raises ``MessageIllegal`` for an invalid topic or handle; ``NoRoute``,
        ``NoNameServer``; ``RecallFailed``.  Upstream: DefaultMQProducer.recallMessage.
        """
        return self._call(self._core.recall_message, topic, recall_handle, timeout_ms=timeout_ms)

    def publish_queues(self, topic: str) -> list[MessageQueue]:
        """The queues of *topic* that can be written now.

        Raises ``Misuse``, ``NoRoute``, ``NoNameServer``.

        Upstream: fetchPublishMessageQueues.
        """
        return self._call(self._core.publish_queues, topic)


class TransactionProducerMethods(ProducerMethods):
    """The methods of ``TransactionProducer`` that are alike in all clients."""

    _core: TransactionProducer

    def send_in_transaction(
        self,
        message: Message,
        argument: object = None,
        *,
        timeout_ms: int | None = None,
        worker: int = 0,
    ) -> TransactionSendResult:
        """Send *message* as a half message, run the local transaction, and report its state.

        The listener gets *message* and *argument*.  If the half message is stored, but not as
        safely as configured (``status``), the state is ROLLBACK_MESSAGE and no local transaction
        runs.  Reporting is one-way; a broker without a report asks later.  A delay level of
        *message* is cleared.  The other arguments and the errors are those of ``send``: after an
        error no local transaction ran.  Upstream: TransactionMQProducer.sendMessageInTransaction.
        """
        return self._call(
            self._core.send_in_transaction, message, argument, timeout_ms=timeout_ms, worker=worker
        )


class PushConsumerMethods(SyncClient[PushConsumer]):
    """The methods of ``PushConsumer`` that are alike in all clients."""

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer holds now, including those of the retry topic."""
        return self._plain(lambda: self._core.queues)

    def offset(self, queue: MessageQueue) -> int | None:
        """The next offset to be committed; None if no offset of *queue* is known yet."""
        return self._plain(self._core.offset, queue)

    def subscribe(self, topic: str, expression: str = SUB_ALL, kind: str = TAG) -> None:
        """Add a subscription, or change the expression of one; sends heartbeats at once.

        The next rebalance passes claim the queues of *topic*; the first pass finds the route.
        Raises ``BadSubscription``.
        """
        self._call(self._core.subscribe, topic, expression, kind)

    def unsubscribe(self, topic: str) -> None:
        """Remove a subscription; the next rebalance pass drops the queues of *topic*.

        Offsets of these queues that are not committed by then are lost.
        """
        self._plain(self._core.unsubscribe, topic)

    def suspend(self) -> None:
        """Stop pulling and rebalancing; cached messages are still consumed."""
        self._plain(self._core.suspend)

    def resume(self) -> None:
        """Pull and rebalance again; a rebalance pass runs before this returns."""
        self._call(self._core.resume)


class PullConsumerMethods(SyncClient[PullConsumer]):
    """The methods of ``PullConsumer`` that are alike in all clients."""

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that it holds now, of every topic.  It can pull other queues too."""
        return self._plain(lambda: self._core.queues)

    def fetch_message_queues_in_balance(self, topic: str) -> list[MessageQueue]:
        """The queues of *topic* that it holds now."""
        return self._plain(self._core.fetch_message_queues_in_balance, topic)

    def fetch_subscribe_message_queues(self, topic: str) -> list[MessageQueue]:
        """Every queue of *topic* that may be read; queried once, then from memory.

        Raises ``GroupCallRefused`` if there is none, ``NoNameServer`` if none answers.
        """
        return self._call(self._core.fetch_subscribe_message_queues, topic)

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        expression: Expression = SUB_ALL,
        messages_max: int = 32,
        timeout_ms: int | None = None,
    ) -> PullResult:
        """Pull *queue* from *offset* on; the broker replies at once, also without messages.

        Raises ``GroupCallRefused`` if the broker refuses or does not answer in time
        (``pull_timeout_ms``), ``BadSubscription``, also for an SQL92 expression that no broker
        can read, and ``Misuse`` for a negative offset.
        """
        return self._call(
            self._core.pull,
            queue,
            offset,
            expression=expression,
            messages_max=messages_max,
            timeout_ms=timeout_ms,
        )

    def pull_block_if_not_found(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        expression: Expression = SUB_ALL,
        messages_max: int = 32,
    ) -> PullResult:
        """Like ``pull``, but the broker waits up to ``pull_hold_ms_max`` for a message."""
        return self._call(
            self._core.pull_block_if_not_found,
            queue,
            offset,
            expression=expression,
            messages_max=messages_max,
        )

    def update_consume_offset(self, queue: MessageQueue, offset: int) -> None:
        """Set the group's offset of *queue* in memory; it is stored within seconds.

        Only offsets of ``queues`` are stored.  When this member claims a queue, an offset that
        was set before is dropped.
        """
        self._plain(self._core.update_consume_offset, queue, offset)

    def persist(self, queue: MessageQueue) -> None:
        """Store the offset of *queue* now, even if this member does not hold it; one-way."""
        self._plain(self._core.persist, queue)

    def fetch_consume_offset(self, queue: MessageQueue, *, from_store: bool = False) -> int | None:
        """The group's offset in memory, or else the stored one; None if there is none.

        Raises ``GroupCallRefused``.
        """
        return self._call(self._core.fetch_consume_offset, queue, from_store=from_store)

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the first message in *queue*.  Raises ``GroupCallRefused``."""
        return self._call(self._core.min_offset, queue)

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset of the next message to be stored.  Raises ``GroupCallRefused``."""
        return self._call(self._core.max_offset, queue)

    def search_offset(self, queue: MessageQueue, at_ms: int) -> int:
        """The offset of the first message stored at *at_ms* (wall time, ms) or later.

        Raises ``GroupCallRefused``.
        """
        return self._call(self._core.search_offset, queue, at_ms)

    def earliest_msg_store_time(self, queue: MessageQueue) -> int:
        """When the first message in *queue* was stored (wall time, ms).

        Raises ``GroupCallRefused``.
        """
        return self._call(self._core.earliest_msg_store_time, queue)

    def send_message_back(
        self, message: MessageExt, delay_level: int = 0, *, broker_name: str | None = None
    ) -> None:
        """Have *message* delivered again through the group's retry topic.

        With delay level 0 the broker chooses the delay.  A pull consumer has to pull the retry
        topic itself.  Raises ``GroupCallRefused`` if no broker stored a copy.
        """
        self._call(self._core.send_message_back, message, delay_level, broker_name=broker_name)


class LitePullConsumerMethods(SyncClient[LitePullConsumer]):
    """The methods of ``LitePullConsumer`` that are alike in all clients."""

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues it has now: the assigned ones, or its share of the subscribed topics.

        Upstream: assignment.
        """
        return self._plain(lambda: self._core.queues)

    def unsubscribe(self, topic: str) -> None:
        """Stop pulling *topic*; the next rebalance pass releases its queues."""
        self._plain(self._core.unsubscribe, topic)

    def assign(self, queues: Collection[MessageQueue]) -> None:
        """From now on pull exactly *queues*; other members of the group are not notified.

        Raises ``ClientMisuse`` without any queue, or if a topic is subscribed.
        """
        self._plain(self._core.assign, queues)

    def fetch_message_queues(self, topic: str) -> list[MessageQueue]:
        """Every queue of *topic* that may be read, as a NameServer has them now.

        Raises ``GroupCallRefused`` if there is none, ``NoNameServer`` if none answers.
        """
        return self._call(self._core.fetch_message_queues, topic)

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Stop pulling *queues*; messages that were pulled before are still returned."""
        self._plain(self._core.pause, queues)

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Pull *queues* again, within a second."""
        self._plain(self._core.resume, queues)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at *offset*; messages of *queue* that were pulled and not polled are dropped.

        Raises ``ClientMisuse`` if the consumer does not have *queue*, or *queue* does not have
        *offset*; ``GroupCallRefused`` if the broker does not report the offsets of *queue*.
        """
        self._call(self._core.seek, queue, offset)

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the first message of *queue*.  Raises the errors of ``seek``."""
        self._call(self._core.seek_to_begin, queue)

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue at the next message to be stored.  Raises the errors of ``seek``."""
        self._call(self._core.seek_to_end, queue)

    def offset_for_timestamp(self, queue: MessageQueue, at_ms: int) -> int:
        """The offset of the first message stored at *at_ms* (wall time, ms) or later.

        Raises ``GroupCallRefused``.
        """
        return self._call(self._core.offset_for_timestamp, queue, at_ms)

    def commit(
        self,
        offsets: Mapping[MessageQueue, int] | Collection[MessageQueue] | None = None,
        *,
        persist: bool = False,
    ) -> None:
        """Commit all polled messages: of all queues, or of the given ones.

        A mapping gives the offsets to commit.  Offsets are set in memory and stored within five
        seconds; with *persist* those of the given queues are sent now.  Queues that the consumer
        does not have are ignored.
        """
        self._plain(self._core.commit, offsets, persist=persist)

    def committed(self, queue: MessageQueue) -> int | None:
        """The group's offset; None if there is none.  Raises ``GroupCallRefused``."""
        return self._call(self._core.committed, queue)
