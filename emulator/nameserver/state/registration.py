"""Reads the registrations of brokers of all releases.

The body is JSON or a packed sequence of texts; older peers send only their topics, and an empty
body is an empty table.  The tables of the NameServer are not read here.
Upstream: DefaultRequestProcessor.registerBrokerWithFilterServer, registerBroker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from rocketmq_emulator.facts import BrokerRegistered
from rocketmq_emulator.net.results import Refusal
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body
from rocketmq_emulator.protocol.bodies.registration import (
    RegisterBrokerBody,
    crc32,
    decode_register_broker,
)
from rocketmq_emulator.protocol.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicQueueMappingInfo,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.requests.nameserver import RegisterBrokerReply
from rocketmq_emulator.settings.releases import DATA_VERSION_HAS_STATE, REGISTRATION_EXTENDED

if TYPE_CHECKING:
    from rocketmq_emulator.net.results import Call
    from rocketmq_emulator.protocol.requests.nameserver import RegisterBrokerRequest
    from rocketmq_emulator.settings.releases import Release

V3_0_11 = 37  # the first version whose body has more than topics
ZONE_NAME = "__ZONE_NAME"


class BrokerRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """One registration of one broker: the decoded header and body."""

    cluster: str
    broker: str
    broker_id: int
    address: str
    ha_address: str
    topics: Mapping[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()
    filter_servers: list[str] | None = None  # None: not sent
    mappings: Mapping[str, TopicQueueMappingInfo] = {}
    zone: str | None = None
    silence_ms_max: int | None = None  # 5.x; None: the NameServer's setting
    enable_acting_master: bool | None = None  # 5.x; None: not sent, an older broker

    def fact(self, *, first: bool, known_count: int) -> BrokerRegistered:
        """The fact of this registration.

        *first*: the broker was not in the routes before.  *known_count* is the number of its
        topics in the routes after it.
        """
        return BrokerRegistered(
            cluster=self.cluster,
            broker=self.broker,
            broker_id=self.broker_id,
            address=self.address,
            topic_count=len(self.topics),
            first=first,
            known_count=known_count,
        )


def read_registration(call: Call[RegisterBrokerRequest], release: Release) -> BrokerRegistration:
    """The decoded registration.

    Raises ``Refusal`` for a wrong checksum, ``BadFields`` for an unreadable body.
    """
    header = call.request
    if header.body_crc32 not in (0, crc32(call.body)):
        raise Refusal(ResponseCode.SYSTEM_ERROR, "crc32 not match", RegisterBrokerReply())
    body = _body(call)
    wrapper = body.topic_config_serialize_wrapper
    reads_more = release >= REGISTRATION_EXTENDED
    return BrokerRegistration(
        cluster=header.cluster_name,
        broker=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_addr,
        ha_address=header.ha_server_addr,
        topics=wrapper.topic_config_table,
        data_version=comparable(wrapper.data_version, release),
        filter_servers=None if call.command.version < V3_0_11 else body.filter_server_list,
        mappings=wrapper.topic_queue_mapping_info_map if reads_more else {},
        zone=call.command.fields().get(ZONE_NAME) if reads_more else None,
        silence_ms_max=header.heartbeat_timeout_millis if reads_more else None,
        enable_acting_master=header.enable_acting_master if reads_more else None,
    )


def comparable(version: DataVersion, release: Release) -> DataVersion:
    """*version* in the form that *release* compares: 4.x ignores the state version."""
    if release >= DATA_VERSION_HAS_STATE:
        return version
    return msgspec.structs.replace(version, state_version=0)


def _body(call: Call[RegisterBrokerRequest]) -> RegisterBrokerBody:
    if not call.body:
        return RegisterBrokerBody()
    if call.command.version < V3_0_11:
        topics = decode_unlimited_body(call.body, TopicConfigAndMappingSerializeWrapper)
        return RegisterBrokerBody(topic_config_serialize_wrapper=topics)
    return decode_register_broker(call.body, call.command.version)
