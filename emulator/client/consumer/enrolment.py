"""What every kind of consumer does before it starts: check its group, get an instance,
parse its subscriptions, choose where its offsets are kept.

Upstream: the checkConfig, subscribe and initOffsetStore of each consumer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from emulator.client.arguments import check_plain_function, check_subscriptions
from emulator.client.consumer.allocation import Strategy
from emulator.client.consumer.offsets import (
    BrokerOffsets,
    FileOffsets,
    OffsetFolder,
    OffsetsInMemory,
)
from emulator.client.errors import BadArgument, BadSubscription, MessageIllegal
from emulator.client.instance.process import ClientProcess, check_process
from emulator.facts import ConsumerStarted, ConsumerStopped
from protocol.arguments import not_a
from protocol.names import DEFAULT_CONSUMER_GROUP
from protocol.subscription import TAG, BadExpression, build_subscription
from protocol.validation import client_refuses_group

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AsyncExitStack

    from emulator.client.consumer.consumer_config import GroupMemberConfig
    from emulator.client.consumer.group_calls import GroupCalls
    from emulator.client.consumer.member import Member
    from emulator.client.consumer.offsets import OffsetStore
    from emulator.client.instance.instance import ClientInstance
    from emulator.client.instance.interfaces import Documents
    from protocol.subscription import SubscriptionData

Expression: TypeAlias = str | tuple[str, str]  # alone, or with its type


def check_group(group: str) -> None:
    """Raises ``MessageIllegal``.  Upstream: DefaultMQPushConsumerImpl.checkConfig."""
    if (complaint := client_refuses_group(group)) is not None:
        raise MessageIllegal(complaint)
    if group == DEFAULT_CONSUMER_GROUP:
        raise MessageIllegal(f"consumerGroup can not equal {DEFAULT_CONSUMER_GROUP}")


def check_parts(
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
        raise BadArgument(not_a("strategy", "a Strategy, as AVG is", strategy))
    if documents is not None and not callable(getattr(documents, "read", None)):
        raise BadArgument(not_a("documents", "an OffsetFolder", documents))
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
        return BrokerOffsets(calls)
    if documents is None:
        open_folder = instance.open_folder or OffsetFolder
        folder = config.offset_folder
        documents = open_folder(folder) if folder else OffsetsInMemory()
    return FileOffsets(documents, instance.client_id, config.group, config.rules)


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
