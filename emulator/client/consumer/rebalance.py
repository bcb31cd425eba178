"""One consumer's share of its topics' queues: computed alone, then carried out step by step.

The steps take time: an offset is asked for, a lock is asked for, a listener is waited
for.  They are taken in upstream's order, one after the other, because that is when
other members see them.

Upstream: RebalanceImpl, RebalancePushImpl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.client.consumer.allocation import CannotAllocate, Strategy
from emulator.client.consumer.orderly_queue import OrderlyQueue
from emulator.client.consumer.process_queue import ProcessQueue
from emulator.client.consumer.pull_request import PullRequest
from emulator.client.consumer.reconcile import is_balanced, to_claim, to_forget, to_release
from emulator.client.consumer.start_offset import find_start
from emulator.client.errors import ClientError
from emulator.facts import Queue, QueuesClaimed, QueuesReleased, RebalancePassed
from emulator.net.errors import RemoteError
from emulator.releases import FIRST_PULL_DELAYED, FIVE, NEW_QUEUE_IS_LOCKED
from protocol.names import is_retry_topic
from protocol.queues import java_order

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from emulator.client.consumer.member import Member
    from emulator.client.consumer.queue_locks import QueueLocks
    from emulator.client.consumer.releasing import Releasing
    from protocol.queues import MessageQueue

LOCK_FAILED_WAKE_MS = 500  # RebalancePushImpl, since 5.0.0


class Rebalance:
    """Keeps ``member.held`` what the strategy says it should be."""

    def __init__(
        self,
        member: Member,
        strategy: Strategy,
        locks: QueueLocks,
        releasing: Releasing,
        on_change: Callable[[str, Collection[MessageQueue]], Awaitable[object]],
    ) -> None:
        self.queues: dict[str, frozenset[MessageQueue]] = {}  # by topic: what its route says
        self._member = member
        self._strategy = strategy
        self._locks = locks
        self._releasing = releasing
        self._on_change = on_change

    async def run_pass(self) -> bool:
        """Every subscribed topic once; whether all is as it should be.

        Upstream: RebalanceImpl.doRebalance.
        """
        balanced = True
        for topic in list(self._member.subscriptions):
            balanced = await self._topic(topic) and balanced
        for queue in to_forget(self._member.held, self._member.subscriptions):
            self._member.held.pop(queue).dropped = True
            self._note_released([queue])
        return balanced

    async def remove(self, queue: MessageQueue) -> None:
        """Give up one queue outside of a pass; a pass may bring it back.

        Upstream: RebalanceImpl.removeProcessQueue.
        """
        if (process_queue := self._member.held.pop(queue, None)) is not None:
            process_queue.dropped = True
            await self._releasing.release(queue, process_queue)
            self._note_released([queue])

    def drop_all(self) -> None:
        """The end.  Upstream: RebalanceImpl.destroy."""
        for process_queue in self._member.held.values():
            process_queue.dropped = True
        self._note_released(sorted(self._member.held))
        self._member.held.clear()

    # One topic ------------------------------------------------------------------------

    async def _topic(self, topic: str) -> bool:
        if self._member.config.is_broadcasting:
            queues = self.queues.get(topic)
            mine: Collection[MessageQueue] | None = queues
        else:
            try:
                mine = await self._allocated(topic)
            except CannotAllocate:
                return is_retry_topic(topic)
        if mine is None:
            return True  # nothing is known: keep what there is, and look again in 20 seconds
        wanted = frozenset(mine)
        if await self._carry_out(topic, wanted):
            await self._on_change(topic, mine)
        return is_balanced(self._member.held, topic, wanted)

    async def _allocated(self, topic: str) -> list[MessageQueue] | None:
        """Whatever the members' list lacks is not a member: if it lacks us, we get nothing."""
        member = self._member
        ids = await member.calls.members(topic)
        queues = self.queues.get(topic)
        if queues is None or not ids:
            return None
        members = sorted(ids, key=java_order)
        mine = self._strategy.allocate(sorted(queues), members, member.instance.client_id)
        member.note(
            RebalancePassed(member.group, topic, len(queues), tuple(members), own_count=len(mine))
        )
        return mine

    async def _carry_out(self, topic: str, wanted: frozenset[MessageQueue]) -> bool:
        """Whether anything changed.  Upstream: updateProcessQueueTableInRebalance."""
        released = await self._release(topic, wanted)
        claimed = await self._claim(wanted)
        return bool(released or claimed)

    async def _release(self, topic: str, wanted: frozenset[MessageQueue]) -> list[MessageQueue]:
        held = self._member.held
        leaving = to_release(held, topic, wanted, self._member.now_ms())
        if self._member.release >= FIVE:  # all of them stop before the first is waited for
            for queue in leaving:
                held[queue].dropped = True
        released = []
        for queue in leaving:
            process_queue = held[queue]
            process_queue.dropped = True
            if await self._releasing.release(queue, process_queue):
                held.pop(queue, None)
                released.append(queue)
        self._note_released(released)
        return released

    async def _claim(self, wanted: frozenset[MessageQueue]) -> list[MessageQueue]:
        requests = []
        for queue in to_claim(self._member.held, wanted):
            if self._locks.are_needed and not await self._locks.lock(queue):
                if self._member.release >= FIVE:
                    self._member.later(LOCK_FAILED_WAKE_MS, self._wake)
                continue
            if (request := await self._begin(queue)) is not None:
                requests.append(request)
        claimed = [request.queue for request in requests]
        if claimed:
            self._member.note(QueuesClaimed(self._member.group, _as_facts(claimed)))
        self._dispatch(requests)
        return claimed

    async def _begin(self, queue: MessageQueue) -> PullRequest | None:
        """Find where to start and put the queue into the table."""
        member = self._member
        member.offsets.forget(queue)  # what we remember may be older than what others stored
        try:
            start = await find_start(member, queue)
        except (RemoteError, ClientError):
            return None  # not taken now; the next pass asks again
        if start < 0 or queue in member.held:
            return None
        kind = OrderlyQueue if member.config.orderly else ProcessQueue
        process_queue = kind(member.now_ms(), locked=NEW_QUEUE_IS_LOCKED.reached(member.release))
        member.held[queue] = process_queue
        return PullRequest(member.group, queue, process_queue, start)

    def _dispatch(self, requests: list[PullRequest]) -> None:
        service = self._member.instance.pull_service
        for request in requests:
            if self._member.release >= FIRST_PULL_DELAYED:
                service.pull_later(request, self._member.config.first_pull_delay_ms)
            else:
                service.pull_now(request)

    def _wake(self) -> None:
        self._member.instance.rebalance_service.wake("lock refused")

    def _note_released(self, queues: list[MessageQueue]) -> None:
        if queues:
            self._member.note(QueuesReleased(self._member.group, _as_facts(queues)))


def _as_facts(queues: list[MessageQueue]) -> tuple[Queue, ...]:
    return tuple(Queue(q.topic, q.broker_name, q.queue_id) for q in queues)
