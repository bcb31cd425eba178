"""The task that keeps a slave connected: what it waits for, and what ends the wait."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketmq_emulator.broker.copying_task import copy_master
from rocketmq_emulator.net.transport import ConnectRefused
from tests.support.broker.switch_rigs import Switcher


class Dialled:
    """A network that keeps which addresses were connected to, and refuses all."""

    def __init__(self) -> None:
        self.addresses: list[tuple[float, str]] = []
        self._began_s = trio.current_time()

    async def connect(self, address: str, _accept: object) -> Any:
        self.addresses.append((trio.current_time() - self._began_s, address))
        raise ConnectRefused(111, "nobody listens there")

    async def listen(self, *_: object) -> Any:
        raise AssertionError("a slave that copies its master listens nowhere")


@pytest.mark.parametrize(("after_s", "expected_s"), [(2, 2), (7, 7)])
async def test_in_controller_mode_a_new_address_ends_the_wait(
    after_s: float, expected_s: float, autojump_clock: MockClock
) -> None:
    slave, network = Switcher(own_id=2).follow(1, None), Dialled()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(copy_master, slave.ha.client, network)
        await trio.sleep(after_s)
        slave.ha.update_ha_master_address("10.0.0.1:10912")
        await wait_all_tasks_blocked()
        assert network.addresses == [(expected_s, "10.0.0.1:10912")]
        await trio.sleep(6)
        assert [at_s for at_s, _ in network.addresses] == [expected_s, expected_s + 5]
        slave.lead(2)
        await trio.sleep(20)
        assert len(network.addresses) == 2
        nursery.cancel_scope.cancel()
