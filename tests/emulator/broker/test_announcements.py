"""Before 5.1.4 the whole table goes out for a new topic: not once for each of many."""

from __future__ import annotations

import itertools

import msgspec
import trio
from registration_stage import FIRST_SEND, FakeNameServer, Stage, on_stage

from rocketmq_emulator.broker.registration import LARGE_TOPICS_PER_MS, SMALL_TOPICS_MAX
from rocketmq_emulator.protocol import catalog


async def first_send(stage: Stage, topic: str) -> None:
    header = msgspec.structs.replace(FIRST_SEND, topic=topic)
    assert await stage.ask(catalog.SEND_MESSAGE_V2, header) == 0


async def first_sends(stage: Stage, topics: list[str]) -> None:
    async with trio.open_nursery() as nursery:
        for topic in topics:
            nursery.start_soon(first_send, stage, topic)


def test_topics_that_are_made_together_are_told_in_two_registrations_at_most() -> None:
    names = [f"New{number}" for number in range(30)]

    async def story(stage: Stage) -> tuple[int, FakeNameServer]:
        name_server = await stage.name_server("namesrv")
        await stage.broker()
        before = len(name_server.told)
        await first_sends(stage, names)
        await trio.sleep(1)
        return before, name_server

    before, name_server = on_stage(story)
    assert 1 <= len(name_server.told) - before <= 2
    assert set(names) <= name_server.topics(-1)


def test_a_large_table_is_told_the_more_seldom_the_larger_it_is() -> None:
    names = [f"Many{number}" for number in range(2 * SMALL_TOPICS_MAX)]
    late = [f"Late{number}" for number in range(20)]

    async def story(stage: Stage) -> FakeNameServer:
        name_server = await stage.name_server("namesrv")
        await stage.broker()
        await first_sends(stage, names)
        await trio.sleep(1)
        name_server.times_s.clear()
        for topic in late:
            await first_send(stage, topic)
            await trio.sleep(0.004)
        await trio.sleep(1)
        return name_server

    name_server = on_stage(story)
    times_s = name_server.times_s
    pause_s = len(names) / LARGE_TOPICS_PER_MS / 1_000
    assert 2 <= len(times_s) < len(late) / 2
    assert min(b - a for a, b in itertools.pairwise(times_s)) >= pause_s
    assert set(late) <= name_server.topics(-1)
