"""The pull consumer: the application says which queue to pull, and from which offset.

    async with PullConsumer(namesrv="127.0.0.1:9876", group="audit") as consumer:
        for queue in await consumer.fetch_subscribe_message_queues("orders"):
            result = await consumer.pull(queue, await consumer.min_offset(queue))
            consumer.update_consume_offset(queue, result.next_begin_offset)

It is a member of its group, which shares the queues of what it pulls: those that fall to it
are ``queues``, and their offsets are stored every five seconds.  Nothing keeps it from
pulling others.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self

from emulator.client.arguments import (
    check_is_queue,
    check_subscribed,
    check_subscriptions,
    check_timing,
    check_whole,
)
from emulator.client.config import merged_config
from emulator.client.consumer.active_membership import (
    ActiveMembership,
    PulledOwnership,
    tell_queues,
)
from emulator.client.consumer.allocation import AVG, Strategy
from emulator.client.consumer.enrolment import (
    check_group,
    check_parts,
    instance_for,
    note_started,
    note_stopped,
    offset_store,
    process_for,
    subscription_of,
    subscriptions_to,
)
from emulator.client.consumer.group_calls import GroupCalls, silence_is_refused
from emulator.client.consumer.member import PullMember
from emulator.client.consumer.pull_config import PullConsumerConfig
from emulator.client.consumer.pull_kernel import Asked, PullKernel, PullResult, flag_of
from emulator.client.consumer.rebalance import Rebalance
from emulator.client.consumer.send_back import SendBack
from emulator.client.errors import (
    BadArgument,
    GroupCallRefused,
    NotRunning,
    check_not_running,
    refuse_plain_with,
)
from emulator.net.plain_nursery import plain_nursery
from protocol.arguments import not_a
from protocol.message import MessageExt
from protocol.queues import MessageQueue
from protocol.subscription import SUB_ALL, build_subscription

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from types import TracebackType

    import trio

    from emulator.client.consumer.consume_pipeline import QueuesChanged
    from emulator.client.consumer.enrolment import Expression
    from emulator.client.consumer.process_queue import ProcessQueue
    from emulator.client.instance.instance import ClientInstance
    from emulator.client.instance.interfaces import Documents
    from emulator.client.instance.process import ClientProcess
    from protocol.subscription import SubscriptionData


class PullConsumer:
    """Pulls queues as its application asks, as a member of one group.

    *subscriptions* are the topics it tells brokers of; it may pull others, too.  The rest
    is as with ``PushConsumer``: settings by name are those of ``PullConsumerConfig``, and
    ``on_queues(topic, all, mine)`` is called after every change of the queues that fall to
    it.  Upstream: DefaultMQPullConsumer.
    """

    def __init__(
        self,
        subscriptions: Mapping[str, Expression] | None = None,
        config: PullConsumerConfig | None = None,
        *,
        process: ClientProcess | None = None,
        strategy: Strategy = AVG,
        documents: Documents | None = None,
        on_queues: QueuesChanged | None = None,
        **settings: Any,
    ) -> None:
        check_parts(subscriptions, process, strategy, documents, on_queues)
        self.config = merged_config(PullConsumerConfig, config, settings)
        check_group(self.config.group)
        self._subscriptions = dict(subscriptions or {})
        self._process = process
        self._strategy = strategy
        self._documents = documents
        self._on_queues = on_queues
        self._stack = AsyncExitStack()
        self._running: _Running | None = None

    # Life -----------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Start: register; the group hears of it with the first heartbeat, a second later.

        Raises ``GroupTaken``, and ``BadSubscription`` for an expression that makes no sense.
        """
        check_not_running(self._running, "consumer")
        async with AsyncExitStack() as stack:
            process = await process_for(stack, self._process)
            instance = await instance_for(stack, process, self.config)
            beside = await stack.enter_async_context(plain_nursery())
            running = self._build(instance, beside)
            instance.register_consumer(running.membership)
            note_started(running.member, "pull")
            stack.callback(note_stopped, running.member)
            stack.callback(running.membership.stop)
            stack.push_async_callback(running.membership.unregister)
            running.member.is_running = True
            self._running = running
            self._stack = stack.pop_all()
        return self

    __enter__ = refuse_plain_with
    __exit__ = refuse_plain_with

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Store the offsets of its queues, and unregister."""
        self._running = None
        return await self._stack.__aexit__(kind, error, traceback)

    @property
    def instance(self) -> ClientInstance:
        """The client instance it runs on.  Raises ``NotRunning``, as all that follows."""
        return self._now.member.instance

    # Queues ---------------------------------------------------------------------------

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that fall to it now, of every topic.  It may pull others as well."""
        return sorted(self._now.member.held)

    def fetch_message_queues_in_balance(self, topic: str) -> list[MessageQueue]:
        """The queues of *topic* that fall to it now."""
        check_subscribed(topic)
        return [queue for queue in self.queues if queue.topic == topic]

    async def fetch_subscribe_message_queues(self, topic: str) -> list[MessageQueue]:
        """Every queue of *topic* that may be read; asked for once, then from memory.

        Raises ``GroupCallRefused`` if there is none, ``NoNameServer`` if none answers.
        """
        check_subscribed(topic)
        now = self._now
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
        """What *queue* has from *offset* on, at once; perhaps nothing.

        Raises ``GroupCallRefused`` if the broker refuses or does not answer in time
        (``pull_timeout_ms``), ``BadSubscription``, and ``Misuse`` for a negative offset.
        """
        check_timing(timeout_ms)
        wait_ms = self.config.pull_timeout_ms if timeout_ms is None else timeout_ms
        asked = Asked(
            offset=offset,
            messages_max=messages_max,
            flag=flag_of(suspend=False, lite_pull=False),
            hold_ms_max=self.config.pull_hold_ms_max,
            timeout_ms=wait_ms,
        )
        return await self._pull(queue, expression, asked)

    async def pull_block_if_not_found(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        expression: Expression = SUB_ALL,
        messages_max: int = 32,
    ) -> PullResult:
        """As ``pull``, but the broker waits up to ``pull_hold_ms_max`` for a first message."""
        asked = Asked(
            offset=offset,
            messages_max=messages_max,
            flag=flag_of(suspend=True, lite_pull=False),
            hold_ms_max=self.config.pull_hold_ms_max,
            timeout_ms=self.config.pull_held_timeout_ms,
        )
        return await self._pull(queue, expression, asked)

    async def _pull(self, queue: MessageQueue, expression: Expression, asked: Asked) -> PullResult:
        now = self._now
        check_is_queue(queue)
        check_whole("offset", asked.offset)
        check_whole("messages_max", asked.messages_max, least=1)
        check_subscriptions({queue.topic: expression})
        subscription = subscription_of(queue.topic, expression, now.member.now_ms())
        now.member.subscriptions.setdefault(queue.topic, build_subscription(queue.topic, SUB_ALL))
        with silence_is_refused():
            return await now.kernel.pull(queue, subscription, asked)

    # Offsets --------------------------------------------------------------------------

    def update_consume_offset(self, queue: MessageQueue, offset: int) -> None:
        """The group has consumed all before *offset*: in memory, and stored within seconds.

        Stored are the offsets of ``queues`` only.  A queue that falls to this member forgets
        what was set before.
        """
        check_is_queue(queue)
        check_whole("offset", offset)
        self._now.member.offsets.table.update(queue, offset)

    def persist(self, queue: MessageQueue) -> None:
        """Store its offset now, whomever the queue falls to; the broker does not answer."""
        check_is_queue(queue)
        self._now.member.offsets.persist(queue)

    async def fetch_consume_offset(
        self, queue: MessageQueue, *, from_store: bool = False
    ) -> int | None:
        """The group's offset in memory, or else stored; None: there is none.

        Raises ``GroupCallRefused``.
        """
        check_is_queue(queue)
        offsets = self._now.member.offsets
        known = None if from_store else offsets.table.get(queue)
        if known is not None:
            return known
        with silence_is_refused():
            return await offsets.read(queue)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the first message that is still there.  Raises ``GroupCallRefused``."""
        check_is_queue(queue)
        with silence_is_refused():
            return await self._now.member.calls.min_offset(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset of the next message to be stored.  Raises ``GroupCallRefused``."""
        check_is_queue(queue)
        with silence_is_refused():
            return await self._now.member.calls.max_offset(queue)

    async def search_offset(self, queue: MessageQueue, at_ms: int) -> int:
        """The first message stored at *at_ms* (wall time) or later.

        Raises ``GroupCallRefused``.
        """
        check_is_queue(queue)
        check_whole("at_ms", at_ms)
        with silence_is_refused():
            return await self._now.member.calls.offset_at(queue, at_ms)

    async def earliest_msg_store_time(self, queue: MessageQueue) -> int:
        """When the first message that is still there was stored, in milliseconds.

        Raises ``GroupCallRefused``.
        """
        check_is_queue(queue)
        with silence_is_refused():
            return await self._now.member.calls.earliest_store_ms(queue)

    # Messages -------------------------------------------------------------------------

    async def send_message_back(
        self, message: MessageExt, delay_level: int = 0, *, broker_name: str | None = None
    ) -> None:
        """Have *message* delivered again through the group's retry topic.

        Level 0: the broker decides when.  A pull consumer has to pull that topic to see it.
        Raises ``GroupCallRefused`` if neither its broker nor any other stored a copy.
        """
        if not isinstance(message, MessageExt):
            raise BadArgument(not_a("message", "a MessageExt that was pulled", message))
        check_whole("delay_level", delay_level, least=-1)
        broker = message.broker_name if broker_name is None else broker_name
        queue = MessageQueue(message.topic, broker, message.queue_id)
        if not await self._now.send_back.send_back(message, queue, delay_level):
            raise GroupCallRefused(f"no broker stored {message.msg_id} to be delivered again")

    # Inside ---------------------------------------------------------------------------

    @property
    def _now(self) -> _Running:
        if self._running is None:
            raise NotRunning("a consumer is used inside its `async with` only")
        return self._running

    def _build(self, instance: ClientInstance, beside: trio.Nursery) -> _Running:
        calls = GroupCalls(instance, self.config.group)
        offsets = offset_store(self.config, instance, calls, self._documents)
        member = PullMember(self.config, instance, calls, offsets, beside)
        offsets.load()
        registered = subscriptions_to(self._subscriptions, 0)
        member.subscriptions.update(registered)
        return _Running(member, self._strategy, list(registered.values()), self._on_queues)


class _Running:
    """The parts of a running pull consumer, and what its membership asks for."""

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
        self.membership = ActiveMembership(member, self.rebalance, self)
        self._registered = registered
        self._on_queues = on_queues

    @property
    def rebalances(self) -> bool:
        """As configured."""
        return self.member.config.enable_rebalance

    def announced(self) -> Collection[SubscriptionData]:
        """What it was made with, not what it pulls."""
        return self._registered

    def owned(self) -> Collection[MessageQueue]:
        """The queues that fall to it."""
        return self.member.held.keys()

    def shown(self) -> dict[MessageQueue, ProcessQueue]:
        """None: it caches nothing."""
        return {}

    def status(self, topic: str) -> dict[MessageQueue, int]:
        """The offsets in memory."""
        return self.member.offsets.table.of_topic(topic)

    async def _queues_changed(self, topic: str, mine: Collection[MessageQueue]) -> None:
        every = self.rebalance.queues.get(topic, frozenset())
        tell_queues(self.member, self._on_queues, topic, every, mine)
