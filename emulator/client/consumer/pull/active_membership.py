"""A pull consumer as its instance sees it: a member of its group that nobody pulls for.

Both kinds register, rebalance and keep offsets as a push consumer does.  They differ from
it in heartbeats (CONSUME_ACTIVELY, no retry topic) and in that a queue which nobody pulls
for two minutes stays.

Upstream: DefaultMQPullConsumerImpl, DefaultLitePullConsumerImpl, RebalancePullImpl,
RebalanceLitePullImpl.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NoReturn, Protocol

from rocketmq_emulator.client.consumer.group.broker_requests import pull_consumer_running_info
from rocketmq_emulator.client.consumer.group.group_membership import GroupMembership
from rocketmq_emulator.client.consumer.group.process_queue import ProcessQueue
from rocketmq_emulator.client.instance.plain_functions import callback_raised
from rocketmq_emulator.net.results import NO_REPLY, Call, Refusal, Reply, Result
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.offsets import GetConsumerStatusBody
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.settings.releases import REBALANCE_PACED

if TYPE_CHECKING:
    from rocketmq_emulator.client.consumer.group.member import Member, QueuesChanged
    from rocketmq_emulator.client.consumer.group.rebalance import Rebalance
    from rocketmq_emulator.client.instance.interfaces import QueuedPull
    from rocketmq_emulator.facts.clients import RebalanceCause
    from rocketmq_emulator.protocol.bodies.groups import ConsumeFromWhere
    from rocketmq_emulator.protocol.bodies.running import ConsumerRunningInfo
    from rocketmq_emulator.protocol.fields import Header
    from rocketmq_emulator.protocol.messages.subscription import SubscriptionData
    from rocketmq_emulator.protocol.queues import MessageQueue
    from rocketmq_emulator.protocol.requests.groups import (
        ConsumeMessageDirectlyRequest,
        GetConsumerStatusRequest,
    )
    from rocketmq_emulator.protocol.requests.offsets import ResetOffsetRequest

HEARTBEAT_CONSUME_FROM: ConsumeFromWhere = (
    "CONSUME_FROM_LAST_OFFSET"  # in heartbeats, whatever is configured
)


class PulledQueue(ProcessQueue):
    """A held queue whose application pulls when it likes."""

    def is_pull_expired(self, now_ms: int) -> bool:
        """Never: there is no pull request that could be lost."""
        del now_ms
        return False


class PulledOwnership:
    """Queues are claimed without a lock, and released at once."""

    process_queue_type: type[ProcessQueue] = PulledQueue

    def __init__(self, member: Member) -> None:
        self._offsets = member.offsets

    async def claim(self, queue: MessageQueue) -> bool:
        """Always."""
        del queue
        return True

    async def release(self, queue: MessageQueue, process_queue: ProcessQueue) -> bool:
        """Store its offset and forget it; a pull under way ends by itself."""
        del process_queue
        self._offsets.persist(queue)
        self._offsets.forget(queue)
        return True


def call_on_queues(
    member: Member,
    on_queues: QueuesChanged | None,
    topic: str,
    every: Collection[MessageQueue],
    mine: Collection[MessageQueue],
) -> None:
    """Call the application's *on_queues*; a rebalance goes on whatever it raises."""
    if on_queues is None:
        return
    try:
        on_queues(topic, sorted(every), sorted(mine))
    except Exception as error:  # noqa: BLE001  # see above
        member.note(callback_raised(member.group, "on_queues", error))


class PullConsumerView(Protocol):
    """What tells the two pull consumers apart."""

    @property
    def rebalances(self) -> bool:
        """Whether it takes part in rebalancing now."""
        ...

    def heartbeat_subscriptions(self) -> Collection[SubscriptionData]:
        """The subscriptions in its heartbeats, whose routes are polled."""
        ...

    def queues_to_persist(self) -> Collection[MessageQueue]:
        """The queues whose offsets are stored every five seconds."""
        ...

    def reported_process_queues(self) -> dict[MessageQueue, ProcessQueue]:
        """The queues it tells tools about."""
        ...

    def reported_offsets(self, topic: str) -> dict[MessageQueue, int]:
        """The offsets of *topic* it tells tools about."""
        ...


class RegisteredPullConsumer(GroupMembership):
    """One pull consumer's group on an instance."""

    def __init__(self, member: Member, rebalance: Rebalance, kind: PullConsumerView) -> None:
        super().__init__(member, rebalance, "CONSUME_ACTIVELY")
        self.requests = PullConsumerRequests(member, kind)
        self._view = kind

    def heartbeat_subscriptions(self) -> Collection[SubscriptionData]:
        """Those it announces."""
        return self._view.heartbeat_subscriptions()

    @property
    def _consume_from(self) -> ConsumeFromWhere:
        return HEARTBEAT_CONSUME_FROM

    async def rebalance(self, cause: RebalanceCause) -> bool:
        """Run one pass; True if all topics are balanced."""
        if not self.member.is_running:
            return self.member.release < REBALANCE_PACED
        if not self._view.rebalances:
            return True
        return await self._rebalance.run_pass(cause)

    async def pull(self, request: QueuedPull) -> NoReturn:
        """Never called: its queues have no pull requests."""
        raise AssertionError(f"a pull request of {request.group}, which pulls itself")

    async def persist_offsets(self) -> None:
        """Store the offsets of its queues."""
        if self.member.is_running:
            self.member.offsets.persist_all(self._view.queues_to_persist())


class PullConsumerRequests:
    """Answers brokers for a pull consumer."""

    def __init__(self, member: Member, kind: PullConsumerView) -> None:
        self._member = member
        self._view = kind

    def reset_offset(self, call: Call[ResetOffsetRequest]) -> Result:
        """Nothing: pull consumers do not take resets."""
        del call
        return NO_REPLY

    def consumer_status(self, call: Call[GetConsumerStatusRequest]) -> Result:
        """The offsets in memory, of a pull consumer; a lite pull consumer has none to tell."""
        return self._reply(
            GetConsumerStatusBody(
                message_queue_table=self._view.reported_offsets(call.request.topic)
            )
        )

    def running_info(self, _call: Call[Header]) -> Result:
        """Its settings and subscriptions; its queues where the release tells them."""
        info = pull_consumer_running_info(
            self._member,
            list(self._view.heartbeat_subscriptions()),
            self._view.reported_process_queues(),
        )
        return self._reply(info)

    def consume_directly(self, call: Call[ConsumeMessageDirectlyRequest]) -> Result:
        """Refused: there is no listener."""
        group = call.request.consumer_group
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{group} has no listener: it pulls")

    def _reply(self, body: GetConsumerStatusBody | ConsumerRunningInfo) -> Reply:
        return Reply(body=encode_body(body, self._member.release))
