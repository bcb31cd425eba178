"""Faults in the virtual world: the effect of each, in any order of beginnings and ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
import trio

from rocketmq_emulator.admin.calls import Admin, AdminError
from rocketmq_emulator.client import ClientConfig
from rocketmq_emulator.client.instance.process import ClientProcess
from rocketmq_emulator.cluster.fault_values import (
    Answer,
    Busy,
    ClockDrift,
    ClockJump,
    CutLink,
    FullDisk,
    Kill,
    Partition,
    Pause,
    PowerOff,
    ReadOnly,
    RefuseConnections,
    SlowLink,
    StallLink,
    Stop,
)
from rocketmq_emulator.cluster.faults.register import UnknownFault
from rocketmq_emulator.cluster.faults.server_effects import read_permission, read_topic
from rocketmq_emulator.cluster.reply_rules import ReplyRuleRefused, put_topic
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.world import UnknownNode
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.flags import PERM_READ, PERM_WRITE
from rocketmq_emulator.sim.world import run_virtual

BROKER = "broker-a"
BOTH = PERM_READ | PERM_WRITE


class VirtualBench:
    """A cluster with one broker, clients that call it, and the facts of its journal."""

    def __init__(self, cluster: VirtualCluster, lines: list[bytes]) -> None:
        self.cluster = cluster
        self._lines = lines
        self._clients = 0

    async def ask(
        self, question: Callable[[ClientProcess], Awaitable[Any]], name: str = ""
    ) -> Any:
        answers: list[Any] = []

        async def program(process: ClientProcess) -> None:
            answers.append(await question(process))

        self._clients += 1
        machine = self.cluster.start_client(name or f"looker-{self._clients}", program)
        await machine.wait_ended()
        return answers[0]

    async def answers_in_ms(self, name: str = "", patience_ms: int = 5_000) -> float | None:
        """The time until the broker answers a client; None without an answer, or for an error."""

        async def looked(process: ClientProcess) -> float | None:
            instance = await process.instance(ClientConfig(namesrv=self.cluster.namesrv))
            admin = Admin(self.cluster.namesrv, instance.remoting)
            began_s = trio.current_time()
            with trio.move_on_after(patience_ms / 1_000):
                try:
                    await admin.topics(self.cluster.brokers[BROKER])
                except AdminError:
                    return None
                return (trio.current_time() - began_s) * 1_000
            return None

        return await self.ask(looked, name)

    def facts(self, *kinds: str) -> list[dict[str, Any]]:
        return self.facts_of("world", *kinds)

    def facts_of(self, node: str, *kinds: str) -> list[dict[str, Any]]:
        entries = map(msgspec.json.decode, self._lines)
        return [e["fact"] for e in entries if e["node"] == node and e["fact"]["kind"] in kinds]

    def perms_set(self) -> list[str]:
        """The perms that the broker was given, in order."""
        facts = self.facts_of(BROKER, "SettingsChanged")
        return [text[-1] for fact in facts for text in fact["settings"]]


def play(steps: Callable[[VirtualBench], Awaitable[None]], **fields: Any) -> None:
    async def main(world: Any) -> None:
        lines: list[bytes] = []
        cluster = VirtualCluster(world, ClusterSpec(brokers=1, **fields), lines.append)
        await cluster.start()
        await steps(VirtualBench(cluster, lines))

    run_virtual(main, seed=1)


def test_a_fault_has_a_beginning_an_act_and_an_end_in_the_journal() -> None:
    async def steps(bench: VirtualBench) -> None:
        async with bench.cluster.under(Kill(node=BROKER)) as fault_id:
            (state,) = bench.cluster.faults()
            assert (state.fault_id, state.nodes, state.acted_count) == (fault_id, (BROKER,), 1)
            await trio.sleep(5)
        assert bench.cluster.faults() == ()
        assert bench.facts("FaultBegan", "FaultActed", "FaultEnded") == [
            {
                "kind": "FaultBegan",
                "fault_id": 1,
                "fault": '{"fault":"kill","node":"broker-a"}',
                "nodes": [BROKER],
            },
            {"kind": "FaultActed", "fault_id": 1, "what": "killed a process"},
            {"kind": "FaultEnded", "fault_id": 1, "reason": "healed", "acted_count": 1},
        ]

    play(steps)


SILENCING = (Kill, Stop, Pause, PowerOff)


@pytest.mark.parametrize("kind", SILENCING)
def test_a_node_that_is_down_or_still_answers_again_when_the_fault_has_ended(kind) -> None:
    async def steps(bench: VirtualBench) -> None:
        async with bench.cluster.under(kind(node=BROKER)):
            assert await bench.answers_in_ms() is None
        assert await bench.answers_in_ms() is not None

    play(steps)


@pytest.mark.parametrize("first", SILENCING)
@pytest.mark.parametrize("second", SILENCING)
@pytest.mark.parametrize("ends_first", [0, 1])
def test_two_faults_of_one_node_end_in_any_order(first, second, ends_first) -> None:
    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster
        ids = [await cluster.begin_fault(kind(node=BROKER)) for kind in (first, second)]
        assert await bench.answers_in_ms() is None
        await cluster.end_fault(ids.pop(ends_first))
        assert await bench.answers_in_ms() is None, "the other fault still holds"
        await cluster.end_fault(ids[0])
        assert await bench.answers_in_ms() is not None

    play(steps)


@pytest.mark.parametrize("kind", [Kill, Stop, Pause])
def test_what_was_dead_before_a_fault_is_dead_after_it(kind) -> None:
    async def steps(bench: VirtualBench) -> None:
        bench.cluster.kill(BROKER)
        async with bench.cluster.under(kind(node=BROKER)):
            pass
        assert not bench.cluster.is_running(BROKER)
        (ended,) = bench.facts("FaultEnded")
        assert ended["acted_count"] == 0

    play(steps)


def test_what_was_paused_by_hand_before_a_pause_stays_so() -> None:
    async def steps(bench: VirtualBench) -> None:
        bench.cluster.pause(BROKER)
        async with bench.cluster.under(Pause(node=BROKER)):
            pass
        assert bench.cluster.is_paused(BROKER)

    play(steps)


def ahead_ms(cluster: VirtualCluster) -> int:
    return cluster.world.now_ms(BROKER) - cluster.world.now_ms()


def test_a_drift_adds_to_a_jump_and_leaves_nothing_behind() -> None:
    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster
        await trio.sleep(3)
        drift = await cluster.begin_fault(ClockDrift(node=BROKER, ppm=100))
        jump = await cluster.begin_fault(ClockJump(node=BROKER, ms=1_000))
        await trio.sleep(100)
        assert ahead_ms(cluster) == 1_010
        await cluster.restart(BROKER)
        assert ahead_ms(cluster) == 1_010
        await cluster.end_fault(drift)
        assert ahead_ms(cluster) == 1_000
        await cluster.end_fault(jump)
        assert ahead_ms(cluster) == 0

    play(steps)


def test_of_two_busy_pools_the_last_one_decides_and_then_the_first_again() -> None:
    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster
        ids = [
            await cluster.begin_fault(Busy(node=BROKER, pool="admin", service_ms=ms))
            for ms in (100, 900)
        ]
        assert await bench.answers_in_ms() == pytest.approx(900, abs=20)
        await cluster.end_fault(ids[1])
        assert await bench.answers_in_ms() == pytest.approx(100, abs=20)
        await cluster.restart(BROKER)
        assert await bench.answers_in_ms() == pytest.approx(100, abs=20)
        await cluster.end_fault(ids[0])
        assert await bench.answers_in_ms() == pytest.approx(0, abs=20)

    play(steps)


def test_clock_jumps_add_up_and_leave_the_clock_right() -> None:
    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster
        cluster.skew_clock(BROKER, 7)
        first = await cluster.begin_fault(ClockJump(node=BROKER, ms=1_000))
        second = await cluster.begin_fault(ClockJump(node="brokers", ms=-300))
        assert ahead_ms(cluster) == 707
        await cluster.end_fault(first)
        assert ahead_ms(cluster) == -293
        cluster.skew_clock(BROKER, 0)  # directly, while a fault holds
        await cluster.end_fault(second)
        assert ahead_ms(cluster) == 0

    play(steps)


@pytest.mark.parametrize(
    "fault",
    [
        StallLink(between=("clients", BROKER)),
        StallLink(around=BROKER),
        StallLink(between=("looker", "brokers"), one_way=True),
        Partition(between=(BROKER, "clients"), one_way=True),
        RefuseConnections(around=BROKER),
        CutLink(between=("looker", BROKER)),
    ],
)
def test_a_fault_of_a_link_also_holds_for_a_client_that_comes_later(fault) -> None:
    async def steps(bench: VirtualBench) -> None:
        assert await bench.answers_in_ms() is not None
        async with bench.cluster.under(fault):
            assert await bench.answers_in_ms() is None
        assert await bench.answers_in_ms() is not None

    play(steps)


def test_slow_links_of_two_faults_add_up_and_one_way_is_half_of_both() -> None:
    async def steps(bench: VirtualBench) -> None:
        plain_ms = await bench.answers_in_ms()
        assert plain_ms is not None
        async with bench.cluster.under(SlowLink(between=("clients", BROKER), ms=100)):
            both_ms = await bench.answers_in_ms()
            assert both_ms == pytest.approx(400, abs=10)  # a connect and a call: two round trips
            async with bench.cluster.under(
                SlowLink(between=(BROKER, "clients"), ms=50, one_way=True)
            ):
                more_ms = await bench.answers_in_ms()
                assert more_ms == pytest.approx(500, abs=10)
        assert await bench.answers_in_ms() == pytest.approx(plain_ms, abs=10)
        for ended in bench.facts("FaultEnded"):
            assert ended["acted_count"] >= 1

    play(steps)


REFUSED = ReplyRule(code=RequestCode.GET_ALL_TOPIC_CONFIG, error_code=ResponseCode.SYSTEM_BUSY)


def test_a_reply_rule_holds_also_for_the_process_after_a_restart_and_counts() -> None:
    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster
        answer = await cluster.begin_fault(Answer(node=BROKER, rule=REFUSED))
        assert await bench.answers_in_ms() is None
        await cluster.restart(BROKER)
        assert await bench.answers_in_ms() is None
        (state,) = cluster.faults()
        assert state.acted_count == 2
        await cluster.end_fault(answer)
        assert await bench.answers_in_ms() is not None
        (ended,) = bench.facts("FaultEnded")
        assert ended["acted_count"] == 2

    play(steps)


def test_a_reply_rule_that_is_set_while_its_node_starts_is_set_once() -> None:
    """A master whose slaves may act is not ready for seconds, but answers."""

    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster
        await trio.sleep(20)
        await cluster.kill(BROKER)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.start, BROKER)
            await trio.sleep(1)
            answer = await cluster.begin_fault(Answer(node=BROKER, rule=REFUSED))
        assert len(await cluster.reply_rules(BROKER)) == 1
        await cluster.end_fault(answer)
        assert await cluster.reply_rules(BROKER) == ()

    play(steps, slaves=1, acting_master=True, release="5.3.3")


@pytest.mark.parametrize("ends_first", ["pause", "answer"])
def test_a_reply_rule_of_a_node_that_stands_still_is_set_when_it_goes_on(ends_first) -> None:
    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster
        pause = await cluster.begin_fault(Pause(node=BROKER))
        answer = await cluster.begin_fault(Answer(node=BROKER, rule=REFUSED))
        await cluster.end_fault(answer if ends_first == "answer" else pause)
        await trio.sleep(1)
        if ends_first == "pause":
            assert await bench.answers_in_ms() is None
            await cluster.begin_fault(Pause(node=BROKER))
        await cluster.end_fault(answer)
        await cluster.end_faults()
        await trio.sleep(1)
        assert await bench.answers_in_ms() is not None
        assert await cluster.reply_rules(BROKER) == ()

    play(steps)


HINDRANCES = (
    Busy(node=BROKER, pool="admin", threads=1, service_ms=20_000),
    Answer(
        node=BROKER,
        rule=ReplyRule(
            code=RequestCode.UPDATE_BROKER_CONFIG, error_code=ResponseCode.SYSTEM_ERROR
        ),
    ),
)


async def perm_of(cluster: VirtualCluster) -> int:
    return await cluster.call_server(BROKER, read_permission())


def test_a_read_only_that_ends_while_the_next_begins_leaves_the_perm_to_it() -> None:
    """A broker answers late, as upstream, while one of its NameServers does not answer."""

    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster
        first = await cluster.begin_fault(ReadOnly(broker=BROKER))
        pause = await cluster.begin_fault(Pause(node="namesrv-a"))
        ids: list[int] = []

        async def begin_the_next() -> None:
            await trio.sleep(1)
            ids.append(await cluster.begin_fault(ReadOnly(broker=BROKER)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.end_fault, first)
            nursery.start_soon(begin_the_next)
        assert await perm_of(cluster) == PERM_READ
        await cluster.end_fault(pause)
        await cluster.end_fault(*ids)
        assert await perm_of(cluster) == BOTH
        assert bench.perms_set() == ["4", "6", "4", "6"]

    play(steps, name_servers=2)


def test_a_topic_that_a_full_disk_cannot_save_stays_writable_and_that_is_no_error() -> None:
    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster
        topic = TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4, perm=BOTH)
        await cluster.call_server(BROKER, put_topic(topic))
        disk = await cluster.begin_fault(FullDisk(node=BROKER))
        read_only = await cluster.begin_fault(ReadOnly(broker=BROKER, topic="orders"))
        await cluster.end_fault(read_only)
        await cluster.end_fault(disk)
        config = await cluster.call_server(BROKER, read_topic("orders"))
        assert config is not None
        assert config.perm == BOTH
        assert bench.facts("FaultEnded")[0]["acted_count"] == 0

    play(steps)


@pytest.mark.parametrize("hindrance", HINDRANCES, ids=["busy", "answer"])
def test_a_paused_broker_first_loses_what_hinders_its_calls(hindrance) -> None:
    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster
        ids = [
            await cluster.begin_fault(fault)
            for fault in (ReadOnly(broker=BROKER), hindrance, Pause(node=BROKER))
        ]
        for fault_id in ids:
            await cluster.end_fault(fault_id)
        await trio.sleep(1)  # a world undoes what waited for the node after it goes on
        assert await perm_of(cluster) == BOTH
        assert await cluster.reply_rules(BROKER) == ()

    play(steps)


def test_a_rule_that_ends_while_a_call_waits_for_it_has_hindered_the_call() -> None:
    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster
        rule = ReplyRule(code=RequestCode.GET_BROKER_CONFIG, delay_ms=20_000)
        await cluster.begin_fault(Answer(node=BROKER, rule=rule), 3_000)
        read_only = await cluster.begin_fault(ReadOnly(broker=BROKER))
        assert [each.fault for each in cluster.faults()] == [ReadOnly(broker=BROKER)]
        await cluster.end_fault(read_only)
        assert await perm_of(cluster) == BOTH

    play(steps)


def test_a_read_only_knows_the_perm_that_a_paused_broker_still_has_to_get_back() -> None:
    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster
        first = await cluster.begin_fault(ReadOnly(broker=BROKER))
        async with cluster.under(Pause(node=BROKER)):
            await cluster.end_fault(first)
            second = await cluster.begin_fault(ReadOnly(broker=BROKER))
        assert await perm_of(cluster) == PERM_READ
        await cluster.end_fault(second)
        assert await perm_of(cluster) == BOTH
        assert bench.perms_set() == ["4", "4", "6"]

    play(steps)


def test_a_broker_that_refuses_the_perm_by_itself_is_an_error() -> None:
    """The opposite: no fault hinders it, so the operator must know."""

    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster
        rule = HINDRANCES[1].rule
        await cluster.set_reply_rule(BROKER, rule)  # not by a fault
        with pytest.raises(ReplyRuleRefused):
            await cluster.begin_fault(ReadOnly(broker=BROKER))

    play(steps)


@pytest.mark.parametrize("hindrance", HINDRANCES, ids=["busy", "answer"])
def test_a_read_only_that_another_fault_hinders_is_not_applied_and_no_error(hindrance) -> None:
    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster
        other = await cluster.begin_fault(hindrance)
        read_only = await cluster.begin_fault(ReadOnly(broker=BROKER))
        await cluster.end_fault(read_only)
        await cluster.end_fault(other)
        assert await perm_of(cluster) == BOTH
        ended = [fact["acted_count"] for fact in bench.facts("FaultEnded")]
        assert ended[0] == 0

    play(steps)


@pytest.mark.parametrize("hindrance", HINDRANCES, ids=["busy", "answer"])
def test_a_perm_that_another_fault_keeps_from_being_restored_is_restored_after_it(
    hindrance,
) -> None:
    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster
        read_only = await cluster.begin_fault(ReadOnly(broker=BROKER))
        other = await cluster.begin_fault(hindrance)
        await cluster.end_fault(read_only)
        await cluster.end_fault(other)
        await trio.sleep(30)
        assert await perm_of(cluster) == BOTH

    play(steps)


def test_a_fault_ends_by_itself_when_its_time_is_up() -> None:
    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster
        await cluster.begin_fault(Kill(node=BROKER), 20_000)
        await trio.sleep(19.9)
        (state,) = cluster.faults()
        assert state.left_ms == 100
        assert not cluster.is_running(BROKER)
        await trio.sleep(0.2)
        assert cluster.faults() == ()
        assert await bench.answers_in_ms() is not None
        (ended,) = bench.facts("FaultEnded")
        assert ended["reason"] == "time is up"

    play(steps)


def test_faults_are_healed_after_an_error_and_after_a_cancellation() -> None:
    async def steps(bench: VirtualBench) -> None:
        with pytest.raises(ZeroDivisionError):
            async with bench.cluster.under(Kill(node=BROKER)):
                1 / 0  # noqa: B018
        assert await bench.answers_in_ms() is not None
        with trio.move_on_after(3):
            async with bench.cluster.under(Stop(node=BROKER)):
                await trio.sleep_forever()
        assert await bench.answers_in_ms() is not None
        assert [fact["reason"] for fact in bench.facts("FaultEnded")] == ["healed", "healed"]

    play(steps)


def test_a_fault_of_a_client_group_means_all_its_members() -> None:
    async def steps(bench: VirtualBench) -> None:
        cluster = bench.cluster

        async def forever(_process: ClientProcess) -> None:
            await trio.sleep_forever()

        for number in (1, 2):
            cluster.start_client(f"billing-{number}", forever)
        async with cluster.under(Kill(node="billing")):
            (state,) = cluster.faults()
            assert state.nodes == ("billing-1", "billing-2")
            assert not any(map(cluster.is_running, state.nodes))
        assert all(map(cluster.is_running, state.nodes))

    play(steps)


def test_ids_and_names_that_nobody_has_are_errors_and_nothing_has_happened() -> None:
    async def steps(bench: VirtualBench) -> None:
        with pytest.raises(
            UnknownNode, match=r"'broker-x'; there are .*; did you mean broker-a\?"
        ):
            await bench.cluster.begin_fault(Kill(node="broker-x"))
        with pytest.raises(UnknownNode, match="'biling'"):
            await bench.cluster.begin_fault(StallLink(between=("biling", BROKER)))
        with pytest.raises(UnknownFault, match="there is no fault 1: 0 have begun so far"):
            await bench.cluster.end_fault(1)
        with pytest.raises(ValueError, match="for_ms is a number from 1"):
            await bench.cluster.begin_fault(Kill(node=BROKER), 0)
        assert bench.facts("FaultBegan") == []
        fault_id = await bench.cluster.begin_fault(Pause(node=BROKER))
        assert await bench.cluster.end_fault(fault_id)
        assert not await bench.cluster.end_fault(fault_id), "it had ended already"

    play(steps)
