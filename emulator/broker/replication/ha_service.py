"""The master's side of replication: slaves connect, say where their log ends, and get the rest.

A connection is sent nothing before its first report, and then what the log has from there on, in
frames; a slave with an empty log begins with the last log file.  When all is sent it looks for
more every 100 ms, unless a put that waits for slaves wakes it: without such puts that is how far a
slave is behind.  What a slave reports is believed: the master never checks that the report is the
end of a message, nor that the slave's bytes are its own.

A put of a SYNC_MASTER waits until enough slaves have reported its end.  In 4.x the highest report
of any slave counts, and it never falls; since 5.0 the open connections are counted.

Upstream: HAService, HAConnection (4.x); DefaultHAService, DefaultHAConnection,
GroupTransferService (5.x).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rocketmq_emulator.broker.replication.scheduling import FlowMonitor
from rocketmq_emulator.facts import (
    SlaveAcknowledged,
    SlaveCannotContinue,
    SlaveConnected,
    SlaveDisconnected,
)
from rocketmq_emulator.protocol.bodies.stats import HAConnectionRuntimeInfo, HARuntimeInfo
from rocketmq_emulator.protocol.replication import FRAME_HEADER_BYTES, ReportReader, encode_frame
from rocketmq_emulator.settings.releases import (
    HA_ACKS_ARE_COUNTED,
    HA_PORT_IS_SET,
    HA_REPORTS_ARE_COMPARED,
)
from rocketmq_emulator.text.values import next_port

if TYPE_CHECKING:
    from rocketmq_emulator.broker.replication.scheduling import Scheduling
    from rocketmq_emulator.broker.store.commit_log import CommitLog
    from rocketmq_emulator.facts import Fact, Note
    from rocketmq_emulator.net.timers import Timer
    from rocketmq_emulator.net.transport import Transport
    from rocketmq_emulator.settings.config import BrokerConfig

POLL_MS = 100  # HAConnection.WriteSocketService: WaitNotifyObject.allWaitForRunning
ANY_SLAVE = 2  # replicas: the master, and one slave
UNSENT_BYTES_MAX = 1024 * 1024  # ours: of one slave; upstream's socket blocks instead


def _call(action: Callable[[], object]) -> None:
    """The default of ``run_at_turn_end``: there are no turns, so call it at once."""
    action()


def _nobody(_service: object) -> None:
    """The default of ``on_acknowledged`` and ``on_changed``."""


class HaService:
    """The slaves of one master, whose *log* they copy.

    ``on_acknowledged`` is called when a slave has reported the end of its log, ``on_changed`` when
    one has connected or gone;
    ``run_at_turn_end`` calls a function once at the end of the turn.
    """

    def __init__(
        self,
        log: CommitLog,
        config: BrokerConfig,
        scheduling: Scheduling,
        *,
        note: Note,
        wants: Callable[[type[Fact]], bool],
    ) -> None:
        self.on_acknowledged: Callable[[HaService], object] = _nobody
        self.on_changed: Callable[[HaService], object] = _nobody
        self.run_at_turn_end: Callable[[Callable[[], object]], object] = _call
        self.log = log
        self.config = config
        self.scheduling = scheduling
        self.note = note
        self.wants = wants
        self.is_counting = config.parsed_release >= HA_ACKS_ARE_COUNTED
        self.compares_reports = HA_REPORTS_ARE_COMPARED.holds(config.parsed_release)
        self.connections: list[HaConnection] = []
        self.acknowledged_max = 0  # the highest report of any slave, ever (push2SlaveMaxOffset)

    def accept(self, transport: Transport) -> HaConnection:
        """The endpoint of a slave that has just connected."""
        connection = self._connection(transport)
        self.connections.append(connection)
        self.on_changed(self)
        return connection

    def _connection(self, transport: Transport) -> HaConnection:
        return HaConnection(transport, self)

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self.connections):
            connection.transport.close()

    def restart(self) -> None:
        """The log was removed: forget what was reported, and let slaves connect again."""
        self.close()
        self.acknowledged_max = 0

    def reconfigure(self, config: BrokerConfig) -> None:
        """Use the settings of *config* from now on."""
        self.config = config

    # For puts -------------------------------------------------------------------------

    def grown(self) -> None:
        """The log has grown: every connection sends that at its next look."""
        for connection in self.connections:
            connection.look_later()

    def wake(self) -> None:
        """A put waits for slaves: send what the log has to every connection now."""
        for connection in self.connections:
            connection.transfer()

    def wake_at_turn_end(self) -> None:
        """``wake``, once for all puts of this turn."""
        self.run_at_turn_end(self.wake)

    @property
    def replicas_needed(self) -> int:
        """How many replicas must have a put of a SYNC_MASTER (5.x), this master included."""
        return self.config.in_sync_replicas

    def waited_for(self) -> Iterable[int]:
        """The numbers of replicas for which a put may wait now."""
        return range(ANY_SLAVE, len(self.connections) + ANY_SLAVE)

    def replicated_to(self, replicas: int) -> int:
        """The position up to which *replicas* have the log, this master included."""
        if replicas <= 1:
            return self.log.end_position
        if not self.is_counting:
            return self.acknowledged_max
        reports = sorted((each.acknowledged for each in self.connections), reverse=True)
        return reports[replicas - 2] if len(reports) > replicas - 2 else -1

    def is_slave_ok(self) -> bool:
        """Whether a slave is connected, and the best of them is not too far behind (4.x).

        Upstream: HAService.isSlaveOK.
        """
        behind_bytes = self.log.end_position - self.acknowledged_max
        return bool(self.connections) and behind_bytes < self.config.ha_behind_bytes_max

    def in_sync_count(self) -> int:
        """How many replicas are not too far behind, this master included (5.x).

        Upstream: DefaultHAService.inSyncReplicasNums, isInSyncSlave.
        """
        return 1 + sum(self._is_in_sync(each) for each in self.connections)

    def _is_in_sync(self, connection: HaConnection) -> bool:
        behind_bytes = self.log.end_position - connection.acknowledged
        return behind_bytes < self.config.ha_behind_bytes_max

    def runtime_info(self) -> HARuntimeInfo:
        """The slaves, for tools (5.x).  Upstream: DefaultHAService.getRuntimeInfo."""
        end, now_ms = self.log.end_position, self.scheduling.now_ms()
        connections = [
            HAConnectionRuntimeInfo(
                addr=each.transport.remote,
                slave_ack_offset=each.acknowledged,
                diff=end - each.acknowledged,
                in_sync=self._is_in_sync(each),
                transferred_byte_in_second=each.flow.last_second(now_ms),
                transfer_from_where=-1 if each.position is None else each.position,
            )
            for each in self.connections
        ]
        return HARuntimeInfo(
            master=True,
            master_commit_log_max_offset=end,
            in_sync_slave_nums=self.in_sync_count() - 1,
            ha_connection_info=connections,
        )

    # For connections ------------------------------------------------------------------

    def reported(self, connection: HaConnection) -> None:
        """A slave has reported the end of its log."""
        self.acknowledged_max = max(self.acknowledged_max, connection.acknowledged)
        self.on_acknowledged(self)

    def ended(self, connection: HaConnection, reason: str) -> None:
        """The stream of *connection* ended."""
        self.connections.remove(connection)
        self.on_changed(self)
        gone = connection.transport.remote, reason, connection.acknowledged
        self.note(SlaveDisconnected(*gone))


class HaConnection:
    """One slave at its master: an endpoint of bytes.  ``acknowledged`` is -1 before a report."""

    def __init__(self, transport: Transport, service: HaService) -> None:
        self.transport = transport
        self.acknowledged = -1
        self.position: int | None = None  # of the next byte to send; None before a report
        self.slave_id = -1  # in controller mode, when it has introduced itself
        self.is_caught_up = False  # in controller mode: all was sent at the last look
        self._service = service
        self._reports = ReportReader()
        self._is_open = True
        now_ms = service.scheduling.now_ms()
        self._heard_ms = self._wrote_ms = self._looked_ms = now_ms
        self.flow = FlowMonitor(now_ms)  # of headers alone, as upstream counts
        self._look: Timer | None = None
        self._heartbeat: Timer | None = None
        self._silence: Timer | None = None
        self._watch_silence()

    # What the transport calls ---------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Read reports; the first one sets where the copy begins."""
        self._heard_ms = self._service.scheduling.now_ms()
        report = self._reports.feed(data)
        if report is None:
            return
        before, self.acknowledged = self.acknowledged, report
        if self.position is None:
            self._begin(report)
        elif report > self._service.log.end_position and self._service.compares_reports:
            self._close(f"it reports {report}, beyond the end of this log")
            return
        if report > before and self._service.wants(SlaveAcknowledged):
            self._service.note(SlaveAcknowledged(self.transport.remote, report))
        self._service.reported(self)

    def writable(self) -> None:
        """All was sent: send more."""
        self.transfer()

    def drained(self) -> None:
        """Some was sent: send more if there is room for it."""
        self.transfer()

    def closed(self, reason: str) -> None:
        """The stream ended."""
        if not self._is_open:
            return
        self._is_open = False
        for timer in (self._look, self._heartbeat, self._silence):
            if timer is not None:
                timer.cancel()
        self._service.ended(self, reason)

    # Sending --------------------------------------------------------------------------

    def look_later(self) -> None:
        """Send what is new at the next of the looks, which are 100 ms apart."""
        if self._look is not None or self.position is None:
            return
        scheduling = self._service.scheduling
        passed_ms = scheduling.now_ms() - self._looked_ms
        due_ms = self._looked_ms + max(1, -(-passed_ms // POLL_MS)) * POLL_MS
        self._look = scheduling.at(due_ms, self._look_now)

    def _look_now(self) -> None:
        self._look = None
        self.transfer()

    def transfer(self) -> None:
        """Send what the log has from the position on, as long as the slave takes it.

        Upstream: WriteSocketService.run.
        """
        if self.position is None or not self._is_open:
            return
        log, bytes_max = self._service.log, self._service.config.ha_frame_bytes_max
        self._looked_ms = self._service.scheduling.now_ms()
        while self.transport.unsent_bytes() < UNSENT_BYTES_MAX:
            data = log.read_to_segment_end(self.position)[:bytes_max]
            if not data:
                break
            self.transport.send(encode_frame(self.position, data))
            self.position += len(data)
            self.flow.add(FRAME_HEADER_BYTES, self._looked_ms)
            self._wrote_ms = self._looked_ms
        if self._heartbeat is None:
            self._plan_heartbeat()

    def _begin(self, report: int) -> None:
        service, log = self._service, self._service.log
        position = report or log.last_file_position
        self.position = position
        address = self.transport.remote
        service.note(SlaveConnected(address, report, position))
        if not log.min_position <= position <= log.end_position:
            bounds = log.min_position, log.end_position
            service.note(SlaveCannotContinue(address, position, *bounds))
        self.transfer()

    def _plan_heartbeat(self) -> None:
        scheduling, config = self._service.scheduling, self._service.config
        due_ms = self._wrote_ms + config.ha_heartbeat_interval_ms + 1
        due_ms = max(due_ms, scheduling.now_ms() + POLL_MS)  # later if earlier bytes still wait
        self._heartbeat = scheduling.at(due_ms, self._beat)

    def _beat(self) -> None:
        """Send a frame without bytes if nothing was sent for the interval."""
        self._heartbeat = None
        now_ms = self._service.scheduling.now_ms()
        is_due = now_ms - self._wrote_ms > self._service.config.ha_heartbeat_interval_ms
        if is_due and not self.transport.unsent_bytes():
            self._send_heartbeat()
        if self._is_open:
            self._plan_heartbeat()

    def _send_heartbeat(self) -> None:
        if self.position is not None:
            now_ms = self._service.scheduling.now_ms()
            self.transport.send(encode_frame(self.position, b""))
            self.flow.add(FRAME_HEADER_BYTES, now_ms)
            self._wrote_ms = now_ms

    # A silent slave -------------------------------------------------------------------

    def _watch_silence(self) -> None:
        """Close the connection if nothing was heard for too long, else check again then."""
        service = self._service
        silent_ms = service.scheduling.now_ms() - self._heard_ms
        if silent_ms > service.config.ha_silence_ms_max:
            self._close(f"nothing was heard for {silent_ms} ms")
            return
        due_ms = self._heard_ms + service.config.ha_silence_ms_max + 1
        self._silence = service.scheduling.at(due_ms, self._watch_silence)

    def _close(self, reason: str) -> None:
        self.closed(reason)
        self.transport.close()


def ha_address(address: str, config: BrokerConfig) -> str:
    """The HA address beside *address*: on the next port, or since 5.1.1 on the configured one.

    Upstream: BrokerStartup, the default of haListenPort.
    """
    own = config.ha_port if config.parsed_release >= HA_PORT_IS_SET else 0
    return f"{address.rpartition(':')[0]}:{own}" if own else next_port(address)
