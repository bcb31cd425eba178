"""Connections of the control address: kept open, limited, unaffected by errors of another one."""

from __future__ import annotations

import json
import logging

import pytest
import trio
from trio.testing import memory_stream_pair

from rocketmq_emulator.cluster.control import serving
from rocketmq_emulator.cluster.control.serving import ControlHandler
from tests.support.cluster.fake_cluster import FakeCluster

GET = b"GET /nodes HTTP/1.1\r\nHost: localhost\r\n\r\n"
KILL = b"POST /nodes/broker-a/kill HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Client:
    """One end of a connection to a control address."""

    def __init__(self, control: ControlHandler, nursery: trio.Nursery) -> None:
        self.stream, theirs = memory_stream_pair()
        self._data = b""
        nursery.start_soon(control.serve, theirs)

    async def ask(self, data: bytes) -> tuple[int, dict]:
        await self.stream.send_all(data)
        return await self.answer()

    async def answer(self) -> tuple[int, dict]:
        while not self._data.endswith(b"}\n"):
            self._data += await self.stream.receive_some()
        head, _, body = self._data.partition(b"\r\n\r\n")
        self._data = b""
        return int(head.split()[1]), json.loads(body)

    async def is_closed(self) -> bool:
        return await self.stream.receive_some() == b""


async def test_one_connection_carries_many_requests(nursery) -> None:
    client = Client(ControlHandler(FakeCluster()), nursery)
    assert (await client.ask(GET))[0] == 200
    assert (await client.ask(KILL))[1]["state"] == "dead"
    assert await client.ask(KILL) == (409, {"error": "broker-a is dead already"})
    assert (await client.ask(GET.replace(b"localhost", b"evil.example")))[0] == 403
    assert (await client.ask(GET))[0] == 200
    await client.stream.aclose()


async def test_what_is_no_http_is_answered_and_closed(nursery) -> None:
    client = Client(ControlHandler(FakeCluster()), nursery)
    status, answer = await client.ask(b"\x16\x03\x01 hello TLS\r\n\r\n")
    assert status == 400
    assert answer["error"].startswith("this is no HTTP/1.1")
    assert await client.is_closed()


async def test_a_bug_is_one_answer_and_a_line_in_the_log(nursery, caplog) -> None:
    cluster = FakeCluster()
    cluster.fails = ZeroDivisionError("oops")
    client = Client(ControlHandler(cluster), nursery)
    status, answer = await client.ask(KILL)
    assert (status, answer) == (
        500,
        {"error": "an error of the emulator itself: ZeroDivisionError('oops')"},
    )
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert (await client.ask(GET))[0] == 200


async def test_a_bug_in_the_conversation_ends_that_connection_alone(
    nursery, caplog, monkeypatch
) -> None:
    control = ControlHandler(FakeCluster())
    first, second = Client(control, nursery), Client(control, nursery)
    assert (await first.ask(GET))[0] == 200
    with monkeypatch.context() as broken:
        broken.setattr(serving.HttpConnection, "answer", lambda *_: 1 / 0)
        await second.stream.send_all(GET)
        assert await second.is_closed()
        await trio.testing.wait_all_tasks_blocked()
    assert "ZeroDivisionError" in caplog.text
    assert (await first.ask(GET))[0] == 200


async def test_too_many_connections_are_refused_and_the_others_go_on(nursery, monkeypatch) -> None:
    monkeypatch.setattr(serving, "CONNECTIONS_MAX", 1)
    control = ControlHandler(FakeCluster())
    first = Client(control, nursery)
    assert (await first.ask(GET))[0] == 200
    second = Client(control, nursery)
    assert await second.ask(GET) == (503, {"error": "there are 1 connections already"})
    assert await second.is_closed()
    await second.stream.aclose()
    await trio.testing.wait_all_tasks_blocked()
    assert (await first.ask(GET))[0] == 200


async def test_a_request_that_does_not_arrive_is_given_up(autojump_clock, nursery) -> None:
    client = Client(ControlHandler(FakeCluster()), nursery)
    await client.stream.send_all(GET[:10])
    status, answer = await client.answer()
    assert (status, answer) == (408, {"error": "the request was not whole after 10 s"})
    assert trio.current_time() == pytest.approx(serving.REQUEST_S_MAX)


async def test_an_idle_connection_is_closed(autojump_clock, nursery) -> None:
    client = Client(ControlHandler(FakeCluster()), nursery)
    assert await client.is_closed()
    assert trio.current_time() >= serving.IDLE_S_MAX


async def test_a_client_that_reads_no_answer_is_left(autojump_clock, nursery) -> None:
    control = ControlHandler(FakeCluster())
    ours, theirs = trio.testing.lockstep_stream_pair()
    nursery.start_soon(control.serve, theirs)
    await ours.send_all(b"nonsense\r\n\r\n")
    await trio.sleep(serving.WRITE_S_MAX + 1)
    with pytest.raises(trio.BrokenResourceError):
        await ours.send_all(b"more")
