"""The push consumer: it calls the application's listener with messages.

    async def on_orders(messages: list[MessageExt]) -> None:
        ...

    async with PushConsumer(
        on_orders, {"orders": "TagA || TagB"}, namesrv="127.0.0.1:9876", group="billing"
    ):
        await trio.sleep_forever()

Without a listener the application iterates over the messages:

    async with PushConsumer(subscriptions={"orders": "*"}, group="billing") as consumer:
        async for message in consumer:
            ...

At the end of the block the consumer writes its offsets and unregisters.  When it is
cancelled it sends nothing, like a killed process.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from rocketmq_emulator.client.consumer.group.allocation import AVG, Strategy
from rocketmq_emulator.client.consumer.group.group_consumer import GroupConsumer
from rocketmq_emulator.client.consumer.group.listeners import (
    ConsumptionFacts,
    Listener,
    ListenerInvoker,
)
from rocketmq_emulator.client.consumer.group.member import (
    PushMember,
    check_misuses,
    subscription_to,
    subscriptions_to,
)
from rocketmq_emulator.client.consumer.push.consume_pipeline import ConsumePipeline
from rocketmq_emulator.client.consumer.push.message_loop import HandOver, Messages
from rocketmq_emulator.client.instance.plain_functions import InlineCalls
from rocketmq_emulator.client.settings.arguments import (
    check_is_queue,
    check_listener,
    check_subscribed,
    check_text,
    is_coroutine_function,
)
from rocketmq_emulator.client.settings.config import PushConsumerConfig
from rocketmq_emulator.errors.call_errors import (
    ClientMisuse,
)
from rocketmq_emulator.net.tasks import cancelling_nursery
from rocketmq_emulator.protocol.messages.subscription import SUB_ALL, TAG, build_subscription
from rocketmq_emulator.settings.quirks import class_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    import trio

    from rocketmq_emulator.client.consumer.group.member import QueuesChanged
    from rocketmq_emulator.client.instance.instance import ClientInstance
    from rocketmq_emulator.client.instance.interfaces import Documents
    from rocketmq_emulator.client.instance.plain_functions import PlainCalls
    from rocketmq_emulator.client.instance.process import ClientProcess
    from rocketmq_emulator.protocol.queues import MessageQueue


class PushConsumer(GroupConsumer[PushConsumerConfig, ConsumePipeline]):
    """Consumes topics as a member of one group.

    *subscriptions* are expressions by topic: ``*``, ``TagA || TagB``, or a pair of an
    expression and its type, such as ``("price > 5", "SQL92")``.  Settings are those of
    ``PushConsumerConfig``: pass a *config*, or single fields by name.  Without a *process* the
    consumer makes its own, with TCP and this machine's clock.  *documents* store the offsets of
    a broadcasting consumer.  ``on_queues(topic, all, mine)`` is called after every change of the
    queues that the consumer holds.  Without a *listener* the application reads messages in loops
    (``messages``), one at a time unless ``consume_threads_max`` is given.

    Entering the block finds routes, joins the group and starts to consume.  It raises
    ``GroupTaken``; ``BadSubscription`` for an invalid expression, ``GroupCallRefused`` for an
    expression that a broker cannot read; ``ClientMisuse`` if the listener is a plain function and
    the world needs a duration for it.  Upstream: DefaultMQPushConsumer.
    """

    _KIND = "push"

    def __init__(
        self,
        listener: Listener | None = None,
        subscriptions: Mapping[str, str | tuple[str, str]] | None = None,
        config: PushConsumerConfig | None = None,
        *,
        process: ClientProcess | None = None,
        strategy: Strategy = AVG,
        documents: Documents | None = None,
        on_queues: QueuesChanged | None = None,
        **settings: object,
    ) -> None:
        hand_over = HandOver()
        self._hand_over = hand_over if listener is None else None
        self._listener: Listener = hand_over.listen if listener is None else listener
        check_listener(self._listener)
        if listener is None and config is None:
            settings = {"consume_threads_max": 1, **settings}
        super().__init__(
            config,
            settings,
            config_type=PushConsumerConfig,
            subscriptions=subscriptions,
            process=process,
            strategy=strategy,
            documents=documents,
            on_queues=on_queues,
        )
        if listener is None and self.config.consume_batch_max != 1:
            raise ClientMisuse(
                "a loop takes one message at a time: consume_batch_max is for listeners"
            )
        self._plain_calls: PlainCalls | None = None

    # While it runs --------------------------------------------------------------------

    def messages(self, *, timeout_s: float | None = None, count: int | None = None) -> Messages:
        """An async iterator of messages; ``async for message in consumer`` has no limits.

        It ends when no message arrives for *timeout_s*, after *count* messages, and when the
        consumer closes.  Requesting the next message acknowledges the previous one; so does
        leaving the loop by ``break`` or ``return``.  If an exception leaves the loop, the message
        is delivered again later.  Raises ``ClientMisuse`` if there is a listener.
        """
        return Messages(self.loops, timeout_s, count)

    def __aiter__(self) -> Messages:
        return self.messages()

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer holds now, including those of the retry topic."""
        return sorted(self._running.member.process_queue_table)

    def offset(self, queue: MessageQueue) -> int | None:
        """The next offset to be committed; None if no offset of *queue* is known yet."""
        check_is_queue(queue)
        return self._running.member.offsets.table.get(queue)

    async def subscribe(self, topic: str, expression: str = SUB_ALL, kind: str = TAG) -> None:
        """Add a subscription, or change the expression of one; sends heartbeats at once.

        The next rebalance passes claim the queues of *topic*; the first pass finds the route.
        Raises ``BadSubscription``.
        """
        check_subscribed(topic)
        check_text("expression", expression)
        check_text("kind", kind)
        member = self._running.member
        wanted = subscription_to(topic, expression, kind, member.now_ms())
        check_misuses(member, [wanted])
        member.subscriptions[topic] = wanted
        member.subscription_changed = True
        await member.instance.heartbeats.send_round()

    def unsubscribe(self, topic: str) -> None:
        """Remove a subscription; the next rebalance pass drops the queues of *topic*.

        Offsets of these queues that are not committed by then are lost.
        """
        check_text("topic", topic)
        member = self._running.member
        if member.subscriptions.pop(topic, None) is not None:
            member.subscription_changed = True

    def suspend(self) -> None:
        """Stop pulling and rebalancing; cached messages are still consumed."""
        self._running.member.is_paused = True

    async def resume(self) -> None:
        """Pull and rebalance again; a rebalance pass runs before this returns."""
        await self._running.resume()

    # Inside ---------------------------------------------------------------------------

    @property
    def loops(self) -> HandOver:
        """The hand-over to the loops.  Raises ``ClientMisuse`` if there is a listener."""
        _ = self._running
        if self._hand_over is None:
            raise ClientMisuse(
                "this consumer has a listener; a loop is for a consumer without one"
            )
        return self._hand_over

    @property
    def _is_orderly(self) -> bool:
        return self.config.orderly

    @property
    def _traced_timeout_ms(self) -> int:
        return self.config.consume_timeout_ms

    def _prepare(self, process: ClientProcess) -> None:
        """Choose how calls of a plain listener run: as the world defines, or on the event loop."""
        config = self.config
        if is_coroutine_function(self._listener):
            self._plain_calls = None
        elif config.listeners_inline:
            self._plain_calls = InlineCalls(config.listener_ms) if config.listener_ms else None
        else:
            self._plain_calls = process.plain_functions.for_listener(
                threads_max=config.consume_threads_max, listener_ms=config.listener_ms
            )

    def _build(self, instance: ClientInstance, nursery: trio.Nursery) -> ConsumePipeline:
        member = self._member(PushMember, instance, nursery)
        now_ms = member.now_ms()
        member.subscriptions.update(subscriptions_to(self._subscriptions, now_ms))
        if not self.config.is_broadcasting:
            retries = member.retry_topic
            member.subscriptions[retries] = build_subscription(retries, SUB_ALL, TAG, now_ms)
        facts = ConsumptionFacts(member.group, member.note, member.instance.wants)
        invoker = ListenerInvoker(self._listener, facts, self._plain_calls)
        pipeline = class_for(ConsumePipeline, "consumer", member.config.quirks)
        return pipeline(member, invoker, facts, self._strategy, self._on_queues)

    def _membership(self, running: ConsumePipeline) -> ConsumePipeline:
        return running

    async def _start(self, running: ConsumePipeline, stack: AsyncExitStack) -> None:
        """Run listeners in their own nursery, which ends before offsets are written."""
        workers = await stack.enter_async_context(cancelling_nursery())
        stack.push_async_callback(running.wait_finished)
        running.start(workers)
        if self._hand_over is not None:
            self._hand_over.is_closed = False
            running.pool.on_job_over = self._hand_over.notify_change
            wait_ms = self.config.api_timeout_ms
            stack.push_async_callback(self._hand_over.finish, running.pool, wait_ms)
        await running.join_group()
