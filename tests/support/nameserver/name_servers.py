"""A NameServer without a network: commands go in, replies come out."""

from __future__ import annotations

import itertools
import zlib

import msgspec

from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.nameserver.request_processors import handler_table
from rocketmq_emulator.nameserver.state.nameserver import NameServer
from rocketmq_emulator.net.results import Call, Peer, Refusal, Reply, Wait
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.registration import (
    RegisterBrokerBody,
    encode_register_broker,
)
from rocketmq_emulator.protocol.bodies.routes import KVTable, TopicRouteData
from rocketmq_emulator.protocol.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
)
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.command import RemotingCommand, ext_of
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.versions import Release
from rocketmq_emulator.settings.config import NameServerConfig

RELEASES = ("4.9.7", "5.3.3")
V1 = DataVersion(timestamp=1_000, counter=1)
V2 = DataVersion(timestamp=2_000, counter=2)

_numbers = itertools.count(1)


def a_peer(address: str = "127.0.0.1:50000") -> Peer:
    return Peer(address, next(_numbers))


class NameServerBench:
    """One NameServer, its facts and notices, and its disk, which ``restarted`` keeps."""

    def __init__(self, release: str = "4.9.7", disk: MemoryDisk | None = None, **settings) -> None:
        self.release = Release.parse(release)
        self.settings = settings
        self.disk = disk or MemoryDisk()
        self.facts: list = []
        self.slices = 0  # of the last answer
        self.notices: list = []  # (address, header)
        self.server = NameServer(
            NameServerConfig(release=release, **settings),
            disk=self.disk,
            note=self.facts.append,
            notify=lambda *notice: self.notices.append(notice),
        )
        self.handlers = handler_table(self.server)

    def restarted(self) -> NameServerBench:
        return NameServerBench(str(self.release), self.disk, **self.settings)

    def noted(self, kind: type) -> list:
        return [fact for fact in self.facts if type(fact) is kind]

    def invoke(
        self, code: int, peer: Peer | None = None, now_ms: int = 0, **command
    ) -> Reply | None:
        """The reply that the shell would send; None if it would send none."""
        given = {"version": self.release.version, **command}
        return self.take(RemotingCommand(code=code, **given), peer, now_ms)

    def take(self, command: RemotingCommand, peer: Peer | None = None, now_ms: int = 0):
        entry = self.handlers.get(command.code)
        if entry is None:
            return None if self.server.unknown_is_silent else Reply(code=3)
        rpc, handler = entry
        try:
            call = Call(command, command.decode(rpc.request), peer or a_peer(), now_ms)
            result, self.slices = handler(call), 1
            while isinstance(result, Wait):
                result, self.slices = result.resume(now_ms, True), self.slices + 1
        except Refusal as refusal:
            return Reply(refusal.header, code=refusal.code, remark=refusal.remark)
        except BadFields as error:
            return Reply(code=1, remark=str(error))
        return result

    def invoke_with(
        self, code: int, peer: Peer | None = None, now_ms: int = 0, body=b"", **fields
    ):
        return self.invoke(code, peer, now_ms, ext=ext_of(None, fields), body=body)

    def register(self, peer: Peer, now_ms: int = 0, **changes) -> Reply:
        """A registration as a broker of this release sends it; see ``a_registration``."""
        fields, body = a_registration(self.release, **changes)
        return self.invoke_with(RequestCode.REGISTER_BROKER, peer, now_ms, body, **fields)

    def route_reply(self, topic: str, **fields) -> Reply:
        return self.invoke_with(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic, **fields)

    def route(self, topic: str) -> TopicRouteData | None:
        reply = self.route_reply(topic)
        assert reply.code in (0, 17)
        return decode_body(reply.body, TopicRouteData) if reply.code == 0 else None

    def put_kv(self, namespace: str, key: str, value: str) -> Reply:
        code = RequestCode.PUT_KV_CONFIG
        return self.invoke_with(code, namespace=namespace, key=key, value=value)

    def tables(self) -> bytes:
        """All its tables, to compare before and after."""
        routes = self.server.routes
        known = (
            routes.topics.topic_queue_table,
            routes.topics.topic_queue_mapping_table,
            routes.brokers.broker_addr_table,
            routes.brokers.cluster_addr_table,
            [tuple(key) for key in routes.live.broker_live_table],
            [tuple(key) for key in routes.live.filter_server_table],
            self.server.kv_config._config_table,
        )
        return msgspec.json.encode(known)


def topics(*names: str, perm: int = 6, queues: int = 4, flag: int = 0) -> dict[str, TopicConfig]:
    return {
        name: TopicConfig(
            topic_name=name,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=perm,
            topic_sys_flag=flag,
        )
        for name in names
    }


def a_registration(
    release: Release,
    *,
    broker: str = "broker-a",
    broker_id: int = 0,
    address: str = "10.0.0.1:10911",
    cluster: str = "C",
    serves: dict[str, TopicConfig] | None = None,
    version: DataVersion = V1,
    compressed: bool = False,
    filter_servers: tuple[str, ...] = (),
    crc: bool = True,
    **more: str,
) -> tuple[dict[str, str], bytes]:
    """Ext fields and body of a REGISTER_BROKER request."""
    wrapper = TopicConfigAndMappingSerializeWrapper(
        topic_config_table=topics("T", "U") if serves is None else serves, data_version=version
    )
    body = encode_register_broker(
        RegisterBrokerBody(
            topic_config_serialize_wrapper=wrapper, filter_server_list=list(filter_servers)
        ),
        release,
        compressed=compressed,
    )
    fields = {
        "brokerName": broker,
        "brokerAddr": address,
        "clusterName": cluster,
        "haServerAddr": address.replace("10911", "10912"),
        "brokerId": str(broker_id),
        "compressed": "true" if compressed else "false",
        "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF) if crc else "0",
        **more,
    }
    return fields, body


def perms(route: TopicRouteData | None) -> dict[str, int]:
    assert route is not None
    return {queue.broker_name: queue.perm for queue in route.queue_datas}


def addresses(route: TopicRouteData | None) -> dict[str, dict[int, str]]:
    assert route is not None
    return {broker.broker_name: broker.broker_addrs for broker in route.broker_datas}


def table_of(reply: Reply) -> dict[str, str]:
    return decode_body(reply.body, KVTable).table


def json_of(value: msgspec.Struct, release: Release) -> bytes:
    return encode_body(value, release)
