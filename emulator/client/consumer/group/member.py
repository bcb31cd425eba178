"""One consumer as a member of its group: the state its parts share, made and checked here.

The parts (rebalance, pulling, consuming) use this state and each other's few entry
points, not the consumer that builds them.  Before it starts every kind of consumer checks its
group, gets an instance, parses its subscriptions, and chooses where its offsets are kept.

How fast it pulls and consumes is summed by topic, for what it reports of itself.  The sums are
sampled where they are read (``clocks.sampled_sums``): a minute on a grid of ten seconds, an hour
on one of ten minutes.

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
from rocketmq_emulator.protocol.messages.names import DEFAULT_CONSUMER_GROUP, retry_topic
from rocketmq_emulator.protocol.messages.subscription import TAG, BadExpression, build_subscription
from rocketmq_emulator.protocol.messages.validation import client_refuses_group, type_error_text
from rocketmq_emulator.settings.quirks import class_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AsyncExitStack

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
    """State without behaviour, and two ways to do something later or beside.

    What every kind of consumer has.  ``starts`` is given by the kind: where it begins in a
    queue that it was just given.
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

    def call_later(self, delay_ms: int, action: Callable[[], object]) -> Timer:
        """Call the short *action* after *delay_ms*; not once the consumer is closed."""

        def act() -> None:
            if self.is_running:
                action()

        at_s = trio.current_time() + delay_ms / 1000
        return self.instance.remoting.timers.at(at_s, act)

    def start_soon(self, work: Callable[[], Awaitable[object]]) -> None:
        """Start *work* in a task of its own, and do not wait for it; not once it is closed.

        A rebalance pass may outlive its consumer.
        """
        if self.is_running:
            self.nursery.start_soon(work)


class PushMember(Member):
    """A push consumer's: it may be paused as a whole, and counts what it consumes."""

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
    """A pull consumer's: its application knows where it begins, so it begins at 0."""

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
    """A lite pull consumer's."""

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
    """Raises ``MessageIllegal``.  Upstream: DefaultMQPushConsumerImpl.checkConfig."""
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
    """What any consumer may be given besides its settings.  Raises ``BadArgument``."""
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
    """The one that was given, or one of its own that ends with *stack*."""
    if process is not None:
        return process
    return await stack.enter_async_context(ClientProcess())


async def instance_for(
    stack: AsyncExitStack, process: ClientProcess, config: GroupMemberConfig
) -> ClientInstance:
    """An instance that is released when *stack* ends; shared if it must outlive the process."""
    instance = await process.instance(config, may_share_default=config.is_broadcasting)
    stack.callback(process.release, instance)
    return instance


def subscription_to(topic: str, expression: str, kind: str, now_ms: int) -> SubscriptionData:
    """Raises ``BadSubscription`` for an expression that makes no sense."""
    try:
        return build_subscription(topic, expression, kind, now_ms)
    except BadExpression as error:
        raise BadSubscription(f"{topic}: {error}") from error


def subscription_of(topic: str, wanted: Expression, now_ms: int) -> SubscriptionData:
    """The same of an expression alone, or with its type."""
    expression, kind = (wanted, TAG) if isinstance(wanted, str) else wanted
    return subscription_to(topic, expression, kind, now_ms)


def subscriptions_to(wanted: Mapping[str, Expression], now_ms: int) -> dict[str, SubscriptionData]:
    """The same of several topics."""
    return {topic: subscription_of(topic, each, now_ms) for topic, each in wanted.items()}


def offset_store(
    config: GroupMemberConfig,
    instance: ClientInstance,
    calls: GroupCalls,
    documents: Documents | None,
) -> OffsetStore:
    """The brokers; or, when broadcasting, *documents*, a folder or this process's memory."""
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
    """The consumer is registered at its instance: what the journal needs to know of it."""
    wanted = [each for topic, each in member.subscriptions.items() if topic != member.retry_topic]
    member.note(
        ConsumerStarted(
            group=member.group,
            client=member.instance.client_id,
            consumer_kind=kind,
            broadcast=member.is_broadcasting,
            orderly=orderly,
            topics=tuple(each.topic for each in wanted),
            expressions=tuple(each.sub_string for each in wanted),
            release=member.config.release,
        )
    )


def note_stopped(member: Member) -> None:
    """It has dropped its queues."""
    member.note(ConsumerStopped(member.group, member.instance.client_id))


# What it counts -----------------------------------------------------------------------


_GRIDS = (MINUTE, HOUR)


class ConsumerStats:
    """Of one member of a group; *began_ms* is when upstream's sampling would have begun."""

    def __init__(self, began_ms: int) -> None:
        self._began_ms = began_ms
        self._topics: dict[str, _TopicStats] = {}

    def pulled(self, topic: str, count: int, took_ms: int, now_ms: int) -> None:
        """A pull was answered with *count* messages after *took_ms*."""
        self._of(topic, now_ms).pulls.add(count, took_ms, now_ms)

    def consumed(
        self, topic: str, calls: int, took_ms: int, now_ms: int, *, ok: int, failed: int
    ) -> None:
        """Listeners returned, after *took_ms* in all; so many of their messages were consumed."""
        figures = self._of(topic, now_ms)
        figures.calls.add(ok, took_ms, now_ms, calls)
        if failed:
            figures.failures.add(failed, 0, now_ms)

    def status(self, topic: str, now_ms: int) -> ConsumeStatus:
        """Messages a second and milliseconds a call; failed messages of an hour.

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
    """Of one topic; ``size`` of the first two is the time that their calls took, in ms."""

    __slots__ = ("calls", "failures", "pulls")

    def __init__(self, began_ms: int, now_ms: int) -> None:
        self.pulls = SampledSums(_GRIDS, began_ms, now_ms)
        self.calls = SampledSums(_GRIDS, began_ms, now_ms)  # messages: those consumed
        self.failures = SampledSums(_GRIDS, began_ms, now_ms)


def _a_second(sums: SampledSums, now_ms: int) -> float:
    added, ms = sums.window(MINUTE, now_ms)
    return added.messages * 1_000 / ms if ms else 0.0


def _mean_ms(sums: SampledSums, grid: SamplingWindow, now_ms: int) -> float:
    added, _ = sums.window(grid, now_ms)
    return added.size / added.calls if added.calls else 0.0
