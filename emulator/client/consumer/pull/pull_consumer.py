"""The pull consumer: the application chooses the queue and the offset of each pull.

    async with PullConsumer(namesrv="127.0.0.1:9876", group="audit") as consumer:
        for queue in await consumer.fetch_subscribe_message_queues("orders"):
            result = await consumer.pull(queue, await consumer.min_offset(queue))
            consumer.update_consume_offset(queue, result.next_begin_offset)

It is a member of its group, whose members share the queues of the topics that they pull.  Its own
share is ``queues``, and their offsets are stored every five seconds.  It can pull other queues
too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketmq_emulator.client.consumer.group.allocation import AVG, Strategy
from rocketmq_emulator.client.consumer.group.group_calls import no_answer_is_refused
from rocketmq_emulator.client.consumer.group.group_consumer import GroupConsumer
from rocketmq_emulator.client.consumer.group.member import (
    PullMember,
    check_compiles,
    subscription_of,
    subscriptions_to,
)
from rocketmq_emulator.client.consumer.group.pull_kernel import (
    PullKernel,
    PullOptions,
    PullResult,
    flag_of,
)
from rocketmq_emulator.client.consumer.group.rebalance import Rebalance
from rocketmq_emulator.client.consumer.pull.active_membership import (
    PulledOwnership,
    RegisteredPullConsumer,
    call_on_queues,
)
from rocketmq_emulator.client.consumer.push.send_back import SendBack
from rocketmq_emulator.client.settings.arguments import (
    check_is_queue,
    check_subscribed,
    check_subscriptions,
    check_timing,
    check_whole,
)
from rocketmq_emulator.client.settings.config import PullConsumerConfig
from rocketmq_emulator.errors.call_errors import (
    BadArgument,
    ClientError,
    GroupCallRefusedByBroker,
    GroupCallUnanswered,
)
from rocketmq_emulator.protocol.error_families import RefusedByServer
from rocketmq_emulator.protocol.messages.message import MessageExt
from rocketmq_emulator.protocol.messages.subscription import SUB_ALL, build_subscription
from rocketmq_emulator.protocol.messages.validation import type_error_text
from rocketmq_emulator.protocol.queues import MessageQueue

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import trio

    from rocketmq_emulator.client.consumer.group.member import Expression, QueuesChanged
    from rocketmq_emulator.client.consumer.group.process_queue import ProcessQueue
    from rocketmq_emulator.client.instance.instance import ClientInstance
    from rocketmq_emulator.client.instance.interfaces import Documents
    from rocketmq_emulator.client.instance.process import ClientProcess
    from rocketmq_emulator.protocol.messages.subscription import SubscriptionData


class PullConsumer(GroupConsumer[PullConsumerConfig, "_PullPipeline"]):
    """Pulls queues on request of its application, as a member of one group.

    *subscriptions* are the topics in its heartbeats; it can pull other topics too.  The rest
    is as for ``PushConsumer``: settings by name are those of ``PullConsumerConfig``, and
    ``on_queues(topic, all, mine)`` is called after every change of its share of the queues.
    It becomes a member of the group with its first heartbeat, a second after the start.
    Upstream: DefaultMQPullConsumer.
    """

    _KIND = "pull"

    def __init__(
        self,
        subscriptions: Mapping[str, Expression] | None = None,
        config: PullConsumerConfig | None = None,
        *,
        process: ClientProcess | None = None,
        strategy: Strategy = AVG,
        documents: Documents | None = None,
        on_queues: QueuesChanged | None = None,
        **settings: object,
    ) -> None:
        super().__init__(
            config,
            settings,
            config_type=PullConsumerConfig,
            subscriptions=subscriptions,
            process=process,
            strategy=strategy,
            documents=documents,
            on_queues=on_queues,
        )

    # Queues ---------------------------------------------------------------------------

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that it holds now, of every topic.  It can pull other queues too."""
        return sorted(self._running.member.process_queue_table)

    def fetch_message_queues_in_balance(self, topic: str) -> list[MessageQueue]:
        """The queues of *topic* that it holds now."""
        check_subscribed(topic)
        return [queue for queue in self.queues if queue.topic == topic]

    async def fetch_subscribe_message_queues(self, topic: str) -> list[MessageQueue]:
        """Every queue of *topic* that may be read; queried once, then from memory.

        Raises ``GroupCallRefused`` if there is none, ``NoNameServer`` if none answers.
        """
        check_subscribed(topic)
        now = self._running
        known = now.rebalance.queues.get(topic)
        if known is not None:
            return sorted(known)
        return await now.member.calls.queues_of(topic)

    # Pulling --------------------------------------------------------------------------

    async def pull(
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
        check_timing(timeout_ms)
        wait_ms = self.config.pull_timeout_ms if timeout_ms is None else timeout_ms
        options = PullOptions(
            offset=offset,
            messages_max=messages_max,
            flag=flag_of(suspend=False, lite_pull=False),
            hold_ms_max=self.config.pull_hold_ms_max,
            timeout_ms=wait_ms,
        )
        return await self._pull(queue, expression, options)

    async def pull_block_if_not_found(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        expression: Expression = SUB_ALL,
        messages_max: int = 32,
    ) -> PullResult:
        """Like ``pull``, but the broker waits up to ``pull_hold_ms_max`` for a message."""
        options = PullOptions(
            offset=offset,
            messages_max=messages_max,
            flag=flag_of(suspend=True, lite_pull=False),
            hold_ms_max=self.config.pull_hold_ms_max,
            timeout_ms=self.config.pull_held_timeout_ms,
        )
        return await self._pull(queue, expression, options)

    async def _pull(
        self, queue: MessageQueue, expression: Expression, options: PullOptions
    ) -> PullResult:
        now = self._running
        check_is_queue(queue)
        check_whole("offset", options.offset)
        check_whole("messages_max", options.messages_max, least=1)
        check_subscriptions({queue.topic: expression})
        subscription = subscription_of(queue.topic, expression, now.member.now_ms())
        check_compiles(subscription)
        now.member.subscriptions.setdefault(queue.topic, build_subscription(queue.topic, SUB_ALL))
        with no_answer_is_refused():
            return await now.kernel.pull(queue, subscription, options)

    # Offsets --------------------------------------------------------------------------

    def update_consume_offset(self, queue: MessageQueue, offset: int) -> None:
        """Set the group's offset of *queue* in memory; it is stored within seconds.

        Only offsets of ``queues`` are stored.  When this member claims a queue, an offset that
        was set before is dropped.
        """
        check_is_queue(queue)
        check_whole("offset", offset)
        self._running.member.offsets.table.update(queue, offset)

    def persist(self, queue: MessageQueue) -> None:
        """Store the offset of *queue* now, even if this member does not hold it; one-way."""
        check_is_queue(queue)
        self._running.member.offsets.persist(queue)

    async def fetch_consume_offset(
        self, queue: MessageQueue, *, from_store: bool = False
    ) -> int | None:
        """The group's offset in memory, or else the stored one; None if there is none.

        Raises ``GroupCallRefused``.
        """
        check_is_queue(queue)
        offsets = self._running.member.offsets
        known = None if from_store else offsets.table.get(queue)
        if known is not None:
            return known
        with no_answer_is_refused():
            return await offsets.read(queue)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the first message in *queue*.  Raises ``GroupCallRefused``."""
        check_is_queue(queue)
        with no_answer_is_refused():
            return await self._running.member.calls.min_offset(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset of the next message to be stored.  Raises ``GroupCallRefused``."""
        check_is_queue(queue)
        with no_answer_is_refused():
            return await self._running.member.calls.max_offset(queue)

    async def search_offset(self, queue: MessageQueue, at_ms: int) -> int:
        """The offset of the first message stored at *at_ms* (wall time, ms) or later.

        Raises ``GroupCallRefused``.
        """
        check_is_queue(queue)
        check_whole("at_ms", at_ms)
        with no_answer_is_refused():
            return await self._running.member.calls.offset_at(queue, at_ms)

    async def earliest_msg_store_time(self, queue: MessageQueue) -> int:
        """When the first message in *queue* was stored (wall time, ms).

        Raises ``GroupCallRefused``.
        """
        check_is_queue(queue)
        with no_answer_is_refused():
            return await self._running.member.calls.earliest_store_ms(queue)

    # Messages -------------------------------------------------------------------------

    async def send_message_back(
        self, message: MessageExt, delay_level: int = 0, *, broker_name: str | None = None
    ) -> None:
        """Have *message* delivered again through the group's retry topic.

        With delay level 0 the broker chooses the delay.  A pull consumer has to pull the retry
        topic itself.  Raises ``GroupCallRefused`` if no broker stored a copy.
        """
        if not isinstance(message, MessageExt):
            raise BadArgument(type_error_text("message", "a MessageExt that was pulled", message))
        check_whole("delay_level", delay_level, least=-1)
        broker = message.broker_name if broker_name is None else broker_name
        queue = MessageQueue(message.topic, broker, message.queue_id)
        try:
            await self._running.send_back.send_back_or_raise(message, queue, delay_level)
        except ClientError as error:
            text = f"no broker stored {message.msg_id} to be delivered again: {error}"
            if isinstance(error, RefusedByServer):
                raise GroupCallRefusedByBroker(text, code=getattr(error, "code", None)) from error
            raise GroupCallUnanswered(text) from error

    # Inside ---------------------------------------------------------------------------

    def _build(self, instance: ClientInstance, nursery: trio.Nursery) -> _PullPipeline:
        member = self._member(PullMember, instance, nursery)
        registered = subscriptions_to(self._subscriptions, 0)
        member.subscriptions.update(registered)
        return _PullPipeline(member, self._strategy, list(registered.values()), self._on_queues)

    def _membership(self, running: _PullPipeline) -> RegisteredPullConsumer:
        return running.membership


class _PullPipeline:
    """The parts of a running pull consumer, and its ``PullConsumerView``."""

    def __init__(
        self,
        member: PullMember,
        strategy: Strategy,
        registered: list[SubscriptionData],
        on_queues: QueuesChanged | None,
    ) -> None:
        self.member = member
        self.kernel = PullKernel(member, member.config.broker_id)
        self.send_back = SendBack(member)
        self.rebalance = Rebalance(member, strategy, PulledOwnership(member), self._queues_changed)
        self.membership = RegisteredPullConsumer(member, self.rebalance, self)
        self._registered = registered
        self._on_queues = on_queues

    @property
    def rebalances(self) -> bool:
        """Whether ``enable_rebalance`` is set."""
        return self.member.config.enable_rebalance

    def heartbeat_subscriptions(self) -> Collection[SubscriptionData]:
        """The subscriptions given at its creation, not those of the topics that it pulls."""
        return self._registered

    def queues_to_persist(self) -> Collection[MessageQueue]:
        """The queues that it holds."""
        return self.member.process_queue_table.keys()

    def reported_process_queues(self) -> dict[MessageQueue, ProcessQueue]:
        """Always empty: it caches no messages."""
        return {}

    def reported_offsets(self, topic: str) -> dict[MessageQueue, int]:
        """The offsets of *topic* in memory."""
        return self.member.offsets.table.of_topic(topic)

    async def _queues_changed(self, topic: str, mine: Collection[MessageQueue]) -> None:
        every = self.rebalance.queues.get(topic, frozenset())
        call_on_queues(self.member, self._on_queues, topic, every, mine)
