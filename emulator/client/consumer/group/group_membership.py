"""One consumer group on an instance, as far as all kinds are alike.

It takes the routes of what it subscribes, writes its part of heartbeats, and ends: offsets are
written and every broker is told, then its queues are dropped.  A kind adds how it rebalances and
pulls, and what its heartbeats say.

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
    """Of *member*, whose queues come and go by *rebalance*."""

    def __init__(self, member: Member, rebalance: Rebalance, consume_type: ConsumeType) -> None:
        self.member = member
        self.group = member.group
        self._rebalance = rebalance
        self._consume_type = consume_type

    @abstractmethod
    def heartbeat_subscriptions(self) -> Collection[SubscriptionData]:
        """The subscriptions in its heartbeats, whose routes are polled."""

    @abstractmethod
    async def persist_offsets(self) -> None:
        """Store its offsets, while it runs."""

    @property
    @abstractmethod
    def _consume_from(self) -> ConsumeFromWhere:
        """In heartbeats."""

    def topics(self) -> Collection[str]:
        """Those of its heartbeats."""
        return [each.topic for each in self.heartbeat_subscriptions()]

    def subscribes(self, topic: str) -> bool:
        """Whether it takes the routes of *topic*."""
        return topic in self.member.subscriptions

    def needs_route(self, topic: str) -> bool:
        """Whether *topic* is subscribed and has no route yet."""
        return self.subscribes(topic) and topic not in self._rebalance.queues

    def take_route(self, topic: str, queues: frozenset[MessageQueue]) -> None:
        """The readable queues of *topic*, for the next pass."""
        self._rebalance.queues[topic] = queues

    def heartbeat_data(self) -> ConsumerData:
        """The part of this group in heartbeats."""
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
        """Write offsets, unregister at every broker; nothing when cancelled."""
        await trio.lowlevel.checkpoint_if_cancelled()
        await self.persist_offsets()
        await self.member.instance.unregister_consumer(self.group)

    def stop(self) -> None:
        """Drop every queue; what happens later is discarded."""
        self.member.is_running = False
        self.member.instance.consumers.pop(self.group, None)
        self._rebalance.drop_all()
