"""The lite pull consumer: it pulls ahead, and the application polls.

    async with LitePullConsumer({"orders": "*"}, namesrv="127.0.0.1:9876", group="audit") as c:
        for message in await c.poll():
            ...

Either topics are subscribed, and their queues shared among the group's members, or queues
are assigned by the application.  What ``poll`` returned is committed by a later ``poll``,
every five seconds, unless the application commits itself; so what it was still working on
when it ended comes again.
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
    """Hands out messages by ``poll`` or in a loop, as a member of one group.

    *subscriptions* are as with ``PushConsumer``; without any, subscribe or assign later.
    *assign_expressions* are tags by topic, for assigned queues.  Settings by name are those
    of ``LitePullConsumerConfig``.  ``on_queues(topic, all, mine)`` is called after every
    change of the queues that subscribed topics give it.

    Its start looks for the routes of subscribed topics and, as upstream's, sends no heartbeat:
    the first one comes after a second, and with it its queues.  It raises ``GroupTaken``;
    ``BadSubscription``; ``GroupCallRefused`` for an expression that a broker cannot read.  At its
    end the messages of the last poll are not committed.  Upstream: DefaultLitePullConsumer.
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
        self._unpolled: deque[MessageExt] = deque()  # of the batch that a loop is at

    # Which queues ---------------------------------------------------------------------

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues it has now: assigned, or its share of what it subscribes.

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
        """Subscribe *topic* too, or with another expression; sends heartbeats at once.

        Its queues come when the brokers have told the group.  An *on_queues* replaces the
        one there is, for all topics.  Raises ``BadSubscription``, and ``ClientMisuse`` if queues
        are assigned.
        """
        if on_queues is not None:
            check_plain_function("on_queues", on_queues, takes="topic, all, mine")
        await self._running.subscribe(topic, (expression, kind), on_queues)

    def unsubscribe(self, topic: str) -> None:
        """Pull it no more; the next pass gives its queues away."""
        check_text("topic", topic)
        self._running.unsubscribe(topic)

    def assign(self, queues: Collection[MessageQueue]) -> None:
        """From now on pull exactly these; nobody else in the group is told.

        Raises ``ClientMisuse`` without any, or if a topic is subscribed.
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
        """Call ``listener(topic, queues)`` when *topic* has other queues: looked at every 30 s.

        One listener a topic: a second one replaces the first.  Raises what
        ``fetch_message_queues`` raises.
        """
        await self._running.watch.listen(topic, listener)

    # Messages -------------------------------------------------------------------------

    async def poll(self, timeout_ms: int | None = None) -> list[MessageExt]:
        """The messages of one pull, [] if none came within *timeout_ms*.

        Commits first what earlier polls returned, when that is due.  Without a *timeout_ms*:
        ``poll_timeout_ms``.
        """
        check_timing(timeout_ms)
        wait_ms = self.config.poll_timeout_ms if timeout_ms is None else timeout_ms
        now = self._running
        if self._unpolled:  # of a loop that was left: these are not consumed yet
            messages, self._unpolled = list(self._unpolled), deque()
            return messages
        return await now.poll(wait_ms)

    def requeue(self, messages: Iterable[MessageExt]) -> None:
        """These were polled, and nobody got them: the next poll returns them."""
        self._unpolled.extendleft(reversed([*messages]))

    def __aiter__(self) -> Self:
        """``async for message in consumer``: polls again and again, until the loop is left."""
        return self

    async def __anext__(self) -> MessageExt:
        """The next message; a batch is committed after its last one."""
        while not self._unpolled:
            self._unpolled.extend(await self.poll())
        return self._unpolled.popleft()

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Pull these no more; what was pulled already is still polled."""
        self._running.pause(queues, paused=True)

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Pull them again, within a second."""
        self._running.pause(queues, paused=False)

    # Positions ------------------------------------------------------------------------

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at *offset*; what was pulled of *queue* and not polled is dropped.

        Raises ``ClientMisuse`` if it does not have the queue, or the queue not the offset;
        ``GroupCallRefused`` if its broker does not say which it has.
        """
        with no_answer_is_refused():
            await self._running.seek(queue, offset)
        self._unpolled = deque(message for message in self._unpolled if not _is_of(message, queue))

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the first message that is still there.  Raises what ``seek`` raises."""
        check_is_queue(queue)
        with no_answer_is_refused():
            first = await self._running.member.calls.min_offset(queue)
        await self.seek(queue, first)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on at the next message to be stored.  Raises what ``seek`` raises."""
        check_is_queue(queue)
        with no_answer_is_refused():
            end = await self._running.member.calls.max_offset(queue)
        await self.seek(queue, end)

    async def offset_for_timestamp(self, queue: MessageQueue, at_ms: int) -> int:
        """The first message stored at *at_ms* (wall time) or later.

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
        """Everything that was polled is consumed: of all queues, or of these.

        With a mapping: up to the given offsets.  It is in memory then, and stored within
        five seconds; with *persist* the given queues' are sent now.  Queues it does not have
        are ignored.
        """
        self._running.commit(offsets, persist=persist)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's offset; None: there is none.  Raises ``GroupCallRefused``."""
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
