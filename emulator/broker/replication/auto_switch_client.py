"""The slave's end of replication in controller mode: it may have been the master itself.

So its log may go on differently than its master's.  It sends its id, gets the epochs of its
master's log, and cuts its own at the last position up to which both are equal; only then it
copies.  If they have no epoch in common, or no message begins at that position, it copies nothing
and tries again for ever: a person must empty its store.

It reports after each frame, and every 5 s.  A slave that was empty or has just been cut makes no
other report after the handshake, so its first bytes come 5 to 6 s later.

Upstream: AutoSwitchHAClient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketmq_emulator.broker.replication.epoch_file import EpochFileCache
from rocketmq_emulator.broker.replication.ha_client import HaClient
from rocketmq_emulator.broker.store.commit_log import LogsDiffer
from rocketmq_emulator.disk.port import WRITE_ERRORS, refusal
from rocketmq_emulator.facts import (
    EpochsCompared,
    LogNotAligned,
    MasterConnected,
    NoConsistentPoint,
)
from rocketmq_emulator.facts.replication import NO_COMMON_EPOCH
from rocketmq_emulator.protocol.auto_switch import (
    HAConnectionState,
    MasterHandshake,
    MasterReader,
    SlaveHandshake,
    TransferFrame,
    encode_slave_handshake,
    encode_slave_report,
)
from rocketmq_emulator.protocol.replication import BadStream

if TYPE_CHECKING:
    from rocketmq_emulator.broker.replication.confirming import ConfirmingHaService
    from rocketmq_emulator.facts import Fact
    from rocketmq_emulator.net.timers import Timer
    from rocketmq_emulator.net.transport import Transport
    from rocketmq_emulator.protocol.auto_switch import LogEpoch

HANDSHAKE_MS = 5_000  # AutoSwitchHAClient.handshakeWithMaster: then it is sent again
STUCK_MS = 2_000  # HAClientReader.processReadResult: before it closes the connection
NO_EPOCH = -1


class AutoSwitchHaClient(HaClient):
    """Copies a master's log for *service* while it is open, as ``HaClient`` does."""

    _encode_report = staticmethod(encode_slave_report)

    def __init__(self, service: ConfirmingHaService) -> None:
        super().__init__(service.store.copy(), service.config, service.scheduling, service.note)
        self.master_address = None  # a NameServer says it after each change of roles
        self.state = HAConnectionState.SHUTDOWN
        self._service = service
        self._slave_id = 0
        self._reader = MasterReader()
        self._received_epoch = NO_EPOCH
        self._closing: Timer | None = None
        self._stuck: Fact | None = None  # noted once while it stays the same

    @property
    def is_open(self) -> bool:
        """Whether it copies a master, or looks for it."""
        return self.state is not HAConnectionState.SHUTDOWN

    def open(self, slave_id: int, master_address: str | None) -> None:
        """Copy the log of the broker at *master_address* from now on.  Upstream: reOpen."""
        self.shut("the role has changed")
        self.state = HAConnectionState.READY
        self._slave_id = slave_id
        self._received_epoch = NO_EPOCH  # a new connection does not forget it
        self._reported = 0
        self._read_ms = self._wrote_ms = self._scheduling.now_ms()
        self.master_address = master_address
        self.on_woken()

    def restart(self) -> None:
        """As ``HaClient.restart``; the epochs of the log were removed with it."""
        super().restart()
        self._received_epoch = NO_EPOCH

    def shut(self, reason: str) -> None:
        """Copy nothing from now on.  Upstream: AutoSwitchHAClient.shutdown."""
        self.state = HAConnectionState.SHUTDOWN
        self.master_address = None
        self.close(reason)

    def update_master_address(self, address: str | None) -> None:
        """Where the master's HA port is; an open connection stays.

        Upstream: updateHaMasterAddress, which wakes the client.
        """
        if self.is_open and address != self.master_address:
            self.master_address = address
            self.on_woken()

    def connected(self, transport: Transport) -> AutoSwitchHaClient:
        """Begin with a new stream; returns its endpoint.  Upstream: connectMaster."""
        if self.master_address is None:  # the role has changed while this connected
            transport.close()
            return self
        self._service.cut_tail_if_behind()
        self.transport = transport
        self.state = HAConnectionState.HANDSHAKE
        self._reader = MasterReader()
        self._reported = self._copied.end_position
        self._read_ms = self._looked_ms = self._scheduling.now_ms()
        self._note(MasterConnected(transport.remote, self._reported))
        self._shake_hands()
        return self

    def _shake_hands(self) -> None:
        """Send the handshake, and again later if it is not answered."""
        assert self.transport is not None, "only an open stream sends"
        config = self._config
        flags = config.sync_from_last_file, config.async_learner
        self.transport.send(encode_slave_handshake(SlaveHandshake(self._slave_id, *flags)))
        self._wrote_ms = now_ms = self._scheduling.now_ms()
        self._look = self._scheduling.at(now_ms + HANDSHAKE_MS, self._shake_hands)

    # What the transport calls ---------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Compare epochs once, then append the frames that *data* completes."""
        if self.transport is None or self._closing is not None:
            return
        self._read_ms = self._scheduling.now_ms()
        self._flow.add(len(data), self._read_ms)
        self._reader.feed(data)
        try:
            self._take_messages()
        except (LogsDiffer, BadStream) as error:
            self._end(str(error))
        except WRITE_ERRORS as error:
            self._note(refusal(error, "what the master sent"))
            self._end(str(error))
        else:
            if self.transport is not None and self._closing is None:
                self._look_now()

    def _take_messages(self) -> None:
        """Take the whole messages, until one of them ends the connection."""
        try:
            for message in self._reader.messages():
                if isinstance(message, MasterHandshake):
                    self._compare(message)
                else:
                    self._take(message)
                if self.transport is None or self._closing is not None:
                    return
        finally:
            self._send_reports()

    def closed(self, reason: str) -> None:
        """The stream ended.  Upstream: closeMaster."""
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
        if self.is_open:
            self.state = HAConnectionState.READY
        super().closed(reason)

    # The handshake --------------------------------------------------------------------

    def _compare(self, found: MasterHandshake) -> None:
        """Cut the log to where it equals the master's; then ask for the rest.

        Upstream: AutoSwitchHAClient.doTruncate.
        """
        assert self.transport is not None, "only an open stream is read"
        service, epochs, address = self._service, self._service.epochs, self.transport.remote
        self._reported = 0
        if epochs:
            point = self._consistent_point(found)
            if point is None:
                return
            service.cut(point, f"the log of its master {address} goes on differently there")
            self._reported = point
        self._stuck = None
        ends = self._copied.end_position, found.end
        self._note(
            EpochsCompared(address, *ends, _numbers(service.epochs), _numbers(found.epochs))
        )
        self.state = self._reader.state = HAConnectionState.TRANSFER
        self._looked_ms = self._scheduling.now_ms()
        self._report_if_grown()

    def _consistent_point(self, found: MasterHandshake) -> int | None:
        """Where to cut the log; None: it cannot be, and the connection will end."""
        assert self.transport is not None, "only an open stream is read"
        log, address = self._service.log, self.transport.remote
        own, masters = EpochFileCache(self._service.epochs), EpochFileCache(found.epochs)
        own.end_at(log.end_position)
        masters.end_at(found.end)
        point = own.consistent_point(masters)
        if point < 0:
            both = _numbers(own.entries), _numbers(masters.entries)
            self._get_stuck(NoConsistentPoint(address, *both))
            return None
        is_in_log = log.min_position <= point < log.end_position
        if is_in_log and not self._copied.is_record_at(point):
            self._get_stuck(LogNotAligned(address, point, log.end_position))
            return None
        return point

    def _get_stuck(self, fact: Fact) -> None:
        """End the connection later; after that a try is made every 7 s."""
        if fact != self._stuck:
            self._note(fact)
        self._stuck = fact
        if self._look is not None:
            self._look.cancel()
            self._look = None
        due_ms = self._scheduling.now_ms() + STUCK_MS
        self._closing = self._scheduling.at(due_ms, self._end_stuck)

    def _end_stuck(self) -> None:
        self._closing = None
        self._end(NO_COMMON_EPOCH)

    # The log --------------------------------------------------------------------------

    def _take(self, frame: TransferFrame) -> None:
        """Upstream: HAClientReader.processReadResult, the case TRANSFER."""
        self._check_position(frame.position)
        if frame.epoch != self._received_epoch:
            self._received_epoch = frame.epoch
            self._service.epoch_file.append(frame.epoch, frame.epoch_start)
        self._service.take_copied(frame)
        self._report_if_grown()

    def _look_now(self) -> None:
        if self.state is HAConnectionState.TRANSFER:
            super()._look_now()


def _numbers(epochs: tuple[LogEpoch, ...]) -> tuple[int, ...]:
    return tuple(each.epoch for each in epochs)
