"""A role change carried out at a running broker: its parts stop, change and start in this order.

Upstream changes the same parts in the same order; clients can see it: a new master takes messages
before any NameServer knows it, and a slave refuses them before its new master is known.

Upstream: ReplicasManager.changeToMaster, changeToSlave.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from rocketmq_emulator.broker.replication.replicas_manager import LogReport

if TYPE_CHECKING:
    from rocketmq_emulator.broker.state.broker import Broker


def _nothing() -> None:
    """The default of the outlets."""


class RoleChanges:
    """``BrokerRoles`` of *broker*.

    Its outlets: ``register_soon`` registers in the background, ``special_services(active)``
    starts or stops a master's tasks, ``restart_checks`` and ``stop_checks`` those of the
    sync-state set, ``restart_sync`` and ``stop_sync`` the copying of tables.
    """

    def __init__(self, broker: Broker, now_ms: Callable[[], int]) -> None:
        self._broker = broker
        self._now_ms = now_ms
        self._ha = broker.auto_switch
        self.register_soon: Callable[[], object] = _nothing
        self.special_services: Callable[[bool], object] = lambda _active: None
        self.restart_checks: Callable[[], object] = _nothing
        self.stop_checks: Callable[[], object] = _nothing
        self.restart_sync: Callable[[], object] = _nothing
        self.stop_sync: Callable[[], object] = _nothing

    def set_fenced(self, *, is_fenced: bool) -> None:
        """Register, or do not; the store refuses puts as long as there is no role.

        Upstream: ReplicasManager.setFenced.
        """
        self._broker.members.is_isolated = is_fenced

    def set_controller_id(self, broker_id: int) -> None:
        """Tell the master this id when it is followed.  Upstream: setLocalBrokerId."""
        self._ha.local_broker_id = broker_id

    def use_sync_state_set(self, broker_ids: Collection[int]) -> None:
        """Use the set that the controller knows.  Upstream: setSyncStateSet."""
        self._ha.set_sync_state_set(broker_ids)

    def change_to_master(self, epoch: int) -> None:
        """Follow nobody, take puts, begin the work of a master, register."""
        self.stop_sync()
        self._broker.follow(None)
        self._ha.change_to_master(epoch)
        self._broker.change_role("SYNC_MASTER", 0)
        self.special_services(True)
        self.restart_checks()
        self._begin_epoch(epoch)

    def remain_master(self, epoch: int) -> None:
        """Begin an epoch as the same master.  Upstream: changeToMasterWhenLastRoleIsMaster."""
        self._ha.change_to_master_when_last_role_is_master(epoch)
        self._begin_epoch(epoch)

    def change_to_slave(self, master_address: str, epoch: int, broker_id: int) -> None:
        """End the work of a master, follow another one, register."""
        self.stop_checks()
        self._broker.change_role("SLAVE", broker_id)
        self.special_services(False)
        self._broker.follow(master_address)
        self.restart_sync()
        self._ha.change_to_slave(None, epoch, broker_id)  # a NameServer will say where
        self._begin_epoch(epoch)

    def remain_slave(self, _master_address: str, epoch: int) -> None:
        """Begin an epoch with the same master.  Upstream: changeToSlaveWhenMasterNotChange."""
        self._ha.change_to_slave_when_master_not_change(epoch)
        self._begin_epoch(epoch)

    def sync_state_set(self) -> set[int]:
        """The slaves that may stay in the set.  Upstream: maybeShrinkSyncStateSet."""
        return set(self._ha.maybe_shrink_sync_state_set())

    def log_report(self) -> LogReport:
        """The end of the log, for heartbeats.  Upstream: sendHeartbeatToController."""
        ha = self._ha
        return LogReport(ha.last_epoch, ha.log.end_position, ha.confirm_offset)

    def _begin_epoch(self, epoch: int) -> None:
        self._broker.begin_epoch(epoch, self._now_ms())
        self.register_soon()
