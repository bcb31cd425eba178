"""A heartbeat of a thousand groups, and the close of its client, are handled in slices."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing

from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import MemberJoined, MemberLeft
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.groups import ConsumerData, HeartbeatData, ProducerData
from rocketmq_emulator.protocol.messages.names import retry_topic
from rocketmq_emulator.protocol.messages.subscription import build_subscription
from rocketmq_emulator.protocol.requests.groups import GetConsumerListByGroupRequest
from tests.support.broker.bench import EPOCH_MS, Bench, Client

GROUPS = 1_050
NAMES = [f"g{number:04}" for number in range(GROUPS)]


def a_heartbeat(client_id: str = "c", producers: int = 0) -> bytes:
    subscription = [build_subscription("orders", "*")]
    consumers = [
        ConsumerData(
            group_name=name,
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
            subscription_data_set=subscription,
        )
        for name in NAMES
    ]
    producing = [ProducerData(group_name=f"p{number}") for number in range(producers)]
    beat = HeartbeatData(
        client_id=client_id, consumer_data_set=consumers, producer_data_set=producing
    )
    return encode_body(beat, Bench().broker.release)


def members(client: Client, group: str) -> int:
    request = GetConsumerListByGroupRequest(consumer_group=group)
    return client.must(catalog.GET_CONSUMER_LIST_BY_GROUP, request).code


async def settled(bench: Bench) -> None:
    """Run all timers that are due."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.server.timers.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def test_others_are_answered_before_a_heartbeat_of_many_groups_is(
    autojump_clock: Any,
) -> None:
    bench = Bench()
    client, other = bench.client(), bench.client()
    assert client.ask(catalog.HEART_BEAT, None, a_heartbeat()) is None
    assert members(other, NAMES[-1]) != 0  # no members yet: the heartbeat is not finished
    await settled(bench)
    [answer] = client.answers()
    assert answer.code == 0
    assert members(other, NAMES[0]) == members(other, NAMES[-1]) == 0
    assert len(bench.facts(MemberJoined)) == GROUPS
    bench.no_bugs()


async def test_a_client_that_closes_during_its_heartbeat_stays_in_no_group(
    autojump_clock: Any,
) -> None:
    bench = Bench()
    client = bench.client()
    client.ask(catalog.HEART_BEAT, None, a_heartbeat(producers=3))
    client.close()
    await settled(bench)
    assert bench.broker.clients.consumer_table == {}
    assert bench.broker.clients.producer_table == {}
    assert bench.broker.clients.member_count == 0
    bench.no_bugs()


async def test_who_leaves_many_groups_leaves_them_all_though_not_at_once(
    autojump_clock: Any,
) -> None:
    bench = Bench()
    client, other = bench.client(), bench.client()
    for one in (client, other):
        one.ask(catalog.HEART_BEAT, None, a_heartbeat(str(one), producers=300))
        await settled(bench)
    other.heard.clear()
    client.close()
    assert 0 < len(bench.facts(MemberLeft)) < GROUPS
    await settled(bench)
    assert [fact.group for fact in bench.facts(MemberLeft)] == NAMES
    assert sorted(other.notices()) == NAMES
    assert bench.broker.clients.member_count == GROUPS
    assert {len(channels) for channels in bench.broker.clients.producer_table.values()} == {1}
    bench.no_bugs()


async def test_a_slice_of_groups_is_refused_when_others_have_taken_the_room(
    autojump_clock: Any,
) -> None:
    bench = Bench(members_max=GROUPS)
    client, other = bench.client(), bench.client()
    client.ask(catalog.HEART_BEAT, None, a_heartbeat())
    other.heartbeat("d", "late", {"orders": "*"})
    await settled(bench)
    [answer] = client.answers()
    assert answer.code != 0
    assert "members of groups" in (answer.remark or "")
    assert bench.broker.clients.member_count <= GROUPS


async def test_retry_topics_of_one_heartbeat_are_registered_together_from_5_1_4(
    autojump_clock: Any,
) -> None:
    bench = Bench(release="5.3.3", namesrv=("127.0.0.1:9876",))
    announced: list[list[str]] = []
    broker = bench.broker
    broker.connect(
        bench.server.ring,
        bench.server.push,
        lambda topics, _bell: announced.append([t.topic_name or "" for t in topics or ()]),
        bench.server.later,
    )
    bench.client().ask(catalog.HEART_BEAT, None, a_heartbeat())
    await settled(bench)
    assert [name for names in announced for name in names] == [retry_topic(n) for n in NAMES]
    assert len(announced) <= GROUPS // 50
    bells = {broker.registering(topic) for topic in announced[0]}
    assert len(bells) == 1
    (bell,) = bells
    broker.registered(announced[0], bell)
    assert {broker.registering(topic) for topic in announced[0]} == {None}


class CountingDisk(MemoryDisk):
    """Keeps the size of each append."""

    def __init__(self) -> None:
        super().__init__()
        self.appended: list[int] = []

    def append(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        self.appended.append(len(data))
        super().append(name, data, flushed=flushed)


async def test_groups_of_one_slice_are_one_line_and_all_survive_a_kill(
    autojump_clock: Any,
) -> None:
    disk = CountingDisk()
    bench = Bench(disk)
    bench.client().ask(catalog.HEART_BEAT, None, a_heartbeat())
    await settled(bench)
    assert len(disk.appended) <= GROUPS // 25
    again = Bench(disk).broker  # the first broker was not closed
    assert all(again.groups.get(name) for name in NAMES)
    assert all(again.topics.get(retry_topic(name)) for name in NAMES)
    assert again.groups.data_version == bench.broker.groups.data_version


async def test_what_is_removed_and_put_together_is_as_the_last_change_left_it() -> None:
    disk = CountingDisk()
    broker = Bench(disk).broker
    for name in NAMES:  # so many that changes are in a separate file
        broker.groups.find(name, EPOCH_MS, by="admin")
    with broker.saved_in_one_write():
        broker.groups.delete(NAMES[0], EPOCH_MS)
        broker.groups.find(NAMES[0], EPOCH_MS, by="admin")
        broker.groups.find("new", EPOCH_MS, by="admin")
        broker.groups.delete("new", EPOCH_MS)
        broker.groups.delete(NAMES[1], EPOCH_MS)
    again = Bench(disk).broker.groups
    assert again.get(NAMES[0]) is not None
    assert again.get(NAMES[1]) is again.get("new") is None
