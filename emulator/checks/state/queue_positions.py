"""The end, the committed offsets and the owners of each queue, after any fact.

This part of a cluster's state is cheap: a few numbers a queue and no messages.  A running run
reads it, tables of nodes are copies of it, and the checkers' fold of all messages uses
``UnflushedRecords``.  With its power a broker loses the end of its log: the records that were not
flushed; their places are used again.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, Self, TypeVar

from rocketmq_emulator.checks.state.replicas import MastersAndSlaves
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    BrokerRoleChanged,
    GroupOffsetMoved,
    LogFlushed,
    LogRecovered,
    MessageStored,
    OffsetCommitted,
    PowerLost,
    Queue,
)
from rocketmq_emulator.facts.journal import Entry

UNFLUSHED_MAX = 100_000  # records of a broker; a loss of older ones is not noticed

Record = TypeVar("Record")
Claim = TypeVar("Claim")


class UnflushedRecords(Generic[Record]):
    """The unflushed end of each broker's log, in order: a loss of power may take it.

    At most *records_max* a broker; beyond it the oldest count as flushed.
    """

    def __init__(
        self, records_max: int, logs: dict[str, deque[tuple[int, Record]]] | None = None
    ) -> None:
        self._records_max = records_max
        self._logs = logs or {}

    def stored(self, broker: str, end_position: int, record: Record) -> None:
        """Add *record*, which ends at *end_position* in the log of *broker*."""
        log = self._logs.get(broker)
        if log is None:
            log = self._logs[broker] = deque(maxlen=self._records_max)
        log.append((end_position, record))

    def flushed(self, broker: str, position: int) -> None:
        """Remove records that end up to *position*: they are safe."""
        log = self._logs.get(broker)
        while log and log[0][0] <= position:
            log.popleft()

    def lost(self, broker: str, end_position: int) -> Iterator[Record]:
        """Remove and yield records that end beyond *end_position*, the last first."""
        log = self._logs.get(broker)
        while log and log[-1][0] > end_position:
            yield log.pop()[1]

    def forget(self, broker: str) -> None:
        """Remove all records of *broker*: its log is empty."""
        self._logs.pop(broker, None)

    def __deepcopy__(self, _memo: object) -> Self:
        """Copies share the records: there may be many, and none is ever changed."""
        return type(self)(
            self._records_max, {broker: log.copy() for broker, log in self._logs.items()}
        )


class RemovedRecords(Generic[Record]):
    """Records that a master lost, or had alone when it was replaced: of each the last ones.

    They are in their queues again from when a slave that has them is elected: it never truncated
    them, and the epoch that it begins covers them.  A broker's are in order, the last first.
    Upstream: AutoSwitchHAService.changeToMaster.
    """

    def __init__(
        self,
        lost: dict[str, Sequence[Record]] | None = None,
        left: dict[str, Sequence[Record]] | None = None,
    ) -> None:
        self._lost = lost or {}  # by master
        self._left = left or {}  # by former master

    def lost(self, master: str, records: Sequence[Record]) -> None:
        """*master* lost *records* from the end of its log; slaves may have them."""
        if records:
            self._lost[master] = records

    def left_behind(self, former: str, records: Sequence[Record]) -> None:
        """Only the *former* master has *records*: its elected slave lacks them."""
        self._left[former] = records

    def elected(self, master: str, slave: str) -> Iterator[Record]:
        """Remove and yield what the *slave*, *master* from now on, may have; the first first."""
        for known in (self._lost.pop(master, ()), self._left.pop(slave, ())):
            yield from reversed(known)

    def __deepcopy__(self, _memo: object) -> Self:
        """Copies share the records, as those of ``UnflushedRecords`` do."""
        return type(self)(self._lost.copy(), self._left.copy())


class QueuePositions:
    """``ends`` has the next offset of each queue, ``committed`` each group's offsets.

    *on_lost* is called with each message that a broker has lost, and the broker.  With
    *replicas*, which are updated before it, an elected slave may lack the end of its master's log,
    or have what its master lost.
    """

    def __init__(
        self,
        on_lost: Callable[[str, MessageStored], object] | None = None,
        replicas: MastersAndSlaves | None = None,
    ) -> None:
        self._replicas = replicas
        self.ends: dict[Queue, int] = {}
        self.committed: defaultdict[str, dict[Queue, int]] = defaultdict(dict)
        self._queues_of: defaultdict[str, list[Queue]] = defaultdict(list)  # by topic
        self._unflushed = UnflushedRecords[MessageStored](UNFLUSHED_MAX)
        self._removed = RemovedRecords[MessageStored]()
        self._on_lost = on_lost

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MessageStored: self.stored,
            BrokerRoleChanged: self._role_changed,
            LogFlushed: self._flushed,
            LogRecovered: self._recovered,
            PowerLost: self._power_lost,
            OffsetCommitted: self._committed,
            GroupOffsetMoved: self._committed,
        }

    def backlog(self, group: str, topic: str) -> int:
        """The number of messages of *topic* stored and not yet committed by *group*."""
        committed = self.committed[group]
        return sum(
            max(0, self.ends[queue] - committed.get(queue, 0))
            for queue in self._queues_of.get(topic, ())
        )

    def forget(self, broker: str) -> None:
        """Remove all state of *broker*, which was in memory only."""
        for offsets in (self.ends, *self.committed.values()):
            for queue in [queue for queue in offsets if queue.broker == broker]:
                del offsets[queue]
        for topic, queues in self._queues_of.items():
            self._queues_of[topic] = [queue for queue in queues if queue.broker != broker]
        self._unflushed.forget(broker)

    # Handlers -------------------------------------------------------------------------

    def stored(self, fact: MessageStored, entry: Entry) -> None:
        """Add the last message of a queue."""
        queue = fact.queue
        self._unflushed.stored(entry.node, fact.position + fact.size_bytes, fact)
        if queue not in self.ends:
            self._queues_of[queue.topic].append(queue)
        self.ends[queue] = fact.offset + 1

    def _flushed(self, fact: LogFlushed, entry: Entry) -> None:
        if self._replicas is None or not self._replicas.may_move(entry.node):
            self._unflushed.flushed(entry.node, fact.position)

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> None:
        if self._replicas is None or (moved := self._replicas.moved()) is None:
            return
        move, master = moved
        left = self._lose(entry.node, master.kept)
        for known in self._removed.elected(entry.node, move.slave):
            is_next = known.offset == self.ends.get(known.queue)
            if is_next and master.kept <= known.position < master.end:
                self.stored(known, entry)
        self._removed.left_behind(move.left, left)

    def _recovered(self, fact: LogRecovered, entry: Entry) -> None:
        lost = self._lose(entry.node, fact.end_position)
        if self._replicas is not None and self._replicas.may_move(entry.node):
            self._removed.lost(entry.node, lost)

    def _power_lost(self, fact: PowerLost, entry: Entry) -> None:
        if self._replicas is None or not self._replicas.may_move(entry.node):
            self._lose(entry.node, fact.kept_position)

    def _lose(self, broker: str, end_position: int) -> list[MessageStored]:
        """Remove what the log of *broker* had beyond *end_position*, and return it."""
        all_lost = list(self._unflushed.lost(broker, end_position))
        for lost in all_lost:
            self.ends[lost.queue] = min(self.ends[lost.queue], lost.offset)
            if self._on_lost is not None:
                self._on_lost(broker, lost)
        return all_lost

    def _committed(self, fact: OffsetCommitted | GroupOffsetMoved, _entry: Entry) -> None:
        self.committed[fact.group][fact.queue] = fact.offset


class QueueOwners(Generic[Claim]):
    """Nodes that have claimed queues of groups, each with a *claim* that the reader keeps."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, Queue], dict[str, Claim]] = {}

    def claim(self, node: str, group: str, queue: Queue, claim: Claim) -> bool:
        """*node* owns the queue from now on; False if it already did: the first claim stays."""
        owners = self._owners.setdefault((group, queue), {})
        if node in owners:
            return False
        owners[node] = claim
        return True

    def release(self, node: str, group: str, queue: Queue) -> Claim | None:
        """Remove and return the claim of *node*; None if there is none."""
        return self._owners.get((group, queue), {}).pop(node, None)

    def end(self, node: str, group: str | None = None) -> dict[tuple[str, Queue], Claim]:
        """Remove and return the claims of *node*, or of its member of *group*."""
        found = self.owned_by(node, group)
        for place in found:
            del self._owners[place][node]
        return found

    def owned_by(self, node: str, group: str | None = None) -> dict[tuple[str, Queue], Claim]:
        """The claims of *node* by group and queue."""
        return {
            place: owners[node]
            for place, owners in self._owners.items()
            if node in owners and group in (None, place[0])
        }

    def of_queue(self, group: str, queue: Queue) -> Mapping[str, Claim]:
        """The claims of the queue by node, the earliest first."""
        return self._owners.get((group, queue), {})
