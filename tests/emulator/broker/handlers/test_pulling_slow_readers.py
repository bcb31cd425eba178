"""A group that reads too far behind the end of the log may not consume, if a setting wants so."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.protocol.codes import ResponseCode
from tests.support.broker.bench import Bench
from tests.support.broker.store_makers import LAST_4, LAST_5

CHECK_S = 181  # BrokerController.protectBroker runs every 3 minutes


@pytest.mark.parametrize("release", [LAST_4, LAST_5])
@pytest.mark.parametrize(("is_on", "bytes_max"), [(True, 600), (True, 10**6), (False, 600)])
async def test_a_group_that_reads_slowly_is_disabled_every_three_minutes(
    release: str, bytes_max: int, autojump_clock: MockClock, nursery: trio.Nursery, *, is_on: bool
) -> None:
    bench = Bench(release=release, disable_slow_consumers=is_on, slow_consumer_bytes_max=bytes_max)
    bench.start(nursery)
    for _ in range(5):
        bench.client().sent("orders", b"x" * 100)

    def codes() -> tuple[int, int]:
        client = bench.client()  # a silent one loses its connection meanwhile
        client.heartbeat("one", "slow", topics={"orders": "*"})
        client.heartbeat("two", "quick", topics={"orders": "*"})
        slow = client.pull("orders", 0, flags=0, consumer_group="slow", max_msg_nums=1)
        quick = client.pull("orders", 4, flags=0, consumer_group="quick")
        assert slow is not None
        assert quick is not None
        return slow.code, quick.code

    assert codes() == (0, 0)
    await trio.sleep(CHECK_S)
    is_slow = is_on and bytes_max == 600
    assert codes() == (ResponseCode.NO_PERMISSION if is_slow else 0, 0)
