"""One consumer as a member of its group: the state that its parts share, made and checked here.

The parts (rebalance, pulling, consuming) use this state and a few methods of each other, not the
consumer that builds them.  Before its start every kind of consumer checks its group, gets an
instance, parses its subscriptions, and chooses its offset store.

``ConsumerStats`` sums pulled and consumed messages by topic, for the consumer's running info.  The
sums are sampled when they are read (``clocks.sampled_sums``): a minute on a grid of ten seconds,
an hour on a grid of ten minutes.

Upstream: checkConfig, subscribe and initOffsetStore of each consumer; ConsumerStatsManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import trio

from rocketmq_emulator.client.consumer.group.allocation import Strategy
from rocketmq_emulator.client.consumer.group.offsets import (
    LocalFileOffsetStore,
    OffsetFolder,
    OffsetsInMemory,
    RemoteBrokerOffsetStore,
    StartAtZero,
    StartOffsets,
)
from rocketmq_emulator.client.instance.process import ClientProcess, check_process
from rocketmq_emulator.client.settings.arguments import check_plain_function, check_subscriptions
from rocketmq_emulator.clocks.sampled_sums import HOUR, MINUTE, SampledSums, SamplingWindow
from rocketmq_emulator.errors.call_errors import BadArgument, BadSubscription, MessageIllegal
from rocketmq_emulator.facts import ConsumerStarted, ConsumerStopped
from rocketmq_emulator.protocol.bodies.running import ConsumeStatus
from rocketmq_emulator.protocol.messages.misuses import FoundMisuse, in_expression
from rocketmq_emulator.protocol.messages.names import (
    DEFAULT_CONSUMER_GROUP,
    is_retry_topic,
    retry_topic,
)
from rocketmq_emulator.protocol.messages.subscription import (
    SQL92,
    TAG,
    BadExpression,
    build_subscription,
    expression_text,
)
from rocketmq_emulator.protocol.messages.validation import client_refuses_group, type_error_text
from rocketmq_emulator.settings.quirks import class_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from contextlib import AsyncExitStack

    from rocketmq_emulator.client.consumer.group.consume_traces import ConsumeTraces
    from rocketmq_emulator.client.consumer.group.group_calls import GroupCalls
    from rocketmq_emulator.client.consumer.group.offsets import OffsetStore, StartOffsetPolicy
    from rocketmq_emulator.client.consumer.group.process_queue import ProcessQueue
    from rocketmq_emulator.client.instance.instance import ClientInstance
    from rocketmq_emulator.client.instance.interfaces import Documents
    from rocketmq_emulator.client.settings.config import (
        GroupMemberConfig,
        LitePullConsumerConfig,
        PullConsumerConfig,
        PushConsumerConfig,
    )
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.net.timers import Timer
    from rocketmq_emulator.protocol.messages.subscription import SubscriptionData
    from rocketmq_emulator.protocol.queues import MessageQueue
    from rocketmq_emulator.settings.releases import Release


class Member:
    """The state of any consumer, with ``call_later`` and ``start_soon`` for its parts.

    ``starts`` is set by the kind: it finds the first offset of a claimed queue.
    """

    starts: StartOffsetPolicy

    def __init__(
        self,
        config: GroupMemberConfig,
        instance: ClientInstance,
        calls: GroupCalls,
        offsets: OffsetStore,
        nursery: trio.Nursery,
    ) -> None:
        self.config: GroupMemberConfig = config
        self.is_broadcasting = config.is_broadcasting
        self.group = config.group
        self.retry_topic = retry_topic(config.group)
        self.instance = instance
        self.release: Release = config.rules
        self.calls = calls
        self.offsets = offsets
        self.note: Note = instance.note
        self.now_ms: Callable[[], int] = instance.clock.now_ms
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.subscription_changed = False  # since the last rebalance pass
        self.process_queue_table: dict[MessageQueue, ProcessQueue] = {}
        self.started_ms = self.now_ms()
        self.is_running = False
        self.nursery = nursery
        self.traces: ConsumeTraces | None = None

    def call_later(self, delay_ms: int, action: Callable[[], object]) -> Timer:
        """Call *action*, which must not wait, after *delay_ms*, unless the consumer is closed."""

        def act() -> None:
            if self.is_running:
                action()

        at_s = trio.current_time() + delay_ms / 1000
        return self.instance.remoting.timers.at(at_s, act)

    def start_soon(self, work: Callable[[], Awaitable[object]]) -> None:
        """Run *work* in its own task, unless the consumer is closed.

        A rebalance pass may still run after its consumer has closed.
        """
        if self.is_running:
            self.nursery.start_soon(work)


class PushMember(Member):
    """The state of a push consumer, which can be paused and counts consumed messages."""

    config: PushConsumerConfig

    def __init__(
        self,
        config: PushConsumerConfig,
        instance: ClientInstance,
        calls: GroupCalls,
        offsets: OffsetStore,
        nursery: trio.Nursery,
    ) -> None:
        super().__init__(config, instance, calls, offsets, nursery)
        from_ms = config.new_group_from_ms(self.started_ms)
        self.starts = StartOffsets(
            offsets, calls, config.consume_from, new_group_from_ms=from_ms, release=config.rules
        )
        self.stats = ConsumerStats(self.started_ms)
        self.is_paused = False


class PullMember(Member):
    """The state of a pull consumer; its application chooses offsets, so queues start at 0."""

    config: PullConsumerConfig

    def __init__(
        self,
        config: PullConsumerConfig,
        instance: ClientInstance,
        calls: GroupCalls,
        offsets: OffsetStore,
        nursery: trio.Nursery,
    ) -> None:
        super().__init__(config, instance, calls, offsets, nursery)
        self.starts = StartAtZero()


class LitePullMember(Member):
    """The state of a lite pull consumer."""

    config: LitePullConsumerConfig
    starts: StartOffsets

    def __init__(
        self,
        config: LitePullConsumerConfig,
        instance: ClientInstance,
        calls: GroupCalls,
        offsets: OffsetStore,
        nursery: trio.Nursery,
    ) -> None:
        super().__init__(config, instance, calls, offsets, nursery)
        self.starts = StartOffsets(
            offsets,
            calls,
            config.consume_from,
            new_group_from_ms=config.new_group_from_ms(self.started_ms),
            release=config.rules,
            memory_first=True,
        )


# Before the start ---------------------------------------------------------------------


Expression: TypeAlias = str | tuple[str, str]  # alone, or with its type
QueuesChanged: TypeAlias = (  # called with a topic, all its queues, and those of this consumer
    "Callable[[str, Sequence[MessageQueue], Sequence[MessageQueue]], object]"
)


def check_group(group: str) -> None:
    """Raise ``MessageIllegal`` for an invalid group name.

    Upstream: DefaultMQPushConsumerImpl.checkConfig.
    """
    if (complaint := client_refuses_group(group)) is not None:
        raise MessageIllegal(complaint)
    if group == DEFAULT_CONSUMER_GROUP:
        raise MessageIllegal(f"consumerGroup can not equal {DEFAULT_CONSUMER_GROUP}")


def check_consumer_arguments(
    subscriptions: object,
    process: object,
    strategy: object,
    documents: object,
    on_queues: object,
) -> None:
    """Check a consumer's arguments besides its settings.  Raises ``BadArgument``."""
    if subscriptions is not None:
        check_subscriptions(subscriptions)
    check_process(process)
    if not isinstance(strategy, Strategy):
        raise BadArgument(type_error_text("strategy", "a Strategy, as AVG is", strategy))
    if documents is not None and not callable(getattr(documents, "read", None)):
        raise BadArgument(type_error_text("documents", "an OffsetFolder", documents))
    if on_queues is not None:
        check_plain_function("on_queues", on_queues, takes="topic, all, mine")


async def process_for(stack: AsyncExitStack, process: ClientProcess | None) -> ClientProcess:
    """*process*, or a new one that ends with *stack*."""
    if process is not None:
        return process
    return await stack.enter_async_context(ClientProcess())


async def instance_for(
    stack: AsyncExitStack, process: ClientProcess, config: GroupMemberConfig
) -> ClientInstance:
    """An instance, released when *stack* ends; broadcasting consumers share the default one."""
    instance = await process.instance(config, may_share_default=config.is_broadcasting)
    stack.callback(process.release, instance)
    return instance


def subscription_to(topic: str, expression: str, kind: str, now_ms: int) -> SubscriptionData:
    """The subscription of *expression*, whose type is *kind*.  Raises ``BadSubscription``."""
    try:
        return build_subscription(topic, expression, kind, now_ms)
    except BadExpression as error:
        raise BadSubscription(f"{topic}: {error}") from error


def check_compiles(subscription: SubscriptionData) -> None:
    """Raises ``BadSubscription`` for an SQL92 expression that no broker can read.

    A broker delivers every message to a pull that carries such an expression, and upstream's
    client does not check it.
    """
    if subscription.expression_type != SQL92:
        return
    from rocketmq_emulator.protocol.sql92.filters import check_readable  # noqa: PLC0415  # loads a parser

    try:
        check_readable(subscription.sub_string)
    except BadExpression as error:
        raise BadSubscription(f"{subscription.topic}: {error}") from error


def check_misuses(member: Member, subscriptions: Iterable[SubscriptionData]) -> None:
    """Warn of likely mistakes in *subscriptions*; with ``strict`` raise ``BadSubscription``."""
    for data in subscriptions:
        if (seen := in_expression(data)) is not None:
            found = FoundMisuse(
                seen[0], member.instance.client_id, member.group, data.topic, seen[1]
            )
            if member.config.strict:
                raise BadSubscription(found.text)
            member.instance.misuses.notice(found)


async def check_topics_exist(member: Member) -> None:
    """Raise ``BadSubscription`` if a NameServer does not know a topic that is subscribed."""
    routes = member.instance.routes
    for topic in list(member.subscriptions):
        if topic not in routes.table and not is_retry_topic(topic):
            await routes.refresh_quietly(topic)
            if topic not in routes.table:
                why = await routes.why_none(topic)
                raise BadSubscription(f"nobody made the topic {topic}, which is subscribed: {why}")


def subscription_of(topic: str, wanted: Expression, now_ms: int) -> SubscriptionData:
    """The subscription of an expression, or of a pair (expression, type)."""
    expression, kind = (wanted, TAG) if isinstance(wanted, str) else wanted
    return subscription_to(topic, expression, kind, now_ms)


def subscriptions_to(wanted: Mapping[str, Expression], now_ms: int) -> dict[str, SubscriptionData]:
    """Subscriptions by topic, from expressions by topic.  Raises ``BadSubscription``."""
    return {topic: subscription_of(topic, each, now_ms) for topic, each in wanted.items()}


def offset_store(
    config: GroupMemberConfig,
    instance: ClientInstance,
    calls: GroupCalls,
    documents: Documents | None,
) -> OffsetStore:
    """Offsets at brokers; when broadcasting, in *documents*, ``offset_folder``, or memory."""
    if not config.is_broadcasting:
        return class_for(RemoteBrokerOffsetStore, "consumer", config.quirks)(calls)
    if documents is None:
        open_folder = instance.open_folder or OffsetFolder
        folder = config.offset_folder
        documents = open_folder(folder) if folder else OffsetsInMemory()
    return LocalFileOffsetStore(documents, instance.client_id, config.group, config.rules)


def note_started(
    member: Member, kind: Literal["push", "lite_pull", "pull"], *, orderly: bool = False
) -> None:
    """Note ``ConsumerStarted``: the consumer is registered at its instance."""
    wanted = [each for topic, each in member.subscriptions.items() if topic != member.retry_topic]
    member.note(
        ConsumerStarted(
            group=member.group,
            client=member.instance.client_id,
            consumer_kind=kind,
            broadcast=member.is_broadcasting,
            orderly=orderly,
            topics=tuple(each.topic for each in wanted),
            expressions=tuple(
                expression_text(each.sub_string, each.expression_type) for each in wanted
            ),
            release=member.config.release,
        )
    )


def note_stopped(member: Member) -> None:
    """Note ``ConsumerStopped``: the consumer has dropped its queues."""
    member.note(ConsumerStopped(member.group, member.instance.client_id))


# Figures of a consumer ----------------------------------------------------------------


_GRIDS = (MINUTE, HOUR)


class ConsumerStats:
    """The figures of one consumer; upstream's sampling would have begun at *began_ms*."""

    def __init__(self, began_ms: int) -> None:
        self._began_ms = began_ms
        self._topics: dict[str, _TopicStats] = {}

    def pulled(self, topic: str, count: int, took_ms: int, now_ms: int) -> None:
        """A pull was answered with *count* messages after *took_ms*."""
        self._of(topic, now_ms).pulls.add(count, took_ms, now_ms)

    def consumed(
        self, topic: str, calls: int, took_ms: int, now_ms: int, *, ok: int, failed: int
    ) -> None:
        """*calls* of listeners took *took_ms*; *ok* messages were consumed, *failed* were not."""
        figures = self._of(topic, now_ms)
        figures.calls.add(ok, took_ms, now_ms, calls)
        if failed:
            figures.failures.add(failed, 0, now_ms)

    def status(self, topic: str, now_ms: int) -> ConsumeStatus:
        """Messages per second, milliseconds per call, and failed messages of the last hour.

        Upstream: ConsumerStatsManager.consumeStatus.
        """
        found = self._topics.get(topic)
        if found is None:
            return ConsumeStatus()
        calls_ms = _mean_ms(found.calls, MINUTE, now_ms)
        return ConsumeStatus(
            pull_rt=_mean_ms(found.pulls, MINUTE, now_ms),
            pull_tps=_a_second(found.pulls, now_ms),
            consume_rt=calls_ms or _mean_ms(found.calls, HOUR, now_ms),
            consume_ok_tps=_a_second(found.calls, now_ms),
            consume_failed_tps=_a_second(found.failures, now_ms),
            consume_failed_msgs=found.failures.window(HOUR, now_ms)[0].messages,
        )

    def _of(self, topic: str, now_ms: int) -> _TopicStats:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _TopicStats(self._began_ms, now_ms)
        return found


class _TopicStats:
    """The sums of one topic; in ``pulls`` and ``calls``, ``size`` is the time in ms."""

    __slots__ = ("calls", "failures", "pulls")

    def __init__(self, began_ms: int, now_ms: int) -> None:
        self.pulls = SampledSums(_GRIDS, began_ms, now_ms)
        self.calls = SampledSums(_GRIDS, began_ms, now_ms)  # its messages: the consumed ones
        self.failures = SampledSums(_GRIDS, began_ms, now_ms)


def _a_second(sums: SampledSums, now_ms: int) -> float:
    added, ms = sums.window(MINUTE, now_ms)
    return added.messages * 1_000 / ms if ms else 0.0


def _mean_ms(sums: SampledSums, grid: SamplingWindow, now_ms: int) -> float:
    added, _ = sums.window(grid, now_ms)
    return added.size / added.calls if added.calls else 0.0
