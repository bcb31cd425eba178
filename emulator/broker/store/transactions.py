"""Transactions: half messages that wait for an outcome, their outcomes, and when to check them.

A half message is in the half topic, with its real topic as a property.  A commit stores it again,
in its real topic; that and a rollback leave an op: a record in the op topic that names the half
message's offset.  Before 5.1.0 each op is written at once.  Since then ops are collected in memory
for some seconds, and a broker that dies loses them, as upstream does: such half messages are
checked again, though their producer has answered.  No end waits until its op is flushed.
A pass over the half messages finds those without an op (``transaction_checks``).  Upstream makes
one at a fixed interval; here a pass is planned at upstream's time if there is anything to read.
All state is in the log and in the offsets of a group of the broker's own, but for collected ops.

Upstream: TransactionalMessageServiceImpl, TransactionalMessageBridge, TransactionalOpBatchService,
TransactionalMessageCheckService.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rocketmq_emulator.broker.store.appender import MessageToStore, PutRefused
from rocketmq_emulator.broker.store.transaction_checks import (
    GROUP,
    REMOVE_TAG,
    Ask,
    CheckPass,
    MakeTopic,
    first_offset,
    own_immunity_ms,
    real_queue,
)
from rocketmq_emulator.facts import HalfMessageStored
from rocketmq_emulator.protocol.messages.names import TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from rocketmq_emulator.protocol.messages.properties import (
    PGROUP,
    TAGS,
    UNIQ_KEY,
    WAIT,
    decode_properties,
    properties_text,
)
from rocketmq_emulator.settings.releases import (
    CHECKS_EVERY_30_S,
    LAST_PROPERTY_OPEN,
    OPS_ARE_BATCHED,
)

if TYPE_CHECKING:
    from rocketmq_emulator.broker.store.appender import PutResult
    from rocketmq_emulator.broker.store.escaping import Escape
    from rocketmq_emulator.broker.store.store import Store
    from rocketmq_emulator.broker.tables.offsets import ConsumerOffsets
    from rocketmq_emulator.facts import Fact, Note
    from rocketmq_emulator.protocol.messages.records import StoredMessage
    from rocketmq_emulator.settings.config import BrokerConfig

CHECK_INTERVAL_MS, CHECK_INTERVAL_MS_5 = 60_000, 30_000
TRANSACTION_TOPICS = (TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC)
MOVED_MAX = 100_000  # ours: open half messages that ``advance`` has made older


class TransactionalMessageService:
    """The transactions of *store*; upstream's intervals are counted from *began_ms*.

    ``on_planned`` is called when ``next_due_ms`` may have changed.  ``ask`` sends a check to a
    producer, ``make_topic`` creates a topic of the broker's own.
    """

    def __init__(
        self,
        store: Store,
        offsets: ConsumerOffsets,
        config: BrokerConfig,
        *,
        note: Note,
        wants: Callable[[type[Fact]], bool],
        began_ms: int = 0,
    ) -> None:
        self.on_planned: Callable[[], object] = _plan_nothing
        self.ask: Ask = _ask_nobody
        self.make_topic: MakeTopic = _make_nothing
        self.escape: Escape | None = None  # of an acting master, which asks no producer
        self.config = config
        self._store = store
        self._offsets = offsets
        self._note = note
        self._wants = wants
        release = config.parsed_release
        self._is_batching = release >= OPS_ARE_BATCHED
        self._op_properties = properties_text(
            {WAIT: "true", TAGS: REMOVE_TAG}, trailing=not LAST_PROPERTY_OPEN.holds(release)
        )
        self._clock_ahead_ms: Callable[[], int] = _not_ahead
        self._forget_lost(began_ms)
        self._begin(began_ms)
        self._plan_pass(began_ms)

    def _forget_lost(self, now_ms: int) -> None:
        """Set progress back that was saved before the log lost its tail.

        Else half messages that are stored later, at the same offsets, would never be checked.
        """
        for topic in TRANSACTION_TOPICS:
            end, committed = self._store.max_offset(topic, 0), self._offsets.query(GROUP, topic, 0)
            if committed is not None and committed > end:
                self._offsets.commit(GROUP, topic, 0, end, now_ms)

    def follow_clock(self, ahead_ms: Callable[[], int]) -> None:
        """Keep the interval between passes when the wall clock is set.

        *ahead_ms* returns by how much the clock is wrong.  Upstream's thread waits for the
        interval (ServiceThread.waitForRunning), whatever the wall clock says.
        """
        self._clock_ahead_ms, self._was_ahead_ms = ahead_ms, ahead_ms()

    def _follow_clock(self) -> None:
        ahead_ms = self._clock_ahead_ms()
        self._pass_ms += ahead_ms - self._was_ahead_ms
        self._was_ahead_ms = ahead_ms

    def _begin(self, now_ms: int) -> None:
        self._ops: deque[bytes] = deque()  # collected: half offsets, each with a comma
        self._ops_bytes = 0
        self._op_tick_ms = now_ms  # a time at which upstream's thread looked at the ops
        self._op_written_ms: int | None = None  # or when the first one was collected
        self._pass: CheckPass | None = None  # that has begun and not ended
        self._pass_ms = now_ms + check_interval_ms(self.config)  # of the next pass
        self._was_ahead_ms = self._clock_ahead_ms()  # the wall clock's error, when it was planned
        self._is_pass_planned = False
        self._moved_ms: dict[int, int] = {}  # by half offset: older by this than its record says

    def reset(self, now_ms: int) -> None:
        """Forget all transactions; to be called after a reset of the store and the offsets."""
        self._begin(now_ms)
        self.on_planned()

    def start(self, now_ms: int) -> None:
        """Make passes from now on, the first one after an interval.

        Upstream: TransactionalMessageCheckService.start.
        """
        self._forget_lost(now_ms)
        self._follow_clock()
        self._pass_ms = now_ms + check_interval_ms(self.config)
        self._plan_pass(now_ms)

    def stop(self) -> None:
        """Make no more passes; one that has begun ends without saving its progress.

        Upstream: ServiceThread.shutdown, which interrupts the pass.
        """
        self._pass = None
        self._is_pass_planned = False

    def close(self, now_ms: int) -> None:
        """Write the collected ops if they are due; else they are lost, as upstream loses them."""
        due_ms = self._ops_due_ms()
        if due_ms is not None and due_ms <= now_ms:
            self._write_ops(now_ms)

    # For puts -------------------------------------------------------------------------

    def half_stored(self, message: MessageToStore, put: PutResult, now_ms: int) -> None:
        """Note the half message that was stored at *put*, and plan its check."""
        if self._wants(HalfMessageStored):
            self._note_half(message, put)
        self.half_copied(now_ms)

    def half_copied(self, now_ms: int) -> None:
        """Plan the check of a half message that a master has sent."""
        if self._plan_pass(now_ms):
            self.on_planned()

    def ended(self, half: StoredMessage, now_ms: int) -> None:
        """Record the outcome of *half*: it is not checked again.

        Upstream: TransactionalMessageService.deletePrepareMessage, which also records outcomes
        of messages that are not half messages, as if they were of the half message at the
        same offset.
        """
        if half.topic != TRANS_HALF_TOPIC:
            return
        is_first_op = self._is_batching and not self._ops
        if self._is_batching:
            self._collect_op(half.queue_offset, now_ms)
        else:
            self._put_op(str(half.queue_offset).encode(), now_ms)
        if self._plan_pass(now_ms) or is_first_op:
            self.on_planned()

    def _note_half(self, message: MessageToStore, put: PutResult) -> None:
        properties = decode_properties(message.properties)
        queue = real_queue(properties, self.config.name)
        group, key = properties.get(PGROUP, ""), properties.get(UNIQ_KEY, "")
        own_ms = own_immunity_ms(properties, self.config)
        immunity_ms = -1 if own_ms is None else own_ms
        place = put.queue_offset, put.position
        self._note(HalfMessageStored(queue, *place, group, key, immunity_ms))

    # Advancing time -------------------------------------------------------------------

    def advance(self, ms: int, now_ms: int) -> None:
        """Make half messages older by *ms*, and run at once a pass that becomes due.

        One pass, however many intervals have passed: producers could not answer between two.
        """
        if self._pass is not None:  # it may wait for its copies to be flushed, and they are
            self._pass_ms = now_ms
            self.run_due(now_ms)
        end, moved_ms = self._store.max_offset(TRANS_HALF_TOPIC, 0), self._moved_ms
        for offset in range(self._first_open_offset(), end):
            if offset in moved_ms or len(moved_ms) < MOVED_MAX:
                moved_ms[offset] = moved_ms.get(offset, 0) + ms
        self._pass_ms -= ms
        self._op_tick_ms -= ms
        if self._op_written_ms is not None:
            self._op_written_ms -= ms
        self.run_due(now_ms)
        self.on_planned()

    # For the shell's timer ------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """When ``run_due`` is to be called next; None while there is nothing to do."""
        self._follow_clock()
        due_ms = [self._ops_due_ms(), self._pass_ms if self._is_pass_planned else None]
        return min((due for due in due_ms if due is not None), default=None)

    def run_due(self, now_ms: int) -> None:
        """Write the collected ops if that is due, and make or continue a pass that is due."""
        self._follow_clock()
        due_ms = self._ops_due_ms()
        if due_ms is not None and due_ms <= now_ms:
            self._write_ops(now_ms)
            self._plan_pass(now_ms)
        if not self._is_pass_planned or self._pass_ms > now_ms:
            return
        if self._pass is None:
            self.make_topic(TRANS_HALF_TOPIC, now_ms)
            self._pass = CheckPass(
                self._store,
                self._offsets,
                self.config,
                note=self._note,
                ask=self.ask,
                make_topic=self.make_topic,
                moved_ms=self._moved_ms,
                began_ms=now_ms,
            )
            self._pass.escape = self.escape
            self._pass.on_escaped = partial(self._escaped, self._pass)
        again_ms = self._pass.run(now_ms)
        if again_ms is not None:
            self._pass_ms = again_ms
            return
        self._pass = None
        self._is_pass_planned = False
        self._pass_ms = now_ms + check_interval_ms(self.config)
        self._forget_moved()
        self._plan_pass(now_ms)

    def _escaped(self, of: CheckPass, now_ms: int) -> None:
        """The pass *of*, if it still runs, goes on: it knows whether its message has escaped."""
        if of is self._pass:
            self._pass_ms = now_ms
            self.on_planned()

    def _plan_pass(self, now_ms: int) -> bool:
        """Plan a pass, at the next of upstream's times, if it has anything to read.

        False if one was planned before: mostly so, hence nothing is read for that.
        """
        if self._is_pass_planned or not self._has_unread():
            return False
        self._follow_clock()
        interval_ms = check_interval_ms(self.config)
        missed = max(0, -(-(now_ms - self._pass_ms) // interval_ms))
        self._pass_ms += missed * interval_ms
        self._is_pass_planned = True
        return True

    def _has_unread(self) -> bool:
        store = self._store
        return any(
            first_offset(store, self._offsets, topic) != store.max_offset(topic, 0)
            for topic in TRANSACTION_TOPICS
        )

    def _first_open_offset(self) -> int:
        return first_offset(self._store, self._offsets, TRANS_HALF_TOPIC)

    def _forget_moved(self) -> None:
        first = self._first_open_offset()
        for offset in [offset for offset in self._moved_ms if offset < first]:
            del self._moved_ms[offset]

    # Ops ------------------------------------------------------------------------------

    def _collect_op(self, half_offset: int, now_ms: int) -> None:
        if self._op_written_ms is None:
            self._op_written_ms = now_ms
        op = b"%d," % half_offset
        self._ops.append(op)
        self._ops_bytes += len(op)
        if self._ops_bytes > self.config.transaction_op_bytes_max:
            self._write_ops(now_ms)

    def _ops_due_ms(self) -> int | None:
        """The first tick of upstream's thread at which an interval has passed since the last op.

        Upstream: TransactionalMessageServiceImpl.batchSendOpMessage.
        """
        if not self._ops or self._op_written_ms is None:
            return None
        interval_ms = self.config.transaction_op_interval_ms
        ripe_ms = self._op_written_ms + interval_ms
        ticks = max(0, -(-(ripe_ms - self._op_tick_ms) // interval_ms))
        return self._op_tick_ms + ticks * interval_ms

    def _write_ops(self, now_ms: int) -> None:
        """Write records until less than a full one is left of the collected ops."""
        bytes_max = self.config.transaction_op_bytes_max
        is_over = True
        while self._ops and is_over:
            body = b""
            while self._ops and len(body) < bytes_max:
                body += self._ops.popleft()
            self._ops_bytes -= len(body)
            self._put_op(body, now_ms)
            is_over = self._ops_bytes >= bytes_max
        self._op_written_ms = self._op_tick_ms = now_ms

    def _put_op(self, body: bytes, now_ms: int) -> None:
        """Store an op; one that the disk refuses is lost, and its half messages are checked."""
        host = self._store.store_host
        message = MessageToStore(
            topic=TRANS_OP_HALF_TOPIC,
            queue_id=0,
            body=body,
            properties=self._op_properties,
            flag=0,
            sys_flag=0,
            born_ms=now_ms,
            born_host=host,
            never_waits=True,
        )
        try:
            self._store.put(message, now_ms)
        except PutRefused:
            return  # the store has noted why


def check_interval_ms(config: BrokerConfig) -> int:
    """The time between two passes, as configured or of the release."""
    is_quick = config.parsed_release >= CHECKS_EVERY_30_S
    own_ms = CHECK_INTERVAL_MS_5 if is_quick else CHECK_INTERVAL_MS
    return config.transaction_check_interval_ms or own_ms


def _not_ahead() -> int:
    return 0


def _plan_nothing() -> None:
    """The default of ``on_planned``."""


def _ask_nobody(_group: str, _header: object, _body: bytes) -> str:
    return ""


def _make_nothing(_topic: str, _now_ms: int) -> None:
    """The default of ``make_topic``."""
