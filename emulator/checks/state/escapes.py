"""Slaves that act as masters, and the messages that they sent to other brokers.

A copy waits at a broker name, and the slave that acts for its master sends it to another name when
it is due: there it is stored with the same key, and it waits no more.  Each side notes its half,
the target first: ``MessageStored``, then ``MessageEscaped`` at the slave.  A send whose answer was
lost is noted by the target alone, so every record of such a key counts as sent by a bridge.

What a slave gives up (timer messages after some tries, half messages after eleven) is marked at
the copy: its master may still deliver it, if it comes back with older progress.

Tables have limits; the oldest keys are dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from rocketmq_emulator.checks.state.broker_roles import SLAVE
from rocketmq_emulator.checks.state.cluster_state import ClusterState
from rocketmq_emulator.checks.state.half_messages import HalfMessages
from rocketmq_emulator.checks.state.pending_messages import PendingMessages, WaitingCopy
from rocketmq_emulator.checks.state.queue_records import QueueRecords
from rocketmq_emulator.checks.state.replicas import MasterLog
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    ActingMasterBegan,
    ActingMasterEnded,
    HalfMessageSkipped,
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    MessageEscaped,
    MessageStored,
    MetadataTakenBack,
    NodeStarted,
    Queue,
    TimerMessageDropped,
    TransactionChecked,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.facts.replication import (
    CONSUMER_OFFSETS_TABLE,
    DELAY_OFFSETS_TABLE,
    TIMER_CHECKPOINT_TABLE,
)

K = TypeVar("K")
V = TypeVar("V")
KEYS_MAX = 100_000
IS_SCHEDULED = {
    DELAY_OFFSETS_TABLE: True,
    TIMER_CHECKPOINT_TABLE: False,
}  # by MetadataTakenBack.table
HALF_PROGRESS = CONSUMER_OFFSETS_TABLE  # they have that of the half topic
SENT_ON = ("topic", "retry")  # kinds of topics to which a bridge sends
ROUTES_US = 35_000_000  # clients poll routes every 30 s
EARLY_US_MAX = 1_000_000  # times are stored in seconds in between
TRANSACTIONS = "transaction check"  # MessageEscaped.service
DELAY_LEVELS = "delay level"


class EscapeClaim(NamedTuple):
    """A slave has noted that *target* has the message *key*, and no such record is known yet."""

    key: str
    target: Queue
    noted: EntryKey


class Escapes:
    """What acting masters of all broker names sent, up to now."""

    def __init__(
        self,
        cluster: ClusterState,
        records: Callable[[Queue], QueueRecords],
        pending: PendingMessages,
        halves: HalfMessages,
    ) -> None:
        self.acting: dict[str, EntryKey] = {}  # slaves that act now: since when
        self.has_acted = False  # some slave ever did
        self.unfounded: dict[tuple[str, str, str], EscapeClaim] = {}  # by key, topic and broker
        self.copy: WaitingCopy | None = None  # that the current MessageEscaped has taken away
        self.stored_counts: Counter[tuple[str, str]] = Counter()  # waiting, by key and name
        self._cluster = cluster
        self._records = records
        self._pending = pending
        self._halves = halves
        self.sent: dict[str, str] = {}  # by key: the broker name from which it was sent away
        self._log_ends: dict[str, int] = {}  # of slaves, when they began to act
        self._stopped_us: dict[str, int] = {}  # by broker name: when a slave last stopped
        self._delivered: dict[str, str] = {}  # by key: the broker name that had it waiting
        self._arrived: dict[tuple[str, str, str], list[int]] = {}  # records not claimed yet

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            ActingMasterBegan: self._began,
            ActingMasterEnded: self._ended,
            NodeStarted: self._started,
            MessageEscaped: self._escaped,
            HalfMessageStored: self._half_stored,
            TransactionChecked: self._half_stored_again,
            ImmuneHalfStoredAgain: self._half_stored_again,
            TimerMessageDropped: self._timer_dropped,
            HalfMessageSkipped: self._half_skipped,
            MetadataTakenBack: self._taken_back,
        }

    def may_be_asked(self, broker: str, now_us: int) -> bool:
        """Whether clients may have a slave in their routes as the master of *broker*."""
        acts = any(_name_of(node) == broker for node in self.acting)
        stopped_us = self._stopped_us.get(broker)
        return acts or (stopped_us is not None and now_us - stopped_us <= ROUTES_US)

    # Called by StoredMessages ---------------------------------------------------------------

    def delivered(self, key: str, broker: str) -> None:
        """*broker* has delivered a copy of *key* itself; its slave may do so again."""
        self._delivered[key] = broker
        _limit(self._delivered)

    def stored(self, fact: MessageStored, records: QueueRecords) -> None:
        """A broker stored *fact*: from a bridge, if the key waits, or waited, at another name."""
        if records.topic_kind == "waiting":
            self._counts(fact.uniq_key, records.queue.broker)
        if not self.has_acted or records.topic_kind not in SENT_ON:
            return  # a copy that waits may be its producer's, a dead letter a consumer's
        names = {
            copy.records.queue.broker for copy in self._pending.waiting.get(fact.uniq_key, ())
        }
        if (before := self._delivered.get(fact.uniq_key)) is not None:
            names.add(before)
        broker = records.queue.broker
        if not names or broker in names:
            return
        self._pending.is_no_send(fact.uniq_key, records, fact.offset)
        self._arrives(fact.uniq_key, records.queue, fact.offset)

    def _counts(self, key: str, broker: str) -> None:
        self.stored_counts[key, broker] += 1
        _limit(self.stored_counts)

    # Facts ----------------------------------------------------------------------------------

    def _began(self, fact: ActingMasterBegan, entry: Entry) -> None:
        self.acting[entry.node] = EntryKey(entry.mono_us, entry.node, entry.seq)
        self.has_acted = True
        slave = self._cluster.replicas.slaves.get(entry.node)
        self._log_ends[entry.node] = 0 if slave is None else slave.common_end

    def _ended(self, fact: ActingMasterEnded, entry: Entry) -> None:
        self._stops(entry)

    def _started(self, fact: NodeStarted, entry: Entry) -> None:
        self._stops(entry)

    def _stops(self, entry: Entry) -> None:
        if self.acting.pop(entry.node, None) is not None:
            self._stopped_us[_name_of(entry.node)] = entry.mono_us

    def _half_stored_again(
        self, fact: TransactionChecked | ImmuneHalfStoredAgain, entry: Entry
    ) -> None:
        self._counts(fact.uniq_key, entry.node)

    def _half_stored(self, fact: HalfMessageStored, entry: Entry) -> None:
        self._counts(fact.uniq_key, entry.node)
        if len(self._halves.by_key.get(fact.uniq_key, ())) > 1:  # also a retry with TRAN_MSG
            self._arrives(fact.uniq_key, fact.queue, fact.offset)

    def _arrives(self, key: str, queue: Queue, offset: int) -> None:
        place = key, queue.topic, queue.broker
        if self.unfounded.pop(place, None) is None:
            self._arrived.setdefault(place, []).append(offset)
            _limit(self._arrived)

    def _claimed(self, place: tuple[str, str, str]) -> list[int] | None:
        """The newest record that has arrived there; others are those of other retries.

        Or their answers were lost, and the message was sent again.
        """
        offsets = self._arrived.get(place)
        if offsets is None:
            return None
        newest = offsets.pop()
        if not offsets:
            del self._arrived[place]
        return [newest]

    def _escaped(self, fact: MessageEscaped, entry: Entry) -> None:
        here, key = EntryKey(entry.mono_us, entry.node, entry.seq), fact.uniq_key
        target = Queue(fact.queue.topic, fact.to_broker, fact.to_queue_id)
        place = key, target.topic, target.broker
        self.copy = None
        offsets = self._claimed(place) or self._in_own_name(key, target)
        if offsets is None:
            self.unfounded[place] = EscapeClaim(key, target, here)
            _limit(self.unfounded)
        if fact.service == TRANSACTIONS:
            for half in self._halves.by_key.get(key, ()):
                if half.broker == fact.queue.broker:
                    half.escaped = half.escaped or here
            return
        self.sent[key] = fact.queue.broker
        _limit(self.sent)
        self.copy = self._waiting_at(fact, entry)
        if self.copy is None:
            return
        self._pending.drop(self.copy)
        self.delivered(key, fact.queue.broker)
        self.copy.records.delivered_to = max(self.copy.records.delivered_to, self.copy.offset + 1)
        if offsets is not None and self.copy.sent is not None:
            records = self._records(target)
            records.acked.add(offsets[-1])
            records.unsafe.add(offsets[-1])  # the bridge does not wait for a flush
            records.sent[offsets[-1]] = self.copy.sent

    def _in_own_name(self, key: str, target: Queue) -> list[int] | None:
        """The record in the queue *target* that nobody has claimed: the master was back.

        Messages of delay levels may be sent to the own broker name (EscapeBridge.asyncPutMessage).
        """
        for records, offset in self._pending.open_sends.get(key, ()):
            if records.queue == target:
                self._pending.is_no_send(key, records, offset)
                return [offset]
        return None

    def _waiting_at(self, fact: MessageEscaped, entry: Entry) -> WaitingCopy | None:
        """The first copy that is due for this service at the name for which the slave acts.

        None: the master has delivered it, and the slave's progress is older.
        """
        moved_us = self._cluster.clock_moved_us(entry.node, 0, entry.mono_us)
        due_us = entry.mono_us + EARLY_US_MAX + moved_us
        here = (
            copy
            for copy in self._pending.waiting.get(fact.uniq_key, ())
            if copy.records.queue.broker == fact.queue.broker
            and copy.is_scheduled == (fact.service == DELAY_LEVELS)
            and (copy.due_us is None or copy.due_us <= due_us)
        )
        return min(here, key=lambda copy: copy.offset, default=None)

    def _timer_dropped(self, fact: TimerMessageDropped, entry: Entry) -> None:
        """An acting master drops it; another master loses it."""
        if SLAVE.fullmatch(entry.node) is None:
            return
        for copy in self._pending.waiting.get(fact.uniq_key, ()):
            is_here = copy.records.queue.broker == fact.queue.broker and not copy.is_scheduled
            if is_here and copy.offset == fact.offset:
                copy.given_up = EntryKey(entry.mono_us, entry.node, entry.seq)

    def _taken_back(self, fact: MetadataTakenBack, entry: Entry) -> None:
        """A master takes the progress of a slave, which passes over what that slave had not.

        The slave had another log from some position on, or had not copied a timer message whose
        slot is over now.  Upstream: BrokerPreOnlineService.syncMetadataReverse.
        """
        master = self._cluster.replicas.of(entry.node)
        if master is not None and fact.is_taken and fact.table == HALF_PROGRESS:
            self._pass_halves_over(master, entry)
        is_scheduled = IS_SCHEDULED.get(fact.table)
        if master is None or is_scheduled is None or not fact.is_taken:
            return
        here = EntryKey(entry.mono_us, entry.node, entry.seq)
        ends = [s.differs_from for s in master.slaves.values() if s.differs_from is not None]
        if not is_scheduled:
            ends += [self._log_ends.get(name, 0) for name in master.slaves]
        for copies in self._pending.waiting.values() if ends else ():
            for copy in copies:
                if copy.records.queue.broker != entry.node or copy.is_scheduled != is_scheduled:
                    continue
                position = copy.records.position_of(copy.offset)
                is_passed = is_scheduled or (copy.due_us or 0) <= entry.mono_us
                if is_passed and position is not None and position >= min(ends):
                    copy.given_up = copy.given_up or here

    def _pass_halves_over(self, master: MasterLog, entry: Entry) -> None:
        """Mark open half messages at positions where a slave has another log."""
        ends = [s.differs_from for s in master.slaves.values() if s.differs_from is not None]
        for half in self._halves if ends else ():
            if half.broker == entry.node and half.is_open:
                position = half.records.position_of(half.offset)
                if position is not None and position >= min(ends):
                    half.skipped = EntryKey(entry.mono_us, entry.node, entry.seq)

    def _half_skipped(self, fact: HalfMessageSkipped, entry: Entry) -> None:
        half = self._halves.at(fact.queue.broker, fact.half_offset)
        if half is not None:
            half.skipped = EntryKey(entry.mono_us, entry.node, entry.seq)


def _name_of(slave: str) -> str:
    return slave.rpartition("-")[0]


def _limit(table: dict[K, V]) -> None:
    if len(table) > KEYS_MAX:
        del table[next(iter(table))]
