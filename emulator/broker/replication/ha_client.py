"""The slave's side of replication: it reports where its log ends, and appends what comes.

A frame must begin where the slave's log ends; if it does not, the slave closes the connection and
connects again.  It never cuts its own log, so a slave whose log differs tries for ever, as
upstream's does.  It reports after each frame, and every 5 s: the look is made when something was
read, or a second after the last look.

The releases differ: a slave of 4.x makes its first report 5 to 6 s after it connected, connects
again at once after an error, and never notices that its master has become silent.  One of 5.x
reports at once if its last report is 5 s old, waits for 5 s after an error, and leaves a silent
master after 20 s; and it never learns the address that is configured (haMasterAddress).

Upstream: HAService.HAClient (4.x), DefaultHAClient (5.x).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rocketmq_emulator.broker.replication.scheduling import FlowMonitor
from rocketmq_emulator.broker.store.commit_log import LogsDiffer
from rocketmq_emulator.disk.port import WRITE_ERRORS, refusal
from rocketmq_emulator.facts import MasterConnected, MasterDisconnected
from rocketmq_emulator.protocol.bodies.stats import HAClientRuntimeInfo
from rocketmq_emulator.protocol.replication import BadStream, FrameReader, encode_report
from rocketmq_emulator.settings.releases import HA_CLIENT_WAITS_AFTER_ERROR, HA_MASTER_ADDRESS_LOST

if TYPE_CHECKING:
    from rocketmq_emulator.broker.replication.scheduling import Scheduling
    from rocketmq_emulator.broker.store.copying import CopiedLog
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.net.timers import Timer
    from rocketmq_emulator.net.transport import Transport
    from rocketmq_emulator.settings.config import BrokerConfig

LOOK_MS = 1_000  # HAClient.run: selector.select(1000)
UNSENT_REPORTS_BYTES_MAX = 4_096  # ours: upstream's client blocks until all is written


def _nobody() -> None:
    """The default of ``on_ended``."""


class HaClient:
    """Copies the log of the master at ``master_address`` into *copied*.

    The shell connects: it calls ``connected`` with each new stream, and waits for ``on_ended``;
    ``on_woken`` ends its pause before the next try.
    """

    _encode_report = staticmethod(encode_report)

    def __init__(
        self, copied: CopiedLog, config: BrokerConfig, scheduling: Scheduling, note: Note
    ) -> None:
        self.on_ended: Callable[[], object] = _nobody
        self.on_woken: Callable[[], object] = _nobody
        is_lost = config.parsed_release >= HA_MASTER_ADDRESS_LOST
        self.master_address: str | None = None if is_lost else config.ha_master_address or None
        self.waits_before_connecting = False  # the last connection ended with an error (5.x)
        self.connect_interval_ms = config.ha_connect_interval_ms
        self.transport: Transport | None = None
        self._copied = copied
        self._config = config
        self._scheduling = scheduling
        self._note = note
        self._is_of_5 = config.parsed_release >= HA_CLIENT_WAITS_AFTER_ERROR
        self._frames = FrameReader()
        self._reported = 0
        self._unsent_reports: list[bytes] = []
        self._wrote_ms = self._read_ms = self._looked_ms = scheduling.now_ms()
        self._look: Timer | None = None
        self._flow = FlowMonitor(self._read_ms)

    def runtime_info(self, master_flush_offset: int = 0) -> HAClientRuntimeInfo:
        """The copy, for tools (5.x).  Upstream: DefaultHAService.getRuntimeInfo."""
        return HAClientRuntimeInfo(
            master_addr=self.master_address,
            transferred_byte_in_second=self._flow.last_second(self._scheduling.now_ms()),
            max_offset=self._copied.end_position,
            last_read_timestamp=self._read_ms,
            last_write_timestamp=self._wrote_ms,
            master_flush_offset=master_flush_offset,
        )

    def connected(self, transport: Transport) -> HaClient:
        """Begin with a new stream; returns its endpoint.  Upstream: connectMaster."""
        self.transport = transport
        self._frames = FrameReader()
        self._reported = self._copied.end_position
        now_ms = self._read_ms = self._scheduling.now_ms()
        if not self._is_of_5:
            self._wrote_ms = now_ms
        self._note(MasterConnected(transport.remote, self._reported))
        self._look_now()
        return self

    def close(self, reason: str = "closed here") -> None:
        """End the stream, if there is one."""
        if self.transport is not None:
            transport = self.transport
            self.closed(reason)
            transport.close()

    def restart(self) -> None:
        """The log was removed: connect again, with an empty one."""
        self._end("the log was removed", waits=False)

    # What the transport calls ---------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Append the frames that *data* completes."""
        if self.transport is None:
            return
        self._read_ms = self._scheduling.now_ms()
        self._flow.add(len(data), self._read_ms)
        self._frames.feed(data)
        try:
            self._append_frames()
        except (LogsDiffer, BadStream) as error:
            self._end(str(error))
        except WRITE_ERRORS as error:
            self._note(refusal(error, "what the master sent"))
            self._end(str(error))
        else:
            self._look_now()

    def writable(self) -> None:
        """All reports were sent."""

    def drained(self) -> None:
        """Some reports were sent."""

    def closed(self, reason: str) -> None:
        """The stream ended.  Upstream: closeMaster, closeMasterAndWait."""
        if self.transport is None:
            return
        remote, self.transport = self.transport.remote, None
        if self._look is not None:
            self._look.cancel()
            self._look = None
        self._read_ms = 0
        if not self._is_of_5:
            self._wrote_ms = 0
        self.waits_before_connecting = self._is_of_5
        self._note(MasterDisconnected(remote, reason))
        self.on_ended()

    # Inside ---------------------------------------------------------------------------

    def _append_frames(self) -> None:
        try:
            for frame in self._frames.frames():
                self._check_position(frame.position)
                self._copied.append_unread(frame.position, frame.data)
                self._report_if_grown()
            if (position := self._frames.next_position) is not None:
                self._check_position(position)
        finally:
            self._send_reports()
            self._copied.read_appended()

    def _check_position(self, position: int) -> None:
        end = self._copied.end_position
        if end not in (0, position):
            raise LogsDiffer(f"the master sends position {position}, this log ends at {end}")

    def _report_if_grown(self) -> None:
        """Each frame is reported; the reports of frames that came together are sent together."""
        end = self._copied.end_position
        if end > self._reported:
            self._reported = end
            self._unsent_reports.append(self._encode_report(end))

    def _send_reports(self) -> None:
        """Send them, unless the master leaves earlier ones unread: then again at the next look."""
        reports, self._unsent_reports = b"".join(self._unsent_reports), []
        if not reports or self.transport is None:
            return
        if self.transport.unsent_bytes() < UNSENT_REPORTS_BYTES_MAX:
            self.transport.send(reports)
            self._wrote_ms = self._scheduling.now_ms()

    def _look_now(self) -> None:
        """Report if the last report is old; leave a master that is silent (5.x)."""
        now_ms = self._looked_ms = self._scheduling.now_ms()
        silent_ms = now_ms - self._read_ms
        if self._is_of_5 and silent_ms > self._config.ha_silence_ms_max:
            self._end(f"nothing was heard for {silent_ms} ms", waits=False)
            return
        if now_ms - self._wrote_ms > self._config.ha_heartbeat_interval_ms:
            self._unsent_reports.append(self._encode_report(self._reported))
            self._send_reports()
        self._plan_look()

    def _plan_look(self) -> None:
        if self._look is not None:
            self._look.cancel()
        due_ms = self._wrote_ms + self._config.ha_heartbeat_interval_ms + 1
        if self._is_of_5:
            due_ms = min(due_ms, self._read_ms + self._config.ha_silence_ms_max + 1)
        looks = max(1, -(-(due_ms - self._looked_ms) // LOOK_MS))
        self._look = self._scheduling.at(self._looked_ms + looks * LOOK_MS, self._look_now)

    def _end(self, reason: str, *, waits: bool = True) -> None:
        self.close(reason)
        self.waits_before_connecting = self._is_of_5 and waits
