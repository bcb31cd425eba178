"""Logs that lose their end: with the power, with the process, or with a deleted topic.

What was flushed is safe from a loss of power, what a broker keeps outside of its process is safe
from a kill.  What lies behind is gone, and its places are used again: where it was acknowledged,
the promise decides whether that is a loss.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from emulator.checks.chains import Chains
from emulator.checks.folding import Table
from emulator.checks.queue_records import QueueRecords
from emulator.checks.scene import Scene
from emulator.facts import (
    BrokerReset,
    LogFlushed,
    LogRecovered,
    LogTailCut,
    PowerLost,
    Queue,
    StoreOpened,
    TopicDeleted,
)
from emulator.journal import Entry, EntryKey

RECORD_BYTES_MIN = 91  # of a record without topic, body and properties (CommitLog.calMsgLength)
UNFLUSHED_MAX = 1_000_000  # records of a broker; beyond it the oldest count as flushed


class LogEnds:
    """Of all brokers; *queues* and *chains* forget what is lost."""

    def __init__(self, scene: Scene, queues: Mapping[Queue, QueueRecords], chains: Chains) -> None:
        self._scene = scene
        self._queues = queues
        self._chains = chains
        self._unflushed: dict[str, deque[tuple[int, QueueRecords, int]]] = {}
        self._powerless: set[str] = set()  # brokers that lost power, and have not recovered since
        self._ends: dict[str, int] = {}  # broker → where its log ends, as far as it was noted
        self._unnoted_bytes: dict[str, int] = {}  # broker → what it recovered and never noted
        self._read_back: set[str] = set()  # brokers that found records as they began

    def table(self) -> Table:
        """What it reads."""
        return {
            StoreOpened: self._store_opened,
            BrokerReset: self._broker_reset,
            LogTailCut: self._tail_cut,
            TopicDeleted: self._topic_deleted,
            LogFlushed: self._flushed,
            PowerLost: self._power_lost,
        }

    def stored(self, broker: str, end_position: int, records: QueueRecords, offset: int) -> None:
        """A record of *broker* ends there, and is not safe yet."""
        self._ends[broker] = end_position
        unflushed = self._unflushed.get(broker)
        if unflushed is None:
            unflushed = self._unflushed[broker] = deque(maxlen=UNFLUSHED_MAX)
        unflushed.append((end_position, records, offset))

    def _store_opened(self, fact: StoreOpened, entry: Entry) -> None:
        if not fact.outlives_process and entry.node not in self._read_back:
            self._lose_queues(entry.node)
        self._read_back.discard(entry.node)

    def _broker_reset(self, fact: BrokerReset, entry: Entry) -> None:
        self._lose_queues(entry.node)

    def _topic_deleted(self, fact: TopicDeleted, entry: Entry) -> None:
        self._lose_queues(entry.node, fact.topic)

    def _lose_queues(self, broker: str, topic: str = "") -> None:
        for queue, records in self._queues.items():
            if queue.broker == broker and topic in ("", queue.topic) and records.behind:
                self._lose_queue(records)

    def _lose_queue(self, records: QueueRecords) -> None:
        """Nothing of it is left, and it begins at offset 0 again."""
        for reading in records.readings:
            left = sum(1 for _ in self._chains.unsettled(reading, reading.start, records.behind))
            if left:
                known = reading.excused.get("lost with memory", 0)
                reading.excused["lost with memory"] = known + left
        self.cut_queue(records, 0)
        for reading in records.readings:
            reading.past.clear()
            reading.committed = None

    def _flushed(self, fact: LogFlushed, entry: Entry) -> None:
        unflushed = self._unflushed.get(entry.node)
        while unflushed and unflushed[0][0] <= fact.position:
            unflushed.popleft()

    def _power_lost(self, fact: PowerLost, entry: Entry) -> None:
        promise = self._scene.stores.get(entry.node)
        is_promised = promise is not None and promise.flush_disk_type == "SYNC_FLUSH"
        self._cut_log(entry, fact.kept_position, is_promised=is_promised, is_answered=False)
        self._powerless.add(entry.node)

    def recovered(self, fact: LogRecovered, entry: Entry) -> None:
        """A process that is killed loses nothing that a store outside of it has."""
        promise = self._scene.stores.get(entry.node)
        is_promised = promise is not None and promise.outlives_process
        is_promised = is_promised and entry.node not in self._powerless
        self._cut_log(entry, fact.end_position, is_promised=is_promised)
        self._powerless.discard(entry.node)
        unnoted = fact.end_position - self._ends.get(entry.node, fact.end_position)
        if unnoted > 0:
            self._was_killed_before_it_noted(entry.node, unnoted)
        self._ends[entry.node] = fact.end_position
        if fact.message_count:  # of memory too, if only the broker's task was killed
            self._read_back.add(entry.node)

    def explains_gap(self, records: QueueRecords, count: int) -> bool:
        """So many messages fit into what the broker recovered and had not noted."""
        broker = records.queue.broker
        left = self._unnoted_bytes.get(broker, 0) - count * RECORD_BYTES_MIN
        if not records.unnoted or left < 0:
            return False
        self._unnoted_bytes[broker] = left
        return True

    def _was_killed_before_it_noted(self, broker: str, unnoted_bytes: int) -> None:
        """A process of its own: what it stored outlives it, its journal lacks the last lines."""
        self._unnoted_bytes[broker] = unnoted_bytes
        for queue, records in self._queues.items():
            if queue.broker == broker:
                records.unnoted = True

    def _tail_cut(self, fact: LogTailCut, entry: Entry) -> None:
        """Only a loss of power may leave a log whose end is not whole."""
        promise = self._scene.stores.get(entry.node)
        outlives = promise is not None and promise.outlives_process
        is_promised = outlives and entry.node not in self._powerless
        self._cut_log(entry, fact.position, is_promised=is_promised)

    def _cut_log(
        self, entry: Entry, end_position: int, *, is_promised: bool, is_answered: bool = True
    ) -> None:
        """What ends beyond *end_position* in the log of the broker that noted *entry* is gone.

        *is_answered*: also who sent a message back was told that it is stored.
        """
        unflushed = self._unflushed.get(entry.node)
        while unflushed and unflushed[-1][0] > end_position:
            _, records, offset = unflushed.pop()
            if offset in records.acked:
                # What is sent back is answered after its flush, and noted before it.
                is_known = is_answered or records.place != "waiting" or offset in records.sent
                if is_promised and is_known and offset not in records.unsafe:
                    here = EntryKey(entry.mono_us, entry.node, entry.seq)
                    records.broken.append((offset, (*records.life_of(offset), here)))
                else:
                    records.unflushed_lost += 1
            self.cut_queue(records, offset)

    def cut_queue(self, records: QueueRecords, offset: int) -> None:
        """The queue ends at *offset* now; later records take the same places."""
        records.cut(offset)
        if records.place == "waiting":
            self._chains.cut(records, offset)
        for reading in records.readings:
            reading.cut(offset)
