"""A ``RemotingServer`` with one handler that echoes the body: its cost without a broker.

python -m benchmarks.echo_server     # prints its address, serves until killed
"""

from __future__ import annotations

import trio

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.facts.journal import discard_fact
from rocketmq_emulator.net.remoting_server import RemotingServer
from rocketmq_emulator.net.results import Call, Reply
from rocketmq_emulator.net.tcp import TcpNetwork
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.settings.config import NetConfig
from rocketmq_emulator.settings.releases import R_4_9_7


def echo(call: Call[Header]) -> Reply:
    return Reply(body=call.body)


async def main() -> None:
    async with trio.open_nursery() as nursery:
        server = RemotingServer(
            WallClock.of_this_machine(),
            NetConfig(),
            R_4_9_7,
            discard_fact,
            {catalog.HEART_BEAT.code: (catalog.HEART_BEAT, echo)},
        )
        listener = await server.serve(TcpNetwork(nursery), "127.0.0.1:0", nursery)
        print(listener.address, flush=True)


if __name__ == "__main__":
    trio.run(main)
