"""A broker that may be read and not written to: its queues stay assigned, and idle."""

from __future__ import annotations

from typing import Any

from rocketmq_emulator.scenarios import Run, idle_members, nothing_lost, scenario

ONE_BY_ONE = {"consume_threads_max": 1}


@scenario(issue="apache/rocketmq#3465")
async def a_broker_turns_read_only(
    run: Run,
    brokers: int = 2,
    queues: int = 4,
    members: int = 3,
    strategy: str = "averagely",
    backlog: bool = False,
    leaves: bool = False,
) -> None:
    """A broker turns read-only for maintenance.

    Its queues stay in the shares, so members that hold only such queues have nothing to do once
    these are read to their end; with a backlog they go on.  When the idle member is taken away
    (leaves) its queues go to the others, and another one idles.  By circle every member has
    queues of both brokers.
    """
    cluster = await run.cluster(brokers=brokers, topics={"orders": queues})
    in_order = range(1, min(members, 99) + 1)  # as their ids are, so the last has the last queues
    slowly: dict[str, Any] = (
        {"settings": ONE_BY_ONE, "listener": {"takes_ms": 4_000}} if backlog else {}
    )
    billing = await run.consumers(
        "billing",
        members=members,
        topic="orders",
        strategy=strategy,
        settings_of={f"billing-{at}": {"client_ip": f"10.1.0.{100 + at}"} for at in in_order},
        **slowly,
    )
    with run.load("orders", rate=5 * members / 3):  # more than slow members can take
        await run.sleep(20)
        with cluster.read_only(cluster.broker_names[-1]):
            await run.sleep(50)
            if leaves:
                run.leave(billing.members[-1])
            await run.sleep(40)
    run.expect(nothing_lost(), idle_members("billing") == 0)
