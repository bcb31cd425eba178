"""What slaves have of their masters: the promises of copies, and what is lost without them.

``promises`` says what an acknowledged message may count on.  A message that a master acknowledged
and no slave has is lost for as long as the master is away, and for good if the master's log lost
it too.  RocketMQ allows that unless copies were promised, so it is counted, with the lag of the
best slave at the death of the master.

What a slave has beyond the log of its master (after the master lost the end of its log) is no copy
of it: RocketMQ counts it as one, so messages that were acknowledged by it are counted apart.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from rocketmq_emulator.checks.state.checker import Checker, CheckerContext, Metric, key_of
from rocketmq_emulator.checks.state.disturbances import PROCESS_ENDING
from rocketmq_emulator.checks.state.promises import copies_promised, promises_sync_state_set
from rocketmq_emulator.checks.state.replicas import MasterLog, SlaveLog
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    BrokerRoleChanged,
    FaultBegan,
    HalfMessageSent,
    LogFlushed,
    MasterConnected,
    MessageSent,
    MessageStored,
    NodeKilled,
    NodeStarted,
    PowerLost,
    Queue,
    SlaveConnected,
    StoreOpened,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.messages.names import RETRY_GROUP_TOPIC_PREFIX

Sent = MessageSent | HalfMessageSent
OPEN_ENDS_MAX = 100_000  # messages without an answer yet, of one broker
ACKNOWLEDGED_MAX = 100_000  # of one master, that may be lost yet


class _SentEnds:
    """The end of the record of each message that was stored and is not acknowledged yet.

    By its place; by its key for what waits elsewhere, as delayed and half messages do: of records
    with the same key the first counts, as later ones are retries of consumers.
    """

    def __init__(self) -> None:
        self._ends: dict[tuple[str, Queue | str, int], tuple[int, str]] = {}  # with its key

    def stored(self, fact: MessageStored, broker: str) -> None:
        """Note where the record ends."""
        end, ends = (fact.position + fact.size_bytes, fact.uniq_key), self._ends
        ends[broker, fact.queue, fact.offset] = end
        ends.setdefault((broker, fact.uniq_key, 0), end)
        while len(ends) > OPEN_ENDS_MAX:
            del ends[next(iter(ends))]

    def taken(self, fact: Sent) -> int | None:
        """The end of the acknowledged message in the log of its broker.

        A delayed, timer or half message is acknowledged with its offset in the internal topic, and
        another message may have that offset in the queue of the send.
        """
        place = fact.queue.broker, fact.queue, fact.offset
        by_key = self._ends.pop((fact.queue.broker, fact.uniq_key, 0), None)
        by_place = self._ends.get(place)
        if by_place is None or (by_key is not None and by_place[1] != fact.uniq_key):
            return None if by_key is None else by_key[0]
        return self._ends.pop(place)[0]


def _is_retry(fact: Sent) -> bool:
    """Whether a consumer sent it back as a send: it keeps WAIT=false, so nothing is waited for.

    Upstream: SendMessageProcessor.consumerSendMsgBack, DefaultMQPushConsumerImpl.sendMessageBack.
    """
    return fact.topic.startswith(RETRY_GROUP_TOPIC_PREFIX)


def _is_in_other_logs(master: MasterLog, end: int, wanted: int) -> bool:
    """Whether slaves with other logs have as many bytes, and report them as copies.

    A slave reports only how long its log is.  Upstream: HAConnection.ReadSocketService.
    """
    return sum(slave.end >= end for slave in master.slaves.values()) >= wanted


class CopiesArePromised(Checker):
    """CommitLog.submitReplicaRequest (4.x), CommitLog.handleHA (5.x)."""

    name = "copies"
    rule = (
        "a message that a SYNC_MASTER acknowledges with SEND_OK or FLUSH_DISK_TIMEOUT is whole in "
        "the logs of as many slaves as it waits for; with allAckInSyncStateSet in those of all "
        "slaves of the sync-state set"
    )
    metrics = (
        Metric("copied_acks", "messages", "acknowledged with the promise of a copy", "node"),
        Metric(
            "excused_other_logs",
            "messages",
            "acknowledged by a slave whose log is longer than its master's, and differs from it",
            "node",
        ),
    )
    needs = (SlaveConnected, MasterConnected)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._ends = _SentEnds()

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {MessageStored: self._stored, MessageSent: self._sent, HalfMessageSent: self._sent}

    def _stored(self, fact: MessageStored, entry: Entry) -> None:
        store = self.cluster.stores.get(entry.node)
        if store is not None and (store.slaves_awaited or store.awaits_sync_state_set):
            self._ends.stored(fact, entry.node)

    def _sent(self, fact: Sent, entry: Entry) -> None:
        broker = fact.queue.broker
        end, store = self._ends.taken(fact), self._store(broker)
        if end is None or _is_retry(fact) or self._is_of_replaced(fact):
            return
        if promises_sync_state_set(store, fact.status):
            self._check_set(fact, end, entry)
        if not (wanted := copies_promised(store, fact.status)):
            return
        self.count_tried()
        self.add_to_metric("copied_acks", 1, broker)
        master = self.cluster.replicas.of(broker)
        holders = 0 if master is None else master.holders(end)
        if holders >= wanted:
            return
        began_us = entry.mono_us - fact.took_ms * 1_000
        if master is not None:
            if _is_in_other_logs(master, end, wanted) or master.reported_beyond >= end:
                self.add_to_metric("excused_other_logs", 1, broker)
                return
            if any(slave.lost_us >= began_us > 0 for slave in master.slaves.values()):
                return  # a slave had it and lost it, before the answer arrived
        self.report_violation(
            f"{broker} acknowledged {fact.uniq_key} with {fact.status}, which ends at byte "
            f"{end:,} of its log: {holders} of its slaves have it, and {wanted} are promised",
            entry,
            node=broker,
        )

    def _check_set(self, fact: Sent, end: int, entry: Entry) -> None:
        """The slaves of the sync-state set have it: the master waits for those that it knows."""
        broker, slaves = fact.queue.broker, self.cluster.replicas.slaves
        began_us = entry.mono_us - fact.took_ms * 1_000
        members = [
            slaves[node] for node in self.cluster.in_sync.slaves_of(broker) if node in slaves
        ]
        if not members:
            return
        self.count_tried()
        self.add_to_metric("copied_acks", 1, broker)
        for slave in members:
            if slave.common_end < end and not slave.lost_us >= began_us > 0:
                self.report_violation(
                    f"{broker} acknowledged {fact.uniq_key} with {fact.status}, which ends at "
                    f"byte {end:,} of its log: {slave.node} has {slave.common_end:,} bytes, and "
                    "is in the sync-state set",
                    entry,
                    node=broker,
                )

    def _is_of_replaced(self, fact: Sent) -> bool:
        return isinstance(fact, MessageSent) and self.cluster.roles.is_of_replaced(fact)

    def _store(self, broker: str) -> StoreOpened | None:
        return self.cluster.stores.get(broker)


# Messages that are lost with their master -----------------------------------------------


class _Acknowledged(msgspec.Struct):
    end: int  # of its record
    promised: int  # copies
    key: str
    sent: EntryKey


class LostWithMasters(Checker):
    """What dies with a master: the messages that it acknowledged, and no slave has."""

    name = "lost_with_masters"
    rule = (
        "a message that its master has lost was acknowledged without the promise of a copy, or "
        "is in the log of a slave"
    )
    metrics = (
        Metric(
            "not_copied",
            "messages",
            "acknowledged, and in no slave's log when their master died",
            "node",
        ),
        Metric(
            "lag_at_death_bytes",
            "bytes",
            "of the master's log that no slave had when the master died",
            "node",
            "max",
        ),
        Metric(
            "only_at_slaves",
            "messages",
            "acknowledged, lost by their master with the power, and in the log of a slave that is "
            "not elected",
            "node",
        ),
        Metric(
            "lost_with_masters",
            "messages",
            "acknowledged without the promise of a copy, lost by their master, and in no slave's "
            "log; or not in that of the slave that was elected",
            "node",
        ),
    )
    needs = (SlaveConnected, MasterConnected)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._ends = _SentEnds()
        self._acknowledged: dict[str, list[_Acknowledged]] = {}  # by master
        self._dead: set[str] = set()
        # Messages of masters without power that a slave has: it may be elected, with them.
        self._only_at_slaves: Counter[str] = Counter()

    def end(self) -> None:
        """Count the messages of slaves that were not elected."""
        for node, count in self._only_at_slaves.items():
            self.add_to_metric("only_at_slaves", count, node)

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MessageStored: self._stored,
            MessageSent: self._sent,
            HalfMessageSent: self._sent,
            LogFlushed: self._flushed,
            NodeStarted: self._started,
            NodeKilled: self._killed,
            FaultBegan: self._fault_began,
            PowerLost: self._power_lost,
            BrokerRoleChanged: self._role_changed,
        }

    def _stored(self, fact: MessageStored, entry: Entry) -> None:
        if entry.node in self.cluster.replicas.masters:
            self._ends.stored(fact, entry.node)

    def _sent(self, fact: Sent, entry: Entry) -> None:
        broker = fact.queue.broker
        if (end := self._ends.taken(fact)) is None:
            return
        if isinstance(fact, MessageSent) and self.cluster.roles.is_of_replaced(fact):
            self.add_to_metric("lost_with_masters", 1, broker)
            return
        store = self.cluster.stores.get(broker)
        promised = 0 if _is_retry(fact) else copies_promised(store, fact.status)
        if not _is_retry(fact) and promises_sync_state_set(store, fact.status):
            promised = len([*self.cluster.in_sync.slaves_of(broker)])
        master = self.cluster.replicas.of(broker)
        if master is not None and master.holders(end) < promised:
            # Without other logs the rule ``copies`` objects to it.
            promised = 0 if _is_in_other_logs(master, end, promised) else promised
        known = self._acknowledged.setdefault(broker, [])
        known.append(_Acknowledged(end, promised, fact.uniq_key, key_of(entry)))
        if len(known) > ACKNOWLEDGED_MAX:
            del known[0]

    def _flushed(self, fact: LogFlushed, entry: Entry) -> None:
        """Forget what is on the disk of its master, and copied: a kill can only delay it."""
        master = self.cluster.replicas.of(entry.node)
        if master is not None and (known := self._acknowledged.get(entry.node)):
            safe = min(fact.position, master.copied_to)
            if known[0].end <= safe:
                self._acknowledged[entry.node] = [each for each in known if each.end > safe]

    def _started(self, fact: NodeStarted, entry: Entry) -> None:
        self._dead.discard(entry.node)

    def _killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._dies(fact.node)

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        if self.cluster.all_faults[-1].word in PROCESS_ENDING:
            for node in fact.nodes:
                self._dies(node)

    def _dies(self, node: str, lost: PowerLost | None = None) -> None:
        """*lost*: its log has been cut already, as the state shows."""
        master = self.cluster.replicas.of(node)
        if master is None or node in self._dead:
            return
        self._dead.add(node)
        kept, end = (None, master.end) if lost is None else (lost.kept_position, lost.end_position)
        lag = max(0, end - max((_end_of(s, kept) for s in master.slaves.values()), default=0))
        acknowledged = self._acknowledged.get(node, ())
        missing = [each for each in acknowledged if not _has_copy(master, each.end, kept)]
        self.count_tried()
        self.add_to_metric("not_copied", len(missing), node)
        known = self.measured.get(f"lag_at_death_bytes.{node}", 0.0)
        self.set_metric("lag_at_death_bytes", max(known, lag), node)

    def _power_lost(self, fact: PowerLost, entry: Entry) -> None:
        self._dies(entry.node, fact)
        master = self.cluster.replicas.of(entry.node)
        if master is None:
            return
        known = self._acknowledged.get(entry.node, [])
        self._acknowledged[entry.node] = [e for e in known if e.end <= fact.kept_position]
        for each in known:
            if each.end <= fact.kept_position:
                continue
            self.count_tried()
            if _has_copy(master, each.end, fact.kept_position):
                self._only_at_slaves[entry.node] += 1
            elif each.promised and not self._slave_lost_too(master, each):
                self._report(each, fact, entry)
            else:
                self.add_to_metric("lost_with_masters", 1, entry.node)

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> None:
        """What the elected slave lacks is lost: the former master will truncate it."""
        if (moved := self.cluster.replicas.moved()) is None:
            return
        move, master = moved
        self._dead.discard(move.name)
        self._only_at_slaves.pop(move.name, None)
        known = self._acknowledged.get(move.name, [])
        self._acknowledged[move.name] = [each for each in known if each.end <= master.kept]
        store = self.cluster.stores.get(move.name)  # that of the former master
        in_set = store is not None and store.awaits_sync_state_set
        others = len(master.slaves)
        for each in known:
            if each.end <= master.kept:
                continue
            self.count_tried()
            is_promised = each.promised and (in_set or each.promised >= others)
            if is_promised and self._must_have(master, each):
                self.report_violation(
                    f"{move.node} was elected as the master of {move.name} with {master.kept:,} "
                    f"bytes; it lacks {each.key}, which ends at byte {each.end:,}, and "
                    f"{each.promised} copies were promised",
                    each.sent,
                    entry,
                )
            else:
                self.add_to_metric("lost_with_masters", 1, move.name)

    def _must_have(self, master: MasterLog, each: _Acknowledged) -> bool:
        """Whether an elected slave has it: it was in the set, and no slave lost its log's end."""
        return self.cluster.in_sync.was_elected_from_set(master.node) and not (
            self._slave_lost_too(master, each) or master.lost_us >= each.sent.mono_us
        )

    @staticmethod
    def _slave_lost_too(master: MasterLog, each: _Acknowledged) -> bool:
        return any(slave.lost_us >= each.sent.mono_us for slave in master.slaves.values())

    def _report(self, each: _Acknowledged, fact: PowerLost, entry: Entry) -> None:
        self.report_violation(
            f"{entry.node} lost {each.key} with its power (kept {fact.kept_position:,} bytes, the "
            f"message ends at {each.end:,}), no slave has it, and {each.promised} were promised",
            each.sent,
            entry,
        )


def _has_copy(master: MasterLog, end: int, kept: int | None) -> bool:
    """Whether a slave has the log up to *end*; the master has just lost all beyond *kept*."""
    return any(_end_of(slave, kept) >= end for slave in master.slaves.values())


def _end_of(slave: SlaveLog, kept: int | None) -> int:
    return slave.end if slave.differs_from == kept else slave.common_end
