"""Our server shell with one handler that echoes the body: what the shell alone costs.

python -m benchmarks.echo_server     # prints its address, serves until killed
"""

from __future__ import annotations

import trio

from emulator.clock import WallClock
from emulator.config import NetConfig
from emulator.journal import silent
from emulator.net.remoting_server import RemotingServer
from emulator.net.results import Call, Reply
from emulator.net.tcp import TcpNetwork
from emulator.releases import R_4_9_7
from protocol import catalog


def echo(call: Call) -> Reply:
    return Reply(body=call.body)


async def main() -> None:
    async with trio.open_nursery() as nursery:
        server = RemotingServer(
            WallClock.of_this_machine(),
            NetConfig(),
            R_4_9_7,
            silent,
            {catalog.HEART_BEAT.code: (catalog.HEART_BEAT, echo)},
        )
        listener = await server.serve(TcpNetwork(nursery), "127.0.0.1:0", nursery)
        print(listener.address, flush=True)


if __name__ == "__main__":
    trio.run(main)
