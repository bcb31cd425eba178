"""What a broker says of itself, whichever release wrote it.

The body is JSON or a packed row of texts, older peers send their topics alone, and none
at all is an empty table.  Nothing here knows what is already registered.
Upstream: DefaultRequestProcessor.registerBrokerWithFilterServer, registerBroker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from emulator.facts import BrokerRegistered
from emulator.net.results import Refusal
from emulator.releases import FIVE, R_4_9_7
from protocol.bodies.body import decode_body
from protocol.bodies.registration import RegisterBrokerBody, crc32, decode_register_broker
from protocol.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicQueueMappingInfo,
)
from protocol.codes import ResponseCode
from protocol.requests.registration import RegisterBrokerReply

if TYPE_CHECKING:
    from emulator.net.results import Call
    from emulator.releases import Release
    from protocol.requests.registration import RegisterBrokerRequest

V3_0_11 = 37  # the first version that tells more than its topics
ZONE_NAME = "__ZONE_NAME"


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """What one broker says of itself."""

    cluster: str
    broker: str
    broker_id: int
    address: str
    ha_address: str
    topics: Mapping[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()
    filter_servers: list[str] | None = None  # None: it said nothing of them
    mappings: Mapping[str, TopicQueueMappingInfo] = {}
    zone: str | None = None
    silence_ms_max: int | None = None  # 5.x; None: the NameServer's own
    may_act: bool | None = None  # 5.x; None: a broker too old to say

    def fact(self, *, first: bool) -> BrokerRegistered:
        return BrokerRegistered(
            cluster=self.cluster,
            broker=self.broker,
            broker_id=self.broker_id,
            address=self.address,
            topic_count=len(self.topics),
            first=first,
        )


class MasterSeen(NamedTuple):
    """What a slave is told of its master; nothing while that is not alive."""

    address: str | None = None
    ha_address: str | None = None


def read_registration(call: Call[RegisterBrokerRequest], release: Release) -> Registration:
    """Raises ``Refusal`` for a wrong checksum, ``BadFields`` for a body that is none."""
    header = call.request
    if header.body_crc32 not in (0, crc32(call.body)):
        raise Refusal(ResponseCode.SYSTEM_ERROR, "crc32 not match", RegisterBrokerReply())
    body = _body(call)
    wrapper = body.topic_config_serialize_wrapper
    five = release >= FIVE
    return Registration(
        cluster=header.cluster_name,
        broker=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_addr,
        ha_address=header.ha_server_addr,
        topics=wrapper.topic_config_table,
        data_version=understood(wrapper.data_version, release),
        filter_servers=None if call.command.version < V3_0_11 else body.filter_server_list,
        mappings=wrapper.topic_queue_mapping_info_map if five else {},
        zone=call.command.fields().get(ZONE_NAME) if five else None,
        silence_ms_max=header.heartbeat_timeout_millis if five else None,
        may_act=header.enable_acting_master if five else None,
    )


def understood(version: DataVersion, release: Release) -> DataVersion:
    """4.x knows no state: two versions that differ in that alone are equal to it."""
    return version if release >= FIVE else msgspec.structs.replace(version, state_version=0)


def _body(call: Call[RegisterBrokerRequest]) -> RegisterBrokerBody:
    if not call.body:
        return RegisterBrokerBody()
    version = call.command.version
    if version < V3_0_11:
        topics = decode_body(call.body, TopicConfigAndMappingSerializeWrapper)
        return RegisterBrokerBody(topic_config_serialize_wrapper=topics)
    sender = FIVE if version >= FIVE.version else R_4_9_7
    return decode_register_broker(call.body, sender)
