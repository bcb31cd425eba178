"""Pull consumers on an instance: members of a group whose queues the instance does not pull.

Both kinds of pull consumers register, rebalance and keep offsets like a push consumer.  They
differ from it in heartbeats (CONSUME_ACTIVELY, no retry topic), and they keep a queue that was
not pulled for two minutes.

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
    """A held queue that the application pulls at any time."""

    def is_pull_expired(self, now_ms: int) -> bool:
        """Never: there is no pull request that can be lost."""
        del now_ms
        return False


class PulledOwnership:
    """Queues are claimed without a lock, and released at once."""

    process_queue_type: type[ProcessQueue] = PulledQueue

    def __init__(self, member: Member) -> None:
        self._offsets = member.offsets

    async def claim(self, queue: MessageQueue) -> bool:
        """Always True: no lock is needed."""
        del queue
        return True

    async def release(self, queue: MessageQueue, process_queue: ProcessQueue) -> bool:
        """Store the offset and drop it from memory; always True, running pulls are not awaited."""
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
    """Call the application's *on_queues*; an exception becomes a ``CallbackRaised`` fact."""
    if on_queues is None:
        return
    try:
        on_queues(topic, sorted(every), sorted(mine))
    except Exception as error:  # noqa: BLE001  # see above
        member.note(callback_raised(member.group, "on_queues", error))


class PullConsumerView(Protocol):
    """The methods in which the two pull consumers differ."""

    @property
    def rebalances(self) -> bool:
        """Whether rebalance passes run for the consumer."""
        ...

    def heartbeat_subscriptions(self) -> Collection[SubscriptionData]:
        """The subscriptions in heartbeats; the routes of their topics are polled."""
        ...

    def queues_to_persist(self) -> Collection[MessageQueue]:
        """The queues whose offsets are stored every five seconds."""
        ...

    def reported_process_queues(self) -> dict[MessageQueue, ProcessQueue]:
        """The queues in the running info."""
        ...

    def reported_offsets(self, topic: str) -> dict[MessageQueue, int]:
        """The offsets of *topic* in the consumer status."""
        ...


class RegisteredPullConsumer(GroupMembership):
    """One pull consumer's group on an instance."""

    def __init__(self, member: Member, rebalance: Rebalance, kind: PullConsumerView) -> None:
        super().__init__(member, rebalance, "CONSUME_ACTIVELY")
        self.requests = PullConsumerRequests(member, kind)
        self._view = kind

    def heartbeat_subscriptions(self) -> Collection[SubscriptionData]:
        """The subscriptions of the kind of consumer."""
        return self._view.heartbeat_subscriptions()

    @property
    def _consume_from(self) -> ConsumeFromWhere:
        return HEARTBEAT_CONSUME_FROM

    async def rebalance(self, cause: RebalanceCause) -> bool:
        """Run one rebalance pass; True if all topics are balanced."""
        if not self.member.is_running:
            return self.member.release < REBALANCE_PACED
        if not self._view.rebalances:
            return True
        return await self._rebalance.run_pass(cause)

    async def pull(self, request: QueuedPull) -> NoReturn:
        """Never called: there are no pull requests for its queues."""
        raise AssertionError(f"a pull request for {request.group}, a pull consumer")

    async def persist_offsets(self) -> None:
        """Store the offsets of ``queues_to_persist``."""
        if self.member.is_running:
            self.member.offsets.persist_all(self._view.queues_to_persist())


class PullConsumerRequests:
    """Handles brokers' requests for one pull consumer."""

    def __init__(self, member: Member, kind: PullConsumerView) -> None:
        self._member = member
        self._view = kind

    def reset_offset(self, call: Call[ResetOffsetRequest]) -> Result:
        """Ignore the request: pull consumers do not reset offsets."""
        del call
        return NO_REPLY

    def consumer_status(self, call: Call[GetConsumerStatusRequest]) -> Result:
        """Reply with the offsets in memory; a lite pull consumer reports none."""
        return self._reply(
            GetConsumerStatusBody(
                message_queue_table=self._view.reported_offsets(call.request.topic)
            )
        )

    def running_info(self, _call: Call[Header]) -> Result:
        """Reply with settings and subscriptions, and with queues if the release reports them."""
        info = pull_consumer_running_info(
            self._member,
            list(self._view.heartbeat_subscriptions()),
            self._view.reported_process_queues(),
        )
        return self._reply(info)

    def consume_directly(self, call: Call[ConsumeMessageDirectlyRequest]) -> Result:
        """Refuse the request: there is no listener."""
        group = call.request.consumer_group
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{group} has no listener: it pulls")

    def _reply(self, body: GetConsumerStatusBody | ConsumerRunningInfo) -> Reply:
        return Reply(body=encode_body(body, self._member.release))
