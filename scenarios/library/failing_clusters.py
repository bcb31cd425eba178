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


@scenario(issue="apache/rocketmq#2763")
async def routes_wait_for_offsets(run: Run, in_series: bool = True) -> None:
    """One of two brokers cannot be reached, and the client learns nothing new for minutes.

    One task of a client does all that is periodic, and upstream's waits for each queue's broker
    when it writes offsets (in_series, a quirk): 3 s a queue, every 5 s, so the next poll of routes
    comes late, and a topic of the healthy broker that got more queues is not noticed.  In the
    report 50 consumers of one client waited for 5 minutes.  Our client does not wait there.
    """
    if in_series:
        run.quirks("persist_in_series")
    on_a = {"queues": 2, "brokers": ["broker-a"]}
    await run.cluster(brokers=2, topics={"orders": 8, "bills": on_a})
    await run.consumers("billing", topics={"orders": "*", "bills": "*"})
    with run.load("bills", rate=4):
        await run.sleep(35)
        with run.partition(between=("billing", "broker-b")):
            await run.sleep(6)
            run.grow_topic("bills", queues=4)
            await run.sleep(100)
        await run.sleep(30)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("unowned_s") <= 51)


@scenario(issue="apache/rocketmq#1918")
async def a_member_is_without_network_for_two_minutes(run: Run, release: str = "4.9.7") -> None:
    """The network of one of two members fails for two minutes and comes back.

    In the report (4.4.0) that member consumed nothing more for a day, and took one pass after the
    other.  Likely an Error had ended its pull thread: PullMessageService.run catches Exception up
    to 5.3.2, and since 5.3.3 Throwable, by a change that names the report (#9278).  Here no thread
    ends, and brokers give its queues to the other one; within a pass after its next heartbeat it
    has its share again.
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
