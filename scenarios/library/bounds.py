"""Upper bounds of times, computed from RocketMQ's timers: docs/scenarios.md.

Each scenario nearly reaches its bound: a bound that is ten times too loose proves nothing.  So
members and producers start at chosen times, and faults begin just after a timer has fired.
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
    """A broker is killed just after producers have polled their routes.

    Its connections close, so the NameServer removes it at once; a producer gets the new route with
    its next poll.  Until then its sends to that broker fail: 30 s at most.
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
    """A broker hangs with its connections open, and producers keep sending to it.

    The NameServer removes a broker 120 s after its last registration, scans every 10 s (since
    5.0.0 every 5 s), and producers poll every 30 s: 160 s, or 155 s.  But the NameServer also
    closes connections that were silent for 120 s, which comes before the scan, so it is 150 s.
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

    Brokers remove it 120 s after that and scan every 10 s.  Expiry sends no notification, so the
    other consumer notices with its next rebalance, 20 s later at most.
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
    """A second consumer joins; the first one is notified at once, merged, or not (lost).

    The new consumer claims its share when it has queried the members; the old one keeps these
    queues until it is notified.  At once: less than the time of a call.  From brokers that merge
    notifications: up to 15 s.  If they are lost: until its own rebalance, every 20 s.
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
