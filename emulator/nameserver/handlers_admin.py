"""What operators change: write permission, topics, key-values, settings.

Upstream: DefaultRequestProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.net.results import Call, Refusal, Reply
from protocol import java_properties
from protocol.bodies.body import decode_body, encode_body
from protocol.bodies.routes import KVTable, TopicRouteData
from protocol.codes import ResponseCode
from protocol.requests.routes import (
    AddWritePermOfBrokerReply,
    GetKVConfigReply,
    WipeWritePermOfBrokerReply,
)

if TYPE_CHECKING:
    from emulator.nameserver.nameserver import NameServer
    from protocol.requests.routes import (
        DeleteKVConfigRequest,
        DeleteTopicFromNamesrvRequest,
        GetKVConfigRequest,
        GetKVListByNamespaceRequest,
        PutKVConfigRequest,
        RegisterTopicRequest,
        WritePermOfBrokerRequest,
    )


def wipe_write_perm(server: NameServer, call: Call) -> Reply:
    asked: WritePermOfBrokerRequest = call.request
    touched = server.routes.set_writable(asked.broker_name, writable=False)
    return Reply(WipeWritePermOfBrokerReply(wipe_topic_count=touched))


def add_write_perm(server: NameServer, call: Call) -> Reply:
    asked: WritePermOfBrokerRequest = call.request
    touched = server.routes.set_writable(asked.broker_name, writable=True)
    return Reply(AddWritePermOfBrokerReply(add_topic_count=touched))


def delete_topic(server: NameServer, call: Call) -> Reply:
    asked: DeleteTopicFromNamesrvRequest = call.request
    server.routes.delete_topic(asked.topic, asked.cluster_name)
    return Reply()


def register_topic(server: NameServer, call: Call) -> Reply:
    asked: RegisterTopicRequest = call.request
    route = decode_body(call.body, TopicRouteData)
    server.routes.register_topic(asked.topic, route.queue_datas)
    return Reply()


def put_kv_config(server: NameServer, call: Call) -> Reply:
    asked: PutKVConfigRequest = call.request
    server.kv_config.put(asked.namespace, asked.key, asked.value)
    return Reply()


def get_kv_config(server: NameServer, call: Call) -> Reply:
    asked: GetKVConfigRequest = call.request
    value = server.kv_config.get(asked.namespace, asked.key)
    if value is None:
        remark = f"No config item, Namespace: {asked.namespace} Key: {asked.key}"
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, remark, GetKVConfigReply())
    return Reply(GetKVConfigReply(value=value))


def delete_kv_config(server: NameServer, call: Call) -> Reply:
    asked: DeleteKVConfigRequest = call.request
    server.kv_config.delete(asked.namespace, asked.key)
    return Reply()


def get_kv_list(server: NameServer, call: Call) -> Reply:
    asked: GetKVListByNamespaceRequest = call.request
    table = server.kv_config.of(asked.namespace)
    if table is None:
        remark = f"No config item, Namespace: {asked.namespace}"
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, remark)
    return Reply(body=encode_body(KVTable(table=table), server.release))


def update_config(server: NameServer, call: Call) -> Reply:
    try:
        wanted = java_properties.parse(call.body.decode("utf-8", "replace"))
    except ValueError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "string2Properties error") from error
    server.settings.update(wanted)
    return Reply()


def get_config(server: NameServer, _: Call) -> Reply:
    return Reply(body=java_properties.render(server.settings.properties()).encode())
