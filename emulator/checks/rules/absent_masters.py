"""While a master is away: offsets that its slaves have, and how long nothing is written or read.

A slave copies the committed offsets every 10 s (4.x) or 60 s (5.x).  A member that begins in a
queue while the master is away gets the slave's offset: it may go back to the last copy, not
further.  Without elections no name ever has two masters.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_emulator.checks.rules.failover import STORED
from rocketmq_emulator.checks.state.checker import Checker, CheckerContext, Metric, key_of
from rocketmq_emulator.checks.state.disturbances import PROCESS_ENDING
from rocketmq_emulator.checks.state.queue_records import ASKED_US
from rocketmq_emulator.checks.state.replicas import CALL_US_MAX
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    BrokerExpired,
    BrokerRegistered,
    BrokerReset,
    BrokerRoleChanged,
    BrokerUnregistered,
    FaultBegan,
    GroupOffsetMoved,
    MasterDisconnected,
    MasterElected,
    MetadataSynced,
    NameServerReset,
    NodeKilled,
    NodePaused,
    NodeResumed,
    NodeStarted,
    NodeStopped,
    OffsetCommitted,
    PowerLost,
    PullAnswered,
    Queue,
    QueuesClaimed,
    SendAttempted,
    SlaveConnected,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.facts.replication import CONSUMER_OFFSETS_TABLE

SILENT = "nothing was heard"  # the reason of a slave that leaves a silent master


class OneMaster(Checker):
    """RouteInfoManager.registerBroker."""

    name = "one_master"
    rule = (
        "in the routes of a NameServer a broker name has one master: another address registers as "
        "its master only after the first has left, unless a controller has elected it"
    )
    needs = (BrokerRegistered,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._masters: dict[tuple[str, str], tuple[str, EntryKey]] = {}  # NameServer, name
        self._has_elections = False

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            BrokerRegistered: self._registered,
            BrokerUnregistered: self._left,
            BrokerExpired: self._left,
            NameServerReset: self._began,
            NodeStarted: self._began,
            MasterElected: self._elected,
        }

    def _registered(self, fact: BrokerRegistered, entry: Entry) -> None:
        if fact.broker_id:
            return
        known = self._masters.get((entry.node, fact.broker))
        self._masters[entry.node, fact.broker] = fact.address, key_of(entry)
        if known is None or self._has_elections:
            return
        self.count_tried()
        if known[0] != fact.address:
            self.report_violation(
                f"{entry.node} has {known[0]} as the master of {fact.broker}, and {fact.address} "
                "registers as its master, too",
                known[1],
                entry,
                node=fact.broker,
            )

    def _left(self, fact: BrokerUnregistered | BrokerExpired, entry: Entry) -> None:
        known = self._masters.get((entry.node, fact.broker))
        if known is not None and known[0] == fact.address:
            del self._masters[entry.node, fact.broker]

    def _began(self, fact: NodeStarted | NameServerReset, entry: Entry) -> None:
        for place in [place for place in self._masters if place[0] == entry.node]:
            del self._masters[place]

    def _elected(self, fact: MasterElected, entry: Entry) -> None:
        self._has_elections = True


# Offsets of slaves ------------------------------------------------------------------------


GroupQueue = tuple[str, Queue]


class _CommittedOffset(NamedTuple):
    at_us: int
    offset: int


class OffsetsAreCopied(Checker):
    """SlaveSynchronize.syncConsumerOffset."""

    name = "copied_offsets"
    rule = (
        "a member that begins in a queue while its master is away, or not in the member's routes, "
        "begins at the offset that was committed when a slave last copied the offsets, or later"
    )
    metrics = (
        Metric(
            "went_back",
            "messages",
            "between the last commit at a master and the offset at which a member began while it "
            "was away or not in its routes",
            "group",
            "max",
        ),
    )
    needs = (MetadataSynced,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._commits: dict[str, dict[GroupQueue, list[_CommittedOffset]]] = {}  # by master
        # By slave: the offsets that it copied, or was told.
        self._copied: dict[str, dict[GroupQueue, list[_CommittedOffset]]] = {}
        self._dead_us: dict[str, int] = {}  # by node: since when
        self._stopped: set[str] = set()  # nodes that wrote all offsets at their end

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            OffsetCommitted: self._committed,
            GroupOffsetMoved: self._moved,
            MetadataSynced: self._synced,
            QueuesClaimed: self._claimed,
            NodeStarted: self._started,
            NodeStopped: self._is_stopped,
            NodeKilled: self._killed,
            FaultBegan: self._fault_began,
            PowerLost: self._power_lost,
            BrokerReset: self._reset,
        }

    def _committed(self, fact: OffsetCommitted, entry: Entry) -> None:
        if not self.cluster.replicas.masters:
            return
        place = fact.group, fact.queue
        if entry.node != fact.queue.broker:  # at a slave: its own copy changes
            own = self._copied.get(entry.node, {})
            if place in own:
                last = own[place][-1]
                own[place][-1] = last._replace(offset=min(last.offset, fact.offset))
            return
        known = self._commits.setdefault(entry.node, {}).setdefault(place, [])
        while len(known) > 1 and known[1].at_us < entry.mono_us - CALL_US_MAX:
            del known[0]
        known.append(_CommittedOffset(entry.mono_us, fact.offset))

    def _moved(self, fact: GroupOffsetMoved, entry: Entry) -> None:
        """A tool moved the group: nothing is known about the copies of this offset."""
        self._commits.get(entry.node, {}).pop((fact.group, fact.queue), None)
        for own in self._copied.values():
            own.pop((fact.group, fact.queue), None)

    def _synced(self, fact: MetadataSynced, entry: Entry) -> None:
        """The slave has what its master had when it answered: in the last 3 s."""
        slave = self.cluster.replicas.slaves.get(entry.node)
        if slave is None or fact.table != CONSUMER_OFFSETS_TABLE:
            return
        earlier = self._copied.get(entry.node, {})
        own: dict[GroupQueue, list[_CommittedOffset]] = {}
        self._copied[entry.node] = own
        since_us = entry.mono_us - CALL_US_MAX
        for place, commits in self._commits.get(slave.master, {}).items():
            before = [each.offset for each in commits if each.at_us < since_us]
            during = [each.offset for each in commits if each.at_us >= since_us]
            if before:
                known = own[place] = earlier.get(place, [])
                while len(known) > 1 and known[1].at_us < entry.mono_us - ASKED_US:
                    del known[0]
                known.append(_CommittedOffset(entry.mono_us, min([before[-1], *during])))

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        if fact.group in self.cluster.broadcast:
            return
        for queue, offset in zip(fact.queues, fact.offsets, strict=False):
            master = self.cluster.replicas.of(queue.broker)
            asked_us = self._asked_us(queue.broker, entry)
            if master is None or asked_us is None:
                continue
            place = fact.group, queue
            alive = [name for name in master.slaves if not self.cluster.is_gone(name)]
            copies = [self._copied.get(name, {}).get(place) for name in alive]
            known = [_lowest_since(copy, asked_us) for copy in copies if copy is not None]
            if not known or len(known) < len(copies):
                continue  # some slave has no copy yet, and may have been asked
            self._check(fact.group, queue, offset, min(known), entry)

    def _asked_us(self, broker: str, entry: Entry) -> int | None:
        """Since when the member of *entry* may have asked a slave of *broker*, and nobody else.

        None: it may have asked the master, which may have older offsets.
        """
        now_us = entry.mono_us
        if (dead_us := self._dead_us.get(broker)) is not None:
            is_long = now_us - dead_us > CALL_US_MAX  # else the master may have answered before
            return now_us if is_long else None
        if self.cluster.has_master_address(entry.node, broker):
            return None
        asked_us = now_us - ASKED_US
        return asked_us if self.cluster.last_restart_us((broker,)) < asked_us else None

    def _check(self, group: str, queue: Queue, offset: int, copied: int, entry: Entry) -> None:
        self.count_tried()
        commits = self._commits.get(queue.broker, {}).get((group, queue), [])
        if commits:
            before = self.measured.get(f"went_back.{group}", 0.0)
            self.set_metric("went_back", max(before, commits[-1].offset - offset), group)
        if offset < copied:
            self.report_violation(
                f"{entry.node} begins at offset {offset} of {place_of(queue)} while its master is "
                f"{self._where(queue.broker)}; each slave had copied {copied} or more",
                entry,
            )

    def _where(self, broker: str) -> str:
        return "away" if broker in self._dead_us else "not in its routes"

    def _started(self, fact: NodeStarted, entry: Entry) -> None:
        """A process that was killed leaves the offsets that it wrote last, every 5 s.

        Which ones is known when the group commits again.
        Upstream: BrokerController.initializeBrokerScheduledTasks.
        """
        self._dead_us.pop(entry.node, None)
        if entry.node not in self._stopped:
            self._commits.pop(entry.node, None)
        self._stopped.discard(entry.node)

    def _is_stopped(self, fact: NodeStopped, entry: Entry) -> None:
        self._stopped.add(entry.node)

    def _killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._dead_us.setdefault(fact.node, entry.mono_us)

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        if self.cluster.all_faults[-1].word in PROCESS_ENDING:
            for node in fact.nodes:
                self._dead_us.setdefault(node, entry.mono_us)

    def _power_lost(self, fact: PowerLost, entry: Entry) -> None:
        """Its files may have gone back to an older content."""
        self._dead_us.setdefault(entry.node, entry.mono_us)
        self._copied.pop(entry.node, None)

    def _reset(self, fact: BrokerReset, entry: Entry) -> None:
        self._copied.pop(entry.node, None)
        self._commits.pop(entry.node, None)


def _lowest_since(known: list[_CommittedOffset], since_us: int) -> int:
    """The lowest offset that a slave had at *since_us* or later."""
    before = [each for each in known if each.at_us <= since_us]
    return min(each.offset for each in (*before[-1:], *known[len(before) :]))


# Times without a master -------------------------------------------------------------------


class MasterAbsences(Checker):
    """How long a broker name is not written and not read after its master's process has ended.

    From the end of the process, or the beginning of the pause after which controllers elected
    another master, to the first attempt of a send that stores a message there, and
    to the first pull that gets messages, from whichever node of the name; to the end of the
    journal if none does.
    """

    name = "master_absences"
    is_measure = True
    rule = "a broker name is written and read again soon after its master's process has ended"
    metrics = (
        Metric(
            "without_writes_s",
            "s",
            "the longest from the end of a master to the next send there",
            "node",
            "max",
        ),
        Metric(
            "without_reads_s",
            "s",
            "the longest from the end of a master to the next pull that gets messages of its name",
            "node",
            "max",
        ),
        Metric(
            "election_s",
            "s",
            "the longest from the end of a master to the election of another one",
            "node",
            "max",
        ),
        Metric(
            "sent_after_election_s",
            "s",
            "the longest from the election of another master to the next send that it stores",
            "node",
            "max",
        ),
        Metric(
            "read_from_slaves", "messages", "that pulls got from a slave of this master", "node"
        ),
        Metric(
            "silent_masters_left",
            "connections",
            "to this master that a slave ended, as it heard nothing for too long",
            "node",
        ),
    )
    needs = (SlaveConnected,)
    needs_whole = False

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._unwritten: dict[str, int] = {}  # by broker name: since when, in mono_us
        self._unread: dict[str, int] = {}
        self._unelected: dict[str, int] = {}
        self._unsent: dict[str, int] = {}  # since the election of another master
        self._paused_us: dict[str, int] = {}  # by node: since when

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            NodeKilled: self._killed,
            FaultBegan: self._fault_began,
            PowerLost: self._power_lost,
            NodePaused: self._paused,
            NodeResumed: self._resumed,
            MasterElected: self._elected,
            BrokerRoleChanged: self._role_changed,
            SendAttempted: self._attempted,
            PullAnswered: self._pulled,
            MasterDisconnected: self._disconnected,
        }

    def end(self) -> None:
        """Measure what has not ended."""
        for metric, since in (
            ("without_writes_s", self._unwritten),
            ("without_reads_s", self._unread),
        ):
            for broker in list(since):
                self._measure(metric, since, broker, self.cluster.now_us)

    def _killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._dies(fact.node, entry)

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        if self.cluster.all_faults[-1].word in PROCESS_ENDING:
            for node in fact.nodes:
                self._dies(node, entry)

    def _power_lost(self, fact: PowerLost, entry: Entry) -> None:
        self._dies(entry.node, entry)

    def _dies(self, node: str, entry: Entry) -> None:
        if self.cluster.replicas.of(node) is not None:
            since_us = entry.mono_us
            if self.cluster.roles.move is not None:  # the master is replaced
                since_us = self._paused_us.get(node, since_us)
            elif self.cluster.replicas.may_move(node):
                self._unelected.setdefault(node, since_us)
            self._unwritten.setdefault(node, since_us)
            self._unread.setdefault(node, since_us)

    def _paused(self, fact: NodePaused, entry: Entry) -> None:
        self._paused_us[fact.node] = entry.mono_us
        if self.cluster.replicas.may_move(fact.node):
            self._unelected.setdefault(fact.node, entry.mono_us)

    def _resumed(self, fact: NodeResumed, entry: Entry) -> None:
        if self._paused_us.pop(fact.node, None) is not None:
            self._unelected.pop(fact.node, None)

    def _elected(self, fact: MasterElected, entry: Entry) -> None:
        if fact.broker in self._unelected:
            self._measure("election_s", self._unelected, fact.broker, entry.mono_us)
        if fact.broker in self._unwritten:
            self._unsent[fact.broker] = entry.mono_us

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> None:
        if (move := self.cluster.roles.move) is not None:
            move.rekey(self._paused_us)

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        if self._unwritten and fact.queue.broker in self._unwritten and fact.outcome in STORED:
            self._measure("without_writes_s", self._unwritten, fact.queue.broker, entry.mono_us)
            if fact.queue.broker in self._unsent:
                self._measure(
                    "sent_after_election_s", self._unsent, fact.queue.broker, entry.mono_us
                )

    def _pulled(self, fact: PullAnswered, entry: Entry) -> None:
        if not fact.message_count:
            return
        if entry.node != fact.queue.broker:
            self.add_to_metric("read_from_slaves", fact.message_count, fact.queue.broker)
        if self._unread and fact.queue.broker in self._unread:
            self._measure("without_reads_s", self._unread, fact.queue.broker, entry.mono_us)

    def _disconnected(self, fact: MasterDisconnected, entry: Entry) -> None:
        slave = self.cluster.replicas.slaves.get(entry.node)
        if slave is not None and fact.reason.startswith(SILENT):
            self.add_to_metric("silent_masters_left", 1, slave.master)

    def _measure(self, metric: str, since: dict[str, int], broker: str, now_us: int) -> None:
        seconds = (now_us - since.pop(broker)) / 1e6
        known = self.measured.get(f"{metric}.{broker}", 0.0)
        self.set_metric(metric, max(known, seconds), broker)
