"""Requests to the NameServer: routes, topics, write permission, key-values."""

from __future__ import annotations

from protocol.fields import Header, Int


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
