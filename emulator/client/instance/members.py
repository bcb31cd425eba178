"""What an instance expects of the producers and consumers that share it.

Upstream: MQProducerInner, MQConsumerInner.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from emulator.client.instance.pull_service import PullRequest
    from emulator.net.results import Call, Result
    from protocol.bodies.groups import ConsumerData
    from protocol.bodies.routes import TopicRouteData
    from protocol.queues import MessageQueue


class RegisteredProducer(Protocol):
    """One producer group on an instance."""

    @property
    def group(self) -> str: ...

    def topics(self) -> Collection[str]:
        """Whose routes are polled.  Upstream: getPublishTopicList."""
        ...

    def needs_route(self, topic: str) -> bool:
        """Whether even an unchanged route is wanted.  Upstream: isPublishTopicNeedUpdate."""
        ...

    def take_route(self, topic: str, route: TopicRouteData) -> None:
        """A route is new or was needed; comes for every topic of the instance.

        Upstream: updateTopicPublishInfo.
        """
        ...


class RegisteredConsumer(Protocol):
    """One consumer group on an instance."""

    @property
    def group(self) -> str: ...

    def topics(self) -> Collection[str]:
        """All it subscribes, its retry topic included."""
        ...

    def needs_route(self, topic: str) -> bool:
        """Whether even an unchanged route is wanted.  Upstream: isSubscribeTopicNeedUpdate."""
        ...

    def take_route(self, topic: str, queues: frozenset[MessageQueue]) -> None:
        """The readable queues of a subscribed topic.  Upstream: updateTopicSubscribeInfo."""
        ...

    def heartbeat_data(self) -> ConsumerData: ...

    async def rebalance(self) -> bool:
        """One pass over all topics; whether everything is as it should be.

        Upstream: doRebalance.
        """
        ...

    async def pull(self, request: PullRequest) -> None:
        """One step of a held queue.  Upstream: DefaultMQPushConsumerImpl.pullMessage."""
        ...

    async def persist_offsets(self) -> None:
        """Every five seconds.  Upstream: persistConsumerOffset."""
        ...

    def answer(self, call: Call[Any]) -> Result:
        """What brokers ask of this group: codes 220, 221, 307 and 309."""
        ...
