"""How long things take at most, by arithmetic from RocketMQ's timers: docs/scenarios.md.

Each is built so that its bound is nearly reached: a bound that is ten times too loose proves
nothing.
"""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, scenario

NO_RETRY = {"sync_retries": 0}


@scenario
async def a_broker_dies_and_nobody_retries(run: Run) -> None:
    """A broker is killed a moment after producers have polled their routes.

    Its connections close, so the NameServer drops it at once; a producer learns that with its
    next poll.  Until then its share of the sends fails: 30 s at most.
    """
    await run.cluster(brokers=2, topics={"orders": 2})
    await run.consumers("billing", topic="orders")
    with run.load("orders", rate=5, settings=NO_RETRY):
        await run.sleep(30.5)
        with run.kill("broker-b"):
            await run.sleep(40)
        await run.sleep(10)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("producer_failover_s") <= 30)


@scenario
async def a_broker_hangs_and_nobody_retries(run: Run, release: str = "4.9.7") -> None:
    """A broker stands still with its connections open, and is chosen on and on.

    The NameServer misses it 120 s after its last registration, looks every 10 s (every 5 s
    since 5.0.0), and producers poll every 30 s.
    """
    await run.cluster(brokers=2, topics={"orders": 2}, release=release)
    await run.consumers("billing", topic="orders")
    with run.load("orders", rate=2, settings=NO_RETRY):
        await run.sleep(30.5)
        with run.pause("broker-b"):
            await run.sleep(180)
        await run.sleep(10)
    await run.until_quiet()
    bound_s = 163 if release.startswith("4.") else 158  # and the time-out of the last attempt
    run.expect(nothing_lost(), metric("producer_failover_s") <= bound_s)


@scenario
async def a_member_stands_still(run: Run, seconds: int = 180) -> None:
    """One of two consumers is paused with its connections open.

    Brokers drop it 120 s after its last heartbeat and look every 10 s; expiry notifies nobody,
    so the other one learns it with its next pass, 20 s later at most.
    """
    await run.cluster(brokers=1, topics={"orders": 4})
    await run.consumers("billing", members=2, topic="orders")
    with run.load("orders", rate=4):
        await run.sleep(32)
        with run.pause("billing-2"):
            await run.sleep(seconds)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("consumer_failover_s") <= 150)


@scenario
async def a_member_joins(run: Run, notice: str = "at once", release: str = "4.9.7") -> None:
    """A second consumer joins, and the first one hears of it: at once, in batches, or never.

    The new one takes its share at once; the old one goes on with those queues until it hears of
    it: the time of one message, 15 s more where brokers gather such news, or until its own
    pass after 20 s where the news is lost.
    """
    settings = NOTICES[notice]
    await run.cluster(brokers=1, topics={"orders": 4}, release=release, broker_settings=settings)
    billing = await run.consumers("billing", members=1, topic="orders")
    with run.load("orders", rate=4):
        with run.slow_link(around="clients", ms=50):
            await run.sleep(40.5)
            billing.grow(1)
            await run.sleep(40)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("overlap_s") <= 20)


NOTICES: dict[str, dict[str, bool]] = {
    "at once": {},
    "batched": {"batched": True},
    "lost": {"notify_consumer_ids_changed": False},
}
