"""One consumer group on an instance: the part that all kinds of consumers share.

It takes the routes of subscribed topics, makes the group's part of heartbeats, and at its end
writes offsets, unregisters at every broker and drops its queues.  A kind adds how it rebalances
and pulls, and the subscriptions in its heartbeats.

Upstream: MQConsumerInner, as DefaultMQPushConsumerImpl and the pull consumers implement it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import trio

from rocketmq_emulator.protocol.bodies.groups import ConsumerData

if TYPE_CHECKING:
    from collections.abc import Collection

    from rocketmq_emulator.client.consumer.group.member import Member
    from rocketmq_emulator.client.consumer.group.rebalance import Rebalance
    from rocketmq_emulator.protocol.bodies.groups import ConsumeFromWhere, ConsumeType
    from rocketmq_emulator.protocol.messages.subscription import SubscriptionData
    from rocketmq_emulator.protocol.queues import MessageQueue


class GroupMembership(ABC):
    """Registers *member* at its instance; *rebalance* claims and releases its queues."""

    def __init__(self, member: Member, rebalance: Rebalance, consume_type: ConsumeType) -> None:
        self.member = member
        self.group = member.group
        self._rebalance = rebalance
        self._consume_type = consume_type

    @abstractmethod
    def heartbeat_subscriptions(self) -> Collection[SubscriptionData]:
        """The subscriptions in heartbeats; the routes of their topics are polled."""

    @abstractmethod
    async def persist_offsets(self) -> None:
        """Store the member's offsets; does nothing once it is closed."""

    @property
    @abstractmethod
    def _consume_from(self) -> ConsumeFromWhere:
        """The ``consumeFromWhere`` of heartbeats."""

    def topics(self) -> Collection[str]:
        """The topics of ``heartbeat_subscriptions``."""
        return [each.topic for each in self.heartbeat_subscriptions()]

    def subscribes(self, topic: str) -> bool:
        """Whether the routes of *topic* are wanted."""
        return topic in self.member.subscriptions

    def needs_route(self, topic: str) -> bool:
        """Whether *topic* is subscribed and has no route yet."""
        return self.subscribes(topic) and topic not in self._rebalance.queues

    def take_route(self, topic: str, queues: frozenset[MessageQueue]) -> None:
        """Keep the readable queues of *topic* for the next rebalance pass."""
        self._rebalance.queues[topic] = queues

    def heartbeat_data(self) -> ConsumerData:
        """The group's part of heartbeats."""
        config = self.member.config
        return ConsumerData(
            group_name=self.group,
            consume_type=self._consume_type,
            message_model=config.model,
            consume_from_where=self._consume_from,
            subscription_data_set=list(self.heartbeat_subscriptions()),
            unit_mode=config.unit_mode,
        )

    async def unregister(self) -> None:
        """Write offsets, unregister at every broker; does nothing when cancelled."""
        await trio.lowlevel.checkpoint_if_cancelled()
        await self.persist_offsets()
        await self.member.instance.unregister_consumer(self.group)

    def stop(self) -> None:
        """Drop every queue and leave the instance; later results of listeners are discarded."""
        self.member.is_running = False
        self.member.instance.consumers.pop(self.group, None)
        self._rebalance.drop_all()
