"""How far a group has come: in memory, and at the broker (clustering) or in a file (broadcasting).

Memory is written by every acknowledgement, the store every five seconds, when a queue
is released, and at the end.  What the store holds is what the next owner starts from,
so a crash repeats at most what was acknowledged since.

Upstream: RemoteBrokerOffsetStore, LocalFileOffsetStore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from emulator.releases import LOCAL_OFFSETS_MERGE, Release
from protocol.bodies.body import decode_body, encode_config_file
from protocol.bodies.offsets import OffsetSerializeWrapper
from protocol.fields import BadFields

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from emulator.client.consumer.group_calls import GroupCalls
    from protocol.queues import MessageQueue


class OffsetTable:
    """The offsets in memory.  A frozen one does not move until it is forgotten."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}
        self._frozen: set[MessageQueue] = set()

    def get(self, queue: MessageQueue) -> int | None:
        return self._offsets.get(queue)

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Set it, up or down."""
        if queue not in self._frozen:
            self._offsets[queue] = offset

    def raise_to(self, queue: MessageQueue, offset: int) -> None:
        """Never lowers."""
        known = self._offsets.get(queue)
        if known is None or (offset > known and queue not in self._frozen):
            self._offsets[queue] = offset

    def freeze(self, queue: MessageQueue, offset: int) -> None:
        """Set it against all late acknowledgements.  Upstream: updateAndFreezeOffset (5.2.0)."""
        self._offsets[queue] = offset
        self._frozen.add(queue)

    def forget(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)
        self._frozen.discard(queue)

    def __iter__(self) -> Iterator[MessageQueue]:
        return iter(sorted(self._offsets))

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        return {queue: self._offsets[queue] for queue in self if queue.topic == topic}


class OffsetStore(Protocol):
    """Where offsets live longer than this process.  Persisting never waits."""

    table: OffsetTable

    def load(self) -> None: ...

    async def read(self, queue: MessageQueue) -> int | None:
        """What is stored, None when surely nothing is.  Raises what the calls raise."""
        ...

    def persist(self, queue: MessageQueue) -> None: ...

    def persist_all(self, held: Collection[MessageQueue]) -> None: ...

    def forget(self, queue: MessageQueue) -> None: ...


class BrokerOffsets:
    """Clustering: each queue's broker keeps its group's offset.  Writes are one-way."""

    def __init__(self, calls: GroupCalls) -> None:
        self.table = OffsetTable()
        self._calls = calls

    def load(self) -> None:
        """Nothing: offsets are read queue by queue, when they are claimed."""

    async def read(self, queue: MessageQueue) -> int | None:
        offset = await self._calls.query_offset(queue)
        if offset is not None:
            self.table.update(queue, offset)
        return offset

    def persist(self, queue: MessageQueue) -> None:
        if (offset := self.table.get(queue)) is not None:
            self._calls.commit_offset(queue, offset)

    def persist_all(self, held: Collection[MessageQueue]) -> None:
        """Write the held ones, changed or not, and forget the rest; if none is held: nothing."""
        if not held:
            return
        for queue in self.table:
            if queue in held:
                self.persist(queue)
            else:
                self.table.forget(queue)

    def forget(self, queue: MessageQueue) -> None:
        self.table.forget(queue)


class Documents(Protocol):
    """Small named texts that are replaced whole; a ``Disk`` is one."""

    def read(self, name: str) -> bytes | None: ...

    def replace(self, name: str, data: bytes) -> None: ...


class FileOffsets:
    """Broadcasting: each member keeps its own offsets, under its own client id.

    Until 4.9.8 and 5.2.0 a write replaces the file by the queues held just then, and
    single queues are neither written nor forgotten.
    """

    def __init__(self, documents: Documents, client_id: str, group: str, release: Release) -> None:
        self.table = OffsetTable()
        self._documents = documents
        self._name = f"{client_id}/{group}/offsets.json"
        self._release = release
        self._merges = LOCAL_OFFSETS_MERGE.reached(release)

    def load(self) -> None:
        for queue, offset in self._stored().items():
            self.table.update(queue, offset)

    async def read(self, queue: MessageQueue) -> int | None:
        offset = self._stored().get(queue)
        if offset is not None:
            self.table.update(queue, offset)
        return offset

    def persist(self, queue: MessageQueue) -> None:
        if self._merges and (offset := self.table.get(queue)) is not None:
            self._write({**self._stored(), queue: offset})

    def persist_all(self, held: Collection[MessageQueue]) -> None:
        if not held:
            return
        known = {queue: self.table.get(queue) for queue in self.table if queue in held}
        offsets = {queue: offset for queue, offset in known.items() if offset is not None}
        self._write({**self._stored(), **offsets} if self._merges else offsets)

    def forget(self, queue: MessageQueue) -> None:
        if self._merges:
            self.table.forget(queue)

    def _stored(self) -> dict[MessageQueue, int]:
        for name in (self._name, self._name + ".bak"):
            if data := self._documents.read(name):
                try:
                    return decode_body(data, OffsetSerializeWrapper).offset_table
                except BadFields:
                    continue  # damaged: the copy of the last good one may be whole
        return {}

    def _write(self, offsets: dict[MessageQueue, int]) -> None:
        if (before := self._documents.read(self._name)) is not None:
            self._documents.replace(self._name + ".bak", before)
        wrapper = OffsetSerializeWrapper(offset_table=offsets)
        self._documents.replace(self._name, encode_config_file(wrapper, self._release))
