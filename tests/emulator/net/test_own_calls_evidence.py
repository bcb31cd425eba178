"""Facts about requests: noted if wanted, without cost if not."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.facts import ConnectionOpened, RequestAnsweredSlowly, RequestReceived
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.net.dispatch import Defer, HookPosition
from rocketmq_emulator.net.own_calls import note_requests
from rocketmq_emulator.settings.config import NetConfig
from tests.support.net.wired_server import Server, a_request

PEER = "10.0.0.2:40001"


def an_observed_server(slow_answer_ms: int = 0, kinds=None) -> tuple[Server, list]:
    server, facts = Server(config=NetConfig(slow_answer_ms=slow_answer_ms)), []
    journal = Journal(
        "n", server.remoting.clock, kinds=kinds, listeners=[lambda e: facts.append(e.fact)]
    )
    note_requests(server.remoting, journal)
    return server, facts


async def test_requests_are_noted_for_who_asks_for_that_kind() -> None:
    server, facts = an_observed_server(kinds=[RequestReceived])
    server.connection.feed(a_request(5, 7) + a_request(4711, 8))
    assert facts == [RequestReceived(PEER, 5, 7), RequestReceived(PEER, 4711, 8)]


async def test_without_being_asked_nothing_stands_in_the_way_of_a_request() -> None:
    for kinds in (None, [ConnectionOpened]):
        server, facts = an_observed_server(kinds=kinds)
        assert server.remoting.chain.links == ()
        assert server.remoting.chain.observer is None
        server.connection.feed(a_request(5))
        assert facts == []


@pytest.mark.parametrize(("delay_ms", "slow_ms"), [(499, []), (500, [500])])
async def test_an_answer_is_slow_from_the_threshold_on(
    delay_ms: int, slow_ms: list[int], autojump_clock: MockClock
) -> None:
    server, facts = an_observed_server(slow_answer_ms=500)
    until_ms = server.remoting.clock.now_ms() + delay_ms
    server.remoting.chain.put(HookPosition.POOLS, lambda _call: Defer(until_ms))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.remoting.timers.run)
        server.connection.feed(a_request(5))
        await trio.sleep(1)
        assert facts == [RequestAnsweredSlowly(PEER, 5, took_ms) for took_ms in slow_ms]
        nursery.cancel_scope.cancel()


async def test_what_a_client_asked_to_be_held_for_is_not_slow(autojump_clock: MockClock) -> None:
    server, facts = an_observed_server(slow_answer_ms=500)
    server.connection.feed(a_request(6, word="knock"))
    await trio.sleep(10)
    server.remoting.ring("door", "knock")
    assert len(server.wire.commands()) == 1
    assert facts == []
