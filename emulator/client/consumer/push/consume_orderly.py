"""Orderly listeners, and the broker locks they need: one batch of a queue at a time.

The next batch of a queue starts only after the previous one succeeded; a failed batch is consumed
again after a pause, before any later message of its queue.  When clustering, a queue is consumed
only by the client that holds its lock.  The queue's master keeps the lock for 60 seconds; the
client renews it every 20 and considers it valid for 30.  So if the broker cannot be reached, the
client stops consuming before the broker can grant the lock to another client.  A queue is released
only when its listener has returned.  Before 5.2.0 a listener that hangs keeps its queue for ever;
since then the wait ends 20 seconds after the last lock.

Upstream: ConsumeMessageOrderlyService; RebalanceImpl.lock, lockAll, unlock, unlockAll;
RebalancePushImpl.removeUnnecessaryMessageQueue.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NoReturn

import msgspec
import trio

from rocketmq_emulator.client.consumer.group.consume_traces import traced_outcome
from rocketmq_emulator.client.consumer.group.listeners import (
    ConsumeContext,
    ConsumeResult,
    restore_topic,
)
from rocketmq_emulator.client.consumer.group.process_queue import NOTHING_CACHED, ProcessQueue
from rocketmq_emulator.client.consumer.push.worker_pool import WorkerPool
from rocketmq_emulator.errors.call_errors import ClientError, RemoteError
from rocketmq_emulator.protocol.messages.delay_levels import FIRST_RETRY_LEVEL
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.settings.quirks import class_for
from rocketmq_emulator.settings.releases import (
    BROADCAST_IS_NOT_LOCKED,
    DROPPED_LOCKS_LAPSE,
    GIVING_UP_COUNTS,
    ORDERLY_RELEASE_FORCED,
)

if TYPE_CHECKING:
    from rocketmq_emulator.client.consumer.group.listeners import (
        ConsumptionFacts,
        ListenerInvoker,
        ListenerOutcome,
    )
    from rocketmq_emulator.client.consumer.group.member import PushMember
    from rocketmq_emulator.client.consumer.push.send_back import SendBack
    from rocketmq_emulator.protocol.messages.message import MessageExt


# Locks, and the release of a queue ----------------------------------------------------


CONSUME_LOCK_WAIT_MS_UNFORCED = 1_000
CONSUME_LOCK_WAIT_MS = 500


class OrderlyProcessQueue(ProcessQueue):
    """``consume_lock`` is held while the listener is called (ProcessQueue.consumeLock)."""

    def __init__(self, now_ms: int, *, locked: bool = False) -> None:
        super().__init__(now_ms, locked=locked)
        self.consume_lock = trio.Lock()

    async def wait_consume_lock(self, wait_ms_max: int) -> bool:
        """Acquire ``consume_lock``; False if the listener did not return within *wait_ms_max*.

        After True the listener is not called for this queue until the caller releases the lock.
        """
        with trio.move_on_after(wait_ms_max / 1000):
            await self.consume_lock.acquire()
            return True
        return False


class QueueLocks:
    """The broker locks of one orderly consumer."""

    def __init__(self, member: PushMember) -> None:
        self._member = member

    @property
    def are_needed(self) -> bool:
        """Whether a queue must be locked before it is claimed.

        Before 5.3.2 a broadcasting consumer locks queues too.
        """
        member = self._member
        return not (member.is_broadcasting and member.release >= BROADCAST_IS_NOT_LOCKED)

    async def lock(self, queue: MessageQueue) -> bool:
        """Lock *queue* at its master; False if the master refuses or does not answer."""
        try:
            granted = await self._member.calls.lock(queue.broker_name, [queue])
        except (RemoteError, ClientError):
            return False
        self._mark(granted, locked=True)
        return queue in granted

    async def renew(self) -> None:
        """Lock all held queues again, broker by broker; without a reply nothing changes."""
        for broker, queues in self._by_broker().items():
            try:
                granted = await self._member.calls.lock(broker, queues)
            except (RemoteError, ClientError):
                continue
            self._mark(granted, locked=True)
            self._mark(frozenset(queues) - granted, locked=False)

    def unlock_soon(self, queue: MessageQueue) -> None:
        """Unlock one queue with a one-way request."""
        self._member.calls.unlock_soon(queue)

    async def unlock_all(self) -> None:
        """Unlock all queues at the end, so that other members need not wait 60 seconds."""
        for broker, queues in self._by_broker().items():
            try:
                await self._member.calls.unlock(broker, queues)
            except (RemoteError, ClientError):
                continue
            self._mark(frozenset(queues), locked=False)

    def _mark(self, queues: frozenset[MessageQueue], *, locked: bool) -> None:
        now_ms = self._member.now_ms()
        for queue in queues:
            if (process_queue := self._member.process_queue_table.get(queue)) is not None:
                process_queue.locked = locked
                if locked:
                    process_queue.last_lock_ms = now_ms

    def _by_broker(self) -> dict[str, list[MessageQueue]]:
        # Before 5.0.0 also dropped queues: a listener that hangs keeps its queue for ever.
        also_dropped = self._member.release < DROPPED_LOCKS_LAPSE
        brokers: dict[str, list[MessageQueue]] = defaultdict(list)
        for queue, process_queue in sorted(self._member.process_queue_table.items()):
            if also_dropped or not process_queue.dropped:
                brokers[queue.broker_name].append(queue)
        return brokers


class LockedOwnership:
    """How an orderly consumer claims and releases its queues."""

    process_queue_type: type[ProcessQueue] = OrderlyProcessQueue

    def __init__(self, member: PushMember) -> None:
        self.locks = class_for(QueueLocks, "consumer", member.config.quirks)(member)
        self._member = member

    async def claim(self, queue: MessageQueue) -> bool:
        """Lock *queue* if locks are needed; False if it may not be claimed now."""
        return not self.locks.are_needed or await self.locks.lock(queue)

    async def release(self, queue: MessageQueue, process_queue: ProcessQueue) -> bool:
        """Unlock *queue*; True if it was released.  If not, the next rebalance pass tries again.

        A broadcasting consumer does not wait for the listener: every member holds the queue.
        """
        offsets = self._member.offsets
        offsets.persist(queue)
        if self._member.is_broadcasting or not isinstance(process_queue, OrderlyProcessQueue):
            offsets.forget(queue)
            return True
        if self._member.release >= ORDERLY_RELEASE_FORCED:
            return await self._release_after_listener_or_forced(queue, process_queue)
        offsets.forget(queue)
        return await self._release_after_listener(queue, process_queue)

    async def _release_after_listener(
        self, queue: MessageQueue, process_queue: OrderlyProcessQueue
    ) -> bool:
        if not await process_queue.wait_consume_lock(CONSUME_LOCK_WAIT_MS_UNFORCED):
            process_queue.unlock_tries += 1
            return False
        try:
            if process_queue.is_waiting:
                # The next owner should not start before the cached messages are dropped here.
                delay_ms = self._member.config.unlock_delay_ms
                self._member.call_later(delay_ms, lambda: self.locks.unlock_soon(queue))
            else:
                self.locks.unlock_soon(queue)
        finally:
            process_queue.consume_lock.release()
        return True

    async def _release_after_listener_or_forced(
        self, queue: MessageQueue, process_queue: OrderlyProcessQueue
    ) -> bool:
        silent_ms = self._member.now_ms() - process_queue.last_lock_ms
        forced = process_queue.dropped and silent_ms > self._member.config.unlock_delay_ms
        if not forced and not await process_queue.wait_consume_lock(CONSUME_LOCK_WAIT_MS):
            process_queue.unlock_tries += 1
            return False
        try:
            self._member.offsets.persist(queue)
            self._member.offsets.forget(queue)
            process_queue.locked = False
            self.locks.unlock_soon(queue)
        finally:
            if not forced:
                process_queue.consume_lock.release()
        return True


# The consume service ------------------------------------------------------------------


SUSPEND = ConsumeResult.SUSPEND
SUSPEND_MS_MIN, SUSPEND_MS_MAX = 10, 30_000
RESUBMIT_MS = 10  # after a request's time is over, or its queue was locked
LOCK_BEFORE_TURN_MS = 100
LOCK_IN_TURN_MS = 10
LOCK_REFUSED_MS = 3_000


class OrderlyConsumeRequest(msgspec.Struct, eq=False):
    """Consume one queue in one worker until it is empty, not locked, or the time is over."""

    process_queue: OrderlyProcessQueue
    queue: MessageQueue


class ConsumeOrderly:
    """Calls one consumer's orderly listener."""

    def __init__(
        self,
        member: PushMember,
        invoker: ListenerInvoker,
        facts: ConsumptionFacts,
        send_back: SendBack,
        locks: QueueLocks,
    ) -> None:
        self._member = member
        self._invoker = invoker
        self._facts = facts
        self._send_back = send_back
        self._locks = locks
        self._message_queue_locks: dict[MessageQueue, trio.Lock] = {}
        self._needs_locks = not member.is_broadcasting
        self.pool: WorkerPool[OrderlyConsumeRequest] = WorkerPool(
            member.config.consume_threads_max, self._run_request
        )

    def start(self, workers: trio.Nursery) -> None:
        """Run listeners in *workers*, and the renewal of locks too."""
        self.pool.open(workers)
        if self._needs_locks:
            workers.start_soon(self._renew_locks)

    def submit(
        self,
        _messages: list[MessageExt],
        process_queue: ProcessQueue,
        queue: MessageQueue,
        wake: bool,
    ) -> None:
        """Submit a request for *queue* if *wake*; it takes messages from the process queue."""
        if wake:
            assert isinstance(process_queue, OrderlyProcessQueue), "Rebalance makes orderly ones"
            self.pool.submit(OrderlyConsumeRequest(process_queue, queue))

    async def _renew_locks(self) -> NoReturn:
        """Renew after ``lock_first_ms``, then every ``lock_interval_ms``, until cancelled."""
        await trio.sleep(self._member.config.lock_first_ms / 1000)
        while True:
            await self._locks.renew()
            await trio.sleep(self._member.config.lock_interval_ms / 1000)

    # One request ----------------------------------------------------------------------

    async def _run_request(self, turn: OrderlyConsumeRequest) -> None:
        lock = self._message_queue_locks.setdefault(turn.queue, trio.Lock())
        if turn.process_queue.dropped:
            return
        async with lock:
            if self._may_consume(turn):
                await self._consume(turn)
            elif not turn.process_queue.dropped:
                self._try_lock_later_and_reconsume(turn, LOCK_BEFORE_TURN_MS)

    async def _consume(self, turn: OrderlyConsumeRequest) -> None:
        began_ms = self._member.now_ms()
        while not turn.process_queue.dropped:
            if not self._may_consume(turn):
                self._try_lock_later_and_reconsume(turn, LOCK_IN_TURN_MS)
                return
            if self._member.now_ms() - began_ms > self._member.config.continuous_ms_max:
                self._submit_later(turn, RESUBMIT_MS)  # workers are shared by all queues
                return
            if not await self._one_batch(turn):
                return

    async def _one_batch(self, turn: OrderlyConsumeRequest) -> bool:
        """Consume one batch; True if the request takes the next one at once."""
        member = self._member
        process_queue = turn.process_queue
        messages = process_queue.take(member.config.consume_batch_max, member.now_ms())
        if not messages:
            return False
        for message in messages:
            restore_topic(message, member.retry_topic)
        context = ConsumeContext(turn.queue)
        async with process_queue.consume_lock:
            if process_queue.dropped:
                return False
            began_ms = member.now_ms()
            outcome = await traced_outcome(
                member.traces,
                messages,
                lambda: self._invoker.wait_outcome(messages, context, SUSPEND),
            )
        acked = 0 if _is_retried(outcome) else len(messages)
        self._facts.note_consumed(turn.queue, messages, acked)
        now_ms = member.now_ms()
        failed = len(messages) - acked
        topic = turn.queue.topic
        member.stats.consumed(topic, 1, now_ms - began_ms, now_ms, ok=acked, failed=failed)
        return await self._finish(turn, messages, outcome)

    def _may_consume(self, turn: OrderlyConsumeRequest) -> bool:
        return not self._needs_locks or turn.process_queue.holds_lock(self._member.now_ms())

    # Its outcome ----------------------------------------------------------------------

    async def _finish(
        self, turn: OrderlyConsumeRequest, messages: list[MessageExt], outcome: ListenerOutcome
    ) -> bool:
        """True if the request takes the next batch at once.  Upstream: processConsumeResult."""
        if _is_retried(outcome):
            if outcome.result is ConsumeResult.ROLLBACK:
                turn.process_queue.rollback()
            elif await self._must_suspend(messages):
                turn.process_queue.consume_again(messages)
            else:  # all messages were given up: continue with those after them
                self._commit(turn, outcome.context.auto_commit)
                return True
            self._suspend_queue(turn, outcome.context.suspend_ms)
            return False
        committed = outcome.context.auto_commit or outcome.result is ConsumeResult.COMMIT
        self._commit(turn, committed)
        return True

    def _commit(self, turn: OrderlyConsumeRequest, now: bool) -> None:
        """Commit all taken messages if *now*: by auto_commit, or because the listener commits."""
        if not now:
            return
        offset = turn.process_queue.commit()
        if offset != NOTHING_CACHED and not turn.process_queue.dropped:
            self._member.offsets.table.update(turn.queue, offset)

    async def _must_suspend(self, messages: list[MessageExt]) -> bool:
        """Count a failure of each message; True if one must be consumed again.

        A message that failed ``retries_max`` times is published to the retry topic and given up.

        Upstream: ConsumeMessageOrderlyService.checkReconsumeTimes.
        """
        suspend = False
        for message in messages:
            given_up = message.reconsume_times >= self._member.config.retries_max
            if not given_up or not await self._give_up(message):
                message.reconsume_times += 1
                suspend = True
        return suspend

    async def _give_up(self, message: MessageExt) -> bool:
        times = message.reconsume_times + (self._member.release >= GIVING_UP_COUNTS)
        level = FIRST_RETRY_LEVEL + message.reconsume_times
        return await self._send_back.publish(message, level, times)

    # Continuing later -----------------------------------------------------------------

    def _suspend_queue(self, turn: OrderlyConsumeRequest, suspend_ms: int) -> None:
        wanted_ms = self._member.config.suspend_queue_ms if suspend_ms == -1 else suspend_ms
        self._submit_later(turn, min(max(wanted_ms, SUSPEND_MS_MIN), SUSPEND_MS_MAX))

    def _submit_later(self, turn: OrderlyConsumeRequest, delay_ms: int) -> None:
        self._member.call_later(delay_ms, lambda: self.pool.submit(turn))

    def _try_lock_later_and_reconsume(self, turn: OrderlyConsumeRequest, delay_ms: int) -> None:
        async def lock_and_submit() -> None:
            locked = await self._locks.lock(turn.queue)
            self._submit_later(turn, RESUBMIT_MS if locked else LOCK_REFUSED_MS)

        self._member.call_later(delay_ms, lambda: self._member.start_soon(lock_and_submit))


def _is_retried(outcome: ListenerOutcome) -> bool:
    """Whether the messages are consumed again; ROLLBACK only counts with auto_commit off."""
    if outcome.result is ConsumeResult.ROLLBACK:
        return not outcome.context.auto_commit
    return outcome.result in (SUSPEND, ConsumeResult.RECONSUME_LATER)
