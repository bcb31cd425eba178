"""Orderly listeners: one batch of a queue at a time, the next only after it succeeded.

A failed batch is consumed again a moment later, and no later message of its queue
overtakes it.  When clustering, listeners are called only while the broker's lock on the
queue is ours and was confirmed within 30 seconds.

Upstream: ConsumeMessageOrderlyService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import msgspec
import trio

from emulator.client.consumer.listeners import ConsumeContext, ConsumeResult, restore_topic
from emulator.client.consumer.process_queue import NOTHING_CACHED
from emulator.client.consumer.queue_ownership import OrderlyProcessQueue
from emulator.client.consumer.worker_pool import WorkerPool
from emulator.releases import GIVING_UP_COUNTS
from protocol.delay_levels import FIRST_RETRY_LEVEL
from protocol.queues import MessageQueue

if TYPE_CHECKING:
    from emulator.client.consumer.listeners import (
        ConsumptionFacts,
        ListenerInvoker,
        ListenerOutcome,
    )
    from emulator.client.consumer.member import PushMember
    from emulator.client.consumer.process_queue import ProcessQueue
    from emulator.client.consumer.queue_ownership import QueueLocks
    from emulator.client.consumer.send_back import SendBack
    from protocol.message import MessageExt

SUSPEND = ConsumeResult.SUSPEND
SUSPEND_MS_MIN, SUSPEND_MS_MAX = 10, 30_000
GO_ON_MS = 10  # after a turn that ended, or a lock that was got
LOCK_BEFORE_TURN_MS = 100
LOCK_IN_TURN_MS = 10
LOCK_REFUSED_MS = 3_000


class QueueTurn(msgspec.Struct, eq=False):
    """One worker's run on one queue: until it is empty, not locked, or its time is over."""

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
        self._one_a_queue: dict[MessageQueue, trio.Lock] = {}
        self._needs_locks = not member.is_broadcasting
        self.pool: WorkerPool[QueueTurn] = WorkerPool(
            member.config.consume_threads_max, self._take_turn
        )

    def start(self, workers: trio.Nursery) -> None:
        """Listeners run in *workers*, and so does the renewal of locks."""
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
        """Start a turn if the queue has none; a turn takes its messages from the process queue."""
        if wake:
            assert isinstance(process_queue, OrderlyProcessQueue), "Rebalance makes orderly ones"
            self.pool.submit(QueueTurn(process_queue, queue))

    async def _renew_locks(self) -> NoReturn:
        """After one second, then every 20."""
        await trio.sleep(self._member.config.lock_first_ms / 1000)
        while True:
            await self._locks.renew()
            await trio.sleep(self._member.config.lock_interval_ms / 1000)

    # A turn ---------------------------------------------------------------------------

    async def _take_turn(self, turn: QueueTurn) -> None:
        lock = self._one_a_queue.setdefault(turn.queue, trio.Lock())
        if turn.process_queue.dropped:
            return
        async with lock:
            if self._may_consume(turn):
                await self._consume(turn)
            elif not turn.process_queue.dropped:
                self._lock_and_go_on(turn, LOCK_BEFORE_TURN_MS)

    async def _consume(self, turn: QueueTurn) -> None:
        began_ms = self._member.now_ms()
        while not turn.process_queue.dropped:
            if not self._may_consume(turn):
                self._lock_and_go_on(turn, LOCK_IN_TURN_MS)
                return
            if self._member.now_ms() - began_ms > self._member.config.continuous_ms_max:
                self._go_on_later(turn, GO_ON_MS)  # workers are shared by all queues
                return
            if not await self._one_batch(turn):
                return

    async def _one_batch(self, turn: QueueTurn) -> bool:
        """Whether the turn goes on."""
        member = self._member
        process_queue = turn.process_queue
        messages = process_queue.take(member.config.consume_batch_max, member.now_ms())
        if not messages:
            return False
        for message in messages:
            restore_topic(message, member.retry_topic)
        context = ConsumeContext(turn.queue)
        async with process_queue.listening:
            if process_queue.dropped:
                return False
            began_ms = member.now_ms()
            outcome = await self._invoker.wait_outcome(messages, context, SUSPEND)
        acked = 0 if _is_retried(outcome) else len(messages)
        self._facts.note_consumed(turn.queue, messages, acked)
        now_ms = member.now_ms()
        failed = len(messages) - acked
        topic = turn.queue.topic
        member.figures.consumed(topic, 1, now_ms - began_ms, now_ms, ok=acked, failed=failed)
        return await self._finish(turn, messages, outcome)

    def _may_consume(self, turn: QueueTurn) -> bool:
        return not self._needs_locks or turn.process_queue.holds_lock(self._member.now_ms())

    # Its outcome ----------------------------------------------------------------------

    async def _finish(
        self, turn: QueueTurn, messages: list[MessageExt], outcome: ListenerOutcome
    ) -> bool:
        """Whether the turn goes on.  Upstream: processConsumeResult."""
        if _is_retried(outcome):
            if outcome.result is ConsumeResult.ROLLBACK:
                turn.process_queue.rollback()
            elif await self._must_suspend(messages):
                turn.process_queue.consume_again(messages)
            else:  # all of them were given up: the queue continues behind them
                self._commit(turn, outcome.context.auto_commit)
                return True
            self._rest(turn, outcome.context.suspend_ms)
            return False
        committed = outcome.context.auto_commit or outcome.result is ConsumeResult.COMMIT
        self._commit(turn, committed)
        return True

    def _commit(self, turn: QueueTurn, now: bool) -> None:
        """Everything taken so far; with auto_commit off only when the listener commits."""
        if not now:
            return
        offset = turn.process_queue.commit()
        if offset != NOTHING_CACHED and not turn.process_queue.dropped:
            self._member.offsets.table.update(turn.queue, offset)

    async def _must_suspend(self, messages: list[MessageExt]) -> bool:
        """Count one more failure of each; one that failed too often is published and given up.

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

    # Going on later -------------------------------------------------------------------

    def _rest(self, turn: QueueTurn, suspend_ms: int) -> None:
        wanted_ms = self._member.config.suspend_queue_ms if suspend_ms == -1 else suspend_ms
        self._go_on_later(turn, min(max(wanted_ms, SUSPEND_MS_MIN), SUSPEND_MS_MAX))

    def _go_on_later(self, turn: QueueTurn, delay_ms: int) -> None:
        self._member.later(delay_ms, lambda: self.pool.submit(turn))

    def _lock_and_go_on(self, turn: QueueTurn, delay_ms: int) -> None:
        async def lock_and_submit() -> None:
            locked = await self._locks.lock(turn.queue)
            self._go_on_later(turn, GO_ON_MS if locked else LOCK_REFUSED_MS)

        self._member.later(delay_ms, lambda: self._member.beside(lock_and_submit))


def _is_retried(outcome: ListenerOutcome) -> bool:
    """Whether the messages are consumed again; a rollback needs auto_commit off."""
    if outcome.result is ConsumeResult.ROLLBACK:
        return not outcome.context.auto_commit
    return outcome.result in (SUSPEND, ConsumeResult.RECONSUME_LATER)
