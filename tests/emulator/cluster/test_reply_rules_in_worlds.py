"""Reply rules that are set from Python: every server applies them in every world."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.cluster.reply_rules import ReplyRuleRefused
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.world import perform
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.errors.call_errors import NoAnswer, TimedOut
from rocketmq_emulator.facts.journal import discard_fact
from rocketmq_emulator.net.remoting_client import RemotingClient
from rocketmq_emulator.net.tasks import cancelling_nursery
from rocketmq_emulator.net.tcp import TcpNetwork
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.protocol.bodies.groups import HeartbeatData, ProducerData
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.requests.nameserver import GetRouteInfoRequest
from rocketmq_emulator.protocol.requests.pulling import PullMessageRequest
from rocketmq_emulator.protocol.requests.sending import SendMessageRequestV2
from rocketmq_emulator.settings.config import NetConfig
from rocketmq_emulator.settings.releases import R_4_9_7
from rocketmq_emulator.sim.world import run_virtual

CALL_MS_MAX = 5_000
SPEC = ClusterSpec(brokers=1)
SEND = SendMessageRequestV2(
    producer_group="shop",
    topic="orders",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=0,
    sys_flag=0,
    born_timestamp=0,
    flag=0,
)
PULL = PullMessageRequest(
    consumer_group="billing",
    topic="orders",
    queue_id=0,
    queue_offset=0,
    max_msg_nums=32,
    sys_flag=4,  # the pull contains its subscription
    commit_offset=0,
    suspend_timeout_millis=0,
    sub_version=0,
    subscription="*",
)


class RulesBench:
    """A client of a cluster in any world, and the cluster's verbs for rules."""

    def __init__(self, cluster, network, nursery, clock) -> None:
        self._cluster = cluster
        self._client = RemotingClient(
            network,
            nursery,
            clock=clock,
            config=NetConfig(),
            release=R_4_9_7,
            note=discard_fact,
            handlers={},
        )

    async def rule(self, node, **rule) -> int:
        return await self._do(self._cluster.set_reply_rule, node, ReplyRule(**rule))

    async def rules(self, node):
        return await self._do(self._cluster.reply_rules, node)

    async def remove(self, node, rule_id=None) -> tuple[int, ...]:
        return await self._do(self._cluster.remove_reply_rule, node, rule_id)

    async def send(self, timeout_ms=CALL_MS_MAX) -> int:
        return await self._call("broker-a", catalog.SEND_MESSAGE_V2, SEND, b"x", timeout_ms)

    async def pull(self) -> int:
        return await self._call("broker-a", catalog.PULL_MESSAGE, PULL)

    async def beat(self) -> int:
        beat = HeartbeatData(client_id="c1", producer_data_set=[ProducerData(group_name="shop")])
        body = encode_body(beat, R_4_9_7)
        return await self._call("broker-a", catalog.HEART_BEAT, None, body)

    async def route(self) -> int:
        header = GetRouteInfoRequest(topic="TBW102")
        return await self._call("namesrv", catalog.GET_ROUTEINFO_BY_TOPIC, header)

    async def _call(self, node, rpc, header, body=b"", timeout_ms=CALL_MS_MAX) -> int:
        address = self._cluster.addresses[node]
        reply = await self._client.invoke(address, rpc, header, body, timeout_ms=timeout_ms)
        return reply.code

    async def _do(self, verb, *arguments):
        return await perform(self._cluster, verb, *arguments)


async def tell(bench: RulesBench) -> None:
    """Apply every verdict once, and one of them at a NameServer, too."""
    busy = ResponseCode.SYSTEM_BUSY
    await bench.rule("broker-a", code=RequestCode.SEND_MESSAGE_V2, count=5, error_code=busy)
    assert [await bench.send() for _ in range(6)] == [busy] * 5 + [0]

    late = await bench.rule(
        "broker-a", code=RequestCode.PULL_MESSAGE, topic="orders", delay_ms=300
    )
    began_s = trio.current_time()
    assert await bench.pull() == 0
    assert trio.current_time() - began_s >= 0.3
    [state] = await bench.rules("broker-a")
    assert (state.rule_id, state.applied_count, state.rule.delay_ms) == (late, 1, 300)
    assert await bench.remove("broker-a", late) == (late,)

    await bench.rule("broker-a", code=RequestCode.HEART_BEAT, client_id="c1", cut_connection=True)
    with pytest.raises(NoAnswer, match="the connection ended"):
        await bench.beat()
    await bench.remove("broker-a")
    assert await bench.beat() == 0

    await bench.rule("broker-a", code=RequestCode.SEND_MESSAGE_V2, count=1, no_answer=True)
    with pytest.raises(TimedOut):
        await bench.send(timeout_ms=100)
    assert await bench.rules("broker-a") == ()

    code, remark = ResponseCode.TOPIC_NOT_EXIST, "not today"
    await bench.rule("namesrv", topic="TBW102", error_code=code, remark=remark)
    assert await bench.route() == code
    await bench.remove("namesrv")
    assert await bench.route() == 0


@pytest.mark.parametrize("kind", [EmbeddedCluster, ProcessCluster])
def test_rules_are_obeyed_over_tcp(kind) -> None:
    async def main(cluster) -> None:
        async with cancelling_nursery() as nursery:
            await tell(
                RulesBench(cluster, TcpNetwork(nursery), nursery, WallClock.of_this_machine())
            )

    with kind(SPEC) as cluster:
        trio.run(main, cluster)


def test_rules_are_obeyed_in_the_virtual_world_and_the_journal_says_so() -> None:
    def run() -> list[bytes]:
        lines: list[bytes] = []

        async def main(world) -> None:
            cluster = VirtualCluster(world, SPEC, lines.append)
            await cluster.start()
            machine = world.machines.machine("client")
            await tell(RulesBench(cluster, machine.network, world.nursery, machine.clock))

        run_virtual(main, seed=5)
        return lines

    lines = run()
    kinds = b"".join(lines)
    assert kinds.count(b'"ReplyRuleSet"') == 5
    assert kinds.count(b'"ReplyRuleApplied"') == 9
    assert run() == lines, "the same seed must write the same journal"


def test_rules_are_allowed_by_default_on_loopback_only() -> None:
    assert ClusterSpec().broker_config("broker-a").reply_rules_allowed
    assert ClusterSpec(host="::1").name_server_config("namesrv").reply_rules_allowed
    assert not ClusterSpec(host="0.0.0.0").broker_config("broker-a").reply_rules_allowed
    given = ClusterSpec(host="0.0.0.0", broker_settings={"reply_rules_allowed": True})
    assert given.broker_config("broker-a").reply_rules_allowed


def test_a_cluster_that_does_not_allow_rules_says_which_setting_would() -> None:
    settings = {"reply_rules_allowed": False}
    spec = ClusterSpec(brokers=0, name_server_settings=settings)
    with EmbeddedCluster(spec) as cluster:
        with pytest.raises(ReplyRuleRefused, match="reply_rules_allowed=true") as refused:
            cluster.set_reply_rule("namesrv", ReplyRule(no_answer=True))
        assert refused.value.code == ResponseCode.NO_PERMISSION
