"""The consumer an application uses: it gets messages and says how it went.

    async def on_orders(messages: list[MessageExt]) -> None:
        ...

    async with PushConsumer(
        on_orders, {"orders": "TagA || TagB"}, namesrv="127.0.0.1:9876", group="billing"
    ):
        await trio.sleep_forever()

Leaving the block is a clean end: offsets are written and brokers told.  Being cancelled
is a sudden one: nobody is told anything, as when a process is killed.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self

from emulator.client.config import settled
from emulator.client.consumer.allocation import AVG, Strategy
from emulator.client.consumer.consume_pipeline import ConsumePipeline
from emulator.client.consumer.group_calls import GroupCalls
from emulator.client.consumer.listening import Ear, Listener
from emulator.client.consumer.member import Member
from emulator.client.consumer.offset_folder import OffsetFolder, OffsetsInMemory
from emulator.client.consumer.offset_stores import (
    BrokerOffsets,
    Documents,
    FileOffsets,
    OffsetStore,
)
from emulator.client.consumer.push_config import PushConsumerConfig
from emulator.client.errors import MessageIllegal, NotRunning
from emulator.client.instance.process import ClientProcess
from emulator.net.plain_nursery import plain_nursery
from protocol.names import DEFAULT_CONSUMER_GROUP
from protocol.subscription import SUB_ALL, TAG, build_subscription
from protocol.validation import client_refuses_group

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    import trio

    from emulator.client.consumer.consume_pipeline import QueuesChanged
    from emulator.client.instance.instance import ClientInstance
    from protocol.queues import MessageQueue


class PushConsumer:
    """Consumes topics as a member of one group.

    *subscriptions* are expressions by topic: ``*``, ``TagA || TagB``, or a pair of an
    expression and its type, such as ``("price > 5", "SQL92")``.  Settings are those of
    ``PushConsumerConfig``: give a whole one, or single fields by name.  Without a
    *process* it makes its own, on TCP and this machine's clock.  *documents* keep a
    broadcasting consumer's offsets.  ``on_queues(topic, all, mine)`` hears of every
    change of the queues it holds.  Upstream: DefaultMQPushConsumer.
    """

    def __init__(
        self,
        listener: Listener,
        subscriptions: Mapping[str, str | tuple[str, str]] | None = None,
        config: PushConsumerConfig | None = None,
        *,
        process: ClientProcess | None = None,
        strategy: Strategy = AVG,
        documents: Documents | None = None,
        on_queues: QueuesChanged | None = None,
        **settings: Any,
    ) -> None:
        self.config = settled(PushConsumerConfig, config, settings)
        _check_group(self.config.group)
        self._listener = listener
        self._strategy = strategy
        self._documents = documents
        self._on_queues = on_queues
        self._process = process
        self._subscriptions = dict(subscriptions or {})
        self._stack = AsyncExitStack()
        self._pipeline: ConsumePipeline | None = None

    # Life -----------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Raises ``GroupTaken``, or ``Refused`` if a broker cannot read an expression."""
        async with AsyncExitStack() as stack:
            process = self._process
            if process is None:
                process = await stack.enter_async_context(ClientProcess())
            alone = not self.config.is_broadcasting
            instance = await process.instance(self.config, may_share_default=not alone)
            stack.callback(process.release, instance)
            member = self._member(instance, await stack.enter_async_context(plain_nursery()))
            pipeline = ConsumePipeline(member, self._ear(), self._strategy, self._on_queues)
            instance.register_consumer(pipeline)
            # What stands last here ends first: listeners, then offsets and brokers, then queues.
            stack.callback(pipeline.end)
            stack.push_async_callback(pipeline.take_leave)
            workers = await stack.enter_async_context(plain_nursery())
            stack.push_async_callback(pipeline.wait_finished)
            pipeline.begin(workers)
            await pipeline.introduce()
            self._pipeline = pipeline
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Work under way is not acknowledged, so it will be delivered again."""
        self._pipeline = None
        return await self._stack.__aexit__(kind, error, traceback)

    @property
    def instance(self) -> ClientInstance:
        return self._running.member.instance

    # While it runs --------------------------------------------------------------------

    @property
    def queues(self) -> list[MessageQueue]:
        """What it holds now, its retry topic's queues included."""
        return sorted(self._running.member.held)

    def offset(self, queue: MessageQueue) -> int | None:
        """The next offset to be committed; None when nothing is known yet."""
        return self._running.member.offsets.table.get(queue)

    async def subscribe(self, topic: str, expression: str = SUB_ALL, kind: str = TAG) -> None:
        """From now on also *topic*, or with another expression; brokers are told at once.

        Its queues come with the next passes: the first one looks for the route.
        Raises ``BadSubscription``.
        """
        member = self._running.member
        wanted = build_subscription(topic, expression, kind, member.now_ms())
        member.subscriptions[topic] = wanted
        await member.instance.heartbeats.send_round()

    def unsubscribe(self, topic: str) -> None:
        """Its queues go with the next pass, and with them what was not yet committed."""
        self._running.member.subscriptions.pop(topic, None)

    def suspend(self) -> None:
        """No pulls and no rebalance; what is cached is still consumed."""
        self._running.member.is_paused = True

    async def resume(self) -> None:
        """Ends a pause; the pass that was missed runs now."""
        await self._running.resume()

    # Inside ---------------------------------------------------------------------------

    @property
    def _running(self) -> ConsumePipeline:
        if self._pipeline is None:
            raise NotRunning("a consumer is used inside its ``async with`` only")
        return self._pipeline

    def _ear(self) -> Ear:
        config = self.config
        return Ear(
            self._listener,
            inline=config.listeners_inline,
            threads_max=config.consume_threads_max,
        )

    def _member(self, instance: ClientInstance, beside: trio.Nursery) -> Member:
        member = Member(self.config, instance, self._offsets(instance), beside)
        member.offsets.load()
        now_ms = member.now_ms()
        for topic, wanted in self._subscriptions.items():
            expression, kind = (wanted, TAG) if isinstance(wanted, str) else wanted
            member.subscriptions[topic] = build_subscription(topic, expression, kind, now_ms)
        if not self.config.is_broadcasting:
            retries = member.retry_topic
            member.subscriptions[retries] = build_subscription(retries, SUB_ALL, TAG, now_ms)
        return member

    def _offsets(self, instance: ClientInstance) -> OffsetStore:
        if not self.config.is_broadcasting:
            return BrokerOffsets(GroupCalls(instance, self.config.group))
        documents = self._documents
        if documents is None:
            folder = self.config.offset_folder
            documents = OffsetFolder(folder) if folder else OffsetsInMemory()
        return FileOffsets(documents, instance.client_id, self.config.group, self.config.rules)


def _check_group(group: str) -> None:
    """Upstream: DefaultMQPushConsumerImpl.checkConfig."""
    if (complaint := client_refuses_group(group)) is not None:
        raise MessageIllegal(complaint)
    if group == DEFAULT_CONSUMER_GROUP:
        raise MessageIllegal(f"consumerGroup can not equal {DEFAULT_CONSUMER_GROUP}")
