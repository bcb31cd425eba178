"""A broker without power does not answer: how long producers still choose it."""

from __future__ import annotations

import json

import pytest
import trio

from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.facts import BrokerUnregistered, SendAttempted
from rocketmq_emulator.sim.world import run_virtual
from tests.support.sim.whole_run import a_producer, a_tool

POWER_OFF_S, END_S = 40, 240
POLL_S, SILENCE_S = 30, 120


def lines_of(release: str) -> list[dict]:
    lines: list[bytes] = []

    async def main(world) -> None:
        cluster = VirtualCluster(world, ClusterSpec(brokers=2, release=release), lines.append)
        await cluster.start()
        await cluster.start_client("tool", a_tool(cluster.namesrv)).wait_ended()
        cluster.start_client("producer", a_producer(cluster.namesrv, END_S))
        await trio.sleep_until(POWER_OFF_S)
        cluster.power_off("broker-b")
        await trio.sleep_until(END_S)

    run_virtual(main, seed=3)
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(("release", "scan_s"), [("4.9.7", 10), ("5.3.3", 5)])
def test_client_invariant_58_a_silent_broker_is_chosen_until_it_expires_and_routes_are_polled(
    release: str, scan_s: int
) -> None:
    lines = lines_of(release)
    began_ms = lines[0]["at_ms"]

    def times_s(kind: type, **wanted: str) -> list[float]:
        return [
            (line["at_ms"] - began_ms) / 1000 - POWER_OFF_S
            for line in lines
            if line["fact"]["kind"] == kind.__name__
            and all(
                line["fact"].get("queue", {}).get(key) == value for key, value in wanted.items()
            )
        ]

    # The NameServer closes the silent connection, not later than a scan expires the broker.
    (gone_s,) = times_s(BrokerUnregistered)
    assert SILENCE_S - POLL_S <= gone_s <= SILENCE_S + scan_s
    tried = [at_s for at_s in times_s(SendAttempted, broker="broker-b") if at_s > 0]
    assert max(tried) > gone_s - 10, "until then it is chosen like the other"
    assert max(tried) <= gone_s + POLL_S <= SILENCE_S + scan_s + POLL_S
    served = times_s(SendAttempted, broker="broker-a")
    assert max(served) > END_S - POWER_OFF_S - 5
