"""What weather found that is no mistake of ours: RocketMQ's own rules, in a few lines."""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, scenario


@scenario
async def a_broker_forgets_its_locks(run: Run, release: str = "4.9.7", joins: bool = True) -> None:
    """A broker is started again, and a new member of an orderly group takes its queues.

    Locks are in a broker's memory only, but who held one trusts it for 30 s after the last
    renewal.  A member that joins soon after the restart is given the lock of the same queue, and
    until the first one hears of it two members consume the queue at the same time: up to 20 s.
    Since 5.2.0 a member whose pass went wrong passes again after a second, and soon finds out.
    """
    await run.cluster(brokers=1, topics={"orders": 4}, release=release)
    billing = await run.consumers("billing", topic="orders", orderly=True)
    with run.load("orders", rate=10):
        await run.sleep(25)
        with run.kill("broker-a"):
            await run.sleep(3)
        if joins:
            billing.grow(1)
        await run.sleep(40)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("forgotten_locks", "billing") == 0)
