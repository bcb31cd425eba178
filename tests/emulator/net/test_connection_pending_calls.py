"""Frames whose commands are in flight are handled as if decoded; others are decoded."""

from __future__ import annotations

import itertools
import typing
from collections import Counter
from typing import Any, TypeAlias

import msgspec
import pytest
import trio

from rocketmq_emulator.admin.calls import Admin
from rocketmq_emulator.client import ClientConfig, Message, Producer
from rocketmq_emulator.client.consumer.push.push_consumer import PushConsumer
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.net.connection import (
    WRITE_BYTES_MAX,
    WRITES_IN_FLIGHT_MAX,
    put_in_flight,
)
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.catalog import CALLS
from rocketmq_emulator.protocol.command import (
    RESPONSE,
    RemotingCommand,
    decode_command,
    encode_command,
    ext_of,
)
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.framing import FrameDecoder
from rocketmq_emulator.protocol.versions import R_4_9_7, R_5_3_3, Release
from rocketmq_emulator.settings.config import NetConfig
from rocketmq_emulator.sim.world import run_virtual
from tests.support.net.wired_server import Server, a_request

RELEASES = [R_4_9_7, R_5_3_3]
TEXTS = [
    "plain",
    "",
    'a "quoted" \\ text',
    "a\u0000b\u007f",
    "é ü",
    "\u2028",
    "\ud800 half a pair",
]
KINDS = dict.fromkeys(kind for rpc in CALLS for kind in (rpc.request, rpc.reply))


def read(data: bytes, release: Release = R_4_9_7) -> list[RemotingCommand]:
    decoder = FrameDecoder()
    decoder.feed(data)
    return [decode_command(frame, release) for frame in decoder]


def a_header(kind: type[Header], text: str) -> Header:
    """A header with all fields set, to *text* if any text is valid."""
    return kind(
        **{field.name: a_value(field.type, text) for field in msgspec.structs.fields(kind)}
    )


def a_value(hint: Any, text: str) -> str | int | bool:
    if typing.get_origin(hint) is typing.Literal:
        return str(typing.get_args(hint)[0])
    if "int" in str(hint):
        return 8
    return True if "bool" in str(hint) else text


Left: TypeAlias = dict[bytes, list[RemotingCommand]]


class Checked(dict[bytes, list[RemotingCommand]]):
    """Values that, when taken, are compared with what each release decodes."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: Counter[str] = Counter()

    def pop(self, data: bytes, default=None) -> list[RemotingCommand] | None:
        found = super().pop(data, None)
        if found is not None:
            kinds = ["answers" if each.is_response else str(each.code) for each in found]
            self.taken.update(kinds)
            self.taken["joined"] += len(kinds) > 1
            for release in RELEASES:
                assert found == read(data, release)
        return found


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_beside_the_bytes_of_any_call_is_what_they_say(kind: type[Header]) -> None:
    count = 0
    for text, flag in itertools.product(TEXTS, (0, RESPONSE)):
        for header, remark in ((a_header(kind, text), None), (a_header(kind, "x"), text)):
            values: Left = {}
            command = RemotingCommand(
                code=15, flag=flag, opaque=9, version=409, ext=ext_of(header), remark=remark
            )
            put_in_flight(values, encode_command(command), [command])
            for data, left in values.items():
                count += 1
                assert [read(data, release) for release in RELEASES] == [left, left]
    assert count > len(TEXTS)  # most are put; texts that releases decode differently are not


def test_a_whole_life_of_a_cluster_takes_only_values_that_its_bytes_say() -> None:
    checked = Checked()

    async def main(world) -> None:
        cluster = VirtualCluster(world, ClusterSpec(brokers=2))
        await cluster.start()
        namesrv = cluster.namesrv

        async def tool(process) -> None:
            instance = await process.instance(ClientConfig(namesrv=namesrv))
            await Admin(namesrv, instance.remoting).create_topic_everywhere(
                TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2)
            )

        async def shop(process) -> None:
            async with Producer(process=process, namesrv=namesrv, group="shop") as producer:
                for number in range(200):
                    key = "naïve" if number % 2 else "plain"
                    await producer.send(Message("orders", f"{key} {number}".encode(), keys=key))
                    await trio.sleep(0.3)

        def billing(*, orderly: bool):
            async def program(process) -> None:
                async with PushConsumer(
                    lambda _messages: None,
                    {"orders": "*"},
                    process=process,
                    namesrv=namesrv,
                    group="orderly" if orderly else "billing",
                    orderly=orderly,
                    listeners_inline=True,
                ):
                    await trio.sleep_forever()

            return program

        await cluster.start_client("tool", tool).wait_ended()
        for number in range(4):
            cluster.start_client(f"consumer-{number}", billing(orderly=number > 1))
        cluster.start_client("shop", shop)
        await trio.sleep(40)
        await cluster.restart("broker-b")
        await trio.sleep(60)

    run_virtual(main, seed=1, values=checked)
    assert checked.taken["answers"] > 500
    assert checked.taken["joined"] > 10
    assert len(checked.taken) > 13  # kinds of calls
    assert len(checked) < 100  # taken values are removed; lost ones stay for a time


def left_in(values: Left, data: bytes) -> bytes:
    put_in_flight(values, data, read(data))
    return data


async def test_bytes_that_are_not_those_that_were_sent_are_read() -> None:
    values: Left = {}
    data = left_in(values, a_request(5, word="left"))
    values[data][0].ext = msgspec.Raw(b'{"word":"taken"}')  # differs from the bytes
    server = Server(values=values)
    server.connection.feed(data.replace(b"left", b"sent"))
    server.connection.feed(data)
    server.connection.feed(data)  # its value was taken
    words = [answer.fields()["word"] for answer in server.wire.commands()]
    assert words == ["sent", "taken", "left"]


async def test_a_value_is_not_taken_in_the_middle_of_a_frame() -> None:
    values: Left = {}
    inner = left_in(values, a_request(5, word="inner"))
    outer = a_request(5, opaque=2, word="outer", body=inner)
    server = Server(values=values)
    server.connection.feed(outer.removesuffix(inner))
    server.connection.feed(inner)
    assert [answer.fields()["word"] for answer in server.wire.commands()] == ["outer"]


async def test_answers_that_leave_together_are_left_together() -> None:
    values: Left = {}
    server = Server(values=values)
    server.connection.feed(a_request(5, word="alone"))
    server.connection.feed(a_request(5, opaque=2) + a_request(5, opaque=3))
    assert list(values) == server.wire.sent
    assert [*values.values()] == [server.wire.commands()[:1], server.wire.commands()[1:]]


async def test_values_behind_a_full_outbox_wait_as_frames_do() -> None:
    values: Left = {}
    config = NetConfig(outbox_bytes_max=100)
    server = Server(config=config, values=values)
    server.wire.stuck = True
    requests = [a_request(5, opaque=number, word="w" * 50) for number in (1, 2, 3)]
    server.connection.feed(left_in(values, b"".join(requests)))
    assert [answer.opaque for answer in server.wire.commands()] == [1]
    server.wire.stuck = False
    server.connection.writable()
    assert [answer.opaque for answer in server.wire.commands()] == [1, 2, 3]


def test_values_of_frames_that_are_lost_do_not_pile_up() -> None:
    values: Left = {}
    for number in range(3 * WRITES_IN_FLIGHT_MAX):
        command = RemotingCommand(code=5, opaque=number)
        put_in_flight(values, encode_command(command), [command])
    long = RemotingCommand(code=5, opaque=-1, body=bytes(WRITE_BYTES_MAX))
    put_in_flight(values, encode_command(long), [long])
    assert len(values) <= WRITES_IN_FLIGHT_MAX
    assert [long] not in values.values()
