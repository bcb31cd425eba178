"""The brokers of one name that NameServers have, and the smallest of their ids.

The smallest id runs the special services: the master, id 0, while it is registered, else a slave
that acts as the master.  A broker learns the members by asking a NameServer every second, or from
its notice.  Only slaves react to a change; a change of the address alone is none.

Upstream: BrokerController.syncBrokerMemberGroup, updateMinBroker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rocketmq_emulator.protocol.messages.names import MASTER_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketmq_emulator.settings.config import BrokerConfig


class MinBrokerChange(NamedTuple):
    """Another broker has the smallest id; ``offline_address`` is the address that was lost."""

    min_broker_id: int
    min_broker_address: str | None
    offline_address: str | None = None
    master_ha_address: str | None = None  # None: it is not known yet


class MemberGroup:
    """What one broker knows of the members of its name, itself included.

    ``is_isolated``: it does not register, and is not told of changes, before it has prepared, or
    in controller mode before it has a role: whichever comes first ends it.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._broker_id = config.broker_id
        self._reacts = config.slave_acting_master and config.broker_id != MASTER_ID
        starts_isolated = config.total_replicas > 1 and not config.skip_pre_online
        self._prepares = config.slave_acting_master and starts_isolated
        self.is_isolated = self._prepares  # Upstream: BrokerController.isIsolated
        self.min_broker_id = MASTER_ID
        self.min_broker_address: str | None = None
        self.alive_count = config.total_replicas  # of replicas; Upstream: aliveReplicasNum

    @property
    def is_preparing(self) -> bool:
        """Is it isolated until it has prepared?  Upstream: BrokerPreOnlineService.run."""
        return self._prepares and self.is_isolated

    def begin(self, min_broker_id: int, address: str | None) -> None:
        """Set the smallest id as it is at the start.  Upstream: BrokerController.startService."""
        self.min_broker_id, self.min_broker_address = min_broker_id, address

    def polled(self, addresses: Mapping[int, str]) -> MinBrokerChange | None:
        """Take the members that a NameServer has; an empty group changes nothing."""
        if not addresses:
            return None
        self.alive_count = len(addresses) + (self._broker_id not in addresses)
        number = min(addresses)
        if self.is_isolated or not self._reacts or number == self.min_broker_id:
            return None
        offline = self.min_broker_address if number > self.min_broker_id else None
        return self._changed(MinBrokerChange(number, addresses[number], offline))

    def notified(self, change: MinBrokerChange) -> MinBrokerChange | None:
        """Take the notice of a NameServer; None if it tells nothing new."""
        if not self._reacts or change.min_broker_id == self.min_broker_id:
            return None
        return self._changed(change)

    def _changed(self, change: MinBrokerChange) -> MinBrokerChange:
        self.begin(change.min_broker_id, change.min_broker_address)
        return change
