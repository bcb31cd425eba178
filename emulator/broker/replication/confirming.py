"""Which part of a log is confirmed, and by whom: the master's part of controller mode.

A master keeps the *sync-state set*: it asks the controller to count a slave that has the whole
log, and no longer to count one that is slow or gone.  What enough members of that set have is
*confirmed*; only that can be read, if all of them must have a message.  A slave confirms what its
master does, as far as it has it.

Upstream: AutoSwitchHAService, CommitLog.getConfirmOffset, GroupTransferService.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from rocketmq_emulator.broker.replication.epoch_file import EpochFile
from rocketmq_emulator.broker.replication.ha_service import HaService
from rocketmq_emulator.broker.replication.sync_state import SyncState
from rocketmq_emulator.broker.store.appender import PutRefused, PutStatus
from rocketmq_emulator.broker.store.put_chain import needs_replicas
from rocketmq_emulator.facts import (
    LogTruncated,
    SlaveCaughtUp,
    SlaveFellBehind,
    SyncStateSetCheckEnded,
)
from rocketmq_emulator.protocol.bodies.controller import EpochEntry
from rocketmq_emulator.protocol.bodies.stats import HARuntimeInfo
from rocketmq_emulator.settings.releases import CONFIRMED_BY_MASTER, UNCOMMITTED_IS_READ

if TYPE_CHECKING:
    from rocketmq_emulator.broker.replication.ha_service import HaConnection
    from rocketmq_emulator.broker.replication.scheduling import FlowMonitor, Scheduling
    from rocketmq_emulator.broker.store.appender import MessageToStore
    from rocketmq_emulator.broker.store.store import Store
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts import Fact, Note
    from rocketmq_emulator.protocol.auto_switch import LogEpoch, TransferFrame
    from rocketmq_emulator.settings.config import BrokerConfig

ALL_IN_SYNC = -1  # replicas: all of the sync-state set (MixAll.ALL_ACK_IN_SYNC_STATE_SET)


def _nobody(_ids: frozenset[int]) -> None:
    """The default of ``on_sync_state_set_change``."""


class ConfirmingHaService(HaService):
    """The slaves of *store*, the epochs of its log, its sync-state set and confirm offset.

    *disk* has the file of epochs.  ``on_sync_state_set_change`` is called with a set that this
    master wants; the controller's answer comes by ``set_sync_state_set``.  ``local_broker_id`` is
    this broker's id at the controller.
    """

    def __init__(
        self,
        store: Store,
        disk: Disk,
        config: BrokerConfig,
        scheduling: Scheduling,
        *,
        note: Note,
        wants: Callable[[type[Fact]], bool],
    ) -> None:
        super().__init__(store.log, config, scheduling, note=note, wants=wants)
        self.on_sync_state_set_change: Callable[[frozenset[int]], object] = _nobody
        self.local_broker_id: int | None = None
        self.store = store
        self.in_sync = SyncState()
        self.epoch_file = EpochFile(disk, note)
        self.is_master = self.is_ending = False
        self._release = config.parsed_release
        # At a start all messages are readable; upstream saves the offset in its checkpoint.
        self._confirm_offset = store.log.end_position
        self._check_goes_on = True
        store.on_dropped = self._oldest_dropped

    def reconfigure(self, config: BrokerConfig) -> None:
        """As ``HaService.reconfigure``."""
        super().reconfigure(config)
        self._confirm_log()

    # Epochs, and the end of the log ---------------------------------------------------

    @property
    def epochs(self) -> tuple[LogEpoch, ...]:
        """The epochs of this log, the oldest first."""
        return self.epoch_file.entries

    @property
    def last_epoch(self) -> int:
        """The last epoch of this log; -1 if it has none."""
        return self.epoch_file.last_epoch

    def epoch_entries(self) -> list[EpochEntry]:
        """The epochs, for tools."""
        return [
            EpochEntry(epoch=each.epoch, start_offset=each.start, end_offset=each.end)
            for each in self.epochs
        ]

    def cut_tail_if_behind(self) -> None:
        """Cut the half message at the end of a slave's log, if all of it is confirmed.

        Upstream: truncateInvalidMsg, which does nothing while the dispatch is complete.
        """
        if self.store.copy().is_behind:
            self._cut_tail()

    def _cut_tail(self) -> None:
        """Cut the half message at the end of the log.

        Upstream leaves one that is not confirmed, and writes behind it.
        """
        end = self.store.copy().parsable_to()
        if end < self.log.end_position:
            self.cut(end, "it ended with a part of a message")

    def cut(self, position: int, reason: str) -> None:
        """Cut the log, its queues and its epochs.  Raises as ``Store.truncate``.

        Upstream: DefaultMessageStore.truncateFiles, EpochFileCache.truncateSuffixByOffset.
        """
        before = self.log.end_position
        if position < before:
            count = self.store.truncate(position)
            self.note(LogTruncated(self.log.end_position, before, count, reason))
        self.epoch_file.cut_from(position)
        if self._confirm_offset > position:
            self._set_confirm_offset(position)

    def _oldest_dropped(self, min_position: int) -> None:
        """Upstream: DefaultMessageStore.CleanCommitLogService, truncateEpochFilePrefix."""
        self.epoch_file.cut_before(min_position - 1)

    # The confirm offset ---------------------------------------------------------------

    @property
    def confirm_offset(self) -> int:
        """What is confirmed ends there.  Upstream: CommitLog.getConfirmOffset."""
        return self.log.end_position if self._confirms_alone else self._confirm_offset

    @property
    def _confirms_alone(self) -> bool:
        """Whether all that this master has is confirmed."""
        if not self.is_master:
            return False
        is_enough = self._release >= CONFIRMED_BY_MASTER and not self._all_must_have_it
        return is_enough or len(self.in_sync.local) == 1

    @property
    def _all_must_have_it(self) -> bool:
        return self.config.all_ack_in_sync_state_set

    def acknowledged_by(self, slave_id: int) -> None:
        """A slave has reported.  Upstream: updateConfirmOffsetWhenSlaveAck."""
        if slave_id in self.in_sync.local:
            self._set_confirm_offset(self._computed_confirm_offset())

    def take_copied(self, frame: TransferFrame) -> None:
        """Append what the master sent; readable up to what it has confirmed.

        Raises as ``CommitLog.append_copied``.
        """
        copied = self.store.copy()
        copied.readable_max = self._readable_to(frame.confirm_offset)
        if frame.data:
            copied.append(frame.position, frame.data)
        self._set_confirm_offset(min(frame.confirm_offset, self.log.end_position))

    def _computed_confirm_offset(self) -> int:
        """What all in sync have; as before while one of them is not connected.

        Upstream: computeConfirmOffset.
        """
        members = self.in_sync.union
        connected = {each.slave_id for each in self.connections}
        if self.local_broker_id is not None and members - connected - {self.local_broker_id}:
            is_alone = self.is_master and len(self.in_sync.local) == 1
            return self.log.end_position if is_alone else self._confirm_offset
        reports = (each.acknowledged for each in self.connections if each.slave_id in members)
        return min((self.log.end_position, *(report for report in reports if report > 0)))

    def _set_confirm_offset(self, position: int) -> None:
        self._confirm_offset = position
        self._confirm_log()

    def _confirm_log(self) -> None:
        position = None if self._confirms_alone else self._readable_to(self._confirm_offset)
        self.store.confirm(position)

    def _readable_to(self, confirmed: int) -> int | None:
        """Where the readable messages end if those up to *confirmed* are confirmed; None: nowhere.

        Upstream: DefaultMessageStore.ReputMessageService.getReputEndOffset.
        """
        reads_all = self.config.read_uncommitted and self._release >= UNCOMMITTED_IS_READ
        return None if reads_all else confirmed

    # The sync-state set ---------------------------------------------------------------

    @property
    def local_sync_state_set(self) -> frozenset[int]:
        """The set as the controller knows it."""
        return self.in_sync.local

    @property
    def sync_state_set(self) -> frozenset[int]:
        """That set, and the one that was asked for."""
        return self.in_sync.union

    def set_sync_state_set(self, ids: Collection[int]) -> None:
        """The controller's set; what was asked for is no longer under way."""
        self.in_sync.use(ids)
        self._set_confirm_offset(self._computed_confirm_offset())
        self.on_acknowledged(self)  # a put may wait for fewer slaves now

    def maybe_expand(self, slave_id: int, end: int) -> None:
        """Ask to count a slave whose log ends at *end*, if it has all that is confirmed.

        Upstream: maybeExpandInSyncStateSet; it asks at each report until the answer comes.
        """
        last = self.epoch_file.last
        if slave_id in self.in_sync.local or end < self.confirm_offset:
            return
        if last is None or end < last.start:
            return
        wanted = self.in_sync.local | {slave_id}
        if self.in_sync.want(wanted):
            self.note(SlaveCaughtUp(slave_id, end, tuple(sorted(wanted))))
        self.on_sync_state_set_change(wanted)

    def maybe_shrink_sync_state_set(self) -> frozenset[int]:
        """The set without slow slaves and without strangers; a change is under way from now on.

        Upstream: maybeShrinkSyncStateSet.
        """
        if not self._check_goes_on:
            return self.in_sync.local
        now_ms = self.scheduling.now_ms()
        for connection in self.connections:
            if connection.is_caught_up:
                self.in_sync.caught_up(connection.slave_id, now_ms)
        limit_ms = self.config.ha_not_caught_up_ms_max
        plan = self.in_sync.shrunk(self.local_broker_id, now_ms, limit_ms, self._release)
        if plan.fails:
            self._check_goes_on = False
            self.note(SyncStateSetCheckEnded(tuple(sorted(self.in_sync.local))))
        elif plan.reasons and self.in_sync.want(plan.wanted):
            for slave_id, reason in plan.reasons.items():
                self.note(SlaveFellBehind(slave_id, reason, tuple(sorted(plan.wanted))))
        return plan.wanted

    def ended(self, connection: HaConnection, reason: str) -> None:
        """As ``HaService.ended``; a slave in sync is to leave the set.

        Upstream: AutoSwitchHAService.removeConnection.
        """
        super().ended(connection, reason)
        slave_id = connection.slave_id
        if slave_id in self.in_sync.local and not self.is_ending:
            wanted = self.in_sync.local - {slave_id}
            self.in_sync.want(wanted)
            why = f"its connection ended: {reason}"
            self.note(SlaveFellBehind(slave_id, why, tuple(sorted(wanted))))
            self.on_sync_state_set_change(wanted)

    # For puts -------------------------------------------------------------------------

    @property
    def replicas_needed(self) -> int:
        """How many replicas must have a put, or ``ALL_IN_SYNC``."""
        return ALL_IN_SYNC if self._all_must_have_it else self.config.in_sync_replicas

    def waited_for(self) -> Iterable[int]:
        """As ``HaService.waited_for``, and ``ALL_IN_SYNC``."""
        return (ALL_IN_SYNC, *super().waited_for())

    def replicated_to(self, replicas: int) -> int:
        """As ``HaService.replicated_to``; ``ALL_IN_SYNC`` are all of the union of both sets.

        Upstream: GroupTransferService.doWaitTransfer.
        """
        if replicas != ALL_IN_SYNC:
            return super().replicated_to(replicas)
        members = self.in_sync.union
        slaves = (each for each in self.connections if each.slave_id in members)
        reports = sorted((each.acknowledged for each in slaves), reverse=True)
        others = len(members) - 1
        if others < 1:
            return self.log.end_position
        return reports[others - 1] if len(reports) >= others else -1

    def in_sync_count(self) -> int:
        """The size of the sync-state set, or of the one that was asked for if it is larger."""
        return self.in_sync.count

    def _refuse_if_too_few(self, message: MessageToStore) -> None:
        """Upstream: CommitLog.asyncPutMessage."""
        count, needed = self.in_sync.count, self.config.min_in_sync_replicas
        if count < needed and needs_replicas(message):
            why = f"{needed} replicas must be in sync, {count} are"
            raise PutRefused(PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH, why)

    def bytes_allowed(self, flow: FlowMonitor, now_ms: int) -> int:
        """How many bytes one slave may be sent now.

        Upstream: FlowMonitor.canTransferMaxByteNum.
        """
        if not self.config.ha_flow_control:
            return self.config.ha_frame_bytes_max
        return max(self.config.ha_bytes_per_second_max - flow.this_second(now_ms), 0)

    # For tools ------------------------------------------------------------------------

    def _is_in_sync(self, connection: HaConnection) -> bool:
        return connection.slave_id in self.in_sync.local

    def runtime_info(self) -> HARuntimeInfo:
        """The slaves, for tools.  Upstream: AutoSwitchHAService.getRuntimeInfo."""
        in_sync_slaves = len(self.in_sync.local) - 1
        info = super().runtime_info()
        return HARuntimeInfo(
            master=True,
            master_commit_log_max_offset=info.master_commit_log_max_offset,
            in_sync_slave_nums=in_sync_slaves,
            ha_connection_info=info.ha_connection_info,
        )
