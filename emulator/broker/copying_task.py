"""The tasks of a slave: one keeps it connected to the HA port of its master, one copies tables.

Upstream: HAService.HAClient.run (4.x), DefaultHAClient.run (5.x), SlaveSynchronize.syncAll.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import trio

from rocketmq_emulator.errors.call_errors import RemoteError
from rocketmq_emulator.net.tasks import every_async

if TYPE_CHECKING:
    from rocketmq_emulator.broker.replication.ha_client import HaClient
    from rocketmq_emulator.broker.replication.slave_synchronize import SlaveSynchronize
    from rocketmq_emulator.net.remoting_client import RemotingClient
    from rocketmq_emulator.net.transport import Network, Transport

CONNECT_MS_MAX = 5_000  # RemotingUtil.connect
SYNC_STEP_MS_MAX = 3_000  # BrokerOuterAPI.getAllTopicConfig and the others


async def copy_master(client: HaClient, network: Network) -> NoReturn:
    """Connect, wait until the connection has ended, and begin again; a failure waits before.

    The address of the master comes with registrations: without one this looks again later.  In
    controller mode a new address ends the wait.
    """
    while True:
        ended, woken = trio.Event(), trio.Event()
        client.on_ended, client.on_woken = ended.set, woken.set
        if await _connect(client, network):
            await ended.wait()
            woken = trio.Event()
            client.on_woken = woken.set
            if not client.waits_before_connecting:
                await trio.lowlevel.checkpoint()
                continue
        with trio.move_on_after(client.connect_interval_ms / 1_000):
            await woken.wait()


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


async def synchronize_with_master(
    slave: SlaveSynchronize,
    client: RemotingClient,
    now_ms: Callable[[], int],
    *,
    own_address: str,
) -> NoReturn:
    """Copy the tables of the master at upstream's times, one request after another."""

    async def run_due_steps() -> None:
        steps = slave.due_steps(now_ms())
        for step in steps:
            address = slave.address_for(step, own_address)
            if address is None:
                continue
            try:
                reply = await client.invoke(address, step.rpc, timeout_ms=SYNC_STEP_MS_MAX)
            except RemoteError as error:
                slave.failed(step, str(error))
            else:
                slave.take(step, reply, now_ms())
        slave.finished(steps, now_ms())

    times = slave.times
    await every_async(times.interval_ms, run_due_steps, first_ms=times.first_ms)
