"""The settings of a NameServer on port 0 have the port that it got."""

from __future__ import annotations

import random
from functools import partial

import trio

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.nameserver.service import serve_name_server
from rocketmq_emulator.net.tcp import TcpNetwork
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.command import RemotingCommand, decode_command, encode_command
from rocketmq_emulator.protocol.framing import FrameDecoder
from rocketmq_emulator.protocol.java import java_properties
from rocketmq_emulator.settings.config import NameServerConfig


async def test_a_server_on_any_free_port_shows_the_one_it_got() -> None:
    clock = WallClock.of_this_machine()
    async with trio.open_nursery() as nursery:
        address = await nursery.start(
            partial(
                serve_name_server,
                NameServerConfig(listen_address="127.0.0.1:0"),
                network=TcpNetwork(nursery),
                disk=MemoryDisk(),
                clock=clock,
                rng=random.Random(1),
                journal=Journal("namesrv", clock),
                stop=trio.Event(),
            )
        )
        port = int(address.rpartition(":")[2])
        shown = await settings_at(port)
        nursery.cancel_scope.cancel()
    assert port != 0
    assert (shown["listenPort"], shown["bindAddress"]) == (str(port), "127.0.0.1")


async def settings_at(port: int) -> dict[str, str]:
    """What the NameServer on *port* answers to GET_NAMESRV_CONFIG."""
    request = RemotingCommand(code=RequestCode.GET_NAMESRV_CONFIG, opaque=1)
    decoder = FrameDecoder()
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(encode_command(request))
        while (frame := decoder.next_frame()) is None:
            decoder.feed(await stream.receive_some())
    return java_properties.parse(decode_command(frame).body.decode())
