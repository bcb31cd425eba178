"""The events of a controller, and the log in which they are kept.

A request decides, an event changes: the tables change by events only.  So a restarted controller
reads its log and has the same tables, and a group of controllers would agree on events before it
applies them.  An event is on the disk before its request is answered.

The log is one document of lines, an event each.  When it has many lines, one ``TablesSaved``
replaces them all.  A kill while a line is written leaves a part of it: that decision was not
answered, and the part is removed.

Upstream: the events of controller.impl.event, EventSerializer, DLedgerControllerStateMachine.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from rocketmq_emulator.disk.port import Disk, StoreDamaged

EVENTS = "controllerEvents.jsonl"


class Replica(msgspec.Struct, frozen=True):
    """One broker of a name; *check_code* is the text by which it is known again."""

    address: str
    check_code: str


class BrokerReplicaInfo(msgspec.Struct):
    """The brokers of one name, by their ids.  Upstream: BrokerReplicaInfo."""

    cluster: str | None
    next_broker_id: int = 1  # MixAll.FIRST_BROKER_CONTROLLER_ID
    replicas: dict[int, Replica] = {}

    def address(self, broker_id: int | None) -> str | None:
        """Where the broker listens; None for an unknown id."""
        found = None if broker_id is None else self.replicas.get(broker_id)
        return None if found is None else found.address


class SyncStateInfo(msgspec.Struct):
    """The master of one broker name, and who may follow it.  Upstream: SyncStateInfo."""

    cluster: str | None
    master_broker_id: int | None = None
    master_epoch: int = 0  # 0: it never had a master
    sync_state_set: list[int] = []  # ascending
    sync_state_set_epoch: int = 0


class GroupEvent(msgspec.Struct, frozen=True, tag=True, tag_field="event"):
    """A change of the tables of one broker name."""

    broker_name: str


class BrokerIdApplying(GroupEvent, frozen=True):
    """Upstream: ApplyBrokerIdEvent."""

    cluster: str | None
    broker_id: int
    address: str
    check_code: str


class AddressUpdating(GroupEvent, frozen=True):
    """Upstream: UpdateBrokerAddressEvent."""

    broker_id: int
    address: str


class SyncStateSetAltering(GroupEvent, frozen=True):
    """Upstream: AlterSyncStateSetEvent."""

    sync_state_set: list[int]


class MasterElecting(GroupEvent, frozen=True):
    """None: the old master has gone, and there is no other.  Upstream: ElectMasterEvent."""

    master_broker_id: int | None


class BrokerDataCleaning(GroupEvent, frozen=True):
    """None: all brokers of the name.  Upstream: CleanBrokerDataEvent."""

    broker_ids: list[int] | None


class TablesSaved(msgspec.Struct, frozen=True, tag=True, tag_field="event"):
    """The whole tables, instead of all events before."""

    replica_info_table: dict[str, BrokerReplicaInfo] = {}
    sync_state_set_info_table: dict[str, SyncStateInfo] = {}


AnyEvent: TypeAlias = (
    BrokerIdApplying
    | AddressUpdating
    | SyncStateSetAltering
    | MasterElecting
    | BrokerDataCleaning
    | TablesSaved
)
_DECODER: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


class EventLog:
    """The events on *disk*; ``is_long`` is true above *lines_max* lines."""

    def __init__(self, disk: Disk, lines_max: int) -> None:
        self._disk = disk
        self._lines_max = lines_max
        self._line_count = 0

    @property
    def is_long(self) -> bool:
        """Whether it is time for ``replace``."""
        return self._line_count > self._lines_max

    def load(self) -> list[AnyEvent]:
        """All events, the oldest first.  Raises ``StoreDamaged``."""
        text = self._disk.read(EVENTS) or b""
        whole, newline, part = text.rpartition(b"\n")
        if part:
            self._disk.replace(EVENTS, whole + newline, flushed=True)
        lines = whole.split(b"\n") if whole else []
        self._line_count = len(lines)
        return [_event(line, number) for number, line in enumerate(lines, 1)]

    def append(self, event: AnyEvent) -> None:
        """Write *event*; it is durable when this returns.  Raises ``WRITE_ERRORS``: none is."""
        self._disk.append(EVENTS, msgspec.json.encode(event) + b"\n", flushed=True)
        self._line_count += 1

    def replace(self, tables: TablesSaved) -> None:
        """Write *tables* instead of all events.  Raises ``WRITE_ERRORS``: the events stay."""
        self._disk.replace(EVENTS, msgspec.json.encode(tables) + b"\n", flushed=True)
        self._line_count = 1


def _event(line: bytes, number: int) -> AnyEvent:
    try:
        return _DECODER.decode(line)
    except msgspec.MsgspecError as error:
        raise StoreDamaged(f"{EVENTS}, line {number}, cannot be read: {error}") from error
