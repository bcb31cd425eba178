"""Replication of a broker whose role a controller changes: its slaves, or its copy of a master.

One object for both roles.  Before a broker leads, the half message at the end of its log is cut,
and the log's new epoch is written down; before it copies, its log is truncated to the last point
that its epochs share with its master's.

Upstream: AutoSwitchHAService.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rocketmq_emulator.broker.replication.auto_switch_client import AutoSwitchHaClient
from rocketmq_emulator.broker.replication.auto_switch_connection import AutoSwitchHaConnection
from rocketmq_emulator.broker.replication.confirming import ConfirmingHaService
from rocketmq_emulator.broker.store.store import HAS_NO_ROLE
from rocketmq_emulator.facts import EpochNotKept
from rocketmq_emulator.protocol.bodies.stats import HARuntimeInfo
from rocketmq_emulator.settings.quirks import class_for

if TYPE_CHECKING:
    from rocketmq_emulator.broker.replication.scheduling import Scheduling
    from rocketmq_emulator.broker.store.store import Store
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts import Fact, Note
    from rocketmq_emulator.net.transport import Transport
    from rocketmq_emulator.settings.config import BrokerConfig


class AutoSwitchHaService(ConfirmingHaService):
    """Replication of *store* in whatever role the broker has; at first it has none.

    ``client`` copies a master's log while this broker is a slave.
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
        super().__init__(store, disk, config, scheduling, note=note, wants=wants)
        store.follow(HAS_NO_ROLE)
        self.client = class_for(AutoSwitchHaClient, "broker", config.quirks)(self)

    def _connection(self, transport: Transport) -> AutoSwitchHaConnection:
        return AutoSwitchHaConnection(transport, self)

    # Roles ----------------------------------------------------------------------------

    def change_to_master(self, epoch: int) -> bool:
        """Take puts, in *epoch*; False if that is an old one: then in the last epoch of the log.

        The sync-state set must have been set.  Upstream: changeToMaster; whether puts are taken
        does not depend on it there, but on the role and on whether the broker is fenced.
        """
        is_new = self._is_new(epoch)
        if is_new:
            self._close_all("this broker is the master of a new epoch")
        elif self.is_master:
            return False
        self.client.shut("this broker is the master now")
        self._cut_tail()
        self._set_confirm_offset(self._computed_confirm_offset())
        if is_new:
            self._begin_epoch(epoch)
        self.is_master = True
        self._check_goes_on = True
        self.store.lead()
        self._confirm_log()
        self.store.check_replicas = self._refuse_if_too_few
        return is_new

    def change_to_slave(self, master_ha_address: str | None, epoch: int, slave_id: int) -> bool:
        """Copy a master, as *slave_id*; False if *epoch* is an old one, and nothing has changed.

        Without an address it comes by ``update_ha_master_address``.  Upstream: changeToSlave.
        """
        if not self._is_new(epoch):
            return False
        self._close_all("this broker is a slave now")
        self.is_master = False
        self.store.follow()
        self._confirm_log()
        self.client.open(slave_id, master_ha_address)
        return True

    def change_to_master_when_last_role_is_master(self, epoch: int) -> bool:
        """Go on as the master, in *epoch*; False if that is an old one.

        Slaves stay connected, and are not told.  Upstream: changeToMasterWhenLastRoleIsMaster.
        """
        if not self._is_new(epoch):
            return False
        self._begin_epoch(epoch)
        return True

    def change_to_slave_when_master_not_change(self, epoch: int) -> bool:
        """Go on copying the same master; False if *epoch* is an old one.

        Upstream: changeToSlaveWhenMasterNotChange.
        """
        return epoch >= self.last_epoch

    def update_ha_master_address(self, address: str | None) -> None:
        """Where the HA port of the master is; a master ignores it."""
        self.client.update_master_address(address)

    def close(self) -> None:
        """Close all connections, of slaves and to a master, because this broker ends.

        The sync-state set stays as it is.  Upstream: AutoSwitchHAService.shutdown.
        """
        self.is_ending = True
        self._close_all("this broker ends")
        self.client.shut("this broker ends")

    def restart(self) -> None:
        """The log was removed: connect again.

        A master's new log is of the epoch that it leads in; a slave's has none, as that of a
        new slave.
        """
        self._close_all("the log was removed")
        self.epoch_file.begin_anew(self.log.end_position if self.is_master else None)
        self.acknowledged_max = 0
        self._set_confirm_offset(self.log.end_position)
        self.client.restart()

    def _close_all(self, reason: str) -> None:
        """Close the connections of slaves.  Upstream: destroyConnections."""
        for connection in list(self.connections):
            connection.closed(reason)
            connection.transport.close()

    def _is_new(self, epoch: int) -> bool:
        """Is *epoch* not older than the last one of this log?  An older one is a fact."""
        last = self.epoch_file.last
        if last is None or epoch >= last.epoch:
            return True
        self.note(EpochNotKept(epoch, self.log.end_position, last.epoch, last.start))
        return False

    def _begin_epoch(self, epoch: int) -> None:
        if self.last_epoch >= epoch:
            self.epoch_file.cut_from_epoch(epoch)
        self.epoch_file.append(epoch, self.log.end_position)

    # For tools ------------------------------------------------------------------------

    def runtime_info(self) -> HARuntimeInfo:
        """The slaves, or the copy of the master.  Upstream: getRuntimeInfo."""
        if self.client.is_open:
            return HARuntimeInfo(ha_client_runtime_info=self.client.runtime_info())
        return super().runtime_info()
