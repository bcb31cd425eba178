"""The parts of one push consumer, put together: what an instance sees of it.

    rebalance ─► held queues ─► pulling ─► answers ─► listener ─► offsets
        ▲                          ▲           │          │
        └── wake-ups               └── line ◄──┘          └─► send back

Upstream: DefaultMQPushConsumerImpl.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from emulator.client.consumer.consume_concurrently import ConsumeConcurrently
from emulator.client.consumer.consume_orderly import ConsumeOrderly
from emulator.client.consumer.consumed import Consumed
from emulator.client.consumer.consumer_answers import ConsumerAnswers
from emulator.client.consumer.direct_consume import DirectConsume
from emulator.client.consumer.flow_control import FlowControl
from emulator.client.consumer.offset_reset import OffsetReset
from emulator.client.consumer.pull_answers import PullAnswers
from emulator.client.consumer.pull_request import PullRequest
from emulator.client.consumer.pulling import Pulling
from emulator.client.consumer.queue_locks import QueueLocks
from emulator.client.consumer.rebalance import Rebalance
from emulator.client.consumer.releasing import Releasing
from emulator.client.consumer.send_back import SendBack
from emulator.client.errors import ClientError
from emulator.releases import REBALANCE_PACED, START_NEEDS_HEARTBEAT
from protocol.bodies.groups import ConsumerData
from protocol.subscription import is_tag_type

if TYPE_CHECKING:
    from emulator.client.consumer.allocation import Strategy
    from emulator.client.consumer.listening import Ear
    from emulator.client.consumer.member import Member
    from emulator.client.instance.interfaces import QueuedPull
    from emulator.facts.clients import RebalanceCause
    from emulator.net.results import Call, Result
    from protocol.queues import MessageQueue

QueuesChanged = Callable[[str, Sequence["MessageQueue"], Sequence["MessageQueue"]], object]


class ConsumePipeline:
    """One consumer group on an instance; ``PushConsumer`` is its public face."""

    def __init__(
        self, member: Member, ear: Ear, strategy: Strategy, on_queues: QueuesChanged | None
    ) -> None:
        self.member = member
        self.group = member.group
        self.locks = QueueLocks(member)
        self._on_queues = on_queues
        self._flow = FlowControl(member.config)
        releasing = Releasing(member, self.locks)
        self.rebalancing = Rebalance(member, strategy, self.locks, releasing, self._queues_changed)
        send_back, consumed = SendBack(member), Consumed(member.group, member.note)
        self._service: ConsumeOrderly | ConsumeConcurrently
        if member.config.orderly:
            self._service = ConsumeOrderly(member, ear, send_back, consumed, self.locks)
        else:
            self._service = ConsumeConcurrently(member, ear, send_back, consumed)
        answers = PullAnswers(member, self.rebalancing, self._service.submit)
        self._pulling = Pulling(member, self._flow, answers)
        reset = OffsetReset(member, releasing, self.resume)
        self._answers = ConsumerAnswers(member, reset, DirectConsume(member, ear))

    # As a member of the instance ------------------------------------------------------

    def topics(self) -> Collection[str]:
        return list(self.member.subscriptions)

    def needs_route(self, topic: str) -> bool:
        return topic in self.member.subscriptions and topic not in self.rebalancing.queues

    def take_route(self, topic: str, queues: frozenset[MessageQueue]) -> None:
        self.rebalancing.queues[topic] = queues

    def heartbeat_data(self) -> ConsumerData:
        config = self.member.config
        return ConsumerData(
            group_name=self.group,
            consume_type="CONSUME_PASSIVELY",
            message_model=config.model,
            consume_from_where=config.consume_from,
            subscription_data_set=list(self.member.subscriptions.values()),
            unit_mode=config.unit_mode,
        )

    async def rebalance(self, cause: RebalanceCause) -> bool:  # noqa: ARG002  # facts will say it
        """A paused consumer keeps what it has; since 5.2.0 that counts as out of balance."""
        if not self.member.is_running or self.member.is_paused:
            return self.member.release < REBALANCE_PACED
        return await self.rebalancing.run_pass()

    async def pull(self, request: QueuedPull) -> None:
        assert isinstance(request, PullRequest), "only consumers put requests into the line"
        await self._pulling.pull(request)

    async def persist_offsets(self) -> None:
        """Held queues only, the dropped among them included."""
        if self.member.is_running:
            self.member.offsets.persist_all(self.member.held.keys())

    def answer(self, call: Call[Any]) -> Result:
        return self._answers.answer(call)

    # Its life -------------------------------------------------------------------------

    def begin(self, workers: trio.Nursery) -> None:
        """Listeners run in *workers*, which ends before everything else does."""
        self._service.begin(workers)
        self.member.is_running = True

    async def introduce(self) -> None:
        """Find routes, show expressions to a broker, be heard; only then there can be a share.

        Raises ``Refused`` if a broker cannot read an expression.
        """
        member = self.member
        for topic in self.topics():
            with suppress(ClientError):  # the poll will find it
                await member.instance.routes.refresh(topic)
        for subscription in list(member.subscriptions.values()):
            if not is_tag_type(subscription.expression_type):
                await member.calls.check_client(subscription)
        heard = await member.instance.heartbeats.send_round()
        if heard or member.release < START_NEEDS_HEARTBEAT:
            member.instance.rebalance_service.wake("started")

    async def wait_finished(self) -> None:
        """No new work, and a little patience for what is under way (upstream: none)."""
        self._service.pool.close()
        patience_ms = self.member.config.termination_ms_max
        if patience_ms > 0:
            with trio.move_on_after(patience_ms / 1000):
                await self._service.pool.wait_finished()

    async def take_leave(self) -> None:
        """Write offsets, give locks back, tell every broker.  Who is cancelled dies silently."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._service.needs_locks:
            await self.locks.unlock_all()
        await self.persist_offsets()
        await self.member.instance.unregister_consumer(self.group)

    def end(self) -> None:
        self.member.is_running = False
        self.member.instance.consumers.pop(self.group, None)
        self.rebalancing.drop_all()

    async def resume(self) -> None:
        """End a pause; the pass that was missed runs now, in the caller."""
        self.member.is_paused = False
        await self.rebalance("resumed")

    # Inside ---------------------------------------------------------------------------

    async def _queues_changed(self, topic: str, mine: Collection[MessageQueue]) -> None:
        """Tell brokers, before they refuse our pulls.

        Upstream: RebalancePushImpl.messageQueueChanged.
        """
        member = self.member
        if (subscription := member.subscriptions.get(topic)) is not None:
            newer = msgspec.structs.replace(subscription, sub_version=member.now_ms())
            member.subscriptions[topic] = newer
        self._flow.share_out(len(member.held))
        await member.instance.heartbeats.send_round()
        if self._on_queues is not None:
            everybody = sorted(self.rebalancing.queues.get(topic, ()))
            self._on_queues(topic, everybody, sorted(mine))
