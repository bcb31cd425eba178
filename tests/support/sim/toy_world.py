"""A busy small world, run as a separate process: it prints all events.

python tests/support/sim/toy_world.py SEED
"""

from __future__ import annotations

import sys

import trio

from rocketmq_emulator.faults.links_and_drives import Rule, Slow, Stall, around
from rocketmq_emulator.sim.machines import Machine, Program
from rocketmq_emulator.sim.world import VirtualWorld, run_virtual
from tests.support.sim.toy_endpoints import Echo, Ends, a_server


def a_chatterer(log: list[str]) -> Program:
    async def program(machine: Machine) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(chatter, machine, number, log)

    return program


async def chatter(machine: Machine, number: int, log: list[str]) -> None:
    rng = machine.rng(f"chatter {number}")
    ends = Ends()
    while True:
        try:
            with trio.fail_after(3):
                transport = await machine.network.connect("server:1", ends)
                end = ends.all[-1]
                transport.send(b"x" * rng.randrange(1, 50))
                await end.wait_data(1)
            log.append(f"{machine.now_ms()} {machine.name}/{number} {end.data!r} {end.ends}")
        except (trio.TooSlowError, OSError) as error:
            log.append(f"{machine.now_ms()} {machine.name}/{number} {error!r}")
        await trio.sleep(rng.choice([0, 0.1, 0.1, 1]))


async def main(world: VirtualWorld) -> None:
    log: list[str] = []
    world.machines.start("server", a_server(1, Ends(Echo)))
    for name in ("amy", "bob", "cid"):
        world.machines.start(name, a_chatterer(log))
    with world.network.under(Rule(around("amy"), Slow(ms=5, jitter_ms=20))):
        await trio.sleep(3)
    with world.network.under(Rule(around(["amy", "bob"]), Stall())):
        await trio.sleep(5)
    world.machines.pause("cid")
    world.machines.restart("server")
    await trio.sleep(3)
    world.machines.resume("cid")
    world.machines.power_off("server")
    await trio.sleep(4)
    world.machines.restart("server")
    await trio.sleep(1)
    sys.stdout.write("\n".join(log))


if __name__ == "__main__":
    run_virtual(main, seed=int(sys.argv[1]))
