"""The replicas of a broker name as the controller tells of them, and the epochs of a broker's log.

The sync-state set are the ids of those replicas that have all messages of the master; a new master
is elected among them.
"""

from __future__ import annotations

from rocketmq_emulator.protocol.bodies.body import Body
from rocketmq_emulator.protocol.bodies.routes import BrokerMemberGroup
from rocketmq_emulator.protocol.fields import Int, Long


class SyncStateSet(Body, frozen=True):
    """Ids of brokers, and the number of changes so far.  Upstream: SyncStateSet."""

    sync_state_set: list[Long]
    sync_state_set_epoch: Int = 0


class ElectMasterBody(Body, frozen=True):
    """Upstream: ElectMasterResponseBody."""

    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: list[Long] = []


class ReplicaIdentity(Body, frozen=True):
    """Upstream: BrokerReplicasInfo.ReplicaIdentity."""

    broker_name: str = ""
    broker_id: Long = 0
    broker_address: str = ""
    alive: bool = False


class ReplicasInfo(Body, frozen=True):
    """The replicas of one broker name.  Upstream: BrokerReplicasInfo.ReplicasInfo."""

    master_broker_id: Long | None = None
    master_address: str | None = None
    master_epoch: Int = 0
    sync_state_set_epoch: Int = 0
    in_sync_replicas: list[ReplicaIdentity] = []
    not_in_sync_replicas: list[ReplicaIdentity] = []


class BrokerReplicasInfo(Body, frozen=True):
    """Replicas by broker name.  Upstream: BrokerReplicasInfo."""

    replicas_info_table: dict[str, ReplicasInfo] = {}


class EpochEntry(Body, frozen=True):
    """The part of a log that one master wrote, in bytes.  Upstream: EpochEntry."""

    epoch: Int = 0
    start_offset: Long = 0
    end_offset: Long = 0


class EpochEntryCache(Body, frozen=True):
    """The epochs of a broker's log, the oldest first.  Upstream: EpochEntryCache."""

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: Long = 0
    epoch_list: list[EpochEntry] = []
    max_offset: Long = 0
