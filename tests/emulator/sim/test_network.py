"""A stream never loses bytes: it is delayed, or it is cut."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.faults.links_and_drives import (
    Cut,
    Refuse,
    Rule,
    Slow,
    Stall,
    around,
    between,
    everything,
    leaving,
    one_way,
    reaching,
)
from rocketmq_emulator.net.transport import AddressInUse, ConnectRefused
from rocketmq_emulator.sim.stream import Latency
from rocketmq_emulator.sim.world import run_virtual
from tests.support.sim.toy_endpoints import Echo, Ends, a_client, a_link

NUMBERS = [b"%04d" % number for number in range(200)]


def test_bytes_arrive_whole_in_order_and_within_the_latency() -> None:
    async def main(world) -> None:
        near, far = await a_link(world)
        said_at = {}
        for number in NUMBERS:
            said_at[number] = trio.current_time()
            near.transport.send(number)
            await trio.sleep(0.0001)
        await far.wait_data(4 * len(NUMBERS))
        assert [data for _, _, data in far.heard] == NUMBERS
        for at, _, data in far.heard:
            assert 0.0002 <= at - said_at[data] <= 0.000501

    run_virtual(main, seed=1)


def test_a_machine_reaches_itself_faster_than_others() -> None:
    async def main(world) -> None:
        near, far = await a_link(world, server="a")
        began = trio.current_time()
        near.transport.send(b"x")
        await far.wait_data(1)
        assert trio.current_time() - began < 0.0001

    run_virtual(main, seed=1)


def test_addresses_count_up_in_the_order_machines_appear() -> None:
    async def main(world) -> None:
        near, far = await a_link(world, server="b", port=10_911)
        assert near.transport.local == far.transport.remote == "10.0.0.2:32768"
        assert near.transport.remote == far.transport.local == "10.0.0.1:10911"

    run_virtual(main, seed=1)


def test_a_host_is_found_by_name_and_by_address() -> None:
    async def main(world) -> None:
        await world.network.host("b", ip="10.9.9.9").listen("0.0.0.0:7", Ends())
        for address in ("b:7", "10.9.9.9:7"):
            assert (await a_client(world, address)).transport.remote == "10.9.9.9:7"
        near = await a_client(world, "127.0.0.1:7", host="b")
        assert near.transport.remote == "10.9.9.9:7"

    run_virtual(main, seed=1)


def test_port_zero_is_any_free_one_and_a_taken_one_is_refused() -> None:
    async def main(world) -> None:
        host = world.network.host("b")
        some = await host.listen("0.0.0.0:0", Ends())
        other = await host.listen("0.0.0.0:0", Ends())
        assert some.address != other.address
        with pytest.raises(AddressInUse):
            await host.listen(some.address, Ends())
        some.close()
        assert (await host.listen(some.address, Ends())).address == some.address
        with pytest.raises(OSError, match="not an address of b"):
            await host.listen("10.77.0.1:1", Ends())

    run_virtual(main, seed=1)


def test_connecting_where_nobody_listens_is_refused_after_a_round_trip() -> None:
    async def main(world) -> None:
        world.network.host("b")
        with pytest.raises(ConnectRefused, match="nobody listens at b:1"):
            await a_client(world, "b:1")
        assert 0.0004 <= trio.current_time() <= 0.0011
        with pytest.raises(ConnectRefused, match="no host"):
            await a_client(world, "nowhere:1")

    run_virtual(main, seed=1)


def test_closing_tells_both_ends_once_after_all_that_was_said() -> None:
    async def main(world) -> None:
        near, far = await a_link(world)
        near.transport.send(b"last words")
        near.transport.close()
        near.transport.close()
        near.transport.send(b"nobody hears this")
        assert await far.wait_closed() == "eof"
        far.transport.close()
        await trio.sleep(1)
        assert far.data == b"last words"
        assert near.ends == ["closed here"]
        assert far.ends == ["eof"]

    run_virtual(main, seed=1)


def test_a_cancelled_connect_leaves_a_stream_that_is_reset() -> None:
    async def main(world) -> None:
        there, here = Ends(), Ends()
        await world.network.host("b").listen("0.0.0.0:1", there)
        with trio.move_on_after(0.00055):
            await world.network.host("a").connect("b:1", here)
        await trio.sleep(1)
        assert here.all == []
        assert [end.ends for end in there.all] == [["reset"]]

    run_virtual(main, seed=1, latency=Latency(us_min=500, us_max=500))


def test_a_delay_holds_while_its_block_does() -> None:
    async def main(world) -> None:
        near, far = await a_link(world, kind=Echo)
        with world.network.under(Rule(one_way("a", "b"), Slow(ms=700))):
            near.transport.send(b"slow")
            await near.wait_data(4)
        near.transport.send(b"fast")
        await near.wait_data(8)
        (slow_at, *_), (fast_at, *_) = far.heard
        assert slow_at == pytest.approx(0.7, abs=0.003)
        assert fast_at - slow_at < 0.0015

    run_virtual(main, seed=1)


def test_what_is_said_after_a_delay_does_not_overtake_what_was_said_in_it() -> None:
    async def main(world) -> None:
        near, far = await a_link(world)
        with world.network.under(Rule(everything, Slow(ms=50, jitter_ms=100))):
            for number in NUMBERS[:100]:
                near.transport.send(number)
        for number in NUMBERS[100:]:
            near.transport.send(number)
        await far.wait_data(4 * len(NUMBERS))
        assert far.data == b"".join(NUMBERS)

    run_virtual(main, seed=1)


def test_a_partition_that_heals_has_lost_nothing() -> None:
    async def main(world) -> None:
        near, far = await a_link(world)
        with world.network.under(Rule(around("b"), Stall())):
            for number in NUMBERS:
                near.transport.send(number)
            far.transport.send(b"hello?")
            await trio.sleep(60)
            assert (near.data, far.data) == (b"", b"")
            assert near.transport.unsent_bytes() == 4 * len(NUMBERS)
        await far.wait_data(4 * len(NUMBERS))
        await trio.sleep(0.001)
        assert far.data == b"".join(NUMBERS)
        assert near.data == b"hello?"
        assert near.transport.unsent_bytes() == 0
        assert [kind for _, kind, _ in near.heard] == ["writable", "feed"]

    run_virtual(main, seed=1)


def test_two_partitions_hold_until_both_have_healed() -> None:
    async def main(world) -> None:
        near, far = await a_link(world)
        inner, outer = Rule(around("a"), Stall()), Rule(between("a", ["b", "c"]), Stall())
        with world.network.under(outer):
            with world.network.under(inner):
                near.transport.send(b"x")
                await trio.sleep(1)
            await trio.sleep(1)
            assert far.data == b""
        assert await far.wait_data(1) == b"x"

    run_virtual(main, seed=1)


def test_connecting_into_a_partition_waits_until_it_heals() -> None:
    async def main(world) -> None:
        await world.network.host("b").listen("0.0.0.0:1", Ends())
        with world.network.under(Rule(reaching("b"), Stall())):
            with trio.move_on_after(3) as patience:
                await a_client(world, "b:1")
            assert patience.cancelled_caught
        near = await a_client(world, "b:1")
        assert near.ends == []

    run_virtual(main, seed=1)


def test_a_cut_resets_both_ends_and_what_was_under_way_is_gone() -> None:
    async def main(world) -> None:
        near, far = await a_link(world)
        near.transport.send(b"under way")
        with world.network.under(Rule(between("a", "b"), Cut())):
            assert [await near.wait_closed(), await far.wait_closed()] == ["reset", "reset"]
            await world.network.host("b").listen("0.0.0.0:2", Ends())
            with pytest.raises(ConnectRefused):
                await a_client(world, "b:2")
        await a_client(world, "b:2")
        assert far.data == b""
        assert world.network.cut(between("a", "b")) == 2

    run_virtual(main, seed=1)


def test_refusing_connects_leaves_open_streams_alone() -> None:
    async def main(world) -> None:
        near, far = await a_link(world)
        await world.network.host("b").listen("0.0.0.0:2", Ends())
        with world.network.under(Rule(leaving("a"), Refuse())):
            with pytest.raises(ConnectRefused):
                await a_client(world, "b:2")
            near.transport.send(b"still here")
            assert await far.wait_data(10) == b"still here"

    run_virtual(main, seed=1)


def test_a_rule_ends_with_its_block_even_on_error() -> None:
    async def main(world) -> bytes:
        near, far = await a_link(world)
        with (
            pytest.raises(RuntimeError, match="oops"),
            world.network.under(Rule(everything, Stall())),
        ):
            raise RuntimeError("oops")
        near.transport.send(b"x")
        return await far.wait_data(1)

    assert run_virtual(main, seed=1) == b"x"


def test_a_machine_reaches_itself_whatever_the_rules_say() -> None:
    async def main(world) -> bytes:
        with world.network.under(Rule(everything, Stall())):
            near, far = await a_link(world, server="a")
            near.transport.send(b"x")
            return await far.wait_data(1)

    assert run_virtual(main, seed=1) == b"x"


def test_a_thousand_idle_links_cost_a_call_nothing() -> None:
    def deliveries_of_a_call(idle_links: int) -> int:
        async def main(world) -> int:
            await world.network.host("b").listen("0.0.0.0:1", Ends(Echo))
            for number in range(idle_links):
                await a_client(world, "b:1", host=f"idle-{number % 50}")
            near = await a_client(world, "b:1")
            before = world.clock.deliveries
            near.transport.send(b"ping")
            await near.wait_data(4)
            await trio.sleep(600)
            return world.clock.deliveries - before

        return run_virtual(main, seed=1)

    assert deliveries_of_a_call(1_000) == deliveries_of_a_call(0) == 2


def test_an_endpoint_that_raises_ends_the_run_with_its_error() -> None:
    class Broken(Echo):
        def feed(self, data: bytes) -> None:
            raise ZeroDivisionError("an endpoint is broken")

    async def main(world) -> None:
        near, _ = await a_link(world, kind=Broken)
        near.transport.send(b"x")
        await trio.sleep_forever()

    with pytest.raises(ZeroDivisionError, match="an endpoint is broken"):
        run_virtual(main, seed=1)
