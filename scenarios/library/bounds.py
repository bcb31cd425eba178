"""How long things take at most, by arithmetic from RocketMQ's timers: docs/scenarios.md.

Each is built so that its bound is nearly reached: a bound that is ten times too loose proves
nothing.  So members and producers begin at odd times, and faults come just after a beat.
"""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, scenario

NO_RETRY = {"sync_retries": 0}
NOTICES: dict[str, dict[str, bool]] = {
    "at once": {},
    "merged": {"real_time_notices": False},
    "lost": {"notify_consumer_ids_changed": False},
}


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
    await run.until_quiet()
    run.expect(nothing_lost(), metric("producer_failover_s") <= 30)


@scenario
async def a_broker_hangs_and_nobody_retries(run: Run, release: str = "4.9.7") -> None:
    """A broker stands still with its connections open, and is chosen on and on.

    The NameServer misses it 120 s after its last registration, looks every 10 s (since 5.0.0
    every 5 s), and producers poll every 30 s: 160 s, or 155 s.  But the NameServer also closes
    connections that were silent for 120 s, and that comes before it looks, so it is 150 s.
    """
    await run.cluster(brokers=2, topics={"orders": 2}, release=release)
    await run.consumers("billing", topic="orders")
    await run.sleep(9)
    with run.load("orders", rate=1, settings=NO_RETRY):
        await run.sleep(31.5)
        with run.pause("broker-b"):
            await run.sleep(170)
    await run.until_quiet()
    last_attempt_s = 3
    run.expect(nothing_lost(), metric("producer_failover_s") <= 150 + last_attempt_s)


@scenario
async def a_member_stands_still(run: Run) -> None:
    """One of two consumers is paused, with its connections open, just after a heartbeat.

    Brokers drop it 120 s after that and look every 10 s; expiry notifies nobody, so the other
    one learns it with its next pass, 20 s later at most.
    """
    await run.cluster(brokers=1, topics={"orders": 4})
    await run.consumers("billing", members=2, topic="orders", starts_ms=9_500, every_ms=20_000)
    with run.load("orders", rate=4):
        await run.sleep(41)
        with run.pause("billing-1"):
            await run.sleep(160)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("consumer_failover_s") <= 150)


@scenario
async def a_member_joins(run: Run, notice: str = "at once", at_s: float = 41.4) -> None:
    """A second consumer joins, and the first one hears of it: at once, merged, or never.

    The new one takes its share when it has asked who is there; the old one goes on with those
    queues until it hears of it.  At once: less than the time of a call.  From brokers that merge
    such news: up to 15 s.  Where it is lost: until its own pass, every 20 s.
    """
    settings = NOTICES[notice]
    await run.cluster(brokers=1, topics={"orders": 4}, broker_settings=settings)
    billing = await run.consumers("billing", members=1, topic="orders")
    with run.load("orders", rate=4), run.slow_link(around="clients", ms=50):
        await run.sleep(at_s)
        billing.grow(1)
        await run.sleep(30)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("overlap_s") <= 20)
