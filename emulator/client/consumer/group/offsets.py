"""A group's offset in each queue: in memory, in the store, and the one it starts from.

Every acknowledgement changes the offset in memory.  The store (the queue's broker when
clustering, a file when broadcasting) is written every five seconds, when a queue is released,
and at the end.  The next owner starts from the stored offset, so after a crash only messages
acknowledged since the last write are delivered again.

Upstream: RemoteBrokerOffsetStore, LocalFileOffsetStore, RebalancePushImpl.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rocketmq_emulator.errors.call_errors import ClientError, RemoteError
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body, encode_config_file
from rocketmq_emulator.protocol.bodies.offsets import OffsetSerializeWrapper
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.messages.names import is_retry_topic
from rocketmq_emulator.protocol.queues import sorted_queues
from rocketmq_emulator.settings.releases import (
    LOCAL_OFFSETS_MERGE,
    POSITION_ERRORS_RAISED,
    START_ERRORS_RAISED,
    Release,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rocketmq_emulator.client.consumer.group.group_calls import GroupCalls
    from rocketmq_emulator.client.instance.interfaces import Documents
    from rocketmq_emulator.protocol.bodies.groups import ConsumeFromWhere
    from rocketmq_emulator.protocol.queues import MessageQueue


class OffsetTable:
    """The offsets in memory.  A frozen offset does not change until it is dropped."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}
        self._frozen: set[MessageQueue] = set()

    def get(self, queue: MessageQueue) -> int | None:
        """The next offset to be committed; None if none is known."""
        return self._offsets.get(queue)

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset, also to a lower one; no effect on a frozen offset."""
        if queue not in self._frozen:
            self._offsets[queue] = offset

    def raise_to(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset unless it is higher already; no effect on a frozen offset."""
        known = self._offsets.get(queue)
        if known is None or (offset > known and queue not in self._frozen):
            self._offsets[queue] = offset

    def freeze(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset; later acknowledgements do not change it.

        Upstream: updateAndFreezeOffset (5.2.0).
        """
        self._offsets[queue] = offset
        self._frozen.add(queue)

    def forget(self, queue: MessageQueue) -> None:
        """Drop the offset of *queue*, frozen or not."""
        self._offsets.pop(queue, None)
        self._frozen.discard(queue)

    def __iter__(self) -> Iterator[MessageQueue]:
        return iter(sorted_queues(self._offsets))

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        """The offsets of one topic, in queue order."""
        return {queue: self._offsets[queue] for queue in self if queue.topic == topic}


class OffsetStore(Protocol):
    """Stores offsets outside of this process.  Persisting never waits."""

    table: OffsetTable

    def load(self) -> None:
        """Fill the table at the consumer's start, if the store supports it."""
        ...

    async def read(self, queue: MessageQueue) -> int | None:
        """The stored offset; None if there is none.  Raises the errors of ``GroupCalls``."""
        ...

    def persist(self, queue: MessageQueue) -> None:
        """Store the offset of one queue, before it is released."""
        ...

    def persist_all(self, held: Collection[MessageQueue]) -> None:
        """Store the offsets of the *held* queues."""
        ...

    def forget(self, queue: MessageQueue) -> None:
        """Drop a released queue's offset from memory."""
        ...


class RemoteBrokerOffsetStore:
    """Clustering: each queue's broker stores the group's offset.  Writes are one-way."""

    def __init__(self, calls: GroupCalls) -> None:
        self.table = OffsetTable()
        self._calls = calls

    def load(self) -> None:
        """Does nothing: the offset of a queue is read when the queue is claimed."""

    async def read(self, queue: MessageQueue) -> int | None:
        """Query the queue's broker; None if it replies that there is none."""
        offset = await self._calls.query_offset(queue)
        if offset is not None:
            self.table.update(queue, offset)
        return offset

    def persist(self, queue: MessageQueue) -> None:
        """Send the queue's offset, if one is known, to its broker."""
        if (offset := self.table.get(queue)) is not None:
            self._calls.commit_offset(queue, offset)

    def persist_all(self, held: Collection[MessageQueue]) -> None:
        """Send the offsets of *held* queues, changed or not, and drop all others from memory.

        Does nothing if *held* is empty.
        """
        if not held:
            return
        with self._calls.batch():
            for queue in self.table:
                if queue in held:
                    self.persist(queue)
                else:
                    self.table.forget(queue)

    def forget(self, queue: MessageQueue) -> None:
        """Drop the offset of *queue* from memory."""
        self.table.forget(queue)


# Broadcasting ---------------------------------------------------------------------------


class OffsetFolder:
    """Documents as files below *folder*, by their relative name."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder).expanduser()

    def read(self, name: str) -> bytes | None:
        """The file's bytes; None if there is no such file.  Raises ``OSError`` otherwise."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, name: str, data: bytes) -> None:
        """Write a temporary file, then rename it: readers get the old text or the new one."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_bytes(data)
        temporary.replace(path)


class OffsetsInMemory:
    """Documents in memory; they are lost with this object."""

    def __init__(self) -> None:
        self._texts: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        """The text named *name*, or None."""
        return self._texts.get(name)

    def replace(self, name: str, data: bytes) -> None:
        """Store *data* under *name*."""
        self._texts[name] = data


class LocalFileOffsetStore:
    """Broadcasting: each member stores its own offsets, under its own client id.

    Before 4.9.8 and 5.2.0 a write leaves only the currently held queues in the file, and
    ``persist`` and ``forget`` do nothing.
    """

    def __init__(self, documents: Documents, client_id: str, group: str, release: Release) -> None:
        self.table = OffsetTable()
        self._documents = documents
        self._name = f"{client_id}/{group}/offsets.json"
        self._release = release
        self._merges = LOCAL_OFFSETS_MERGE.reached(release)

    def load(self) -> None:
        """Fill the table from the file."""
        for queue, offset in self._stored().items():
            self.table.update(queue, offset)

    async def read(self, queue: MessageQueue) -> int | None:
        """The offset of *queue* in the file; None if there is none."""
        offset = self._stored().get(queue)
        if offset is not None:
            self.table.update(queue, offset)
        return offset

    def persist(self, queue: MessageQueue) -> None:
        """Merge one queue's offset into the file, if the release does that."""
        if self._merges and (offset := self.table.get(queue)) is not None:
            self._write({**self._stored(), queue: offset})

    def persist_all(self, held: Collection[MessageQueue]) -> None:
        """Write the offsets of *held* queues; does nothing if *held* is empty."""
        if not held:
            return
        known = {queue: self.table.get(queue) for queue in self.table if queue in held}
        offsets = {queue: offset for queue, offset in known.items() if offset is not None}
        self._write({**self._stored(), **offsets} if self._merges else offsets)

    def forget(self, queue: MessageQueue) -> None:
        """Drop the offset of *queue* from memory, if the release does that."""
        if self._merges:
            self.table.forget(queue)

    def _stored(self) -> dict[MessageQueue, int]:
        for name in (self._name, self._name + ".bak"):
            if data := self._documents.read(name):
                try:
                    return decode_unlimited_body(data, OffsetSerializeWrapper).offset_table
                except BadFields:
                    continue  # damaged: try the backup of the previous file
        return {}

    def _write(self, offsets: dict[MessageQueue, int]) -> None:
        if (before := self._documents.read(self._name)) is not None:
            self._documents.replace(self._name + ".bak", before)
        wrapper = OffsetSerializeWrapper(offset_table=offsets)
        self._documents.replace(self._name, encode_config_file(wrapper, self._release))


# Where a group starts -------------------------------------------------------------------


class NewGroupStart(Enum):
    """The offset that a group without a stored offset starts from."""

    ZERO = "zero"
    MAX = "max"
    BY_TIME = "by time"


LATEST = (NewGroupStart.MAX, NewGroupStart.ZERO)  # for a normal topic, for the group's retry topic
NEW_GROUP_STARTS: dict[ConsumeFromWhere, tuple[NewGroupStart, NewGroupStart]] = {
    "CONSUME_FROM_LAST_OFFSET": LATEST,
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST": LATEST,
    "CONSUME_FROM_MIN_OFFSET": LATEST,
    "CONSUME_FROM_MAX_OFFSET": LATEST,
    "CONSUME_FROM_FIRST_OFFSET": (NewGroupStart.ZERO, NewGroupStart.ZERO),
    "CONSUME_FROM_TIMESTAMP": (NewGroupStart.BY_TIME, NewGroupStart.MAX),
}


UNKNOWN_START = -1  # before 5.0.0: the query of the first offset failed


class StartOffsetPolicy(Protocol):
    """Finds the first offset of a claimed queue."""

    async def find(self, queue: MessageQueue) -> int:
        """The first offset to pull; if it is negative, the pass does not claim the queue."""
        ...


class StartAtZero:
    """Start at 0 without a query.

    Upstream: RebalancePullImpl.computePullFromWhereWithException.
    """

    async def find(self, queue: MessageQueue) -> int:
        """Always 0."""
        del queue
        return 0


class StartOffsets:
    """Start at the stored offset, or at the one that *policy* defines for a new group.

    The *policy* applies only if the broker replied that the group has no offset.  With
    *memory_first* (lite pull consumers) an offset in this client's memory wins over the stored
    one.

    If a call fails, the start is unknown.  ``find`` raises since 5.0.0, and since 4.9.0 if the
    search for a new group's start fails.  Before, it returns UNKNOWN_START: a rebalance pass does
    not claim such a queue, but the first pull of an orderly consumer uses it as an offset
    (rocketmq #2708).
    Upstream: RebalancePushImpl.computePullFromWhereWithException, RebalanceLitePullImpl's.
    """

    def __init__(
        self,
        store: OffsetStore,
        calls: GroupCalls,
        policy: ConsumeFromWhere,
        *,
        new_group_from_ms: int,
        release: Release,
        memory_first: bool = False,
    ) -> None:
        self._memory_first = memory_first
        self._release = release
        self._store = store
        self._calls = calls
        self._policy = NEW_GROUP_STARTS[policy]
        self._new_group_from_ms = new_group_from_ms

    async def find(self, queue: MessageQueue) -> int:
        """The first offset to pull; if a call fails, UNKNOWN_START or the error (see above)."""
        try:
            stored = await self.stored(queue)
        except (RemoteError, ClientError):
            if self._release >= START_ERRORS_RAISED:
                raise
            return UNKNOWN_START
        return await self._searched(queue) if stored is None else stored

    async def _searched(self, queue: MessageQueue) -> int:
        try:
            return await self.of_new_group(queue)
        except (RemoteError, ClientError):
            if self._release >= POSITION_ERRORS_RAISED:
                raise
            return UNKNOWN_START

    async def stored(self, queue: MessageQueue) -> int | None:
        """The group's offset; None if it has none.  Raises the errors of ``GroupCalls``."""
        known = self._store.table.get(queue) if self._memory_first else None
        return await self._store.read(queue) if known is None else known

    async def of_new_group(self, queue: MessageQueue) -> int:
        """The first offset for a group without one.  Raises the errors of ``GroupCalls``."""
        normal, retry = self._policy
        match retry if is_retry_topic(queue.topic) else normal:
            case NewGroupStart.MAX:
                return await self._calls.max_offset(queue)
            case NewGroupStart.BY_TIME:
                return await self._calls.offset_at(queue, self._new_group_from_ms)
            case NewGroupStart.ZERO:
                return 0
