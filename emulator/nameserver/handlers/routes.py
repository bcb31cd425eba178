"""Requests of clients and tools: the route of a topic, clusters, lists.

Upstream: DefaultRequestProcessor, ClientRequestProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from emulator.nameserver import lookup
from emulator.nameserver.kv_config import ORDER_TOPIC_CONFIG
from emulator.net.faq import see_faq
from emulator.net.results import Call, Refusal, Reply, Result
from emulator.net.slices import in_pieces, in_slices, long_body, reply_of
from emulator.releases import (
    R_4_9_7,
    ROUTES_SUIT_CALLER,
    STANDARD_JSON_ROUTES,
    TOPIC_SYS_FLAG_SPELLED,
)
from protocol.bodies.body import encode_body
from protocol.bodies.encoded_cache import EncodedCache
from protocol.bodies.routes import ClusterInfo
from protocol.codes import ResponseCode

if TYPE_CHECKING:
    from emulator.nameserver.nameserver import NameServer
    from protocol.bodies.routes import TopicList, TopicRouteData
    from protocol.fields import Header
    from protocol.requests.routes import GetRouteInfoRequest, GetTopicsByClusterRequest
    from protocol.versions import Release

STRICT_SINCE = STANDARD_JSON_ROUTES.version  # peers from here on want real JSON
VERSIONED_SINCE = 37  # V3_0_11; older peers are no clients of upstream
SLICE_BROKERS = 500  # of some 20 µs each
SLICE_NAMES = 10_000  # of some 1 µs each
ZONE_MODE, ZONE_NAME = "__ZONE_MODE", "__ZONE_NAME"


class ClientRequestProcessor:
    """Reads the tables; keeps the encoded text of each route until the route changes."""

    def __init__(self, server: NameServer) -> None:
        self._server = server
        self._route_texts = EncodedCache(_encode_route)

    # Routes ---------------------------------------------------------------------------

    def get_route_info(self, call: Call[GetRouteInfoRequest]) -> Reply:
        """TOPIC_NOT_EXIST unless the topic has queues on a registered broker."""
        server, topic = self._server, call.request.topic
        if not server.is_ready(call.now_ms):
            raise Refusal(ResponseCode.SYSTEM_ERROR, "name server not ready")
        route = lookup.route_of(server.routes, topic)
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
        """The route in the form that the calling client can read."""
        request, release = call.request, self._server.release
        version = call.command.version
        strict = bool(request.accept_standard_json_only) or version >= STRICT_SINCE
        shape = release
        if version < VERSIONED_SINCE:
            # Not upstream's clients: one of them parses the body as a Python literal, in which
            # the ``false`` of 5.x is no value.
            shape = min(shape, R_4_9_7)
        standard = strict and release >= STANDARD_JSON_ROUTES
        key = (request.topic, shape, standard)
        body = self._route_texts.text((route, shape, standard), key)
        if release < TOPIC_SYS_FLAG_SPELLED:
            body = body.replace(b'"topicSysFlag":', b'"topicSynFlag":')
        return body

    def get_broker_cluster_info(self, call: Call[Header]) -> Result:
        """Broker ids are bare numbers as keys, for clients of every version, as upstream."""
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
        return in_slices(reply_of(long_body(ClusterInfo(), whole, release)), call.now_ms)

    def _for_caller(
        self, call: Call[GetRouteInfoRequest], route: TopicRouteData
    ) -> TopicRouteData:
        if self._server.settings.config.support_acting_master:
            route = lookup.with_acting_masters(call.request.topic, route)
        if ZONE_MODE.encode() in bytes(call.command.ext):  # rare, and decoding the fields is slow
            fields = call.command.fields()
            zone = fields.get(ZONE_NAME, "")
            if fields.get(ZONE_MODE, "").lower() == "true" and zone.strip():
                route = lookup.in_zone(zone, route)
        return route

    # Lists of topics ------------------------------------------------------------------

    def get_all_topic_list(self, call: Call[Header]) -> Result:
        """Refused if ``enable_all_topic_list`` is off."""
        if not self._server.settings.config.enable_all_topic_list:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "disable")
        return self._list(lookup.all_topics(self._server.routes), call)

    def get_topics_by_cluster(self, call: Call[GetTopicsByClusterRequest]) -> Result:
        """Refused if ``enable_topic_list`` is off."""
        self._check_lists_enabled()
        cluster = call.request.cluster
        return self._list(lookup.topics_of_cluster(self._server.routes, cluster), call)

    def get_system_topic_list(self, call: Call[Header]) -> Result:
        """Names of clusters and brokers, and the address of one broker."""
        return self._list(lookup.system_topics(self._server.routes), call)

    def get_unit_topic_list(self, call: Call[Header]) -> Result:
        """311, 312 and 313; refused if ``enable_topic_list`` is off."""
        self._check_lists_enabled()
        return self._list(lookup.topics_by_flag(self._server.routes, call.command.code), call)

    def _check_lists_enabled(self) -> None:
        if not self._server.settings.config.enable_topic_list:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "disable")

    def _list(self, topics: TopicList, call: Call[Any]) -> Result:
        pieces = {"topicList": in_pieces(topics.topic_list, SLICE_NAMES)}
        empty = msgspec.structs.replace(topics, topic_list=[])
        return in_slices(reply_of(long_body(empty, pieces, self._server.release)), call.now_ms)


def _encode_route(form: tuple[TopicRouteData, Release, bool]) -> bytes:
    """A route in the shape of a release, as real JSON or as fastjson's own."""
    route, shape, standard = form
    return encode_body(route, shape, standard=standard)
