"""Requests of brokers and tools to the controller, and of the controller to brokers.

A controller decides which broker of a name is the master.  Broker ids start at 1 here; the epochs
count the masters of a name, and the changes of its sync-state set.  Upstream's clients also send
``invokeTime``, which no server reads.  Fields are optional where upstream answers without them.
"""

from __future__ import annotations

from rocketmq_emulator.protocol.fields import Header, Int, Long


class AlterSyncStateSetRequest(Header):
    """Upstream: AlterSyncStateSetRequestHeader."""

    broker_name: str
    master_epoch: Int
    master_broker_id: Long | None = None


class AlterSyncStateSetReply(Header):
    """Upstream: AlterSyncStateSetResponseHeader."""

    new_sync_state_set_epoch: Int = 0


class ElectMasterRequest(Header):
    """``broker_id`` -1: no broker asks.  Upstream: ElectMasterRequestHeader."""

    cluster_name: str
    broker_name: str
    broker_id: Long
    designate_elect: bool


class MasterReply(Header):
    """The master of a broker name.  Upstream: ElectMasterResponseHeader."""

    master_broker_id: Long | None = None
    master_address: str | None = None
    master_epoch: Int | None = None
    sync_state_set_epoch: Int | None = None


class RegisterBrokerToControllerRequest(Header):
    """Upstream: RegisterBrokerToControllerRequestHeader."""

    broker_name: str
    broker_id: Long
    broker_address: str
    cluster_name: str | None = None


class RegisterBrokerToControllerReply(MasterReply):
    """With no master if none is alive.  Upstream: RegisterBrokerToControllerResponseHeader."""

    cluster_name: str | None = None
    broker_name: str | None = None


class GetReplicaInfoRequest(Header):
    """Upstream: GetReplicaInfoRequestHeader."""

    broker_name: str


class GetReplicaInfoReply(Header):
    """Upstream: GetReplicaInfoResponseHeader."""

    master_broker_id: Long | None = None
    master_address: str | None = None
    master_epoch: Int | None = None


class GetMetaDataReply(Header):
    """The controllers of a group, "n0:host:port;…".  Upstream: GetMetaDataResponseHeader."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


class NotifyBrokerRoleChangedRequest(MasterReply):
    """Upstream: NotifyBrokerRoleChangedRequestHeader."""


class CleanControllerBrokerDataRequest(Header):
    """``broker_controller_ids_to_clean`` is "1;2".

    Upstream: CleanControllerBrokerDataRequestHeader.
    """

    broker_name: str
    cluster_name: str | None = None
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False


class GetNextBrokerIdRequest(Header):
    """Upstream: GetNextBrokerIdRequestHeader."""

    broker_name: str
    cluster_name: str | None = None


class GetNextBrokerIdReply(Header):
    """Upstream: GetNextBrokerIdResponseHeader."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Long | None = None


class ApplyBrokerIdRequest(Header):
    """``register_check_code`` is "address;time", by which a broker is known again.

    Upstream: ApplyBrokerIdRequestHeader.
    """

    broker_name: str
    applied_broker_id: Long
    register_check_code: str
    cluster_name: str | None = None


class ApplyBrokerIdReply(Header):
    """Upstream: ApplyBrokerIdResponseHeader."""

    cluster_name: str | None = None
    broker_name: str | None = None
