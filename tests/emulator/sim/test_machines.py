"""A machine can be killed, switched off, paused and restarted, with everything on it."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.faults.links_and_drives import Rule, Stall, around
from rocketmq_emulator.net.transport import ConnectRefused
from rocketmq_emulator.sim.world import EPOCH_MS, run_virtual
from tests.support.sim.toy_endpoints import Echo, Ends, a_client, a_server


async def a_running_server(world, kind=Echo) -> Ends:
    ends = Ends(kind)
    await world.machines.start("b", a_server(1, ends)).wait_ready()
    return ends


def test_killing_a_process_resets_its_streams_after_the_latency() -> None:
    async def main(world) -> None:
        ends = await a_running_server(world)
        near = await a_client(world, "b:1")
        killed_at = trio.current_time()
        world.machines.kill("b")
        assert near.ends == []
        assert await near.wait_closed() == "reset"
        assert 0.0002 <= trio.current_time() - killed_at <= 0.000501
        await trio.sleep(1)
        assert ends.all[0].heard == []
        with pytest.raises(ConnectRefused):
            await a_client(world, "b:1")

    run_virtual(main, seed=1)


def test_what_a_process_said_before_it_was_killed_still_arrives() -> None:
    async def main(world) -> None:
        ends = await a_running_server(world)
        near = await a_client(world, "b:1")
        ends.all[0].transport.send(b"testament")
        world.machines.kill("b")
        ends.all[0].transport.send(b"from the grave")
        assert await near.wait_closed() == "reset"
        assert near.data == b"testament"

    run_virtual(main, seed=1)


def test_a_killed_process_ends_wherever_it_was_and_can_be_restarted() -> None:
    ended: list[str] = []

    async def program(machine) -> None:
        try:
            machine.ready()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                await trio.sleep_forever()
        finally:
            ended.append(machine.name)

    async def main(world) -> None:
        machine = world.machines.start("b", program)
        await machine.wait_ready()
        world.machines.kill("b")
        assert not machine.is_running
        assert world.machines.restart("b") is machine
        await machine.wait_ready()
        await trio.sleep(1)
        assert ended == ["b"]
        assert machine.is_running

    run_virtual(main, seed=1)
    assert ended == ["b", "b"]


def test_a_process_that_returns_closes_its_streams_properly() -> None:
    ends = Ends()

    async def program(machine) -> None:
        await machine.network.listen("0.0.0.0:1", ends)
        machine.ready()
        await trio.sleep(1)

    async def main(world) -> None:
        machine = world.machines.start("b", program)
        await machine.wait_ready()
        near = await a_client(world, "b:1")
        await machine.wait_ended()
        assert await near.wait_closed() == "eof"

    run_virtual(main, seed=1)


def test_a_program_that_raises_ends_the_world_with_its_error() -> None:
    async def program(machine) -> None:
        await trio.sleep(5)
        raise ZeroDivisionError(machine.name)

    async def main(world) -> None:
        world.machines.start("b", program)
        await trio.sleep_forever()

    with pytest.raises(ZeroDivisionError, match="b"):
        run_virtual(main, seed=1)


def test_a_drive_outlives_the_process_and_ignores_its_dying_words() -> None:
    seen: list[bytes | None] = []

    async def program(machine) -> None:
        disk = machine.disk
        seen.append(disk.read("life"))
        disk.replace("life", b"%d" % len(seen))
        machine.ready()
        try:
            await trio.sleep_forever()
        finally:
            disk.replace("life", b"saved while dying")

    async def main(world) -> None:
        await world.machines.start("b", program).wait_ready()
        for hurt in (world.machines.kill, world.machines.power_off):
            await trio.sleep(6)  # names of files are durable by then
            hurt("b")
            await world.machines.restart("b").wait_ready()

    run_virtual(main, seed=1)
    assert seen == [None, b"1", b"2"]


def test_power_loss_forgets_what_was_not_flushed_and_a_kill_does_not() -> None:
    async def main(world) -> list[bytes]:
        await a_running_server(world)
        machine = world.machines.machine("b")
        segment = machine.disk.open_segment(0, 4096)
        segment.view[:6] = b"abcdef"
        flushed = trio.Event()
        machine.disk.flush(3, lambda _upto: flushed.set())
        await flushed.wait()
        kept = []
        for hurt in (world.machines.kill, world.machines.power_off):
            hurt("b")
            await world.machines.restart("b").wait_ready()
            kept.append(bytes(machine.disk.open_segment(0, 4096).view[:6]))
        return kept

    for seed in range(20):
        whole, rest = run_virtual(main, seed=seed)
        assert whole == b"abcdef"
        assert rest.startswith(b"abc")
        assert b"abcdef".startswith(rest.rstrip(b"\0"))


def test_a_paused_machine_hears_of_its_flush_when_it_goes_on() -> None:
    async def main(world) -> list[float]:
        await a_running_server(world)
        machine = world.machines.machine("b")
        heard: list[float] = []
        machine.disk.flush(3, lambda _upto: heard.append(trio.current_time()))
        world.machines.pause("b")
        await trio.sleep(5)
        assert heard == []
        world.machines.resume("b")
        await trio.sleep(1)
        return [round(at_s) for at_s in heard]

    assert run_virtual(main, seed=1) == [5]


def test_a_machine_without_power_says_nothing_and_answers_old_streams_with_a_reset() -> None:
    async def main(world) -> None:
        await a_running_server(world)
        near = await a_client(world, "b:1")
        world.machines.power_off("b")
        near.transport.send(b"are you there?")
        await trio.sleep(300)
        assert near.heard == []
        assert near.transport.unsent_bytes() == 14
        world.machines.power_on("b")
        assert await near.wait_closed() == "reset"

    run_virtual(main, seed=1)


def test_a_silent_stream_does_not_notice_that_its_peer_lost_power_until_it_speaks() -> None:
    async def main(world) -> None:
        await a_running_server(world)
        near = await a_client(world, "b:1")
        world.machines.power_off("b")
        await world.machines.restart("b").wait_ready()
        await trio.sleep(300)
        assert near.heard == []
        near.transport.send(b"hello")
        assert await near.wait_closed() == "reset"

    run_virtual(main, seed=1)


def test_bytes_under_way_to_a_machine_that_loses_power_are_answered_when_it_is_back() -> None:
    async def main(world) -> None:
        await a_running_server(world)
        near = await a_client(world, "b:1")
        near.transport.send(b"under way")
        world.machines.power_off("b")
        await trio.sleep(1)
        await world.machines.restart("b").wait_ready()
        assert await near.wait_closed() == "reset"

    run_virtual(main, seed=1)


def test_connecting_to_a_machine_without_power_waits_until_it_is_back() -> None:
    async def main(world) -> None:
        await a_running_server(world)
        world.machines.power_off("b")
        with trio.move_on_after(3) as patience:
            await a_client(world, "b:1")
        assert patience.cancelled_caught
        async with trio.open_nursery() as nursery:
            nursery.start_soon(a_client, world, "b:1")
            await trio.sleep(60)
            world.machines.start("b", a_server(1, Ends()))
        assert 63 < trio.current_time() < 63.1

    run_virtual(main, seed=1)


def test_what_waited_at_a_gate_is_gone_with_the_power_of_its_sender() -> None:
    async def main(world) -> None:
        ends = await a_running_server(world)
        near = await a_client(world, "b:1")
        with world.network.under(Rule(around("b"), Stall())):
            ends.all[0].transport.send(b"never left")
            world.machines.power_off("b")
        await trio.sleep(10)
        assert near.heard == []

    run_virtual(main, seed=1)


async def a_ticking(machine, ticks: list[float], server: Ends) -> None:
    async def tick() -> None:
        while True:
            await trio.sleep(1)
            ticks.append(round(trio.current_time(), 3))

    await machine.network.listen("0.0.0.0:1", server)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        machine.ready()


def test_a_paused_process_does_nothing_and_goes_on_where_it_was() -> None:
    ticks: list[float] = []

    async def main(world) -> None:
        ends = Ends(Echo)
        machine = world.machines.start("b", lambda machine: a_ticking(machine, ticks, ends))
        await machine.wait_ready()
        near = await a_client(world, "b:1")
        await trio.sleep(2.5)
        world.machines.pause("b")
        for word in (b"one ", b"two ", b"three"):
            near.transport.send(word)
            await trio.sleep(10)
        assert ticks == [1, 2]
        assert near.data == ends.all[0].data == b""
        assert machine.now_ms() == world.now_ms()
        world.machines.resume("b")
        assert await near.wait_data(13) == b"one two three"
        await trio.sleep(2)
        assert [data for _, _, data in ends.all[0].heard] == [b"one ", b"two ", b"three"]
        assert len(ticks) == 5
        assert ticks[2] == pytest.approx(32.5, abs=0.002)

    run_virtual(main, seed=1)


def test_the_kernel_of_a_paused_process_still_takes_connections() -> None:
    async def main(world) -> None:
        ends = await a_running_server(world)
        world.machines.pause("b")
        near = await a_client(world, "b:1")
        near.transport.send(b"hello")
        await trio.sleep(60)
        assert ends.all == []
        assert near.ends == []
        world.machines.resume("b")
        assert await near.wait_data(5) == b"hello"

    run_virtual(main, seed=1)


def test_bytes_that_arrive_in_the_instant_of_waking_come_after_those_that_waited() -> None:
    async def main(world) -> None:
        ends = await a_running_server(world)
        near = await a_client(world, "b:1")
        world.machines.pause("b")
        near.transport.send(b"waited ")
        await trio.sleep(1)
        near.transport.send(b"came")
        arrival_us = near.transport.arrival_us
        await trio.sleep_until(arrival_us / 1e6 - 1e-6)
        world.clock.at(arrival_us - 1, lambda _: world.machines.resume("b"))
        await ends.all[0].wait_data(11)
        assert ends.all[0].data == b"waited came"

    run_virtual(main, seed=1)


def test_pausing_one_machine_leaves_the_others_running() -> None:
    ticks: dict[str, list[float]] = {"b": [], "c": []}

    async def main(world) -> None:
        for name, own in ticks.items():
            world.machines.start(name, lambda machine, own=own: a_ticking(machine, own, Ends()))
        world.machines.pause("b")
        await trio.sleep(3.5)
        assert (len(ticks["b"]), len(ticks["c"])) == (0, 3)
        world.machines.pause("c")
        world.machines.resume("b")
        await trio.sleep(3)
        assert (len(ticks["b"]), len(ticks["c"])) == (2, 3)
        world.machines.resume("c")
        await trio.sleep(0.5)
        assert len(ticks["c"]) == 4

    run_virtual(main, seed=1)


@pytest.mark.parametrize("how", ["kill", "power_off"])
def test_a_paused_process_can_be_killed(how: str) -> None:
    ticks: list[float] = []

    async def main(world) -> None:
        machine = world.machines.start("b", lambda m: a_ticking(m, ticks, Ends()))
        await machine.wait_ready()
        world.machines.pause("b")
        await trio.sleep(5)
        getattr(world.machines, how)("b")
        await trio.sleep(5)
        assert ticks == []
        await world.machines.restart("b").wait_ready()
        await trio.sleep(1.5)
        assert len(ticks) == 1

    run_virtual(main, seed=1)


def test_a_world_ends_even_with_a_machine_paused() -> None:
    async def main(world) -> str:
        await a_running_server(world)
        world.machines.pause("b")
        await trio.sleep(1)
        return "done"

    assert run_virtual(main, seed=1) == "done"


def test_a_machine_reads_its_own_clock() -> None:
    async def main(world) -> None:
        await trio.sleep(1.234)
        machine = world.machines.machine("b")
        machine.clock.skew_ms = -5_000
        assert world.now_ms() == EPOCH_MS + 1_234
        assert world.now_ms("b") == machine.now_ms() == EPOCH_MS - 3_766

    run_virtual(main, seed=1)
