"""A client writes all sends of one scheduler pass together, and a single call at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.net.remoting_client import RemotingClient
from rocketmq_emulator.net.tasks import NextPass
from rocketmq_emulator.net.transport import Accept
from rocketmq_emulator.protocol.command import RESPONSE, RemotingCommand, encode_command, ext_of
from rocketmq_emulator.settings.config import NetConfig
from rocketmq_emulator.settings.releases import R_4_9_7
from tests.support.net.wired_server import ECHO, Wire, Word

ADDRESS = "10.0.0.2:10911"


class OneWire:
    """A network in which all addresses lead to one ``Wire``."""

    def __init__(self) -> None:
        self.wire = Wire()

    async def connect(self, _address: str, accept: Accept) -> Wire:
        await trio.lowlevel.checkpoint()
        self.wire.endpoint = accept(self.wire)
        return self.wire


class Talk:
    """A connected client, and the other end, which answers in ``answer_all``."""

    def __init__(self, client: RemotingClient, wire: Wire) -> None:
        self.client = client
        self.wire = wire
        self.words: list[str] = []
        self.answered: list[int] = []  # the results of ``writes``

    async def ask(self, word: str) -> None:
        reply = await self.client.invoke(ADDRESS, ECHO, Word(word=word), timeout_ms=3_000)
        self.words.append(reply.fields()["word"])

    def start(self, word: str) -> None:
        self.client.invoke_async(
            ADDRESS, ECHO, Word(word=word), b"", timeout_ms=3_000, on_done=lambda _: None
        )

    def writes(self) -> list[int]:
        """The number of requests in each write since the last call."""
        counts = [data.count(b'"word"') for data in self.wire.sent]
        self.wire.sent.clear()
        return counts

    def answer_all(self) -> None:
        """Answer all sent requests; the replies arrive in one read."""
        replies = [
            encode_command(
                RemotingCommand(
                    code=0, flag=RESPONSE, opaque=asked.opaque, ext=ext_of(Word(word="yes"))
                )
            )
            for asked in self.wire.commands()
        ]
        self.answered += self.writes()
        self.wire.endpoint.feed(b"".join(replies))

    async def answer_when_all_wait(self) -> None:
        await wait_all_tasks_blocked()
        self.answer_all()


@asynccontextmanager
async def a_talk() -> AsyncIterator[Talk]:
    async with trio.open_nursery() as nursery:
        network = OneWire()
        client = RemotingClient(
            network,
            nursery,
            clock=WallClock(1_000_000, trio.current_time()),
            config=NetConfig(),
            release=R_4_9_7,
            note=lambda _: None,
            handlers={},
        )
        client.gather_writes()
        talk = Talk(client, network.wire)
        talk.start("first")
        await wait_all_tasks_blocked()
        talk.answer_all()
        talk.answered.clear()
        yield talk
        nursery.cancel_scope.cancel()


async def test_sends_that_nobody_awaits_leave_in_one_write() -> None:
    async with a_talk() as talk:
        for _ in range(100):
            talk.start("hello")
        assert talk.writes() == [], "the pass may have more sends"
        await wait_all_tasks_blocked()
        assert talk.writes() == [100]


async def test_a_call_that_is_alone_does_not_wait_for_another_pass() -> None:
    async with a_talk() as talk, trio.open_nursery() as nursery:
        talk.client.turn.end_soon = lambda: pytest.fail("it was put off")
        nursery.start_soon(talk.answer_when_all_wait)
        await talk.ask("hello")
        assert talk.answered == [1]


async def test_a_call_takes_along_what_was_started_before_it() -> None:
    async with a_talk() as talk, trio.open_nursery() as nursery:
        nursery.start_soon(talk.answer_when_all_wait)
        talk.start("nobody awaits this")
        await talk.ask("hello")
        assert talk.answered == [2]


async def test_callers_answered_by_one_read_send_their_next_calls_in_two_writes_at_most() -> None:
    async def ask_twice(talk: Talk) -> None:
        await talk.ask("one")
        await talk.ask("two")

    async with a_talk() as talk, trio.open_nursery() as nursery:
        for _ in range(32):
            nursery.start_soon(ask_twice, talk)
        await wait_all_tasks_blocked()
        talk.answer_all()
        await wait_all_tasks_blocked()
        assert len(talk.words) == 32
        counts = talk.writes()
        assert sum(counts) == 32
        assert len(counts) <= 2
        nursery.cancel_scope.cancel()


async def test_what_was_written_leaves_before_the_client_ends() -> None:
    async with a_talk() as talk:
        talk.client.send_oneway(ADDRESS, ECHO, Word(word="last words"))
        talk.client.end()
        assert talk.writes() == [1]


async def test_an_action_is_done_once_for_all_that_ask_in_one_pass() -> None:
    done: list[str] = []
    next_pass = NextPass(lambda: done.append("done"))
    next_pass.ask()
    assert done == ["done"], "at once while ``run`` does not run"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(next_pass.run)
        await wait_all_tasks_blocked()
        next_pass.ask()
        next_pass.ask()
        assert done == ["done"]
        await wait_all_tasks_blocked()
        assert done == ["done", "done"]
        nursery.cancel_scope.cancel()
    next_pass.ask()
    assert done == ["done", "done", "done"]
