"""Before 5.1.4 a new topic registers the whole table, but once for many new topics."""

from __future__ import annotations

import itertools

import msgspec
import trio

from rocketmq_emulator.broker.registration import LARGE_TOPICS_PER_MS, SMALL_TOPICS_MAX
from rocketmq_emulator.protocol import catalog
from tests.support.broker.registrations import (
    FIRST_SEND,
    FakeNameServer,
    RegistrationBench,
    with_bench,
)


async def first_send(bench: RegistrationBench, topic: str) -> None:
    header = msgspec.structs.replace(FIRST_SEND, topic=topic)
    assert await bench.ask(catalog.SEND_MESSAGE_V2, header) == 0


async def first_sends(bench: RegistrationBench, topics: list[str]) -> None:
    async with trio.open_nursery() as nursery:
        for topic in topics:
            nursery.start_soon(first_send, bench, topic)


def test_topics_that_are_made_together_are_told_in_two_registrations_at_most() -> None:
    names = [f"New{number}" for number in range(30)]

    async def main(bench: RegistrationBench) -> tuple[int, FakeNameServer]:
        name_server = await bench.name_server("namesrv")
        await bench.broker()
        before = len(name_server.registered)
        await first_sends(bench, names)
        await trio.sleep(1)
        return before, name_server

    before, name_server = with_bench(main)
    assert 1 <= len(name_server.registered) - before <= 2
    assert set(names) <= name_server.topics(-1)


def test_a_large_table_is_told_the_more_seldom_the_larger_it_is() -> None:
    names = [f"Many{number}" for number in range(2 * SMALL_TOPICS_MAX)]
    late = [f"Late{number}" for number in range(20)]

    async def main(bench: RegistrationBench) -> FakeNameServer:
        name_server = await bench.name_server("namesrv")
        await bench.broker()
        await first_sends(bench, names)
        await trio.sleep(1)
        name_server.times_s.clear()
        for topic in late:
            await first_send(bench, topic)
            await trio.sleep(0.004)
        await trio.sleep(1)
        return name_server

    name_server = with_bench(main)
    times_s = name_server.times_s
    pause_s = len(names) / LARGE_TOPICS_PER_MS / 1_000
    assert 2 <= len(times_s) < len(late) / 2
    assert min(b - a for a, b in itertools.pairwise(times_s)) >= pause_s
    assert set(late) <= name_server.topics(-1)
