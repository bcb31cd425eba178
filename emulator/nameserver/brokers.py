"""A broker name stands for replicas, each with an id; id 0 is the master.

Upstream: RouteInfoManager.brokerAddrTable, clusterAddrTable.
"""

from __future__ import annotations

import msgspec

from emulator.net.results import Refusal
from protocol.bodies.routes import BrokerData
from protocol.codes import ResponseCode
from protocol.names import MASTER_ID


class Replicas(msgspec.Struct):
    """All addresses behind one broker name.  Upstream: BrokerData."""

    cluster: str
    broker: str
    addresses: dict[int, str] = {}
    may_act: bool = False  # 5.x enableActingMaster: without a master the rest is read-only
    zone: str | None = None

    @property
    def smallest_id(self) -> int:
        """The master's while there is nobody."""
        return min(self.addresses, default=MASTER_ID)

    def keep_one_id(self, address: str, broker_id: int) -> None:
        """A slave that became master at its own address is no slave any more."""
        for number in self.ids_at(address):
            if number != broker_id:
                del self.addresses[number]

    def ids_at(self, address: str) -> list[int]:
        return [number for number, where in self.addresses.items() if where == address]

    def data(self) -> BrokerData:
        """A copy to be told."""
        return BrokerData(
            cluster=self.cluster,
            broker_name=self.broker,
            broker_addrs=dict(sorted(self.addresses.items())),
            enable_acting_master=self.may_act,
            zone_name=self.zone,
        )


class Brokers:
    """Who belongs to which broker name, and which names to which cluster."""

    def __init__(self, brokers_max: int) -> None:
        self.broker_addr_table: dict[str, Replicas] = {}
        self.cluster_addr_table: dict[str, dict[str, None]] = {}  # values are ordered sets
        self._brokers_max = brokers_max

    def check_room(self, broker: str, cluster: str) -> None:
        """Raises ``Refusal`` when a new name would not fit."""
        for table, name in ((self.broker_addr_table, broker), (self.cluster_addr_table, cluster)):
            if name not in table and len(table) >= self._brokers_max:
                raise Refusal(ResponseCode.SYSTEM_ERROR, f"no room for another name: {name}")

    def named(self, broker: str, cluster: str) -> Replicas:
        """The entry of that name, made if need be.  A name used by two clusters has one entry."""
        self.cluster_addr_table.setdefault(cluster, {})[broker] = None
        return self.broker_addr_table.setdefault(broker, Replicas(cluster, broker))

    def drop(self, broker: str, cluster: str) -> None:
        del self.broker_addr_table[broker]
        names = self.cluster_addr_table.get(cluster, {})
        names.pop(broker, None)
        if not names:
            self.cluster_addr_table.pop(cluster, None)

    def names_in(self, cluster: str) -> list[str]:
        return list(self.cluster_addr_table.get(cluster, ()))
