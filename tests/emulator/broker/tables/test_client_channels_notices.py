"""Many members join or leave at once: all others are notified, at linear cost."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from rocketmq_emulator.broker.tables.client_channels import PUSHES_PER_SLICE_MAX
from rocketmq_emulator.facts import MembersNotified
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.requests.groups import GetConsumerListByGroupRequest
from tests.support.broker.bench import Bench, Client

TOPICS = {"T1": "*"}


def notice_count(clients: list[Client]) -> int:
    return sum(len(client.notices()) for client in clients)


def some_members(bench: Bench, count: int, group: str = "g") -> list[Client]:
    clients = [bench.client() for _ in range(count)]
    for number, client in enumerate(clients):
        client.heartbeat(f"c{number}", group, topics=TOPICS)
    return clients


async def test_members_of_a_small_group_are_notified_of_each_change_at_once() -> None:
    bench = Bench()
    clients = some_members(bench, 9)
    for client in clients:
        client.heard.clear()
    for gone in range(1, 9):
        clients[-gone].close()
        assert clients[0].notices() == ["g"] * gone


async def test_a_thousand_members_that_leave_at_once_cost_linear_work(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        clients = some_members(bench, 1_200)
        await trio.sleep(5)
        for client in clients:
            client.heard.clear()
        for client in clients[:1_000]:
            client.close()
        await trio.sleep(5)
        assert notice_count(clients) < 1_400, "changes after the first are merged"
        nursery.cancel_scope.cancel()


async def test_every_member_that_stays_is_notified_after_the_last_change(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        clients = some_members(bench, 500)
        stay = clients[400:]
        await trio.sleep(5)
        for client in clients[:400]:
            client.close()
            await trio.sleep(0.001)
        for client in stay:
            client.heard.clear()
        clients[400].close()
        await trio.sleep(1)
        assert {len(client.notices()) for client in stay[1:]} == {1}
        nursery.cancel_scope.cancel()


async def test_pushes_to_a_large_group_let_other_requests_through(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        clients = some_members(bench, 3 * PUSHES_PER_SLICE_MAX)
        await trio.sleep(5)
        for client in clients:
            client.heard.clear()
        clients.pop().close()
        assert notice_count(clients) == PUSHES_PER_SLICE_MAX
        header = GetConsumerListByGroupRequest(consumer_group="g")
        answer = bench.client().must(catalog.GET_CONSUMER_LIST_BY_GROUP, header)
        assert answer.code == 0
        await trio.sleep(0.001)
        assert notice_count(clients) == len(clients)
        assert bench.facts(MembersNotified)[-1] == MembersNotified("g", len(clients))
        nursery.cancel_scope.cancel()


async def test_a_member_that_joins_between_two_slices_is_notified_too(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        clients = some_members(bench, 3 * PUSHES_PER_SLICE_MAX)
        await trio.sleep(5)
        clients.pop().close()
        late = bench.client()
        late.heartbeat("late", topics=TOPICS)
        await trio.sleep(1)
        assert late.notices() == ["g"]
        nursery.cancel_scope.cancel()


async def test_many_groups_that_change_in_one_turn_are_notified_in_slices(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        stays, leaves = bench.client(), bench.client()
        groups = [f"g{number}" for number in range(2 * PUSHES_PER_SLICE_MAX)]
        for group in groups:
            stays.heartbeat("c1", group, topics=TOPICS)
            leaves.heartbeat("c2", group, topics=TOPICS)
            await trio.sleep(0.001)
        stays.heard.clear()
        leaves.close()
        assert stays.notices() == groups[:PUSHES_PER_SLICE_MAX]
        await trio.sleep(0.001)
        assert stays.notices() == groups
        nursery.cancel_scope.cancel()


async def test_merged_notices_come_every_15_s_and_first_30_s_after_the_start(
    autojump_clock: MockClock,
) -> None:
    bench = Bench(real_time_notices=False)
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        first, second = some_members(bench, 2)
        await trio.sleep(29)
        assert first.notices() == []
        await trio.sleep(2)
        assert first.notices() == ["g"], "one notice for both"
        second.close()
        await trio.sleep(13.5)
        assert first.notices() == ["g"]
        await trio.sleep(1)
        assert first.notices() == ["g", "g"]
        await trio.sleep(60)
        assert first.notices() == ["g", "g"], "nothing changed since"
        nursery.cancel_scope.cancel()
