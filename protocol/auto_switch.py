"""The bytes between a master and its slaves in controller mode: the auto-switch HA stream.

Every message begins with an int32: the state that its sender is in, and so what it means.

    slave to master
      HANDSHAKE   int16 from the last file (0 or 1), int16 async learner (0 or 1), int64 slave's id
      TRANSFER    int64 end of the slave's log: a report
    master to slave
      HANDSHAKE   int32 bytes of the epochs, int64 end of the master's log, int32 last epoch (-1:
                  none), and for each epoch: int32 its number, int64 where it starts
      TRANSFER    int32 size, int64 position, int32 epoch, int64 where that epoch starts,
                  int64 confirm offset, and so many bytes of the log; none: a heartbeat

The epochs of both sides show how far both logs are equal: so a slave that was a master can cut
its own log, which one of the default stream never does.  These are the bytes since 5.1.1, the
first release whose controllers give brokers ids; before, a slave named its address.

Upstream: AutoSwitchHAConnection, AutoSwitchHAClient, HAConnectionState.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple, TypeAlias

from rocketmq_emulator.protocol.replication import FRAME_BYTES_MAX, BadStream, StreamReader

HANDSHAKE_EPOCHS_MAX = 1_000  # AbstractWriteSocketService.handShakeBuffer: more do not fit

_STATE = Struct(">i")
_SLAVE_HANDSHAKE = Struct(">ihhq")
_SLAVE_REPORT = Struct(">iq")
_MASTER_HANDSHAKE = Struct(">iiqi")
_MASTER_TRANSFER = Struct(">iiqiqq")
_ENTRY = Struct(">iq")
TRANSFER_HEADER_BYTES = _MASTER_TRANSFER.size


class HAConnectionState(enum.IntEnum):
    """What one end of a connection does.  Upstream: HAConnectionState."""

    READY = 0
    HANDSHAKE = 1
    TRANSFER = 2
    SUSPEND = 3
    SHUTDOWN = 4


NO_END = 2**63 - 1  # Long.MAX_VALUE


class LogEpoch(NamedTuple):
    """The part of a log that one master wrote, in bytes.  Upstream: EpochEntry."""

    epoch: int
    start: int
    end: int = NO_END  # where the next epoch starts


class SlaveHandshake(NamedTuple):
    """A slave introduces itself with the id that the controller gave it."""

    slave_id: int
    from_last_file: bool = False  # an empty slave begins with the master's last file
    is_async_learner: bool = False  # it never joins the sync-state set


class SlaveReport(NamedTuple):
    """The slave's log ends at *end*."""

    end: int


class MasterHandshake(NamedTuple):
    """Where the master's log ends, and the epochs that it consists of, the oldest first."""

    end: int
    last_epoch: int  # -1: it has none
    epochs: tuple[LogEpoch, ...]


class TransferFrame(NamedTuple):
    """Bytes of the master's log from *position* on; none: a heartbeat, or the next epoch."""

    position: int
    epoch: int
    epoch_start: int
    confirm_offset: int
    data: bytes | memoryview = b""


FromSlave: TypeAlias = SlaveHandshake | SlaveReport
FromMaster: TypeAlias = MasterHandshake | TransferFrame


def encode_slave_handshake(handshake: SlaveHandshake) -> bytes:
    """The 16 bytes with which a slave begins.  Upstream: sendHandshakeHeader."""
    flags = handshake.from_last_file, handshake.is_async_learner
    return _SLAVE_HANDSHAKE.pack(HAConnectionState.HANDSHAKE, *flags, handshake.slave_id)


def encode_slave_report(end: int) -> bytes:
    """The report of a slave whose log ends at *end*.  Upstream: reportSlaveOffset."""
    return _SLAVE_REPORT.pack(HAConnectionState.TRANSFER, end)


def encode_master_handshake(end: int, epochs: Sequence[LogEpoch]) -> bytes:
    """The master's answer to a handshake; at most ``HANDSHAKE_EPOCHS_MAX`` *epochs*.

    Upstream: buildHandshakeBuffer.
    """
    assert len(epochs) <= HANDSHAKE_EPOCHS_MAX, "the caller closes the connection instead"
    last_epoch = epochs[-1].epoch if epochs else -1
    size = len(epochs) * _ENTRY.size
    head = _MASTER_HANDSHAKE.pack(HAConnectionState.HANDSHAKE, size, end, last_epoch)
    return head + b"".join(_ENTRY.pack(entry.epoch, entry.start) for entry in epochs)


def encode_transfer(
    position: int, epoch: LogEpoch, confirm_offset: int, data: bytes | memoryview
) -> bytes:
    """A frame of *data*, which begins at *position*, in *epoch*.

    Upstream: buildTransferHeaderBuffer.
    """
    in_epoch = epoch.epoch, epoch.start
    state = HAConnectionState.TRANSFER
    head = _MASTER_TRANSFER.pack(state, len(data), position, *in_epoch, confirm_offset)
    return b"".join((head, data))


class SlaveReader(StreamReader):
    """Reads what a slave sends.  ``messages`` raises ``BadStream``; it ends with that."""

    def messages(self) -> Iterator[FromSlave]:
        """The whole messages so far, in order.

        Upstream: AutoSwitchHAConnection.ReadSocketService.HAServerReader.processReadResult.
        """
        while self._has(_STATE.size):
            (state,) = _STATE.unpack_from(self._data, self._at)
            if state == HAConnectionState.HANDSHAKE:
                if not self._has(_SLAVE_HANDSHAKE.size):
                    break
                _, from_last_file, is_async_learner, slave_id = self._take(_SLAVE_HANDSHAKE)
                yield SlaveHandshake(slave_id, from_last_file == 1, is_async_learner == 1)
            elif state == HAConnectionState.TRANSFER:
                if not self._has(_SLAVE_REPORT.size):
                    break
                yield SlaveReport(self._take(_SLAVE_REPORT)[1])
            else:
                raise BadStream(f"a message of state {_name_of(state)}: no slave sends that")


class MasterReader(StreamReader):
    """Reads what a master sends to a slave in ``state``, which its owner sets.

    ``messages`` raises ``BadStream``; the reader must not be used after that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.state = HAConnectionState.HANDSHAKE

    def messages(self) -> Iterator[FromMaster]:
        """The whole messages so far, in order.

        Upstream: AutoSwitchHAClient.HAClientReader.processReadResult, which tests the state when
        20 bytes are there, and waits for the rest.
        """
        while self._has(_MASTER_HANDSHAKE.size):
            state, size, position, _ = _MASTER_HANDSHAKE.unpack_from(self._data, self._at)
            if state != self.state:
                raise BadStream(
                    f"a message of state {_name_of(state)} of {size} bytes at {position}, "
                    f"while this slave is in state {self.state.name}"
                )
            head = _MASTER_HEADS[self.state]
            if not 0 <= size <= FRAME_BYTES_MAX - head.size:
                raise BadStream(f"a frame of {size} bytes at position {position}")
            if size and not 0 <= position <= NO_END - size:
                raise BadStream(f"{size} bytes at position {position}")
            if not self._has(head.size + size):
                break
            yield self._whole_message(head, size)

    def _whole_message(self, head: Struct, size: int) -> FromMaster:
        fields = self._take(head)
        position = fields[2]
        body = self._take_bytes(size)
        if head is _MASTER_TRANSFER:
            epoch, epoch_start, confirm_offset = fields[3:]
            return TransferFrame(position, epoch, epoch_start, confirm_offset, body)
        whole = body[: size - size % _ENTRY.size]  # upstream ignores a piece of one
        epochs = tuple(LogEpoch(*entry) for entry in _ENTRY.iter_unpack(whole))
        return MasterHandshake(position, fields[3], epochs)


_MASTER_HEADS = {
    HAConnectionState.HANDSHAKE: _MASTER_HANDSHAKE,
    HAConnectionState.TRANSFER: _MASTER_TRANSFER,
}


def _name_of(state: int) -> str:
    known = 0 <= state <= HAConnectionState.SHUTDOWN
    return HAConnectionState(state).name if known else str(state)
