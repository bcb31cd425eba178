"""Requests to the NameServer: routes, topics, write permission, key-values, registration.

Also the requests of brokers to each other.
"""

from __future__ import annotations

import msgspec

from rocketmq_emulator.protocol.fields import Header, Int, Long


class GetRouteInfoRequest(Header):
    """Upstream: GetRouteInfoRequestHeader."""

    topic: str
    accept_standard_json_only: bool | None = None


class GetTopicsByClusterRequest(Header):
    """Upstream: GetTopicsByClusterRequestHeader."""

    cluster: str


class WritePermOfBrokerRequest(Header):
    """Upstream: WipeWritePermOfBrokerRequestHeader, AddWritePermOfBrokerRequestHeader."""

    broker_name: str


class WipeWritePermOfBrokerReply(Header):
    """Upstream: WipeWritePermOfBrokerResponseHeader."""

    wipe_topic_count: Int


class AddWritePermOfBrokerReply(Header):
    """Upstream: AddWritePermOfBrokerResponseHeader."""

    add_topic_count: Int


class DeleteTopicFromNamesrvRequest(Header):
    """Upstream: DeleteTopicFromNamesrvRequestHeader."""

    topic: str
    cluster_name: str | None = None


class RegisterTopicRequest(Header):
    """Upstream: RegisterTopicRequestHeader."""

    topic: str


class PutKVConfigRequest(Header):
    """Upstream: PutKVConfigRequestHeader."""

    namespace: str
    key: str
    value: str


class GetKVConfigRequest(Header):
    """Upstream: GetKVConfigRequestHeader."""

    namespace: str
    key: str


class GetKVConfigReply(Header):
    """Upstream: GetKVConfigResponseHeader."""

    value: str | None = None


class DeleteKVConfigRequest(Header):
    """Upstream: DeleteKVConfigRequestHeader."""

    namespace: str
    key: str


class GetKVListByNamespaceRequest(Header):
    """Upstream: GetKVListByNamespaceRequestHeader."""

    namespace: str


class GetBrokerMemberGroupRequest(Header):
    """Upstream: GetBrokerMemberGroupRequestHeader."""

    cluster_name: str
    broker_name: str


# Requests of brokers to the NameServer and to each other ------------------------------


class RegisterBrokerRequest(Header):
    """Upstream: RegisterBrokerRequestHeader."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Long
    compressed: bool = False  # 5.x writes false even when it compressed the body
    body_crc32: Int = msgspec.field(default=0, name="bodyCrc32")
    heartbeat_timeout_millis: Long | None = None  # 5.x
    enable_acting_master: bool | None = None  # 5.x


class RegisterBrokerReply(Header):
    """Upstream: RegisterBrokerResponseHeader."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBrokerRequest(Header):
    """Upstream: UnRegisterBrokerRequestHeader."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long


class QueryDataVersionRequest(Header):
    """Upstream: QueryDataVersionRequestHeader."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long


class QueryDataVersionReply(Header):
    """Upstream: QueryDataVersionResponseHeader."""

    changed: bool


class BrokerHeartbeatRequest(Header):
    """Upstream: BrokerHeartbeatRequestHeader."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Long | None = None
    epoch: Int | None = None
    max_offset: Long | None = None
    confirm_offset: Long | None = None
    heartbeat_timeout_mills: Long | None = None
    election_priority: Int | None = None


class NotifyMinBrokerIdChangeRequest(Header):
    """Upstream: NotifyMinBrokerIdChangeRequestHeader."""

    min_broker_id: Long | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class ExchangeHAInfo(Header):
    """Both ways.  Upstream: ExchangeHAInfoRequestHeader, ExchangeHAInfoResponseHeader."""

    master_ha_address: str | None = None
    master_flush_offset: Long | None = None
    master_address: str | None = None


class ResetMasterFlushOffsetRequest(Header):
    """Upstream: ResetMasterFlushOffsetHeader."""

    master_flush_offset: Long | None = None


class AddBrokerRequest(Header):
    """Upstream: AddBrokerRequestHeader."""

    config_path: str


class RemoveBrokerRequest(Header):
    """Upstream: RemoveBrokerRequestHeader."""

    broker_name: str
    broker_cluster_name: str
    broker_id: Long


class RegisterFilterServer(Header):
    """Upstream: RegisterFilterServerRequestHeader."""

    filter_server_addr: str
