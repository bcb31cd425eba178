"""The interfaces of producers and consumers, as their instance calls them.

An instance imports neither producers nor consumers: they register at it, and it calls them
through these interfaces.

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
    from rocketmq_emulator.protocol.messages.message import Message, MessageExt
    from rocketmq_emulator.protocol.queues import MessageQueue
    from rocketmq_emulator.protocol.requests.groups import (
        CheckTransactionStateRequest,
        ConsumeMessageDirectlyRequest,
        GetConsumerRunningInfoRequest,
        GetConsumerStatusRequest,
    )
    from rocketmq_emulator.protocol.requests.offsets import ResetOffsetRequest


class Documents(Protocol):
    """Small named texts that are replaced as a whole; a ``Disk`` implements it."""

    def read(self, name: str) -> bytes | None:
        """The text named *name*, or None."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Write the text *name*; a reader gets the old text or the new one."""
        ...


class TransactionChecks(Protocol):
    """Answers brokers' questions about the half messages of one group."""

    def check(
        self, message: MessageExt, request: CheckTransactionStateRequest, address: str, /
    ) -> None:
        """CHECK_TRANSACTION_STATE (39) from *address*: answered there, later."""
        ...


class RegisteredProducer(Protocol):
    """One producer group on an instance."""

    @property
    def group(self) -> str:
        """The producer group, unique on the instance."""
        ...

    @property
    def transaction_checks(self) -> TransactionChecks | None:
        """None for a producer that sends no transactional messages."""
        ...

    def topics(self) -> Collection[str]:
        """The topics whose routes are polled.  Upstream: getPublishTopicList."""
        ...

    def needs_route(self, topic: str) -> bool:
        """Whether ``take_route`` is needed even for an unchanged route.

        Upstream: isPublishTopicNeedUpdate.
        """
        ...

    def take_route(self, topic: str, route: TopicRouteData) -> None:
        """Use a route that changed or was needed; called for every topic of the instance.

        Upstream: updateTopicPublishInfo.
        """
        ...


class InnerProducer(RegisteredProducer, Protocol):
    """The producer that every instance has, for messages that its consumers publish."""

    async def send(self, message: Message, *, worker: int = 0) -> object:
        """Store *message*, with retries, as the thread *worker*: each has its own round robin.

        Raises ``SendError``, ``Misuse``.
        """
        ...


class QueuedPull(Protocol):
    """A pull request, for the PullMessageService: only its consumer group matters."""

    @property
    def group(self) -> str:
        """The group of the consumer that pulls."""
        ...


class ConsumerRequests(Protocol):
    """Handles brokers' requests for one group.  Raises ``BadFields`` for an unreadable body."""

    def reset_offset(self, call: Call[ResetOffsetRequest], /) -> Result:
        """RESET_CONSUMER_CLIENT_OFFSET (220): continue at the offsets of the body."""
        ...

    def consumer_status(self, call: Call[GetConsumerStatusRequest], /) -> Result:
        """GET_CONSUMER_STATUS_FROM_CLIENT (221): the offsets of one topic."""
        ...

    def running_info(self, call: Call[GetConsumerRunningInfoRequest], /) -> Result:
        """GET_CONSUMER_RUNNING_INFO (307): settings and process queues."""
        ...

    def consume_directly(self, call: Call[ConsumeMessageDirectlyRequest], /) -> Result:
        """CONSUME_MESSAGE_DIRECTLY (309): call the listener with the message of the body."""
        ...


class RegisteredConsumer(Protocol):
    """One consumer group on an instance."""

    @property
    def group(self) -> str:
        """The consumer group, unique on the instance."""
        ...

    def topics(self) -> Collection[str]:
        """The topics whose routes are polled.  Upstream: subscriptions."""
        ...

    def subscribes(self, topic: str) -> bool:
        """Whether the routes of *topic* are wanted: it is subscribed, or pulled."""
        ...

    def needs_route(self, topic: str) -> bool:
        """Whether ``take_route`` is needed even for an unchanged route.

        Upstream: isSubscribeTopicNeedUpdate.
        """
        ...

    def take_route(self, topic: str, queues: frozenset[MessageQueue]) -> None:
        """Use the readable queues of a subscribed topic.  Upstream: updateTopicSubscribeInfo."""
        ...

    def heartbeat_data(self) -> ConsumerData:
        """The group's part of heartbeats: model, start of a new group, subscriptions."""
        ...

    async def rebalance(self, cause: RebalanceCause) -> bool:
        """Run one rebalance pass over all topics; True if all are balanced.

        *cause* is recorded in facts.  Upstream: doRebalance.
        """
        ...

    async def pull(self, request: QueuedPull) -> None:
        """Pull one held queue once.  Upstream: DefaultMQPushConsumerImpl.pullMessage."""
        ...

    async def persist_offsets(self) -> None:
        """Store offsets; called every five seconds.  Upstream: persistConsumerOffset."""
        ...

    @property
    def requests(self) -> ConsumerRequests:
        """The handler of brokers' requests for this group."""
        ...


class RegisteredMembers:
    """The producers and consumers registered at the instance *client_id*, by group."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self.producers: dict[str, RegisteredProducer] = {}
        self.consumers: dict[str, RegisteredConsumer] = {}

    def add_producer(self, producer: RegisteredProducer) -> None:
        """Register *producer*.  Raises ``GroupTaken`` if its group is registered already."""
        if producer.group in self.producers:
            raise GroupTaken(f"{self._client_id} already has a producer group {producer.group}")
        self.producers[producer.group] = producer

    def add_consumer(self, consumer: RegisteredConsumer) -> None:
        """Register *consumer*.  Raises ``GroupTaken`` if its group is registered already."""
        if consumer.group in self.consumers:
            raise GroupTaken(f"{self._client_id} already has a consumer group {consumer.group}")
        self.consumers[consumer.group] = consumer

    @property
    def has_users(self) -> bool:
        """Whether there is any member except the inner producer."""
        return bool(self.consumers) or bool(self.producers.keys() - {CLIENT_INNER_PRODUCER_GROUP})

    def topics(self) -> list[str]:
        """Every topic that a member uses, those of consumers first, without duplicates."""
        return list(dict.fromkeys(topic for member in self._all() for topic in member.topics()))

    def needs_route(self, topic: str) -> bool:
        """Whether a member needs the route of *topic* even if it is unchanged."""
        return any(member.needs_route(topic) for member in self._all())

    def _all(self) -> list[RegisteredConsumer | RegisteredProducer]:
        return [*self.consumers.values(), *self.producers.values()]


MakeInnerProducer: TypeAlias = Callable[[Any], InnerProducer]  # called with a ClientInstance

MakeTraceProducer: TypeAlias = Callable[[Any, str], Any]  # with an instance and the group

# Set by ``rocketmq_emulator.client``.
make_inner_producer: MakeInnerProducer | None = None
make_trace_producer: MakeTraceProducer | None = None
