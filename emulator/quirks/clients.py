"""Bugs of clients: each is a class that replaces the correct class.

Of a producer: a retry that changes its queue.  Of a consumer: its offsets, its locks, its pulls
and its share of the queues.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from rocketmq_emulator.client.consumer.group.listeners import ConsumeContext, ListenerOutcome
from rocketmq_emulator.client.consumer.group.offsets import RemoteBrokerOffsetStore
from rocketmq_emulator.client.consumer.group.rebalance import Rebalance
from rocketmq_emulator.client.consumer.pull.pull_tasks import PullTasks, StartUnknown
from rocketmq_emulator.client.consumer.push.consume_concurrently import LATER, ConsumeConcurrently
from rocketmq_emulator.client.consumer.push.consume_orderly import QueueLocks
from rocketmq_emulator.client.consumer.push.consume_pipeline import ConsumePipeline
from rocketmq_emulator.client.consumer.push.pulling import Pulling
from rocketmq_emulator.client.producer.send_attempts import AsyncSend
from rocketmq_emulator.errors.call_errors import ClientError, RemoteError

if TYPE_CHECKING:
    from rocketmq_emulator.client.consumer.group.listeners import ConsumptionFacts, ListenerInvoker
    from rocketmq_emulator.client.consumer.group.member import PushMember
    from rocketmq_emulator.client.consumer.group.process_queue import (
        FlowControl,
        ProcessQueue,
        PullRequest,
    )
    from rocketmq_emulator.client.consumer.pull.pull_tasks import MessageQueueState
    from rocketmq_emulator.client.consumer.push.consume_concurrently import ConsumeRequest
    from rocketmq_emulator.client.consumer.push.pulling import Submit
    from rocketmq_emulator.client.consumer.push.send_back import SendBack
    from rocketmq_emulator.protocol.messages.message import MessageExt
    from rocketmq_emulator.protocol.queues import MessageQueue


# Producers ----------------------------------------------------------------------------


class RetriesOnAnotherQueue(AsyncSend):
    """``retry_on_another_queue``: retries go to the next queue of the topic."""

    __slots__ = ()

    def _try(self, broker: str, address: str | None, now_ms: int) -> None:
        if self._brokers and self.info is not None:
            queues = self.info.queues
            place = queues.index(self._queue) if self._queue in queues else 0
            self._queue = queues[(place + 1) % len(queues)]
            self._request = self._kernel.request(self._outgoing, self._queue, now_ms)
        super()._try(broker, address, now_ms)


# Consumers ----------------------------------------------------------------------------


class CommitsWhenPulled(Pulling):
    """``commit_when_pulled``: an offset is committed when its message is pulled."""

    def __init__(
        self, member: PushMember, flow: FlowControl, rebalance: Rebalance, submit: Submit
    ) -> None:
        super().__init__(member, flow, rebalance, submit)
        table = member.offsets.table

        def submit_and_commit(
            found: list[MessageExt], process_queue: ProcessQueue, queue: MessageQueue, wake: bool
        ) -> None:
            submit(found, process_queue, queue, wake)
            table.raise_to(queue, found[-1].queue_offset + 1)

        self._submit = submit_and_commit


class ForgetsFullQueues(Pulling):
    """``forget_full_queues``: notes a pull after it checks whether the queue is full."""

    def __init__(
        self, member: PushMember, flow: FlowControl, rebalance: Rebalance, submit: Submit
    ) -> None:
        super().__init__(member, flow, rebalance, submit)
        self._pulled_ms: WeakKeyDictionary[ProcessQueue, int] = WeakKeyDictionary()

    def _delay_ms(self, request: PullRequest) -> int | None:
        queue = request.process_queue
        if self._flow.is_full(queue):
            queue.last_pull_ms = self._pulled_ms.get(queue, queue.last_pull_ms)
        self._pulled_ms[queue] = queue.last_pull_ms
        return super()._delay_ms(request)


class KeepsQueues(Rebalance):
    """``keep_queues``: releases no queue in a rebalance."""

    async def _release_all(self, _topic: str, _wanted: frozenset[MessageQueue]) -> bool:
        return False


class IgnoresLocks(QueueLocks):
    """``ignore_lock``: consumes queues that the broker has not locked."""

    async def lock(self, queue: MessageQueue) -> bool:
        """Sends the lock request, and returns True for every answer."""
        await super().lock(queue)
        return True

    async def renew(self) -> None:
        """Sends no request: every queue of the member counts as locked."""
        self._mark(frozenset(self._member.process_queue_table), locked=True)


class LocksHeldQueuesOnly(QueueLocks):
    """``lock_held_queues_only``: the lock of a queue that is to be claimed counts as refused.

    The C++ client of that report looked for the queue among those that it had, and so took a lock
    that was granted as one of a queue that it had released since.
    """

    async def lock(self, queue: MessageQueue) -> bool:
        """Sends the lock request; False unless the member has *queue*, which is claimed later."""
        is_granted = await super().lock(queue)
        return is_granted and queue in self._member.process_queue_table


class KeepsOffsets(RemoteBrokerOffsetStore):
    """``keep_offsets``: keeps and commits the offsets of released queues."""

    def persist_all(self, _held: Collection[MessageQueue]) -> None:
        """Persists the offsets of released queues, too."""
        for queue in self.table:
            self.persist(queue)

    def forget(self, queue: MessageQueue) -> None:
        """Keeps the offset of the released *queue*."""


class PersistsInSeries(ConsumePipeline):
    """``persist_in_series``: offsets wait for each broker in turn."""

    async def persist_offsets(self) -> None:
        """Waits for an answer of each queue's broker before it persists the offset."""
        member = self.member
        for queue in list(member.process_queue_table) if member.is_running else []:
            with suppress(RemoteError, ClientError):
                # Stands for upstream's wait for a connection.
                await member.calls.query_offset(queue)
            member.offsets.persist(queue)


class FailsWhenInterrupted(ConsumeConcurrently):
    """``fail_when_interrupted``: as in Java, where a waiting listener is interrupted, and raises.

    Upstream: ThreadUtils.shutdownGracefully, called by ConsumeMessageConcurrentlyService.shutdown
    before DefaultMQPushConsumerImpl.shutdown writes the offsets.
    """

    def __init__(
        self,
        member: PushMember,
        invoker: ListenerInvoker,
        facts: ConsumptionFacts,
        send_back: SendBack,
    ) -> None:
        super().__init__(member, invoker, facts, send_back)
        self.pool.on_interrupted = self._fail

    def _fail(self, batch: ConsumeRequest) -> None:
        failed = ListenerOutcome(ConsumeContext(batch.queue), LATER)
        self._member.start_soon(lambda: self._finish(batch, failed))


class CountsPulledAsConsumed(PullTasks):
    """``count_pulled_as_consumed``, polled or not.  Upstream: nextPullOffset before #1461."""

    async def _next_offset(
        self, queue: MessageQueue, state: MessageQueueState
    ) -> int | StartUnknown:
        offset = await super()._next_offset(queue, state)
        if not isinstance(offset, StartUnknown):
            state.consume_offset = offset
        return offset
