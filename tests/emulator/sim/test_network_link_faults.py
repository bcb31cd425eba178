"""Links with random delays, low bandwidth or partitions; and the effects that a rule counts."""

from __future__ import annotations

import errno
import itertools
import statistics

import pytest
import trio

from rocketmq_emulator.faults.links_and_drives import (
    Cut,
    Refuse,
    Rule,
    Separate,
    Slow,
    Stall,
    Tally,
    Throttle,
    between,
    everything,
    one_way,
)
from rocketmq_emulator.net.transport import ConnectRefused
from rocketmq_emulator.sim.stream import Latency
from rocketmq_emulator.sim.world import run_virtual
from tests.support.sim.toy_endpoints import Ends, a_client, a_link

NO_LATENCY = Latency(us_min=0, us_max=0)
MESSAGES = 2_000


def fed_at(end) -> list[float]:
    return [at for at, kind, _ in end.heard if kind == "feed"]


def late_ms(verdict: Slow, seed: int = 1) -> list[float]:
    """The delay of each of many messages; each has its stream, so none waits for another."""

    async def main(world) -> list[float]:
        links = [await a_link(world, port=number) for number in range(1, MESSAGES + 1)]
        began_s = trio.current_time()
        with world.network.under(Rule(one_way("a", "b"), verdict)):
            for near, _ in links:
                near.transport.send(b"x")
            for _, far in links:
                await far.wait_data(1)
        return [round((far.heard[0][0] - began_s) * 1000, 3) for _, far in links]

    return run_virtual(main, seed=seed, latency=NO_LATENCY)


@pytest.mark.parametrize(
    ("distribution", "median", "lowest", "above_tenfold"),
    [
        ("uniform", 150, 100, 0),
        ("normal", 100, 0, 0),
        ("exponential", 100 + 69.3, 100, 0),
        ("pareto", 100 + 58.7, 100, 0.027),  # (1 + 10) ** -1.5
    ],
)
def test_how_late_bytes_are_follows_the_distribution(
    distribution, median: float, lowest: float, above_tenfold: float
) -> None:
    late = late_ms(Slow(ms=100, jitter_ms=100, distribution=distribution))
    assert statistics.median(late) == pytest.approx(median, rel=0.09)
    assert lowest <= min(late) <= lowest + 5
    share = sum(ms > 1_100 for ms in late) / MESSAGES
    assert share == pytest.approx(above_tenfold, abs=0.008)


def test_chance_on_a_link_follows_the_seed() -> None:
    verdict = Slow(ms=0, jitter_ms=50, distribution="pareto")
    assert late_ms(verdict, seed=3) == late_ms(verdict, seed=3) != late_ms(verdict, seed=4)


@pytest.mark.parametrize("distribution", ["uniform", "normal", "exponential", "pareto"])
def test_a_stream_keeps_its_order_however_late_its_bytes_are(distribution) -> None:
    async def main(world) -> None:
        near, far = await a_link(world)
        numbers = [b"%04d" % number for number in range(300)]
        rule = Rule(everything, Slow(ms=5, jitter_ms=50, distribution=distribution))
        with world.network.under(rule):
            for number in numbers:
                near.transport.send(number)
                await trio.sleep(0.001)
        await far.wait_data(1200)
        assert [data for _, _, data in far.heard] == numbers
        assert rule.tally.times == {"delayed bytes": 300}

    run_virtual(main, seed=1)


@pytest.mark.parametrize(
    ("fields", "name"),
    [({"ms": -1}, "ms"), ({"ms": 1, "jitter_ms": float("nan")}, "jitter_ms"),
     ({"ms": 1, "distribution": "poisson"}, "distribution")],
)  # fmt: skip
def test_a_delay_that_cannot_be_is_refused_by_its_field(fields, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} is"):
        Slow(**fields)
    with pytest.raises(ValueError, match=r"^bytes_per_s is"):
        Throttle(bytes_per_s=0)


def test_the_streams_of_a_narrow_path_share_it_and_the_other_way_is_its_own() -> None:
    async def main(world) -> None:
        (near, far), (near2, far2) = await a_link(world, port=1), await a_link(world, port=2)
        rule = Rule(between("a", "b"), Throttle(bytes_per_s=1_000))
        with world.network.under(rule):
            began_s = trio.current_time()
            for end in (near, near2, near):
                end.transport.send(b"x" * 500)
            far.transport.send(b"y" * 100)
            await near.wait_data(100)
            assert trio.current_time() - began_s == pytest.approx(0.1)
            await far.wait_data(1000)
        arrived = [at - began_s for end in (far, far2) for at in fed_at(end)]
        assert sorted(arrived) == pytest.approx([0.5, 1.0, 1.5])
        assert rule.tally.held_bytes == 1_600
        assert rule.tally.count == 4

    run_virtual(main, seed=1, latency=NO_LATENCY)


def test_what_waits_before_a_narrow_place_is_unsent_and_its_sender_sees_it_leave() -> None:
    async def main(world) -> None:
        near, far = await a_link(world)
        with world.network.under(Rule(everything, Throttle(bytes_per_s=1_000))):
            for _ in range(3):
                near.transport.send(b"x" * 100)
            unsent = [near.transport.unsent_bytes()]
            for _ in range(3):
                await trio.sleep(0.1)
                unsent.append(near.transport.unsent_bytes())
            assert unsent == [300, 200, 100, 0]
            assert [kind for _, kind, _ in near.heard] == ["drained", "drained", "writable"]
            assert len(far.heard) == 3

    run_virtual(main, seed=1, latency=NO_LATENCY)


def test_what_waits_before_a_narrow_place_leaves_when_the_rule_ends() -> None:
    async def main(world) -> None:
        near, far = await a_link(world)
        with world.network.under(Rule(everything, Throttle(bytes_per_s=1))):
            for _ in range(100):
                near.transport.send(b"x" * 1_000)
            await trio.sleep(10)
            assert far.heard == []
        near.transport.send(b"y")
        await far.wait_data(100_001)
        assert trio.current_time() < 10.01
        assert far.data.endswith(b"y")

    run_virtual(main, seed=1)


def test_a_rule_elsewhere_does_not_start_a_slow_transfer_anew() -> None:
    async def main(world) -> None:
        near, far = await a_link(world)
        with world.network.under(Rule(everything, Throttle(bytes_per_s=1_000))):
            began_s = trio.current_time()
            near.transport.send(b"x" * 1_000)
            for _ in range(15):
                await trio.sleep(0.1)
                with world.network.under(Rule(between("c", "d"), Stall())):
                    pass
            assert far.heard[0][0] - began_s == pytest.approx(1.0)

    run_virtual(main, seed=1, latency=NO_LATENCY)


def test_a_path_that_becomes_narrower_begins_with_what_was_under_way_anew() -> None:
    async def main(world) -> None:
        near, far = await a_link(world)
        with world.network.under(Rule(everything, Throttle(bytes_per_s=1_000))):
            near.transport.send(b"x" * 1_000)
            await trio.sleep(0.5)
            with world.network.under(Rule(everything, Throttle(bytes_per_s=100))):
                await far.wait_data(1_000)
                assert trio.current_time() == pytest.approx(0.5 + 10)

    run_virtual(main, seed=1, latency=NO_LATENCY)


def test_a_stall_in_a_narrow_place_holds_and_then_it_goes_on() -> None:
    async def main(world) -> None:
        near, far = await a_link(world)
        with world.network.under(Rule(everything, Throttle(bytes_per_s=1_000))):
            near.transport.send(b"x" * 1_000)
            near.transport.send(b"y" * 1_000)
            with world.network.under(Rule(everything, Stall())):
                await trio.sleep(30)
                assert far.data == b""
            await far.wait_data(2_000)
            assert trio.current_time() == pytest.approx(32)

    run_virtual(main, seed=1, latency=NO_LATENCY)


def test_whoever_connects_in_a_partition_gets_no_answer_and_is_not_refused() -> None:
    async def main(world) -> None:
        await world.network.host("b").listen("0.0.0.0:1", Ends())
        rule = Rule(between("a", "b"), Separate())
        with world.network.under(rule):
            with pytest.raises(ConnectRefused, match="no answer from b:1 in 127 s") as caught:
                await a_client(world, "b:1")
            assert caught.value.errno == errno.ETIMEDOUT
            assert trio.current_time() == pytest.approx(127)
        assert rule.tally.times == {"lost what asked for a connection": 7}

    run_virtual(main, seed=1)


@pytest.mark.parametrize("way", [("a", "b"), ("b", "a")])
def test_a_partition_one_way_is_enough_to_lose_a_connect(way) -> None:
    async def main(world) -> None:
        there = Ends()
        await world.network.host("b").listen("0.0.0.0:1", there)
        with world.network.under(Rule(one_way(*way), Separate())):
            with trio.move_on_after(60) as patience:
                await a_client(world, "b:1")
            assert patience.cancelled_caught
        assert there.all == []

    run_virtual(main, seed=1)


def test_an_attempt_that_outlasts_a_partition_succeeds_when_the_kernel_asks_again() -> None:
    async def main(world) -> None:
        await world.network.host("b").listen("0.0.0.0:1", Ends())
        async with trio.open_nursery() as nursery:
            with world.network.under(Rule(between("a", "b"), Separate())):
                nursery.start_soon(a_client, world, "b:1")
                await trio.sleep(4)
        assert trio.current_time() == pytest.approx(7, abs=0.01)  # attempts at 0, 1, 3 and 7 s

    run_virtual(main, seed=1)


def test_open_streams_outlive_a_partition_and_lose_nothing() -> None:
    async def main(world) -> None:
        near, far = await a_link(world)
        rule = Rule(one_way("a", "b"), Separate())
        with world.network.under(rule):
            near.transport.send(b"held")
            far.transport.send(b"passes")
            assert await near.wait_data(6) == b"passes"
            await trio.sleep(600)
            assert (far.heard, near.ends) == ([], [])
        assert await far.wait_data(4) == b"held"
        assert (rule.tally.count, rule.tally.held_bytes) == (1, 4)

    run_virtual(main, seed=1)


def test_a_rule_counts_the_connections_it_refused_and_the_streams_it_reset() -> None:
    async def main(world) -> None:
        await a_link(world, port=2)
        await world.network.host("b").listen("0.0.0.0:1", Ends())
        refusing = Rule(between("a", "b"), Refuse())
        with world.network.under(refusing):
            for _ in range(3):
                with pytest.raises(ConnectRefused):
                    await a_client(world, "b:1")
        cutting = Rule(between("a", "b"), Cut())
        with world.network.under(cutting), pytest.raises(ConnectRefused):
            await a_client(world, "b:1")
        assert refusing.tally.times == {"refused a connection": 3}
        assert cutting.tally.times == {"reset streams": 1, "refused a connection": 1}

    run_virtual(main, seed=1)


def test_a_rule_that_met_no_traffic_did_nothing_and_one_that_did_is_announced_once() -> None:
    announced: list[str] = []

    async def main(world) -> None:
        near, far = await a_link(world)
        idle = Rule(between("c", "d"), Stall())
        busy = Rule(everything, Slow(ms=1), Tally(announced.append))
        with world.network.under(idle), world.network.under(busy):
            for _ in range(3):
                near.transport.send(b"x")
            await far.wait_data(3)
        assert (idle.tally.count, busy.tally.count) == (0, 3)

    run_virtual(main, seed=1)
    assert announced == ["delayed bytes"]


def test_a_sender_that_loses_power_loses_what_waited_before_a_narrow_place() -> None:
    async def main(world) -> None:
        near, far = await a_link(world)
        with world.network.under(Rule(everything, Throttle(bytes_per_s=10))):
            near.transport.send(b"x" * 100)
            await trio.sleep(1)
            world.network.host("a").power_off()
            world.network.host("a").power_on()
            far.transport.send(b"still there?")  # the other end is closed: a reset comes back
            assert await far.wait_closed() == "reset"
        assert far.data == b""

    run_virtual(main, seed=1)


def test_narrow_and_late_add_up() -> None:
    async def main(world) -> None:
        near, far = await a_link(world)
        with (
            world.network.under(Rule(everything, Throttle(bytes_per_s=1_000))),
            world.network.under(Rule(everything, Throttle(bytes_per_s=100))),
            world.network.under(Rule(everything, Slow(ms=500))),
        ):
            began_s = trio.current_time()
            for _ in range(3):
                near.transport.send(b"x" * 100)
            await far.wait_data(300)
        steps = [at - began_s for at, *_ in far.heard]
        assert steps == pytest.approx([1.5, 2.5, 3.5])
        assert all(later - earlier > 0 for earlier, later in itertools.pairwise(steps))

    run_virtual(main, seed=1, latency=NO_LATENCY)
