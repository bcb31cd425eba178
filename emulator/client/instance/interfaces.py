"""What an instance expects of the producers and consumers that share it.

An instance stands below producers and consumers and imports neither: they register with
it, and it calls them through these interfaces.

Upstream: MQProducerInner, MQConsumerInner, MQClientInstance.producerTable, consumerTable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from rocketmq_emulator.errors.call_errors import GroupTaken
from rocketmq_emulator.protocol.messages.names import CLIENT_INNER_PRODUCER_GROUP

if TYPE_CHECKING:
    from rocketmq_emulator.facts.clients import RebalanceCause
    from rocketmq_emulator.net.results import Call, Result
    from rocketmq_emulator.protocol.bodies.groups import ConsumerData
    from rocketmq_emulator.protocol.bodies.routes import TopicRouteData
    from rocketmq_emulator.protocol.messages.message import Message
    from rocketmq_emulator.protocol.queues import MessageQueue
    from rocketmq_emulator.protocol.requests.groups import (
        ConsumeMessageDirectlyRequest,
        GetConsumerRunningInfoRequest,
        GetConsumerStatusRequest,
    )
    from rocketmq_emulator.protocol.requests.offsets import ResetOffsetRequest


class Documents(Protocol):
    """Small named texts that are replaced whole; a ``Disk`` is one."""

    def read(self, name: str) -> bytes | None:
        """The text called *name*, or None."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Write it anew; a reader sees the old text or the new one."""
        ...


class RegisteredProducer(Protocol):
    """One producer group on an instance."""

    @property
    def group(self) -> str:
        """Its producer group, unique on the instance."""
        ...

    def topics(self) -> Collection[str]:
        """The topics whose routes are polled.  Upstream: getPublishTopicList."""
        ...

    def needs_route(self, topic: str) -> bool:
        """Whether even an unchanged route is wanted.  Upstream: isPublishTopicNeedUpdate."""
        ...

    def take_route(self, topic: str, route: TopicRouteData) -> None:
        """A route is new or was needed; comes for every topic of the instance.

        Upstream: updateTopicPublishInfo.
        """
        ...


class InnerProducer(RegisteredProducer, Protocol):
    """The producer that every instance has, for messages its consumers publish themselves."""

    async def send(self, message: Message) -> object:
        """Store *message*, with retries.  Raises ``SendError``, ``Misuse``."""
        ...


class QueuedPull(Protocol):
    """A pull request as the PullMessageService sees it: it belongs to a consumer group."""

    @property
    def group(self) -> str:
        """The consumer group that will carry it out."""
        ...


class ConsumerRequests(Protocol):
    """Answers brokers for one consumer group.  Raises ``BadFields`` for an unreadable body."""

    def reset_offset(self, call: Call[ResetOffsetRequest], /) -> Result:
        """RESET_CONSUMER_CLIENT_OFFSET (220): go on at the offsets of the body."""
        ...

    def consumer_status(self, call: Call[GetConsumerStatusRequest], /) -> Result:
        """GET_CONSUMER_STATUS_FROM_CLIENT (221): the offsets of one topic."""
        ...

    def running_info(self, call: Call[GetConsumerRunningInfoRequest], /) -> Result:
        """GET_CONSUMER_RUNNING_INFO (307): its settings and its process queues."""
        ...

    def consume_directly(self, call: Call[ConsumeMessageDirectlyRequest], /) -> Result:
        """CONSUME_MESSAGE_DIRECTLY (309): call the listener with the message of the body."""
        ...


class RegisteredConsumer(Protocol):
    """One consumer group on an instance."""

    @property
    def group(self) -> str:
        """Its consumer group, unique on the instance."""
        ...

    def topics(self) -> Collection[str]:
        """The topics whose routes are polled.  Upstream: subscriptions."""
        ...

    def subscribes(self, topic: str) -> bool:
        """Whether it takes the routes of *topic*: what it announces, or pulls."""
        ...

    def needs_route(self, topic: str) -> bool:
        """Whether even an unchanged route is wanted.  Upstream: isSubscribeTopicNeedUpdate."""
        ...

    def take_route(self, topic: str, queues: frozenset[MessageQueue]) -> None:
        """The readable queues of a subscribed topic.  Upstream: updateTopicSubscribeInfo."""
        ...

    def heartbeat_data(self) -> ConsumerData:
        """Its part of heartbeats: its model, where it starts, its subscriptions."""
        ...

    async def rebalance(self, cause: RebalanceCause) -> bool:
        """One pass over all topics; True if all are balanced.

        *cause* is why it runs now, for the facts.  Upstream: doRebalance.
        """
        ...

    async def pull(self, request: QueuedPull) -> None:
        """One step of a held queue.  Upstream: DefaultMQPushConsumerImpl.pullMessage."""
        ...

    async def persist_offsets(self) -> None:
        """Every five seconds.  Upstream: persistConsumerOffset."""
        ...

    @property
    def requests(self) -> ConsumerRequests:
        """What answers brokers for this group."""
        ...


class RegisteredMembers:
    """The producers and consumers of the instance *client_id*, by group."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self.producers: dict[str, RegisteredProducer] = {}
        self.consumers: dict[str, RegisteredConsumer] = {}

    def add_producer(self, producer: RegisteredProducer) -> None:
        """Raises ``GroupTaken`` if there is one of that group."""
        if producer.group in self.producers:
            raise GroupTaken(f"{self._client_id} already has a producer group {producer.group}")
        self.producers[producer.group] = producer

    def add_consumer(self, consumer: RegisteredConsumer) -> None:
        """Raises ``GroupTaken`` if there is one of that group."""
        if consumer.group in self.consumers:
            raise GroupTaken(f"{self._client_id} already has a consumer group {consumer.group}")
        self.consumers[consumer.group] = consumer

    @property
    def has_users(self) -> bool:
        """Whether there is any but the inner producer, which serves the others."""
        return bool(self.consumers) or bool(self.producers.keys() - {CLIENT_INNER_PRODUCER_GROUP})

    def topics(self) -> list[str]:
        """Every topic some member uses, consumers' first, each once."""
        return list(dict.fromkeys(topic for member in self._all() for topic in member.topics()))

    def needs_route(self, topic: str) -> bool:
        """Whether some member wants the route of *topic* even if it has not changed."""
        return any(member.needs_route(topic) for member in self._all())

    def _all(self) -> list[RegisteredConsumer | RegisteredProducer]:
        return [*self.consumers.values(), *self.producers.values()]


MakeInnerProducer: TypeAlias = Callable[[Any], InnerProducer]  # of a ClientInstance

make_inner_producer: MakeInnerProducer | None = None  # ``rocketmq_emulator.client`` provides it
