"""The parts of one push consumer, connected; an instance calls them through this class.

    rebalance ─► held queues ─► pulling ─► consume service ─► listener ─► offsets
        ▲                          ▲                             │
        └── wake-ups               └── PullMessageService        └─► send back

Upstream: DefaultMQPushConsumerImpl.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from rocketmq_emulator.client.consumer.group.broker_requests import (
    DirectConsume,
    OffsetReset,
    PushConsumerRequests,
)
from rocketmq_emulator.client.consumer.group.group_membership import GroupMembership
from rocketmq_emulator.client.consumer.group.process_queue import FlowControl, PullRequest
from rocketmq_emulator.client.consumer.group.rebalance import PullRequestDispatcher, Rebalance
from rocketmq_emulator.client.consumer.push.consume_concurrently import ConsumeConcurrently
from rocketmq_emulator.client.consumer.push.consume_orderly import ConsumeOrderly, LockedOwnership
from rocketmq_emulator.client.consumer.push.pulling import Pulling
from rocketmq_emulator.client.consumer.push.send_back import SendBack
from rocketmq_emulator.client.instance.plain_functions import callback_raised
from rocketmq_emulator.protocol.messages.subscription import is_tag_type
from rocketmq_emulator.settings.quirks import class_for
from rocketmq_emulator.settings.releases import REBALANCE_PACED, START_NEEDS_HEARTBEAT

if TYPE_CHECKING:
    from rocketmq_emulator.client.consumer.group.allocation import Strategy
    from rocketmq_emulator.client.consumer.group.listeners import ConsumptionFacts, ListenerInvoker
    from rocketmq_emulator.client.consumer.group.member import PushMember, QueuesChanged
    from rocketmq_emulator.client.consumer.push.worker_pool import WorkerPool
    from rocketmq_emulator.client.instance.interfaces import QueuedPull
    from rocketmq_emulator.facts.clients import RebalanceCause
    from rocketmq_emulator.protocol.bodies.groups import ConsumeFromWhere
    from rocketmq_emulator.protocol.messages.subscription import SubscriptionData
    from rocketmq_emulator.protocol.queues import MessageQueue


class ConsumePipeline(GroupMembership):
    """One push consumer's group on an instance; applications use it through ``PushConsumer``."""

    member: PushMember

    def __init__(
        self,
        member: PushMember,
        invoker: ListenerInvoker,
        facts: ConsumptionFacts,
        strategy: Strategy,
        on_queues: QueuesChanged | None,
    ) -> None:
        self._on_queues = on_queues
        self._flow = FlowControl(member.config)
        self._ownership = LockedOwnership(member) if member.config.orderly else None
        dispatch = PullRequestDispatcher(member).dispatch
        quirks = member.config.quirks
        rebalance = class_for(Rebalance, "consumer", quirks)(
            member, strategy, self._ownership, self._queues_changed, dispatch
        )
        super().__init__(member, rebalance, "CONSUME_PASSIVELY")
        send_back = SendBack(member, member.config.consume_threads_max)
        self._service: ConsumeOrderly | ConsumeConcurrently
        if self._ownership is not None:
            locks = self._ownership.locks
            self._service = ConsumeOrderly(member, invoker, facts, send_back, locks)
        else:
            self._service = class_for(ConsumeConcurrently, "consumer", quirks)(
                member, invoker, facts, send_back
            )
        self._pulling = class_for(Pulling, "consumer", quirks)(
            member, self._flow, self._rebalance, self._service.submit
        )
        reset = OffsetReset(member, self._rebalance, self.resume)
        self.requests = PushConsumerRequests(member, reset, DirectConsume(member, invoker))

    # As a member of the instance ------------------------------------------------------

    def heartbeat_subscriptions(self) -> Collection[SubscriptionData]:
        """All subscriptions, including that of the retry topic."""
        return self.member.subscriptions.values()

    @property
    def _consume_from(self) -> ConsumeFromWhere:
        return self.member.config.consume_from

    async def rebalance(self, cause: RebalanceCause) -> bool:
        """Run one rebalance pass; True if all topics are balanced.

        A paused consumer keeps its queues; since 5.2.0 it counts as not balanced.
        """
        member = self.member
        if not member.is_running or member.is_paused:
            return member.release < REBALANCE_PACED
        return await self._rebalance.run_pass(cause)

    async def pull(self, request: QueuedPull) -> None:
        """Pull one held queue once, or put its request back with a delay."""
        assert isinstance(request, PullRequest), "only consumers submit pull requests"
        await self._pulling.pull(request)

    async def persist_offsets(self) -> None:
        """Store the offsets of held queues, including dropped ones."""
        if self.member.is_running:
            self.member.offsets.persist_all(self.member.process_queue_table.keys())

    # From start to end ----------------------------------------------------------------

    def start(self, workers: trio.Nursery) -> None:
        """Start the consume service; listeners run in *workers*, which ends first."""
        self._service.start(workers)
        self.member.is_running = True

    async def join_group(self) -> None:
        """Find routes, have brokers check expressions, send heartbeats, wake the rebalance.

        Raises ``GroupCallRefused`` if a broker cannot read an expression.
        """
        member = self.member
        for topic in self.topics():
            await member.instance.routes.refresh_quietly(topic)  # if it fails, the poll retries
        for subscription in list(member.subscriptions.values()):
            if not is_tag_type(subscription.expression_type):
                await member.calls.check_client(subscription)
        is_known = await member.instance.heartbeats.send_round()
        if is_known or member.release < START_NEEDS_HEARTBEAT:
            member.instance.rebalance_service.wake("started")

    @property
    def pool(self) -> WorkerPool[Any]:
        """The workers that call the listener."""
        return self._service.pool

    async def wait_finished(self) -> None:
        """Accept no more batches, and wait up to ``termination_ms_max`` for running listeners.

        Does nothing when cancelled: listeners are cancelled too.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self._service.pool.close()
        wait_ms = self.member.config.termination_ms_max
        if wait_ms > 0:
            with trio.move_on_after(wait_ms / 1000):
                await self._service.pool.wait_finished()

    async def unregister(self) -> None:
        """Unlock queues, then write offsets and unregister; does nothing when cancelled."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._ownership is not None and not self.member.is_broadcasting:
            await self._ownership.locks.unlock_all()
        await super().unregister()

    async def resume(self) -> None:
        """Pull and rebalance again; runs a rebalance pass in the caller's task."""
        self.member.is_paused = False
        await self.rebalance("resumed")

    # Inside ---------------------------------------------------------------------------

    async def _queues_changed(self, topic: str, mine: Collection[MessageQueue]) -> None:
        """Send the new subscription version in heartbeats; with the old one brokers refuse pulls.

        Upstream: RebalancePushImpl.messageQueueChanged.
        """
        member = self.member
        if (subscription := member.subscriptions.get(topic)) is not None:
            newer = msgspec.structs.replace(subscription, sub_version=member.now_ms())
            member.subscriptions[topic] = newer
        self._flow.divide(len(member.process_queue_table))
        await member.instance.heartbeats.send_round()
        if self._on_queues is not None:
            all_queues = sorted(self._rebalance.queues.get(topic, ()))
            try:
                self._on_queues(topic, all_queues, sorted(mine))
            except Exception as error:  # noqa: BLE001  # the rebalance continues
                member.note(callback_raised(self.group, "on_queues", error))
