"""Servers with scripted answers on the virtual network: real frames, virtual time.

def test_…() -> None:
    def main(cluster): …
    in_world(main)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from rocketmq_emulator.client.instance.process import ClientProcess
from rocketmq_emulator.client.producer.producer import Producer
from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.facts import Fact
from rocketmq_emulator.facts.journal import discard_fact
from rocketmq_emulator.net.remoting_server import RemotingServer
from rocketmq_emulator.net.results import NO_REPLY, Reply, Wait
from rocketmq_emulator.net.transport import Listener
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.groups import HeartbeatData
from rocketmq_emulator.protocol.bodies.routes import BrokerData, QueueData, TopicRouteData
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.protocol.messages.message_ids import offset_msg_id
from rocketmq_emulator.protocol.messages.names import AUTO_CREATE_TOPIC_KEY_TOPIC
from rocketmq_emulator.protocol.requests.offsets import OffsetReply
from rocketmq_emulator.protocol.requests.sending import RecallMessageReply, SendMessageReply
from rocketmq_emulator.settings.config import NetConfig
from rocketmq_emulator.settings.releases import R_4_9_7
from rocketmq_emulator.sim.stream import Latency
from rocketmq_emulator.sim.world import EPOCH_MS, run_virtual

LOG_START = 4_000  # the position of a fake broker's first message
SILENT = object()  # an answer that never comes


def in_world(steps, *, seed=1):
    """Run ``main(cluster)`` in a new virtual world; links take no time."""

    async def main(world):
        return await steps(Cluster(world))

    return run_virtual(main, seed=seed, latency=Latency(us_min=0, us_max=0))


def producing(steps, *brokers, topics=None, **settings):
    """Run ``main(cluster, producer)`` with these brokers."""

    async def with_cluster(cluster):
        names = brokers or ("a", "b")
        await cluster.start(*names, topics={"t": 4} if topics is None else topics)
        process = cluster.process()
        async with process, cluster.a_producer(process, **settings) as producer:
            await steps(cluster, producer)

    in_world(with_cluster)


def a_message(body=b"hello", topic="t") -> Message:
    return Message(topic, body, tags="TagA", keys="k1")


def sends_of(cluster) -> dict[str, int]:
    return {name: len(broker.sends) for name, broker in cluster.brokers.items()}


class Cluster:
    def __init__(self, world) -> None:
        self.world = world
        self.facts: list[Fact] = []
        self.namesrv = FakeNameServer(self)
        self.brokers: dict[str, FakeBroker] = {}

    def now_s(self) -> float:
        return (self.world.now_ms() - EPOCH_MS) / 1000

    async def start(self, *names, topics=None) -> None:
        """Start a NameServer and these brokers; *topics* is ``{topic: queues on each broker}``."""
        await self.namesrv.start()
        for name in names:
            await self.add_broker(name)
        for topic, queues in (topics or {}).items():
            self.namesrv.routes[topic] = self.route(queues)

    async def add_broker(self, name, broker_id=0):
        broker = FakeBroker(self, name, broker_id)
        self.brokers[name if broker_id == 0 else f"{name}-{broker_id}"] = broker
        await broker.start()
        return broker

    def route(self, queues=4, *, perm=6, write=None, only=None) -> TopicRouteData:
        names = sorted({b.name for b in self.brokers.values() if only is None or b.name in only})
        return TopicRouteData(
            queue_datas=[
                QueueData(
                    broker_name=name,
                    read_queue_nums=queues,
                    write_queue_nums=queues if write is None else write,
                    perm=perm,
                )
                for name in names
            ],
            broker_datas=[
                BrokerData(
                    cluster="c",
                    broker_name=name,
                    broker_addrs={
                        b.broker_id: b.address for b in self.brokers.values() if b.name == name
                    },
                )
                for name in names
            ],
        )

    def process(self, name="app") -> ClientProcess:
        return ClientProcess(
            network=self.world.network.host(name),
            clock=WallClock(EPOCH_MS, 0.0),
            rng=self.world.rng(name),
            note=self.facts.append,
            ip=self.world.network.host(name).ip,
            pid=7,
        )

    def a_producer(self, process, **settings) -> Producer:
        settings = {"group": "pg", "namesrv": self.namesrv.address, **settings}
        return Producer(process=process, **settings)

    def facts_of(self, kind):
        return [fact for fact in self.facts if isinstance(fact, kind)]


class FakeServer:
    _table: Callable[[], Any]  # its request handlers

    def __init__(self, cluster, host, port) -> None:
        self.cluster = cluster
        self.host = cluster.world.network.host(host)
        self.address = f"{self.host.ip}:{port}"
        self.now_s = cluster.now_s
        self.listener: Listener | None = None
        self.server = RemotingServer(
            WallClock(EPOCH_MS, 0.0), NetConfig(), R_4_9_7, discard_fact, self._table()
        )

    async def start(self) -> None:
        self.listener = await self.server.serve(
            self.host, self.address, self.cluster.world.nursery
        )

    def stop(self) -> None:
        """Stop like a killed process: connections are reset, later ones refused."""
        assert self.listener is not None
        self.listener.close()
        self.server.close_all()


class FakeNameServer(FakeServer):
    def __init__(self, cluster) -> None:
        self.routes: dict[str, TopicRouteData] = {}
        self.route_requests: list[tuple[float, str]] = []
        self.is_silent = False
        super().__init__(cluster, "namesrv", 9876)

    def _table(self):
        return {105: (catalog.GET_ROUTEINFO_BY_TOPIC, self._route)}

    def _route(self, call):
        self.route_requests.append((self.now_s(), call.request.topic))
        if self.is_silent:
            return NO_REPLY
        route = self.routes.get(call.request.topic)
        if route is None:
            return Reply(code=17, remark="no such topic")
        return Reply(body=encode_body(route, R_4_9_7))

    def route_request_times(self, topic):
        return [round(at, 3) for at, requested in self.route_requests if requested == topic]

    def offer_default_topic(self, queues=8) -> None:
        self.routes[AUTO_CREATE_TOPIC_KEY_TOPIC] = self.cluster.route(queues, perm=7)


class FakeBroker(FakeServer):
    """``answers`` has a code, or SILENT, for each next send; then ``always``, or success."""

    def __init__(self, cluster, name, broker_id=0) -> None:
        self.name = name
        self.broker_id = broker_id
        self.sends: list[Any] = []  # (time, request, body)
        self.send_codes: list[Any] = []
        self.heartbeats: list[tuple[float, HeartbeatData]] = []
        self.unregistered: list[Any] = []
        self.probes: list[Any] = []  # GET_MAX_OFFSET
        self.recalls: list[Any] = []
        self.ends: list[Any] = []  # END_TRANSACTION: (time, command)
        self.clients: list[Any] = []  # the connections that sent a heartbeat
        self.answers: list[Any] = []
        self.always = None
        self.slow_ms = 0
        self.heartbeats_answered = True
        self._offsets: Counter[tuple[str, int]] = Counter()
        super().__init__(cluster, name if broker_id == 0 else f"{name}-{broker_id}", 10911)

    def _table(self):
        return {
            310: (catalog.SEND_MESSAGE_V2, self._send),
            320: (catalog.SEND_BATCH_MESSAGE, self._send),
            30: (catalog.GET_MAX_OFFSET, self._max_offset),
            370: (catalog.RECALL_MESSAGE, self._recall),
            37: (catalog.END_TRANSACTION, self._end),
            34: (catalog.HEART_BEAT, self._heartbeat),
            35: (catalog.UNREGISTER_CLIENT, self._unregister),
        }

    def _send(self, call):
        self.sends.append((self.now_s(), call.request, call.command.body))
        self.send_codes.append(call.command.code)
        answer = self.answers.pop(0) if self.answers else self.always
        if answer is SILENT:
            return NO_REPLY
        code = answer or 0
        if code not in (0, 10, 11, 12):
            return self._later(call, Reply(code=code, remark="as scripted"))
        queue = (call.request.topic, call.request.queue_id)
        offset = self._offsets[queue]
        self._offsets[queue] += 1
        header = SendMessageReply(
            msg_id=offset_msg_id(bytes(8), LOG_START + offset),
            queue_id=queue[1],
            queue_offset=offset,
        )
        return self._later(call, Reply(header, code=code))

    def _later(self, call, reply):
        if not self.slow_ms:
            return reply
        until_ms = call.now_ms + self.slow_ms
        return Wait(on=object(), until_ms=until_ms, resume=lambda now_ms, expired: reply)

    def _max_offset(self, call):
        self.probes.append((self.now_s(), call.request))
        return Reply(OffsetReply(offset=0))

    def _recall(self, call):
        self.recalls.append((self.now_s(), call.request))
        return NO_REPLY if self.always is SILENT else Reply(RecallMessageReply(msg_id="recalled"))

    def _end(self, call):
        self.ends.append((self.now_s(), call.command))
        return NO_REPLY

    def ask(self, request, body) -> None:
        """Send CHECK_TRANSACTION_STATE to the client that was first to send a heartbeat."""
        code = catalog.CHECK_TRANSACTION_STATE.code
        with self.server.turn:
            assert self.server.push(self.clients[0], code, request, body)

    def _heartbeat(self, call):
        self.heartbeats.append((self.now_s(), decode_body(call.command.body, HeartbeatData)))
        if call.peer not in self.clients:
            self.clients.append(call.peer)
        return Reply() if self.heartbeats_answered else NO_REPLY

    def _unregister(self, call):
        self.unregistered.append(call.request)
        return Reply()

    def queue_ids(self):
        return [request.queue_id for _, request, _ in self.sends]

    def heartbeat_times(self):
        return [round(at, 3) for at, _ in self.heartbeats]
