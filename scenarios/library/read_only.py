"""A broker that may be read and not written to: its queues stay assigned, and idle."""

from __future__ import annotations

from rocketmq_emulator.scenarios import AVERAGELY, Run, idle_members, nothing_lost, scenario


@scenario(issue="apache/rocketmq#3465")
async def a_broker_turns_read_only(run: Run) -> None:
    """A broker turns read-only for maintenance.

    Its queues stay in the assignment, so the members that hold them have nothing to do.
    """
    cluster = await run.cluster(brokers=2, topics={"orders": 4})
    await run.consumers("billing", members=8, topic="orders", strategy=AVERAGELY)
    with run.load("orders", rate=200):
        await run.sleep(30)
        with cluster.read_only("broker-b"):
            await run.sleep(60)
    await run.until_quiet()
    run.expect(nothing_lost(), idle_members("billing") == 0)
