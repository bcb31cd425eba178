"""Clients of a cluster that is half dead: their services wait for it, one thing after another."""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, scenario


@scenario(issue="apache/rocketmq#3138")
async def passes_come_late(run: Run, topics: int = 50) -> None:
    """One of two brokers hangs, and members take their passes 90 s apart instead of 20 s.

    A pass goes through the topics one by one, and asks one of each topic's brokers, by chance,
    who is in the group.  The one that hangs costs 3 s each time, and the topic its turn: with 50
    topics a pass takes 70 s and more.  With 3 topics some miss three turns at most.  No release
    does it in another way.
    """
    names = [f"orders-{number}" for number in range(topics)]
    await run.cluster(brokers=2, topics=dict.fromkeys(names, 1))
    await run.consumers("billing", members=2, topics=dict.fromkeys(names, "*"))
    with run.load(names[0], rate=1):
        await run.sleep(35)
        with run.pause("broker-b"):
            await run.sleep(110)
        await run.sleep(20)
    run.expect(nothing_lost(), metric("rebalance_gap_s") <= 90)


@scenario(issue="apache/rocketmq#1918")
async def a_member_is_without_network_for_two_minutes(run: Run, release: str = "4.9.7") -> None:
    """The network of one of two members fails for two minutes and comes back.

    In the report (4.4.0) that member consumed nothing more for a day, and took one pass after the
    other.  The cause was not found.  Here, as 4.9.7 and 5.3.3 do it, brokers give its queues to
    the other one, and within a pass after its next heartbeat it has its share again.
    """
    await run.cluster(brokers=2, topics={"orders": 2}, release=release)
    await run.consumers("billing", members=2, topic="orders")
    with run.load("orders", rate=4):
        await run.sleep(35)
        with run.partition(around="billing-1"):
            await run.sleep(130)
        await run.sleep(60)
    await run.until_quiet()
    run.expect(
        nothing_lost(),
        metric("backlog") == 0,
        metric("queueless_members") == 0,
        metric("delivery_gap_s") <= 150,
    )
