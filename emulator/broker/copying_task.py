"""The task of a slave that keeps it connected to the HA port of its master.

Upstream: HAService.HAClient.run (4.x), DefaultHAClient.run (5.x).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import trio

if TYPE_CHECKING:
    from rocketmq_emulator.broker.replication.ha_client import HaClient
    from rocketmq_emulator.net.transport import Network, Transport

CONNECT_MS_MAX = 5_000  # RemotingUtil.connect


async def copy_master(client: HaClient, network: Network) -> NoReturn:
    """Connect, wait until the connection has ended, and begin again; a failure waits before.

    The address of the master comes with registrations: without one this looks again later.
    """
    while True:
        ended = trio.Event()
        client.on_ended = ended.set
        if await _connect(client, network):
            await ended.wait()
            if not client.waits_before_connecting:
                await trio.lowlevel.checkpoint()
                continue
        await trio.sleep(client.connect_interval_ms / 1_000)


async def _connect(client: HaClient, network: Network) -> bool:
    address = client.master_address
    if address is None:
        return False

    def accept(transport: Transport) -> HaClient:
        return client.connected(transport)

    with trio.move_on_after(CONNECT_MS_MAX / 1_000):
        try:
            await network.connect(address, accept)
        except (OSError, ValueError):  # nobody listens there, or it is no address
            return False
        return client.transport is not None
    return False
