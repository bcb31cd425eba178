"""What clients and tools look up: the route of a topic, clusters, lists.

Upstream: DefaultRequestProcessor, ClientRequestProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from emulator.nameserver import lookup
from emulator.nameserver.kv_config import ORDER_TOPIC_CONFIG
from emulator.net.results import Call, Refusal, Reply
from emulator.releases import FIVE, R_4_9_7, STANDARD_JSON_ROUTES, TOPIC_SYS_FLAG_SPELLED
from protocol.bodies.body import encode_body
from protocol.codes import ResponseCode

if TYPE_CHECKING:
    from emulator.nameserver.nameserver import NameServer
    from protocol.bodies.routes import TopicList, TopicRouteData
    from protocol.requests.routes import GetRouteInfoRequest, GetTopicsByClusterRequest
    from protocol.versions import Release

STRICT_SINCE = STANDARD_JSON_ROUTES.version  # peers from here on want real JSON
VERSIONED_SINCE = 37  # V3_0_11; below it a peer does not know what it says
ZONE_MODE, ZONE_NAME = "__ZONE_MODE", "__ZONE_NAME"
SEE = "\nSee {} for further details."
FAQ = "http://rocketmq.apache.org/docs/faq/"
FAQ_5 = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"


def get_route_info(server: NameServer, call: Call) -> Reply:
    asked: GetRouteInfoRequest = call.request
    if not server.is_ready(call.now_ms):
        raise Refusal(ResponseCode.SYSTEM_ERROR, "name server not ready")
    route = lookup.route_of(server.routes, asked.topic)
    if route is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, _no_route(server, asked.topic))
    if server.release >= FIVE:
        route = _as_five_sees_it(server, call, route)
    if server.settings.config.order_message_enable:
        order = server.kv_config.get(ORDER_TOPIC_CONFIG, asked.topic)
        route = msgspec.structs.replace(route, order_topic_conf=order)
    return Reply(body=_encode(server, call, route))


def get_broker_cluster_info(server: NameServer, _: Call) -> Reply:
    """With bare numbers as keys whoever asks, as upstream."""
    return Reply(body=encode_body(lookup.cluster_info(server.routes), server.release))


def get_all_topic_list(server: NameServer, _: Call) -> Reply:
    if not server.settings.config.enable_all_topic_list:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "disable")
    return _list(server, lookup.all_topics(server.routes))


def get_topics_by_cluster(server: NameServer, call: Call) -> Reply:
    asked: GetTopicsByClusterRequest = call.request
    _check_lists_enabled(server)
    return _list(server, lookup.topics_of_cluster(server.routes, asked.cluster))


def get_system_topic_list(server: NameServer, _: Call) -> Reply:
    return _list(server, lookup.system_topics(server.routes))


def get_unit_topic_list(server: NameServer, call: Call) -> Reply:
    """311, 312 and 313."""
    _check_lists_enabled(server)
    return _list(server, lookup.topics_by_flag(server.routes, call.command.code))


def _as_five_sees_it(server: NameServer, call: Call, route: TopicRouteData) -> TopicRouteData:
    if server.settings.config.support_acting_master:
        route = lookup.with_acting_masters(call.request.topic, route)
    if ZONE_MODE.encode() in bytes(call.command.ext):  # rare, and the fields are dear to read
        fields = call.command.fields()
        zone = fields.get(ZONE_NAME, "")
        if fields.get(ZONE_MODE, "").lower() == "true" and zone.strip():
            route = lookup.in_zone(zone, route)
    return route


def _encode(server: NameServer, call: Call, route: TopicRouteData) -> bytes:
    """In the form the asking client can read."""
    asked: GetRouteInfoRequest = call.request
    version = call.command.version
    strict = bool(asked.accept_standard_json_only) or version >= STRICT_SINCE
    shape = server.release
    if version < VERSIONED_SINCE:
        # Such clients are no upstream's: one of them reads the body as a Python literal,
        # which has no word for the ``false`` of 5.x.
        shape = min(shape, R_4_9_7)
    standard = strict and server.release >= STANDARD_JSON_ROUTES
    body = server.route_texts.text((route, shape, standard), (asked.topic, shape, standard))
    if server.release < TOPIC_SYS_FLAG_SPELLED:
        body = body.replace(b'"topicSysFlag":', b'"topicSynFlag":')
    return body


def encode_route(asked: tuple[TopicRouteData, Release, bool]) -> bytes:
    """A route in the shape of a release, as real JSON or as fastjson's own."""
    route, shape, standard = asked
    return encode_body(route, shape, standard=standard)


def _no_route(server: NameServer, topic: str) -> str:
    see = SEE.format(FAQ_5 if server.release >= FIVE else FAQ)
    return f"No topic route info in name server for the topic: {topic}{see}"


def _check_lists_enabled(server: NameServer) -> None:
    if not server.settings.config.enable_topic_list:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "disable")


def _list(server: NameServer, topics: TopicList) -> Reply:
    return Reply(body=encode_body(topics, server.release))
