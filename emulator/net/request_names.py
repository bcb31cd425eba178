"""Which topics, groups, client and broker a request is about, whatever its code.

Read off the typed ext fields by their names, and for the few calls that carry it in their
body, off that.  A client that only sends or pulls names itself nowhere: it is known by
the heartbeats it sent on the same connection (``Peer.client_id``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from emulator.net.results import Call
from protocol.bodies.body import decode_body
from protocol.bodies.groups import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
    LockBatchRequestBody,
    SubscriptionGroupConfig,
)
from protocol.codes import RequestCode
from protocol.fields import BadFields, Header

TOPIC_FIELDS = frozenset({"topic", "origin_topic"})
GROUP_FIELDS = frozenset(
    {"group", "consumer_group", "producer_group", "group_name", "src_group", "dest_group"}
)
CLIENT_FIELDS = frozenset({"client_id"})
BROKER_FIELDS = frozenset({"broker_name"})


class RequestNames(NamedTuple):
    """All it names; a client that is unknown is not in it."""

    topics: frozenset[str]
    groups: frozenset[str]
    client_ids: frozenset[str]
    broker_names: frozenset[str]


def names_of(call: Call[Any]) -> RequestNames:
    """What *call* is about; a body that cannot be read names nothing."""
    request: Header = call.request
    topics, groups, client_ids, broker_names = (
        {getattr(request, name) for name in names} for names in _fields(type(request))
    )
    if call.peer.client_id is not None:
        client_ids.add(call.peer.client_id)
    if (read := _BODIES.get(call.command.code)) is not None:
        try:
            more = read(call.body)
        except BadFields:
            more = _NOTHING
        topics |= more.topics
        groups |= more.groups
        client_ids |= more.client_ids
    every = (topics, groups, client_ids, broker_names)
    return RequestNames(*(frozenset(found) - {None} for found in every))


@functools.cache
def _fields(kind: type[Header]) -> tuple[tuple[str, ...], ...]:
    """The fields of *kind* that name a topic, a group, a client, a broker."""
    own = [field.name for field in msgspec.structs.fields(kind)]
    return tuple(
        tuple(name for name in own if name in wanted)
        for wanted in (TOPIC_FIELDS, GROUP_FIELDS, CLIENT_FIELDS, BROKER_FIELDS)
    )


def _names(
    *,
    topics: Iterable[str | None] = (),
    groups: Iterable[str | None] = (),
    client_ids: Iterable[str | None] = (),
) -> RequestNames:
    named = (topics, groups, client_ids)
    one, two, three = (frozenset(name for name in given if name) for given in named)
    return RequestNames(one, two, three, frozenset())


_NOTHING = _names()


def _of_heartbeat(body: bytes) -> RequestNames:
    data = decode_body(body, HeartbeatData)
    consumers, producers = data.consumer_data_set, data.producer_data_set
    return _names(
        topics=(topic for consumer in consumers for topic in _topics(consumer)),
        groups=[c.group_name for c in consumers] + [p.group_name for p in producers],
        client_ids=[data.client_id],
    )


def _topics(consumer: ConsumerData) -> list[str | None]:
    return [subscription.topic for subscription in consumer.subscription_data_set]


def _of_lock(body: bytes) -> RequestNames:
    data = decode_body(body, LockBatchRequestBody)
    return _names(
        topics=(queue.topic for queue in data.mq_set),
        groups=[data.consumer_group],
        client_ids=[data.client_id],
    )


def _of_check(body: bytes) -> RequestNames:
    data = decode_body(body, CheckClientRequestBody)
    subscription = data.subscription_data
    topics = [] if subscription is None else [subscription.topic]
    return _names(topics=topics, groups=[data.group], client_ids=[data.client_id])


def _of_group(body: bytes) -> RequestNames:
    return _names(groups=[decode_body(body, SubscriptionGroupConfig).group_name])


_BODIES: Mapping[int, Callable[[bytes], RequestNames]] = {
    RequestCode.HEART_BEAT: _of_heartbeat,
    RequestCode.LOCK_BATCH_MQ: _of_lock,
    RequestCode.UNLOCK_BATCH_MQ: _of_lock,
    RequestCode.CHECK_CLIENT_CONFIG: _of_check,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _of_group,
}
