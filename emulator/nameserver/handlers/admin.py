"""Requests of operators: write permission, topics, key-values, settings.

Upstream: DefaultRequestProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.facts import SettingsIgnored
from emulator.net.results import Call, Refusal, Reply, Result
from emulator.net.slices import in_pieces, in_slices, long_body, reply_of
from protocol import java_properties
from protocol.bodies.body import decode_body
from protocol.bodies.routes import KVTable, TopicRouteData
from protocol.codes import ResponseCode
from protocol.requests.routes import (
    AddWritePermOfBrokerReply,
    GetKVConfigReply,
    WipeWritePermOfBrokerReply,
)

if TYPE_CHECKING:
    from emulator.nameserver.nameserver import NameServer
    from protocol.fields import Header
    from protocol.requests.routes import (
        DeleteKVConfigRequest,
        DeleteTopicFromNamesrvRequest,
        GetKVConfigRequest,
        GetKVListByNamespaceRequest,
        PutKVConfigRequest,
        RegisterTopicRequest,
        WritePermOfBrokerRequest,
    )

SLICE_KEYS = 5_000  # of some 2 µs each


class AdminRequestProcessor:
    """Handlers that change the NameServer; each raises ``Refusal`` when nothing is changed."""

    def __init__(self, server: NameServer) -> None:
        self._server = server

    # Routes ---------------------------------------------------------------------------

    def wipe_write_perm(self, call: Call[WritePermOfBrokerRequest]) -> Reply:
        """No topic of that broker may be written any more; answers how many there are."""
        count = self._server.routes.set_writable(call.request.broker_name, writable=False)
        return Reply(WipeWritePermOfBrokerReply(wipe_topic_count=count))

    def add_write_perm(self, call: Call[WritePermOfBrokerRequest]) -> Reply:
        """Every topic of that broker may be written again; answers how many there are."""
        count = self._server.routes.set_writable(call.request.broker_name, writable=True)
        return Reply(AddWritePermOfBrokerReply(add_topic_count=count))

    def delete_topic(self, call: Call[DeleteTopicFromNamesrvRequest]) -> Reply:
        """SUCCESS also for an unknown topic."""
        self._server.routes.delete_topic(call.request.topic, call.request.cluster_name)
        return Reply()

    def register_topic(self, call: Call[RegisterTopicRequest]) -> Reply:
        """Add the queues of the route in the body.  Raises ``BadFields`` for any other body."""
        route = decode_body(call.body, TopicRouteData)
        self._server.routes.register_topic(call.request.topic, route.queue_datas)
        return Reply()

    # Key-values -----------------------------------------------------------------------

    def put_kv_config(self, call: Call[PutKVConfigRequest]) -> Reply:
        """SUCCESS once it is on disk."""
        request = call.request
        self._server.kv_config.put(request.namespace, request.key, request.value)
        return Reply()

    def get_kv_config(self, call: Call[GetKVConfigRequest]) -> Reply:
        """QUERY_NOT_FOUND for an unknown key."""
        request = call.request
        value = self._server.kv_config.get(request.namespace, request.key)
        if value is None:
            remark = f"No config item, Namespace: {request.namespace} Key: {request.key}"
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, remark, GetKVConfigReply())
        return Reply(GetKVConfigReply(value=value))

    def delete_kv_config(self, call: Call[DeleteKVConfigRequest]) -> Reply:
        """SUCCESS also for an unknown key."""
        self._server.kv_config.delete(call.request.namespace, call.request.key)
        return Reply()

    def get_kv_list(self, call: Call[GetKVListByNamespaceRequest]) -> Result:
        """QUERY_NOT_FOUND for a namespace that never had a key."""
        table = self._server.kv_config.of(call.request.namespace)
        if table is None:
            remark = f"No config item, Namespace: {call.request.namespace}"
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, remark)
        pieces = map(dict, in_pieces(list(table.items()), SLICE_KEYS))
        body = long_body(KVTable(), {"table": pieces}, self._server.release)
        return in_slices(reply_of(body), call.now_ms)

    # Settings -------------------------------------------------------------------------

    def update_config(self, call: Call[Header]) -> Reply:
        """The body is the text of a Java properties file.  Raises ``Refusal``.

        What changes nothing is ignored, with a warning: upstream answers SUCCESS for it, too.
        """
        try:
            wanted = java_properties.parse_body(call.body)
        except java_properties.TextTooLong as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error
        except ValueError as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "string2Properties error") from error
        if ignored := self._server.settings.update(wanted):
            self._server.note(SettingsIgnored(call.peer.address, ignored))
        return Reply()

    def get_config(self, _call: Call[Header]) -> Reply:
        """Every setting, as the text of a Java properties file."""
        return Reply(body=java_properties.render(self._server.settings.properties()).encode())
