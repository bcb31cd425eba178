"""Tasks of a broker that follows controllers: what its end leaves undone."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
import trio

from rocketmq_emulator.broker.controller_task import ControllerTasks
from tests.support.broker.bench import Bench
from tests.support.broker.store_makers import LAST_5

IN_SYNC = frozenset({1})


@pytest.mark.parametrize("has_closed", [False, True])
async def test_a_slave_that_leaves_a_closed_broker_is_not_reported(has_closed: bool) -> None:
    """A killed broker's tasks end before the connections of its slaves, which report that."""
    bench = Bench(release=LAST_5, enable_controller_mode=True, controllers=("10.0.9.1:9878",))
    client = SimpleNamespace(clock=SimpleNamespace(now_ms=bench.now_ms))
    async with trio.open_nursery() as nursery:
        tasks = ControllerTasks(bench.broker, client, nursery, random.Random(1))  # type: ignore[arg-type]
        tasks._begin_to_follow()
        report = bench.broker.auto_switch.on_sync_state_set_change
        nursery.cancel_scope.cancel()
    if has_closed:
        bench.broker.close(bench.now_ms())
        report(IN_SYNC)
    else:
        with pytest.raises(RuntimeError, match="closed"):
            report(IN_SYNC)
