"""The lite pull consumer: it pulls in the background, and the application polls.

    async with LitePullConsumer({"orders": "*"}, namesrv="127.0.0.1:9876", group="audit") as c:
        for message in await c.poll():
            ...

The application either subscribes topics, whose queues the group's members share, or assigns
queues itself.  A later ``poll`` commits the messages that ``poll`` returned, every five seconds,
unless the application commits itself.  So messages that were not finished when the consumer
closed are delivered again.
"""

from __future__ import annotations

from collections import deque
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

from rocketmq_emulator.client.consumer.group.allocation import AVG, Strategy
from rocketmq_emulator.client.consumer.group.group_calls import no_answer_is_refused
from rocketmq_emulator.client.consumer.group.group_consumer import GroupConsumer
from rocketmq_emulator.client.consumer.group.member import (
    LitePullMember,
)
from rocketmq_emulator.client.consumer.pull.lite_pull_pipeline import LitePullPipeline
from rocketmq_emulator.client.settings.arguments import (
    check_is_queue,
    check_plain_function,
    check_subscribed,
    check_subscriptions,
    check_text,
    check_timing,
    check_whole,
)
from rocketmq_emulator.client.settings.config import LitePullConsumerConfig
from rocketmq_emulator.errors.call_errors import (
    ClientMisuse,
)
from rocketmq_emulator.protocol.messages.subscription import SUB_ALL, TAG

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import trio

    from rocketmq_emulator.client.consumer.group.member import Expression, QueuesChanged
    from rocketmq_emulator.client.consumer.pull.active_membership import RegisteredPullConsumer
    from rocketmq_emulator.client.consumer.pull.lite_pull_pipeline import TopicQueuesChanged
    from rocketmq_emulator.client.instance.instance import ClientInstance
    from rocketmq_emulator.client.instance.interfaces import Documents
    from rocketmq_emulator.client.instance.process import ClientProcess
    from rocketmq_emulator.protocol.messages.message import MessageExt
    from rocketmq_emulator.protocol.queues import MessageQueue


class LitePullConsumer(GroupConsumer[LitePullConsumerConfig, LitePullPipeline]):
    """Returns messages by ``poll`` or in a loop, as a member of one group.

    *subscriptions* are as for ``PushConsumer``; without any, subscribe or assign later.
    *assign_expressions* are tags by topic, for assigned queues.  Settings by name are those
    of ``LitePullConsumerConfig``.  ``on_queues(topic, all, mine)`` is called after every
    change of the queues that it holds of subscribed topics.

    Entering the block finds the routes of subscribed topics and, as upstream, sends no heartbeat:
    the first heartbeat is sent a second later, and then queues are claimed.  It raises
    ``GroupTaken``; ``BadSubscription``; ``GroupCallRefused`` for an expression that a broker
    cannot read.  Leaving the block does not commit the messages of the last poll.
    Upstream: DefaultLitePullConsumer.
    """

    _KIND = "lite_pull"

    def __init__(
        self,
        subscriptions: Mapping[str, Expression] | None = None,
        config: LitePullConsumerConfig | None = None,
        *,
        process: ClientProcess | None = None,
        strategy: Strategy = AVG,
        documents: Documents | None = None,
        assign_expressions: Mapping[str, str] | None = None,
        on_queues: QueuesChanged | None = None,
        **settings: object,
    ) -> None:
        super().__init__(
            config,
            settings,
            config_type=LitePullConsumerConfig,
            subscriptions=subscriptions,
            process=process,
            strategy=strategy,
            documents=documents,
            on_queues=on_queues,
        )
        if assign_expressions is not None:
            check_subscriptions(assign_expressions)
        if subscriptions and assign_expressions:
            raise ClientMisuse("subscribe and assign are mutually exclusive")
        self._assign_expressions = dict(assign_expressions or {})
        self._unpolled: deque[MessageExt] = deque()  # the rest of a loop's current batch

    # Which queues ---------------------------------------------------------------------

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues it has now: the assigned ones, or its share of the subscribed topics.

        Upstream: assignment.
        """
        return self._running.assigned.queues

    async def subscribe(
        self,
        topic: str,
        expression: str = SUB_ALL,
        kind: str = TAG,
        *,
        on_queues: QueuesChanged | None = None,
    ) -> None:
        """Add a subscription, or change the expression of one; sends heartbeats at once.

        The queues are claimed after the brokers have notified the group.  *on_queues* replaces
        the current one, for all topics.  Raises ``BadSubscription``; ``ClientMisuse`` if queues
        are assigned.
        """
        if on_queues is not None:
            check_plain_function("on_queues", on_queues, takes="topic, all, mine")
        await self._running.subscribe(topic, (expression, kind), on_queues)

    def unsubscribe(self, topic: str) -> None:
        """Stop pulling *topic*; the next rebalance pass releases its queues."""
        check_text("topic", topic)
        self._running.unsubscribe(topic)

    def assign(self, queues: Collection[MessageQueue]) -> None:
        """From now on pull exactly *queues*; other members of the group are not notified.

        Raises ``ClientMisuse`` without any queue, or if a topic is subscribed.
        """
        self._running.assign(queues)

    async def fetch_message_queues(self, topic: str) -> list[MessageQueue]:
        """Every queue of *topic* that may be read, as a NameServer has them now.

        Raises ``GroupCallRefused`` if there is none, ``NoNameServer`` if none answers.
        """
        check_subscribed(topic)
        return await self._running.member.calls.queues_of(topic)

    async def register_topic_message_queue_change_listener(
        self, topic: str, listener: TopicQueuesChanged
    ) -> None:
        """Call ``listener(topic, queues)`` when the queues of *topic* change; checked every 30 s.

        Each topic has one listener: a second one replaces the first.  Raises the errors of
        ``fetch_message_queues``.
        """
        await self._running.watch.listen(topic, listener)

    # Messages -------------------------------------------------------------------------

    async def poll(self, timeout_ms: int | None = None) -> list[MessageExt]:
        """The messages of one pull; [] if none arrived within *timeout_ms*.

        First commits the messages of earlier polls, if the auto-commit interval is over.  The
        default of *timeout_ms* is ``poll_timeout_ms``.
        """
        check_timing(timeout_ms)
        wait_ms = self.config.poll_timeout_ms if timeout_ms is None else timeout_ms
        now = self._running
        if self._unpolled:  # the rest of a batch, after a loop was left
            messages, self._unpolled = list(self._unpolled), deque()
            return messages
        return await now.poll(wait_ms)

    def requeue(self, messages: Iterable[MessageExt]) -> None:
        """Return *messages*, which were polled and not delivered, with the next poll."""
        self._unpolled.extendleft(reversed([*messages]))

    def __aiter__(self) -> Self:
        """``async for message in consumer`` polls repeatedly until the loop is left."""
        return self

    async def __anext__(self) -> MessageExt:
        """The next message; a batch is committed after its last message."""
        while not self._unpolled:
            self._unpolled.extend(await self.poll())
        return self._unpolled.popleft()

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Stop pulling *queues*; messages that were pulled before are still returned."""
        self._running.pause(queues, paused=True)

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Pull *queues* again, within a second."""
        self._running.pause(queues, paused=False)

    # Positions ------------------------------------------------------------------------

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at *offset*; messages of *queue* that were pulled and not polled are dropped.

        Raises ``ClientMisuse`` if the consumer does not have *queue*, or *queue* does not have
        *offset*; ``GroupCallRefused`` if the broker does not report the offsets of *queue*.
        """
        with no_answer_is_refused():
            await self._running.seek(queue, offset)
        self._unpolled = deque(message for message in self._unpolled if not _is_of(message, queue))

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the first message of *queue*.  Raises the errors of ``seek``."""
        check_is_queue(queue)
        with no_answer_is_refused():
            first = await self._running.member.calls.min_offset(queue)
        await self.seek(queue, first)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue at the next message to be stored.  Raises the errors of ``seek``."""
        check_is_queue(queue)
        with no_answer_is_refused():
            end = await self._running.member.calls.max_offset(queue)
        await self.seek(queue, end)

    async def offset_for_timestamp(self, queue: MessageQueue, at_ms: int) -> int:
        """The offset of the first message stored at *at_ms* (wall time, ms) or later.

        Raises ``GroupCallRefused``.
        """
        check_is_queue(queue)
        check_whole("at_ms", at_ms)
        with no_answer_is_refused():
            return await self._running.member.calls.offset_at(queue, at_ms)

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
        self._running.commit(offsets, persist=persist)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's offset; None if there is none.  Raises ``GroupCallRefused``."""
        with no_answer_is_refused():
            return await self._running.committed(queue)

    # Inside ---------------------------------------------------------------------------

    def _build(self, instance: ClientInstance, nursery: trio.Nursery) -> LitePullPipeline:
        member = self._member(LitePullMember, instance, nursery)
        running = LitePullPipeline(member, self._strategy, self._on_queues)
        running.begin_with(self._subscriptions, self._assign_expressions)
        return running

    def _membership(self, running: LitePullPipeline) -> RegisteredPullConsumer:
        return running.membership

    async def _start(self, running: LitePullPipeline, stack: AsyncExitStack) -> None:
        del stack
        await running.start()


def _is_of(message: MessageExt, queue: MessageQueue) -> bool:
    of_queue = (message.topic, message.broker_name, message.queue_id)
    return of_queue == (queue.topic, queue.broker_name, queue.queue_id)
