"""One pass over the half messages: finds those without an outcome, and asks their producers.

The pass reads half messages from the stored progress on, and ops as far as it needs them.  A
half message that an op names is done.  Any other that is old enough is stored again with a count
of its checks, and one producer of its group is asked for the outcome of that copy; so the progress
moves on, and the copy is the next pass's.  After too many checks the message moves to a topic of
its own.  A half message with an immunity of its own is stored again without being asked for, and
that too counts as a check; an op for its first record, written later, does not end the copy.  Both
are upstream's rules: it looks for such an op only among those of the half messages to come.
Where upstream sleeps, a pass returns the time to go on: then it takes no time of its own.  So a
pass ends after its minute only if it waits that long; a disk that refuses is tried every second.
With SYNC_FLUSH a pass ends when its copies are flushed: progress that was saved before them would
lose a half message with the power.  Upstream does not wait; with ASYNC_FLUSH neither do we.

Upstream: TransactionalMessageServiceImpl.check, DefaultTransactionalMessageCheckListener.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from rocketmq_emulator.broker.store.appender import MessageToStore, PutRefused, stored_again
from rocketmq_emulator.broker.store.put_chain import java_long
from rocketmq_emulator.broker.store.reading import GetStatus
from rocketmq_emulator.facts import (
    HalfMessageSkipped,
    ImmuneHalfStoredAgain,
    Queue,
    TransactionChecked,
    TransactionGivenUp,
)
from rocketmq_emulator.protocol.messages.message_ids import offset_msg_id
from rocketmq_emulator.protocol.messages.names import (
    CID_SYS_RMQ_TRANS,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from rocketmq_emulator.protocol.messages.properties import (
    CHECK_IMMUNITY_TIME_IN_SECONDS,
    PGROUP,
    REAL_QID,
    REAL_TOPIC,
    TAGS,
    TRAN_PREPARED_QUEUE_OFFSET,
    TRANSACTION_CHECK_TIMES,
    UNIQ_KEY,
    WAIT,
    properties_text,
    property_of,
)
from rocketmq_emulator.protocol.messages.records import (
    decode_record,
    decode_records,
    encode_record,
)
from rocketmq_emulator.protocol.requests.groups import CheckTransactionStateRequest
from rocketmq_emulator.settings.releases import (
    CHECK_NAMES_BROKER,
    CHECK_NAMES_TOPIC,
    LAST_PROPERTY_OPEN,
    OPS_ARE_BATCHED,
)

if TYPE_CHECKING:
    from rocketmq_emulator.broker.store.appender import PutResult
    from rocketmq_emulator.broker.store.escaping import Escape
    from rocketmq_emulator.broker.store.store import Store
    from rocketmq_emulator.broker.tables.offsets import ConsumerOffsets
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.protocol.messages.records import StoredMessage
    from rocketmq_emulator.settings.config import BrokerConfig

GROUP = CID_SYS_RMQ_TRANS  # of the broker's own offsets in the half topic and the op topic
REMOVE_TAG = "d"  # TransactionalMessageUtil.REMOVE_TAG: of an op
PASS_MS_MAX = 60_000  # TransactionalMessageServiceImpl.MAX_PROCESS_TIME_LIMIT
OPS_READ_MAX = 32  # TransactionalMessageServiceImpl.OP_MSG_PULL_NUMS
WAIT_FOR_OPS_MS = 1_000  # TransactionalMessageServiceImpl.SLEEP_WHILE_NO_OP
TRY_AGAIN_MS = 1_000  # ours, after a refusal by the disk; upstream tries again at once
WAIT_FOR_FLUSH_MS = 10  # ours; CommitLog.GroupCommitService looks as often for new calls
STEPS_PER_SLICE_MAX = 1_000  # ours, in one call: other tasks must not wait long
ESCAPES_MAX = 10  # TransactionalMessageServiceImpl.MAX_RETRY_TIMES_FOR_ESCAPE
ESCAPE_WAIT_MS = 100  # TransactionalMessageServiceImpl.check: the unit of its sleeps
WAIT_FOR_ESCAPE_MS = 10_000  # ours: the outcome ends it before
MISSES_MAX = 2
_HOUR_MS = 3_600_000
INT_MAX = 2**31 - 1

Ask: TypeAlias = Callable[[str, CheckTransactionStateRequest, bytes], str]
MakeTopic: TypeAlias = Callable[[str, int], object]


def first_offset(store: Store, offsets: ConsumerOffsets, topic: str) -> int:
    """The first offset that no pass has done, in the half topic or the op topic.

    Upstream: TransactionalMessageBridge.fetchConsumeOffset.
    """
    committed = offsets.query(GROUP, topic, 0)
    return store.min_offset(topic, 0) if committed is None else committed


def real_queue(properties: dict[str, str], broker: str) -> Queue:
    """The queue to which a half message was sent; without a topic if it does not say."""
    queue_id = properties.get(REAL_QID, "")
    number = int(queue_id) if queue_id.isdecimal() and len(queue_id) <= 10 else 0
    return Queue(properties.get(REAL_TOPIC, ""), broker, number)


def _long(text: str) -> int:
    """The number of a property; -1 if it is none, as upstream reads it."""
    number = java_long(text)
    return -1 if number is None else number


def check_times(properties: Mapping[str, str]) -> int:
    """How often a half message has been checked; -1 if its property is no ``int``."""
    times = _long(properties.get(TRANSACTION_CHECK_TIMES, "0"))
    return times if -INT_MAX - 1 <= times <= INT_MAX else -1


def own_immunity_ms(properties: Mapping[str, str], config: BrokerConfig) -> int | None:
    """For how long the message itself says that it is not asked about; None if it does not.

    Upstream: TransactionalMessageServiceImpl.getImmunityTime.
    """
    own = properties.get(CHECK_IMMUNITY_TIME_IN_SECONDS)
    if own is None:
        return None
    seconds = _long(own)
    return config.transaction_immunity_ms if seconds == -1 else seconds * 1_000


class Ops:
    """The ops that a pass has read, from *first* on; those before *half_offset* mean nothing.

    Upstream: TransactionalMessageServiceImpl.fillOpRemoveMap, calculateOpOffset.
    """

    def __init__(
        self, store: Store, offsets: ConsumerOffsets, first: int, half_offset: int, now_ms: int
    ) -> None:
        self.newest_born_ms: int | None = None  # of the last read; None: it found nothing
        self._store = store
        self._offsets = offsets
        self._first = self._next = first
        self._half_offset = half_offset
        self._op_of: dict[int, int] = {}  # half offset to the offset of its op
        self._left: dict[int, set[int]] = {}  # op to those of its half offsets not come to yet
        self._done: list[int] = []
        self.read_more(now_ms)

    def read_more(self, now_ms: int) -> None:
        """Read the next ops, if there are any."""
        result = self._store.get(TRANS_OP_HALF_TOPIC, 0, self._next, OPS_READ_MAX)
        self._next = result.next_begin_offset
        if result.status in (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY):
            self._offsets.commit(GROUP, TRANS_OP_HALF_TOPIC, 0, self._next, now_ms)
        self.newest_born_ms = None
        for op in decode_records(b"".join(result.slices)):
            self.newest_born_ms = op.born_ms
            self._take_op(op)

    def _take_op(self, op: StoredMessage) -> None:
        named = set()
        if property_of(str(op.properties, "utf-8", "replace"), TAGS) == REMOVE_TAG:
            texts = str(op.body, "utf-8", "replace").split(",")
            named = {offset for offset in map(_long, texts) if offset >= self._half_offset}
        if not named:
            self._done.append(op.queue_offset)
            return
        self._left[op.queue_offset] = named
        self._op_of.update(dict.fromkeys(named, op.queue_offset))

    def have(self, half_offset: int) -> bool:
        """Whether that half message has ended; to be asked once."""
        op = self._op_of.pop(half_offset, None)
        if op is None:
            return False
        self._left[op].discard(half_offset)
        if not self._left[op]:
            del self._left[op]
            self._done.append(op)
        return True

    def save(self, now_ms: int) -> None:
        """Commit the progress: up to the first op with a half message not come to yet."""
        reached = self._first
        for op in sorted(self._done):
            if op != reached:
                break
            reached += 1
        if reached != self._first:
            self._offsets.commit(GROUP, TRANS_OP_HALF_TOPIC, 0, reached, now_ms)


class CheckPass:
    """A pass that began at *began_ms*; ``run`` it until that returns None.

    *moved_ms* has by how much half messages are older than their records say.
    """

    def __init__(
        self,
        store: Store,
        offsets: ConsumerOffsets,
        config: BrokerConfig,
        *,
        note: Note,
        ask: Ask,
        make_topic: MakeTopic,
        moved_ms: dict[int, int],
        began_ms: int,
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._config = config
        self._note = note
        self._ask = ask
        self._make_topic = make_topic
        self._moved_ms = moved_ms
        self._began_ms = began_ms
        release = config.parsed_release
        self._waits_for_ops = release >= OPS_ARE_BATCHED
        self._broker_name = config.name if release >= CHECK_NAMES_BROKER else None
        self._header_topic = TRANS_HALF_TOPIC if release >= CHECK_NAMES_TOPIC else None
        self._ends_last = not LAST_PROPERTY_OPEN.holds(release)
        self._first = self._offset = first_offset(store, offsets, TRANS_HALF_TOPIC)
        first_op = first_offset(store, offsets, TRANS_OP_HALF_TOPIC)
        self._ops = Ops(store, offsets, first_op, self._first, began_ms)
        self._end = store.max_offset(TRANS_HALF_TOPIC, 0)  # upstream compares store times
        self.escape: Escape | None = None
        self.on_escaped: Callable[[int], object] = _go_on_later
        self._is_escaping = False
        self._escaped: str | None = None  # the outcome of an escape: why it failed, or ""
        self._escape_fails = 0  # of the present message, one after another
        self._misses = 0
        self._copies_end = 0  # of the log, after the last copy

    def run(self, now_ms: int) -> int | None:
        """Go on; returns when to call it again, or None if the pass has ended."""
        for _ in range(STEPS_PER_SLICE_MAX):
            if now_ms - self._began_ms > PASS_MS_MAX:
                break
            wait_ms = self._step(now_ms)
            if wait_ms is None:
                break
            if wait_ms:
                return now_ms + wait_ms
        else:
            return now_ms
        flushing = self._store.flushing
        if flushing.is_sync and flushing.flushed_to < self._copies_end:
            return now_ms + WAIT_FOR_FLUSH_MS
        if self._offset != self._first:
            self._offsets.commit(GROUP, TRANS_HALF_TOPIC, 0, self._offset, now_ms)
        self._ops.save(now_ms)
        return None

    def _step(self, now_ms: int) -> int | None:
        """Look at one half message; returns how long to wait then, None if the pass ends."""
        if self._is_escaping:
            return WAIT_FOR_ESCAPE_MS
        if self._ops.have(self._offset):
            return self._next()
        result = self._store.get(TRANS_HALF_TOPIC, 0, self._offset, 1)
        if not result.count:
            self._misses += 1
            at_end = (GetStatus.NO_MESSAGE_IN_QUEUE, GetStatus.OFFSET_OVERFLOW_ONE)
            if self._misses == MISSES_MAX or result.status in at_end:
                return None
            self._offset = result.next_begin_offset
            return 0
        half = decode_record(result.slices[0])
        if self.escape is not None:
            return self._escape(self.escape, half)
        return self._look_at(half, half.property_map(), now_ms)

    def _look_at(self, half: StoredMessage, properties: dict[str, str], now_ms: int) -> int | None:
        """The order of these tests is upstream's."""
        age_ms = now_ms - half.born_ms + self._moved_ms.get(half.queue_offset, 0)
        reason = self._checked_too_often(properties)
        if not reason:
            properties[TRANSACTION_CHECK_TIMES] = str(check_times(properties) + 1)
            reason = self._too_old(age_ms)  # its copy has the higher count, as upstream's
        if reason:
            self._give_up(half, properties, reason, now_ms)
            return self._next()
        own_ms = own_immunity_ms(properties, self._config)
        immune_ms = self._config.transaction_immunity_ms if own_ms is None else own_ms
        is_young = own_ms is None and 0 <= age_ms < immune_ms
        if is_young or self._offset >= self._end:
            return None  # those behind it are younger, or copies made by this pass
        is_immune = own_ms is not None and age_ms < immune_ms
        if is_immune and self._has_moved_on(half, properties, immune_ms - age_ms, now_ms):
            return self._next()
        if self._needs_check(age_ms, immune_ms):
            return self._check(half, properties, now_ms)
        return self._read_ops(max(1, immune_ms - age_ms + 1), now_ms)

    def _next(self) -> int:
        self._offset += 1
        return 0

    def _read_ops(self, until_old_ms: int, now_ms: int) -> int:
        """Read more ops; if there are none, returns how long to wait for them.

        Before 5.1.0 upstream does not wait: it looks again until the message is old enough.
        """
        had_ops = self._ops.newest_born_ms is not None
        self._ops.read_more(now_ms)
        if self._ops.newest_born_ms is not None:
            return 0
        if self._waits_for_ops:
            return WAIT_FOR_OPS_MS
        return 0 if had_ops else min(WAIT_FOR_OPS_MS, until_old_ms)

    def _checked_too_often(self, properties: Mapping[str, str]) -> str:
        times, is_copy = check_times(properties), TRANSACTION_CHECK_TIMES in properties
        is_over = is_copy and times >= self._config.transaction_checks_max
        return f"it has been checked {times} times" if is_over else ""

    def _too_old(self, age_ms: int) -> str:
        hours_max = self._config.retained_hours_max
        return f"it is older than {hours_max} hours" if age_ms > hours_max * _HOUR_MS else ""

    def _needs_check(self, age_ms: int, immune_ms: int) -> bool:
        newest = self._ops.newest_born_ms
        if newest is None:
            return age_ms > immune_ms or age_ms <= -1
        is_late = newest - self._began_ms > self._config.transaction_immunity_ms
        return is_late or age_ms <= -1

    # At an acting master --------------------------------------------------------------

    def _escape(self, escape: Escape, half: StoredMessage) -> int:
        """Send *half*, however young, to another broker; skip it after too many tries.

        Ops are read at the start of the pass only.
        Upstream: TransactionalMessageServiceImpl.check, TransactionalMessageBridge.escapeMessage.
        """
        if self._escaped is None:
            self._is_escaping = True
            text = self._text(half.property_map())
            escape(stored_again(half, TRANS_HALF_TOPIC, 0, text), self._escape_ended)
            return WAIT_FOR_ESCAPE_MS if self._is_escaping else 0
        reason, self._escaped = self._escaped, None
        if reason and self._escape_fails < ESCAPES_MAX:
            self._escape_fails += 1
            return ESCAPE_WAIT_MS * (2 ^ self._escape_fails)  # upstream means a power: it is xor
        if reason:
            self._note_skipped(half, reason)
        self._escape_fails = 0
        return self._next()

    def _escape_ended(self, reason: str, now_ms: int) -> None:
        self._is_escaping, self._escaped = False, reason
        self.on_escaped(now_ms)

    def _note_skipped(self, half: StoredMessage, reason: str) -> None:
        properties = half.property_map()
        queue, key = real_queue(properties, self._config.name), properties.get(UNIQ_KEY, "")
        tries = self._escape_fails + 1
        self._note(HalfMessageSkipped(queue, half.queue_offset, tries, reason, key))

    # Storing again --------------------------------------------------------------------

    def _has_moved_on(
        self, half: StoredMessage, properties: dict[str, str], immune_for_ms: int, now_ms: int
    ) -> bool:
        """Store an immune half message again; False if the disk refuses it.

        Upstream: TransactionalMessageServiceImpl.checkPrepareQueueOffset.
        """
        properties.setdefault(TRAN_PREPARED_QUEUE_OFFSET, str(half.queue_offset))
        put = self._put_again(half, {**properties, WAIT: "false"}, now_ms)
        if put is None:
            return False
        queue = real_queue(properties, self._config.name)
        counts = half.queue_offset, put.queue_offset, check_times(properties), immune_for_ms
        group, key = properties.get(PGROUP, ""), properties.get(UNIQ_KEY, "")
        self._note(ImmuneHalfStoredAgain(queue, *counts, group, key))
        return True

    def _check(self, half: StoredMessage, properties: dict[str, str], now_ms: int) -> int:
        put = self._put_again(half, properties, now_ms)
        if put is None:
            return TRY_AGAIN_MS
        queue = real_queue(properties, self._config.name)
        group, key = properties.get(PGROUP), properties.get(UNIQ_KEY)
        client = ""
        if queue.topic and REAL_QID in properties and group is not None:
            header = CheckTransactionStateRequest(
                tran_state_table_offset=put.queue_offset,
                commit_log_offset=put.position,
                msg_id=key,
                transaction_id=key,
                offset_msg_id=offset_msg_id(half.store_host, put.position),
                topic=self._header_topic,
                bname=self._broker_name,
            )
            client = self._ask(group, header, self._body(half, properties, put))
        times = check_times(properties)
        places = half.queue_offset, put.queue_offset
        self._note(TransactionChecked(queue, *places, times, client, group or "", key or ""))
        return self._next()

    def _body(self, half: StoredMessage, properties: dict[str, str], put: PutResult) -> bytes:
        """The half message as its producer gets it: of its real queue, at the copy's place."""
        queue = real_queue(properties, self._config.name)
        return encode_record(
            queue.topic.encode(),
            half.body,
            self._text({**properties, WAIT: "false"}).encode("utf-8", "replace"),
            queue_id=queue.queue_id,
            queue_offset=put.queue_offset,
            position=put.position,
            flag=half.flag,
            sys_flag=half.sys_flag,
            born_ms=half.born_ms,
            born_host=half.born_host,
            store_ms=half.store_ms,
            store_host=half.store_host,
            reconsume_times=half.reconsume_times,
            prepared_offset=half.prepared_offset,
        )

    def _put_again(
        self, half: StoredMessage, properties: dict[str, str], now_ms: int
    ) -> PutResult | None:
        """Store a copy of *half*; None if the disk refuses it.

        Upstream: TransactionalMessageBridge.renewHalfMessageInner, which drops two fields.
        """
        copy = stored_again(half, TRANS_HALF_TOPIC, 0, self._text(properties))
        copy.flag = copy.reconsume_times = 0
        put = self._put(copy, now_ms)
        if put is not None and half.queue_offset in self._moved_ms:
            self._moved_ms[put.queue_offset] = self._moved_ms.pop(half.queue_offset)
        return put

    def _give_up(
        self,
        half: StoredMessage,
        properties: dict[str, str],
        reason: str,
        now_ms: int,
    ) -> None:
        """Store *half* in the topic for such messages; if that fails it is passed over as well.

        Upstream: DefaultTransactionalMessageCheckListener.resolveDiscardMsg.
        """
        self._make_topic(TRANS_CHECK_MAX_TIME_TOPIC, now_ms)
        copy = stored_again(half, TRANS_CHECK_MAX_TIME_TOPIC, 0, self._text(properties))
        if self._put(copy, now_ms) is None:
            reason = f"{reason}; the disk refused its copy"
        queue = real_queue(properties, self._config.name)
        times, key = max(0, check_times(half.property_map())), properties.get(UNIQ_KEY, "")
        self._note(TransactionGivenUp(queue, half.queue_offset, times, reason, key))

    def _put(self, message: MessageToStore, now_ms: int) -> PutResult | None:
        try:
            put = self._store.put(message, now_ms)
        except PutRefused:
            return None  # the store has noted why
        self._copies_end = put.position + put.size
        return put

    def _text(self, properties: dict[str, str]) -> str:
        return properties_text(properties, trailing=self._ends_last)


def _go_on_later(_now_ms: int) -> None:
    """The default of ``on_escaped``: the pass goes on when it is run again."""
