"""Orderly consumers and the locks of their queues."""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, scenario


@scenario(issue="apache/rocketmq#2621")
async def orderly_queues_are_taken_over(run: Run, release: str = "4.9.7") -> None:
    """One of two orderly consumers shuts down, and the other one takes over its queues.

    Up to 4.9.4 a queue that was just locked counted as not locked until the next round of
    renewals, so its messages waited for up to 20 s.  Since 4.9.5 they are consumed at once.
    """
    await run.cluster(brokers=1, topics={"orders": 4}, release=release)
    await run.consumers("billing", members=2, topic="orders", orderly=True)
    # At the start a member may request a lock that the other member is about to release; it is
    # refused, and requests it again after 20 s.  No message waits for that: it is no takeover.
    await run.sleep(35)
    with run.load("orders", rate=10):
        await run.sleep(26.5)  # members have just renewed their locks, every 20 s
        run.leave("billing-2")
        await run.sleep(50)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("out_of_order") == 0, metric("delivery_gap_s") <= 5)


@scenario(issue="alibaba/RocketMQ#459")
async def an_orderly_listener_suspends_for_minutes(
    run: Run, minutes: int = 3, forgets: bool = True
) -> None:
    """An orderly listener fails for minutes, and suspends its queues again and again.

    The queues are full, so they are not pulled.  In the report a consumer treated each queue after
    120 s as one whose pull request was lost, released it and started it again, endlessly.  No
    release with available sources does so: a pull that waits because its queue is full counts as
    a pull.  The quirk forget_full_queues imitates the report.
    """
    await run.cluster(brokers=1, topics={"orders": 2})
    if forgets:
        run.quirks("forget_full_queues")
    await run.consumers(
        "billing",
        topic="orders",
        orderly=True,
        settings={"queue_messages_max": 20},
        listener={"fails": 1.0, "from_ms": 10_000, "until_ms": (1 + 6 * minutes) * 10_000},
    )
    with run.load("orders", rate=10):
        await run.sleep(40)
    await run.sleep(60 * minutes)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("out_of_order") == 0, metric("expired_queues") == 0)


@scenario(issue="apache/rocketmq-client-go#994")
async def an_orderly_member_is_killed(run: Run, unlocks: bool = False) -> None:
    """One of two orderly consumers is killed, or shuts down (unlocks).

    A consumer that shuts down unlocks its queues, and the other one consumes them at once.  The
    locks of a killed consumer stay at the broker for 60 s, and its queues are not consumed until
    then.
    """
    await run.cluster(brokers=1, topics={"orders": 4})
    await run.consumers("billing", members=2, topic="orders", orderly=True)
    with run.load("orders", rate=10):
        await run.sleep(60)
        run.leave("billing-2", kill=not unlocks)
        await run.sleep(120)
    await run.until_quiet()
    bound_s = 5 if unlocks else 85
    run.expect(nothing_lost(), metric("out_of_order") == 0, metric("delivery_gap_s") <= bound_s)


@scenario(issue="apache/rocketmq-client-cpp#345")
async def an_orderly_group_never_begins(run: Run, held_only: bool = True) -> None:
    """Each queue of an orderly consumer is locked, and none is consumed.

    A client that looks for a queue among those that it has, when its lock is granted, finds none:
    a new queue is claimed after its lock only.  The client of the report logged at each rebalance
    that the lock was OK, but the queue released, and asked again, for ever (held_only, a quirk).
    Java clients of all releases count the lock that the broker grants.
    """
    await run.cluster(brokers=1, topics={"orders": 4})
    if held_only:
        run.quirks("lock_held_queues_only")
    await run.consumers("billing", topic="orders", orderly=True)
    with run.load("orders", rate=5):
        await run.sleep(60)
    await run.sleep(60)
    run.expect(nothing_lost(), metric("backlog") == 0)
