"""Timer messages and recalls: our answers equal those of real brokers of both lines."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.parity.differences import agree
from tests.parity.timer_steps import answers_of, recorded
from tests.support.broker.bench import Bench


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
async def test_timers_and_recalls_are_answered_as_a_real_broker_answered_them(
    release: str, autojump_clock: MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(release=release, recall_message=True)
        bench.start(nursery)
        client = bench.client()
        ours = await answers_of(client.say, bench.now_ms, trio.sleep, 0.001)
        bench.no_bugs()
        nursery.cancel_scope.cancel()
    real = recorded(release)
    assert ours.keys() == real.keys()
    assert {t: (real[t], ours[t]) for t in real if not agree(real[t], ours[t])} == {}
