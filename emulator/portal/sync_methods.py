"""What clients for threads block for: the methods of the trio clients, by name.

Written by ``python -m tools.faces`` from their source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketmq_emulator.client import LitePullConsumer, Producer, PullConsumer, PushConsumer
from rocketmq_emulator.portal.sync_client import SyncClient
from rocketmq_emulator.protocol.messages.subscription import SUB_ALL, TAG

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rocketmq_emulator.client.consumer.group.member import Expression
    from rocketmq_emulator.client.consumer.group.pull_kernel import PullResult
    from rocketmq_emulator.client.producer.publish_info import Selector
    from rocketmq_emulator.client.producer.send_kernel import SendResult
    from rocketmq_emulator.protocol.messages.message import Message, MessageExt
    from rocketmq_emulator.protocol.queues import MessageQueue


class ProducerMethods(SyncClient[Producer]):
    """Those of ``Producer``, except what differs."""

    def send(
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
        """One attempt, at the queue that ``selector(queues, message, argument)`` picks.

        Raises ``BadSelector`` if that raises or picks no queue; and as ``send`` does.
        """
        return self._call(
            self._core.send_to_selected, message, selector, argument, timeout_ms=timeout_ms
        )

    def send_batch(
        self, messages: Iterable[Message], *, timeout_ms: int | None = None, worker: int = 0
    ) -> SendResult:
        """Several messages of one topic, all into one queue, in one request.

        Raises as ``send`` does; ``MessageIllegal`` if they do not fit together.
        """
        return self._call(self._core.send_batch, messages, timeout_ms=timeout_ms, worker=worker)

    def send_oneway(
        self, message: Message, *, queue: MessageQueue | None = None, worker: int = 0
    ) -> None:
        """One attempt without an answer: it may get lost.

        Raises ``Misuse``; ``NotStored`` if there is no broker to send it to.
        """
        self._call(self._core.send_oneway, message, queue=queue, worker=worker)

    def recall_message(
        self, topic: str, recall_handle: str, *, timeout_ms: int | None = None
    ) -> str:
        """Keep back for good a message that waits for its time; its ``msg_id``.

        *recall_handle* is that of the message's ``SendResult``; brokers from 5.3.2 on give one.
        A broker that has no such message succeeds too.
        Raises ``MessageIllegal`` for a topic or a handle that cannot be; ``NoRoute``,
        ``NoNameServer``; ``RecallFailed``.  Upstream: DefaultMQProducer.recallMessage.
        """
        return self._call(self._core.recall_message, topic, recall_handle, timeout_ms=timeout_ms)

    def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Where messages of *topic* may go now.

        Raises ``Misuse``, ``NoRoute``, ``NoNameServer``.

        Upstream: fetchPublishMessageQueues.
        """
        return self._call(self._core.publish_queues, topic)


class PushConsumerMethods(SyncClient[PushConsumer]):
    """Those of ``PushConsumer``, except what differs."""

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues it holds now, its retry topic's included."""
        return self._plain(lambda: self._core.queues)

    def offset(self, queue: MessageQueue) -> int | None:
        """The next offset to be committed; None when nothing is known yet."""
        return self._plain(self._core.offset, queue)

    def subscribe(self, topic: str, expression: str = SUB_ALL, kind: str = TAG) -> None:
        """Subscribe *topic* too, or with another expression; sends heartbeats at once.

        Its queues come with the next passes: the first one looks for the route.
        Raises ``BadSubscription``.
        """
        self._call(self._core.subscribe, topic, expression, kind)

    def unsubscribe(self, topic: str) -> None:
        """The next pass drops its queues, and with them what was not yet committed."""
        self._plain(self._core.unsubscribe, topic)

    def suspend(self) -> None:
        """Stop pulls and rebalancing; what is cached is still consumed."""
        self._plain(self._core.suspend)

    def resume(self) -> None:
        """End a pause; the pass that was missed runs now."""
        self._call(self._core.resume)


class PullConsumerMethods(SyncClient[PullConsumer]):
    """Those of ``PullConsumer``, except what differs."""

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that fall to it now, of every topic.  It may pull others as well."""
        return self._plain(lambda: self._core.queues)

    def fetch_message_queues_in_balance(self, topic: str) -> list[MessageQueue]:
        """The queues of *topic* that fall to it now."""
        return self._plain(self._core.fetch_message_queues_in_balance, topic)

    def fetch_subscribe_message_queues(self, topic: str) -> list[MessageQueue]:
        """Every queue of *topic* that may be read; asked for once, then from memory.

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
        """What *queue* has from *offset* on, at once; perhaps nothing.

        Raises ``GroupCallRefused`` if the broker refuses or does not answer in time
        (``pull_timeout_ms``), ``BadSubscription``, and ``Misuse`` for a negative offset.
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
        """As ``pull``, but the broker waits up to ``pull_hold_ms_max`` for a first message."""
        return self._call(
            self._core.pull_block_if_not_found,
            queue,
            offset,
            expression=expression,
            messages_max=messages_max,
        )

    def update_consume_offset(self, queue: MessageQueue, offset: int) -> None:
        """The group has consumed all before *offset*: in memory, and stored within seconds.

        Stored are the offsets of ``queues`` only.  A queue that falls to this member forgets
        what was set before.
        """
        self._plain(self._core.update_consume_offset, queue, offset)

    def persist(self, queue: MessageQueue) -> None:
        """Store its offset now, whomever the queue falls to; the broker does not answer."""
        self._plain(self._core.persist, queue)

    def fetch_consume_offset(self, queue: MessageQueue, *, from_store: bool = False) -> int | None:
        """The group's offset in memory, or else stored; None: there is none.

        Raises ``GroupCallRefused``.
        """
        return self._call(self._core.fetch_consume_offset, queue, from_store=from_store)

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the first message that is still there.  Raises ``GroupCallRefused``."""
        return self._call(self._core.min_offset, queue)

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset of the next message to be stored.  Raises ``GroupCallRefused``."""
        return self._call(self._core.max_offset, queue)

    def search_offset(self, queue: MessageQueue, at_ms: int) -> int:
        """The first message stored at *at_ms* (wall time) or later.

        Raises ``GroupCallRefused``.
        """
        return self._call(self._core.search_offset, queue, at_ms)

    def earliest_msg_store_time(self, queue: MessageQueue) -> int:
        """When the first message that is still there was stored, in milliseconds.

        Raises ``GroupCallRefused``.
        """
        return self._call(self._core.earliest_msg_store_time, queue)

    def send_message_back(
        self, message: MessageExt, delay_level: int = 0, *, broker_name: str | None = None
    ) -> None:
        """Have *message* delivered again through the group's retry topic.

        Level 0: the broker decides when.  A pull consumer has to pull that topic to see it.
        Raises ``GroupCallRefused`` if neither its broker nor any other stored a copy.
        """
        self._call(self._core.send_message_back, message, delay_level, broker_name=broker_name)


class LitePullConsumerMethods(SyncClient[LitePullConsumer]):
    """Those of ``LitePullConsumer``, except what differs."""

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues it has now: assigned, or its share of what it subscribes.

        Upstream: assignment.
        """
        return self._plain(lambda: self._core.queues)

    def unsubscribe(self, topic: str) -> None:
        """Pull it no more; the next pass gives its queues away."""
        self._plain(self._core.unsubscribe, topic)

    def assign(self, queues: Collection[MessageQueue]) -> None:
        """From now on pull exactly these; nobody else in the group is told.

        Raises ``ClientMisuse`` without any, or if a topic is subscribed.
        """
        self._plain(self._core.assign, queues)

    def fetch_message_queues(self, topic: str) -> list[MessageQueue]:
        """Every queue of *topic* that may be read, as a NameServer has them now.

        Raises ``GroupCallRefused`` if there is none, ``NoNameServer`` if none answers.
        """
        return self._call(self._core.fetch_message_queues, topic)

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Pull these no more; what was pulled already is still polled."""
        self._plain(self._core.pause, queues)

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Pull them again, within a second."""
        self._plain(self._core.resume, queues)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at *offset*; what was pulled of *queue* and not polled is dropped.

        Raises ``ClientMisuse`` if it does not have the queue, or the queue not the offset;
        ``GroupCallRefused`` if its broker does not say which it has.
        """
        self._call(self._core.seek, queue, offset)

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the first message that is still there.  Raises what ``seek`` raises."""
        self._call(self._core.seek_to_begin, queue)

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on at the next message to be stored.  Raises what ``seek`` raises."""
        self._call(self._core.seek_to_end, queue)

    def offset_for_timestamp(self, queue: MessageQueue, at_ms: int) -> int:
        """The first message stored at *at_ms* (wall time) or later.

        Raises ``GroupCallRefused``.
        """
        return self._call(self._core.offset_for_timestamp, queue, at_ms)

    def commit(
        self,
        offsets: Mapping[MessageQueue, int] | Collection[MessageQueue] | None = None,
        *,
        persist: bool = False,
    ) -> None:
        """Everything that was polled is consumed: of all queues, or of these.

        With a mapping: up to the given offsets.  It is in memory then, and stored within
        five seconds; with *persist* the given queues' are sent now.  Queues it does not have
        are ignored.
        """
        self._plain(self._core.commit, offsets, persist=persist)

    def committed(self, queue: MessageQueue) -> int | None:
        """The group's offset; None: there is none.  Raises ``GroupCallRefused``."""
        return self._call(self._core.committed, queue)
