"""Which topics a producer publishes, and where: filled at the first send, fed by route polls.

A topic nobody knows borrows the default topic's brokers until its own route exists.

Upstream: DefaultMQProducerImpl.topicPublishInfoTable, tryToFindTopicPublishInfo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.client.errors import ClientErrorCode, NoRoute
from emulator.client.instance.route_queues import is_ordered, publish_queues, write_queues
from emulator.client.producer.thread_local_index import ThreadLocalIndex
from emulator.client.producer.topic_publish_info import TopicPublishInfo
from emulator.releases import DEFAULT_TOPIC_IS_FIXED
from protocol.names import AUTO_CREATE_TOPIC_KEY_TOPIC

if TYPE_CHECKING:
    from emulator.client.config import ProducerConfig
    from emulator.client.instance.instance import ClientInstance
    from protocol.bodies.routes import TopicRouteData


class PublishTable:
    """``topic -> TopicPublishInfo`` of one producer."""

    def __init__(self, instance: ClientInstance, config: ProducerConfig) -> None:
        self._instance = instance
        self._queues_max = config.default_topic_queues
        fixed = config.rules >= DEFAULT_TOPIC_IS_FIXED
        self._default_topic = AUTO_CREATE_TOPIC_KEY_TOPIC if fixed else config.create_topic_key
        self._infos: dict[str, TopicPublishInfo] = {}
        if not fixed:
            self._infos[self._default_topic] = self._info()  # so that it is polled

    # For the instance -----------------------------------------------------------------

    def topics(self) -> list[str]:
        return list(self._infos)

    def needs_route(self, topic: str) -> bool:
        info = self._infos.get(topic)
        return info is None or not info.is_usable

    def take_route(self, topic: str, route: TopicRouteData) -> None:
        self._infos[topic] = TopicPublishInfo(
            publish_queues(topic, route),
            index=self._new_index(),
            write_queues=write_queues(route),
            is_ordered=is_ordered(route),
            has_route=True,
        )

    # For sends ------------------------------------------------------------------------

    def known(self, topic: str) -> TopicPublishInfo | None:
        """What can be used without asking anybody."""
        info = self._infos.get(topic)
        return info if info is not None and info.is_usable else None

    async def find(self, topic: str) -> TopicPublishInfo:
        """Raises ``NoRoute``, ``NoNameServer``."""
        info = self.known(topic) or await self._ask_for(topic)
        if info.is_usable:
            return info
        raise NoRoute(f"no queue of {topic} can be written", code=ClientErrorCode.NOT_FOUND_TOPIC)

    async def _ask_for(self, topic: str) -> TopicPublishInfo:
        self._infos.setdefault(topic, self._info())
        await self._instance.routes.refresh(topic)
        info = self._infos[topic]
        if not info.has_route and not info.is_usable:
            await self._instance.routes.borrow_default(
                topic, self._default_topic, self._queues_max
            )
        return self._infos[topic]

    def _info(self) -> TopicPublishInfo:
        return TopicPublishInfo(index=self._new_index())

    def _new_index(self) -> ThreadLocalIndex:
        rng = self._instance.rng
        return ThreadLocalIndex(lambda: rng.randrange(2**31))
