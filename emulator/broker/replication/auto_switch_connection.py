"""The master's end of one slave's connection in controller mode.

The slave introduces itself, and is answered with the epochs of this log; then it reports where its
log ends, and is sent the rest.  An empty slave is sent the whole log, not only its last file.  A
frame never reaches over the end of an epoch: the frame that ends there has the next epoch in its
header already, and a slave that stands exactly there is sent one without bytes.  So an epoch that
fits into one frame is never named: the slave's file of epochs has a gap, as with upstream's.

Upstream: AutoSwitchHAConnection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketmq_emulator.broker.replication.ha_service import (
    POLL_MS,
    UNSENT_BYTES_MAX,
    HaConnection,
)
from rocketmq_emulator.facts import (
    EpochsDoNotFit,
    SlaveAcknowledged,
    SlaveCannotContinue,
    SlaveConnected,
    SlaveHandshaken,
    SlaveWithoutEpoch,
)
from rocketmq_emulator.protocol.auto_switch import (
    HANDSHAKE_EPOCHS_MAX,
    HAConnectionState,
    LogEpoch,
    SlaveHandshake,
    SlaveReader,
    encode_master_handshake,
    encode_transfer,
)
from rocketmq_emulator.protocol.replication import BadStream

if TYPE_CHECKING:
    from rocketmq_emulator.broker.replication.confirming import ConfirmingHaService
    from rocketmq_emulator.net.transport import Transport

RETRY_MS = 500  # AbstractWriteSocketService.run: while there is nothing to begin with
NO_POSITION = -1  # of a heartbeat before there is one: nextTransferFromWhere


class AutoSwitchHaConnection(HaConnection):
    """One slave at *service*.  ``slave_id`` is -1 before it has introduced itself."""

    def __init__(self, transport: Transport, service: ConfirmingHaService) -> None:
        super().__init__(transport, service)
        self.state = HAConnectionState.HANDSHAKE
        self._switching = service
        self._reader = SlaveReader()
        self._from_last_file = self._is_async_learner = False
        self._requested = NO_POSITION  # the first report (slaveRequestOffset)
        self._epoch = -1
        self._epoch_end: int | None = 0  # None: it is the last epoch
        self._is_stuck = False  # at a position that is in no epoch
        self._last_end = -1  # of the log, at the last frame (lastMasterMaxOffset)
        self._last_transfer_ms = 0

    # What the transport calls ---------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Answer handshakes, and read reports; each one of them counts."""
        self._heard_ms = self._service.scheduling.now_ms()
        self._reader.feed(data)
        try:
            for message in self._reader.messages():
                if isinstance(message, SlaveHandshake):
                    self._shake_hands(message)
                else:
                    self._take_report(message.end)
                if not self._is_open:
                    return
        except BadStream as error:
            self._close(str(error))

    def _shake_hands(self, found: SlaveHandshake) -> None:
        """Upstream: HAServerReader, buildHandshakeBuffer."""
        service = self._switching
        self.slave_id = found.slave_id
        self._from_last_file |= found.from_last_file
        self._is_async_learner |= found.is_async_learner
        self.state = HAConnectionState.HANDSHAKE
        epochs, address = service.epochs, self.transport.remote
        numbers = tuple(each.epoch for each in epochs)
        if len(epochs) > HANDSHAKE_EPOCHS_MAX:
            service.note(EpochsDoNotFit(address, len(epochs), HANDSHAKE_EPOCHS_MAX))
            self._close(f"{len(epochs)} epochs do not fit into a handshake")
            return
        flags = self._is_async_learner, self._from_last_file
        service.note(SlaveHandshaken(address, self.slave_id, numbers, *flags))
        self._write(encode_master_handshake(service.log.end_position, epochs))

    def _take_report(self, end: int) -> None:
        """Upstream: HAServerReader, maybeExpandInSyncStateSet."""
        service, before = self._switching, self.acknowledged
        self.state = HAConnectionState.TRANSFER
        self.acknowledged = end
        if self._requested < 0:
            self._requested = end
        if end > before and self.position is not None and service.wants(SlaveAcknowledged):
            service.note(SlaveAcknowledged(self.transport.remote, end))
        if not self._is_async_learner and end >= self._last_end:
            has_all = service.log.end_position == end
            caught_up_ms = self._heard_ms if has_all else self._last_transfer_ms
            service.in_sync.caught_up(self.slave_id, caught_up_ms)
            service.maybe_expand(self.slave_id, end)
        service.acknowledged_by(self.slave_id)
        service.reported(self)
        if self.position is None:
            self.transfer()

    # Sending --------------------------------------------------------------------------

    def look_later(self) -> None:
        """As ``HaConnection.look_later``; a slave may have waited for the first message."""
        if self.state is HAConnectionState.TRANSFER and self._requested != NO_POSITION:
            self._look_at_next()

    def transfer(self) -> None:
        """Send what the log has from the position on, as long as the slave takes it.

        Upstream: AbstractWriteSocketService.run, transferToSlave.
        """
        if self.state is not HAConnectionState.TRANSFER or not self._is_open:
            return
        if self._requested == NO_POSITION:
            return
        self._looked_ms = now_ms = self._service.scheduling.now_ms()
        if self.is_caught_up:
            self._switching.in_sync.caught_up(self.slave_id, now_ms)
        self.is_caught_up = False
        if self.position is None:
            self._begin(self._requested)
        if self.position is not None and not self._is_stuck:
            self._send_all(self.position)
        if self._heartbeat is None and self._is_open:
            self._plan_heartbeat()

    def _begin(self, report: int) -> None:
        service, log = self._switching, self._service.log
        position = report
        if not report and self._from_last_file:
            position = log.last_file_position
        elif not report and not log.segments:
            return  # heartbeats only, until there is a log
        elif not report:
            position = log.min_position
        self.position = position
        address = self.transport.remote
        service.note(SlaveConnected(address, report, position))
        if not log.min_position <= position <= log.end_position:
            bounds = log.min_position, log.end_position
            service.note(SlaveCannotContinue(address, position, *bounds))
        epoch = service.epoch_file.at(position)
        if epoch is not None:
            self._use(epoch)
        elif position:
            # Upstream sends a size below 0 here, after which the slave waits for ever.
            self._is_stuck = True
            numbers = tuple(each.epoch for each in service.epochs)
            service.note(SlaveWithoutEpoch(address, position, numbers))

    def _send_all(self, position: int) -> None:
        service, log = self._switching, self._service.log
        while self.transport.unsent_bytes() < UNSENT_BYTES_MAX:
            data = log.read_to_segment_end(position)[: service.config.ha_frame_bytes_max]
            if not data:
                self._all_was_sent()
                return
            size = min(len(data), service.bytes_allowed(self.flow, self._looked_ms))
            if not size:
                self._look_at_next()
                return
            if self._epoch_end is not None and position + size > self._epoch_end:
                following = service.epoch_file.after(self._epoch)
                if following is None:
                    self._look_at_next()
                    return
                size = self._epoch_end - position
                self._use(following)
            self._last_end, self._last_transfer_ms = log.end_position, self._looked_ms
            if not self._send_frame(position, data[:size]):
                return
            position = self.position = position + size

    def _send_frame(self, position: int, data: memoryview | bytes) -> bool:
        """Send one frame; False if this log has no epochs, so that the connection was closed."""
        service = self._switching
        epoch = service.epoch_file.get(self._epoch) or service.epoch_file.first
        if epoch is None:
            self._close("this broker's log has no epochs")
            return False
        self._write(encode_transfer(position, epoch, service.confirm_offset, data))
        return True

    def _all_was_sent(self) -> None:
        """The slave is caught up as long as it reads, and nothing is new."""
        if not self.transport.unsent_bytes():
            self.is_caught_up = True
            self._switching.in_sync.caught_up(self.slave_id, self._looked_ms)

    def _use(self, epoch: LogEpoch) -> None:
        """Frames are in *epoch* from now on.  Upstream: changeTransferEpochToNext."""
        self._epoch = epoch.epoch
        is_last = epoch.epoch == self._switching.last_epoch
        self._epoch_end = None if is_last else epoch.end

    def _look_at_next(self) -> None:
        if self._look is None:
            interval_ms = POLL_MS if self.position is not None else RETRY_MS
            scheduling = self._service.scheduling
            passed_ms = scheduling.now_ms() - self._looked_ms
            due_ms = self._looked_ms + max(1, -(-passed_ms // interval_ms)) * interval_ms
            self._look = scheduling.at(due_ms, self._look_now)

    def _send_heartbeat(self) -> None:
        if self.state is HAConnectionState.TRANSFER:
            position = NO_POSITION if self.position is None else self.position
            self._send_frame(position, b"")

    def _write(self, data: bytes) -> None:
        now_ms = self._service.scheduling.now_ms()
        self.transport.send(data)
        self.flow.add(len(data), now_ms)
        self._wrote_ms = now_ms
