"""The calls that a NameServer answers: of brokers, of clients and tools, of operators.

``handler_table`` maps calls to handlers of a NameServer; the releases that have a call are part of
the call (``since`` and ``until``).  Brokers register, send heartbeats and unregister; clients and
tools read routes, clusters and lists of topics; operators change write permissions, topics,
key-values and settings.

Upstream: DefaultRequestProcessor, ClientRequestProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rocketmq_emulator.facts import SettingsIgnored
from rocketmq_emulator.nameserver.state import routes
from rocketmq_emulator.nameserver.state.registration import comparable, read_registration
from rocketmq_emulator.nameserver.state.settings import ORDER_TOPIC_CONFIG
from rocketmq_emulator.net.dispatch import Row, Table, table_of
from rocketmq_emulator.net.results import Call, Refusal, Reply, Result, see_faq
from rocketmq_emulator.net.slices import in_pieces, long_reply
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import EncodedCache, decode_body, encode_body
from rocketmq_emulator.protocol.bodies.routes import (
    BrokerMemberGroup,
    ClusterInfo,
    GetBrokerMemberGroupReply,
    KVTable,
    TopicRouteData,
)
from rocketmq_emulator.protocol.bodies.topics import DataVersion
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.java import java_properties
from rocketmq_emulator.protocol.requests.nameserver import (
    AddWritePermOfBrokerReply,
    GetKVConfigReply,
    QueryDataVersionReply,
    RegisterBrokerReply,
    WipeWritePermOfBrokerReply,
)
from rocketmq_emulator.settings.releases import (
    QUERY_IS_HEARTBEAT,
    R_4_9_7,
    ROUTES_SUIT_CALLER,
    STANDARD_JSON_ROUTES,
    TOPIC_SYS_FLAG_SPELLED,
)

if TYPE_CHECKING:
    from rocketmq_emulator.nameserver.state.nameserver import NameServer
    from rocketmq_emulator.protocol.bodies.routes import TopicList
    from rocketmq_emulator.protocol.fields import Header
    from rocketmq_emulator.protocol.requests.nameserver import (
        BrokerHeartbeatRequest,
        DeleteKVConfigRequest,
        DeleteTopicFromNamesrvRequest,
        GetBrokerMemberGroupRequest,
        GetKVConfigRequest,
        GetKVListByNamespaceRequest,
        GetRouteInfoRequest,
        GetTopicsByClusterRequest,
        PutKVConfigRequest,
        QueryDataVersionRequest,
        RegisterBrokerRequest,
        RegisterTopicRequest,
        UnregisterBrokerRequest,
        WritePermOfBrokerRequest,
    )
    from rocketmq_emulator.protocol.versions import Release


def handler_table(server: NameServer) -> Table:
    """The handlers of *server* by code, for the calls that its release has."""
    brokers = BrokerRequestProcessor(server)
    clients = ClientRequestProcessor(server)
    admin = AdminRequestProcessor(server)
    rows = (
        Row(catalog.REGISTER_BROKER, brokers.register_broker),
        Row(catalog.UNREGISTER_BROKER, brokers.unregister_broker),
        Row(catalog.QUERY_DATA_VERSION, brokers.query_data_version),
        Row(catalog.BROKER_HEARTBEAT, brokers.broker_heartbeat),
        Row(catalog.GET_BROKER_MEMBER_GROUP, brokers.get_broker_member_group),
        Row(catalog.GET_ROUTEINFO_BY_TOPIC, clients.get_route_info),
        Row(catalog.GET_BROKER_CLUSTER_INFO, clients.get_broker_cluster_info),
        Row(catalog.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, clients.get_all_topic_list),
        Row(catalog.GET_TOPICS_BY_CLUSTER, clients.get_topics_by_cluster),
        Row(catalog.GET_SYSTEM_TOPIC_LIST_FROM_NS, clients.get_system_topic_list),
        Row(catalog.GET_UNIT_TOPIC_LIST, clients.get_unit_topic_list),
        Row(catalog.GET_HAS_UNIT_SUB_TOPIC_LIST, clients.get_unit_topic_list),
        Row(catalog.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, clients.get_unit_topic_list),
        Row(catalog.WIPE_WRITE_PERM_OF_BROKER, admin.wipe_write_perm),
        Row(catalog.ADD_WRITE_PERM_OF_BROKER, admin.add_write_perm),
        Row(catalog.DELETE_TOPIC_IN_NAMESRV, admin.delete_topic),
        Row(catalog.REGISTER_TOPIC_IN_NAMESRV, admin.register_topic),
        Row(catalog.PUT_KV_CONFIG, admin.put_kv_config),
        Row(catalog.GET_KV_CONFIG, admin.get_kv_config),
        Row(catalog.DELETE_KV_CONFIG, admin.delete_kv_config),
        Row(catalog.GET_KVLIST_BY_NAMESPACE, admin.get_kv_list),
        Row(catalog.UPDATE_NAMESRV_CONFIG, admin.update_config),
        Row(catalog.GET_NAMESRV_CONFIG, admin.get_config),
    )
    return table_of(rows, server.release)


# Requests of brokers: registration, heartbeats, removal -------------------------------


class BrokerRequestProcessor:
    """Registers brokers, updates their heartbeats, removes them."""

    def __init__(self, server: NameServer) -> None:
        self._server = server

    def register_broker(self, call: Call[RegisterBrokerRequest]) -> Reply:
        """Register a broker; the reply has a slave's master, and the ordered topics."""
        registration = read_registration(call, self._server.release)
        seen = self._server.routes.register(registration, call.peer, call.now_ms)
        header = RegisterBrokerReply(master_addr=seen.address, ha_server_addr=seen.ha_address)
        return Reply(header, body=self._order_table())

    def unregister_broker(self, call: Call[UnregisterBrokerRequest]) -> Reply:
        """Remove a broker; SUCCESS also for an unknown one."""
        request = call.request
        self._server.routes.unregister(
            request.cluster_name, request.broker_name, request.broker_id, request.broker_addr
        )
        return Reply()

    def query_data_version(self, call: Call[QueryDataVersionRequest]) -> Reply:
        """Whether the broker must register.  Counts as a heartbeat; on 4.x only if it need not."""
        server, request = self._server, call.request
        queried = comparable(decode_body(call.body, DataVersion), server.release)
        key = server.routes.key(request.cluster_name, request.broker_addr)
        held = server.routes.live.data_version(key)
        if held == queried or server.release >= QUERY_IS_HEARTBEAT:
            server.routes.live.refresh(key, call.now_ms)
        body = b"" if held is None else encode_body(held, server.release)
        return Reply(QueryDataVersionReply(changed=held != queried), body=body)

    def broker_heartbeat(self, call: Call[BrokerHeartbeatRequest]) -> Reply:
        """Update a broker's heartbeat; SUCCESS also for an unknown one, which must register."""
        routes, request = self._server.routes, call.request
        routes.live.refresh(routes.key(request.cluster_name, request.broker_addr), call.now_ms)
        return Reply()

    def get_broker_member_group(self, call: Call[GetBrokerMemberGroupRequest]) -> Reply:
        """5.x: the replicas that share a broker name; none for an unknown name."""
        request = call.request
        known = self._server.routes.brokers.broker_addr_table.get(request.broker_name)
        group = BrokerMemberGroup(
            cluster=request.cluster_name,
            broker_name=request.broker_name,
            broker_addrs={} if known is None else known.data().broker_addrs,
        )
        body = GetBrokerMemberGroupReply(broker_member_group=group)
        return Reply(body=encode_body(body, self._server.release))

    def _order_table(self) -> bytes:
        """The ordered topics, which a broker marks as ordered; empty if none are set."""
        server = self._server
        if not server.settings.config.return_order_topic_config_to_broker:
            return b""
        table = server.kv_config.of(ORDER_TOPIC_CONFIG)
        return b"" if table is None else encode_body(KVTable(table=table), server.release)


# Requests of clients and tools: routes, clusters, lists -------------------------------


STRICT_SINCE = STANDARD_JSON_ROUTES.version  # peers since this version need standard JSON
VERSIONED_SINCE = 37  # V3_0_11; peers of older versions are not upstream's clients
SLICE_BROKERS = 500  # about 20 µs each
SLICE_NAMES = 10_000  # about 1 µs each
ZONE_MODE, ZONE_NAME = "__ZONE_MODE", "__ZONE_NAME"


class ClientRequestProcessor:
    """Reads the tables; caches the encoded text of each route until the route changes."""

    def __init__(self, server: NameServer) -> None:
        self._server = server
        self._route_texts = EncodedCache(_encode_route)

    # Routes ---------------------------------------------------------------------------

    def get_route_info(self, call: Call[GetRouteInfoRequest]) -> Reply:
        """A topic's route; TOPIC_NOT_EXIST unless it has queues on a registered broker.

        Upstream: ClientRequestProcessor.getRouteInfoByTopic.
        """
        server, topic = self._server, call.request.topic
        if not server.is_ready(call.now_ms):
            raise Refusal(ResponseCode.SYSTEM_ERROR, "name server not ready")
        route = routes.route_of(server.routes, topic)
        if route is None:
            see = see_faq(server.release)
            remark = f"No topic route info in name server for the topic: {topic}{see}"
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
        if server.release >= ROUTES_SUIT_CALLER:
            route = self._for_caller(call, route)
        if server.settings.config.order_message_enable:
            order = server.kv_config.get(ORDER_TOPIC_CONFIG, topic)
            route = msgspec.structs.replace(route, order_topic_conf=order)
        return Reply(body=self.encode(call, route))

    def encode(self, call: Call[GetRouteInfoRequest], route: TopicRouteData) -> bytes:
        """The route in the form that the calling client can read.

        Standard JSON for new clients, and for a request with ``acceptStandardJsonOnly``.
        """
        request, release = call.request, self._server.release
        version = call.command.version
        strict = bool(request.accept_standard_json_only) or version >= STRICT_SINCE
        shape = release
        if version < VERSIONED_SINCE:
            # Not upstream's clients.  One of them parses the body as a Python literal, in which
            # the ``false`` of 5.x is an error.
            shape = min(shape, R_4_9_7)
        standard = strict and release >= STANDARD_JSON_ROUTES
        key = (request.topic, shape, standard)
        body = self._route_texts.text((route, shape, standard), key)
        if release < TOPIC_SYS_FLAG_SPELLED:
            body = body.replace(b'"topicSysFlag":', b'"topicSynFlag":')
        return body

    def get_broker_cluster_info(self, call: Call[Header]) -> Result:
        """All clusters and brokers.  As in upstream broker ids are keys without quotes."""
        brokers, release = self._server.routes.brokers, self._server.release
        known = brokers.broker_addr_table
        pieces = (
            {name: known[name].data() for name in names if name in known}
            for names in in_pieces(list(known), SLICE_BROKERS)
        )
        clusters = (
            {name: brokers.in_cluster(name) for name in names}
            for names in in_pieces(list(brokers.cluster_addr_table), SLICE_BROKERS)
        )
        whole = {"brokerAddrTable": pieces, "clusterAddrTable": clusters}
        return long_reply(ClusterInfo(), whole, release, call.now_ms)

    def _for_caller(
        self, call: Call[GetRouteInfoRequest], route: TopicRouteData
    ) -> TopicRouteData:
        if self._server.settings.config.support_acting_master:
            route = routes.with_acting_masters(call.request.topic, route)
        if ZONE_MODE.encode() in bytes(call.command.ext):  # rare, and decoding the fields is slow
            fields = call.command.fields()
            zone = fields.get(ZONE_NAME, "")
            if fields.get(ZONE_MODE, "").lower() == "true" and zone.strip():
                route = routes.in_zone(zone, route)
        return route

    # Lists of topics ------------------------------------------------------------------

    def get_all_topic_list(self, call: Call[Header]) -> Result:
        """All topics; refused if ``enable_all_topic_list`` is off."""
        if not self._server.settings.config.enable_all_topic_list:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "disable")
        return self._list(routes.all_topics(self._server.routes), call)

    def get_topics_by_cluster(self, call: Call[GetTopicsByClusterRequest]) -> Result:
        """The topics of a cluster; refused if ``enable_topic_list`` is off."""
        self._check_lists_enabled()
        cluster = call.request.cluster
        return self._list(routes.topics_of_cluster(self._server.routes, cluster), call)

    def get_system_topic_list(self, call: Call[Header]) -> Result:
        """The names of clusters and brokers, and the address of one broker."""
        return self._list(routes.system_topics(self._server.routes), call)

    def get_unit_topic_list(self, call: Call[Header]) -> Result:
        """The unit topics (codes 311, 312, 313); refused if ``enable_topic_list`` is off."""
        self._check_lists_enabled()
        return self._list(routes.topics_by_flag(self._server.routes, call.command.code), call)

    def _check_lists_enabled(self) -> None:
        if not self._server.settings.config.enable_topic_list:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "disable")

    def _list(self, topics: TopicList, call: Call[Any]) -> Result:
        pieces = {"topicList": in_pieces(topics.topic_list, SLICE_NAMES)}
        empty = msgspec.structs.replace(topics, topic_list=[])
        return long_reply(empty, pieces, self._server.release, call.now_ms)


def _encode_route(form: tuple[TopicRouteData, Release, bool]) -> bytes:
    """A route in the form of a release, as standard JSON or in fastjson's dialect."""
    route, shape, standard = form
    return encode_body(route, shape, standard=standard)


# Requests of operators: write permission, topics, key-values, settings ----------------


SLICE_KEYS = 5_000  # about 2 µs each


class AdminRequestProcessor:
    """Handlers that change the NameServer; after a ``Refusal`` nothing has changed."""

    def __init__(self, server: NameServer) -> None:
        self._server = server

    # Routes ---------------------------------------------------------------------------

    def wipe_write_perm(self, call: Call[WritePermOfBrokerRequest]) -> Reply:
        """Forbid writing to all topics of a broker; answers the number of its topics."""
        count = self._server.routes.set_writable(call.request.broker_name, writable=False)
        return Reply(WipeWritePermOfBrokerReply(wipe_topic_count=count))

    def add_write_perm(self, call: Call[WritePermOfBrokerRequest]) -> Reply:
        """Allow writing to all topics of a broker; answers the number of its topics."""
        count = self._server.routes.set_writable(call.request.broker_name, writable=True)
        return Reply(AddWritePermOfBrokerReply(add_topic_count=count))

    def delete_topic(self, call: Call[DeleteTopicFromNamesrvRequest]) -> Reply:
        """Delete a topic from the routes; SUCCESS also for an unknown one."""
        self._server.routes.delete_topic(call.request.topic, call.request.cluster_name)
        return Reply()

    def register_topic(self, call: Call[RegisterTopicRequest]) -> Reply:
        """Add the queues of the route in the body.  Raises ``BadFields`` for another body."""
        route = decode_body(call.body, TopicRouteData)
        self._server.routes.register_topic(call.request.topic, route.queue_datas)
        return Reply()

    # Key-values -----------------------------------------------------------------------

    def put_kv_config(self, call: Call[PutKVConfigRequest]) -> Reply:
        """Set a value; answered when it is on disk."""
        request = call.request
        self._server.kv_config.put(request.namespace, request.key, request.value)
        return Reply()

    def get_kv_config(self, call: Call[GetKVConfigRequest]) -> Reply:
        """The value of a key; QUERY_NOT_FOUND for an unknown key."""
        request = call.request
        value = self._server.kv_config.get(request.namespace, request.key)
        if value is None:
            remark = f"No config item, Namespace: {request.namespace} Key: {request.key}"
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, remark, GetKVConfigReply())
        return Reply(GetKVConfigReply(value=value))

    def delete_kv_config(self, call: Call[DeleteKVConfigRequest]) -> Reply:
        """Delete a key; SUCCESS also for an unknown one."""
        self._server.kv_config.delete(call.request.namespace, call.request.key)
        return Reply()

    def get_kv_list(self, call: Call[GetKVListByNamespaceRequest]) -> Result:
        """All keys of a namespace; QUERY_NOT_FOUND for one that never had a key."""
        table = self._server.kv_config.of(call.request.namespace)
        if table is None:
            remark = f"No config item, Namespace: {call.request.namespace}"
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, remark)
        pieces = map(dict, in_pieces(list(table.items()), SLICE_KEYS))
        return long_reply(KVTable(), {"table": pieces}, self._server.release, call.now_ms)

    # Settings -------------------------------------------------------------------------

    def update_config(self, call: Call[Header]) -> Reply:
        """Change the settings in the body, the text of a Java properties file.

        Raises ``Refusal``.  Settings that change nothing are ignored with a warning and answered
        SUCCESS, as upstream does.
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
        """All settings, as the text of a Java properties file."""
        return Reply(body=java_properties.render(self._server.settings.properties()).encode())
