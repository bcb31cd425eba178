"""Producers, and brokers that are slow, hang or fail.

Most of these producers avoid slow brokers (sendLatencyFaultEnable).  The scenarios show where they
send during the fault and after it.
"""

from __future__ import annotations

from rocketmq_emulator import RequestCode, ResponseCode
from rocketmq_emulator.scenarios import (
    ReplyRule,
    Run,
    failed_sends,
    metric,
    nothing_lost,
    scenario,
)


@scenario(issue="apache/rocketmq#8990")
async def a_broker_hangs(run: Run, release: str = "4.9.7", attempt_ms: int = -1) -> None:
    """One of two brokers hangs, with its connections open.

    The timeout of 3 s is for the whole call, and the first attempt may use all of it: then there
    is no retry, and the send fails.  Since 5.3.3 an attempt can have its own limit (attempt_ms),
    which leaves time for the other broker.
    """
    await run.cluster(brokers=2, topics={"orders": 4}, release=release)
    limit = {"send_timeout_ms_per_attempt": attempt_ms} if attempt_ms > 0 else {}
    await run.consumers("billing", members=2, topic="orders")
    with run.load("orders", rate=20, settings=limit):
        await run.sleep(30)
        with run.pause("broker-b"):
            await run.sleep(20)
        await run.sleep(30)
    await run.until_quiet()
    run.expect(nothing_lost(), failed_sends() == 0)


# Producers that avoid slow brokers ----------------------------------------------------


AVOIDS = {"send_latency_fault_enable": True}
BUSY = ReplyRule(code=RequestCode.SEND_MESSAGE_V2, error_code=ResponseCode.SYSTEM_BUSY)


@scenario(issue="apache/rocketmq#7812")
async def a_broker_was_busy_once(run: Run, release: str = "5.1.4", detector: bool = False) -> None:
    """A broker is busy for some seconds, and the producer avoids slow brokers.

    In 5.1.4 a broker that answered with an error counts as unreachable, and is not used again
    while another broker is available; only the detector, which is off by default, would notice
    that it answers.  Since 5.2.0 its isolation ends after 10 s, whether it is reachable or not.
    """
    await run.cluster(brokers=2, topics={"orders": 4}, release=release)
    settings = {**AVOIDS, "start_detector_enable": detector}
    with run.load("orders", rate=20, settings=settings):
        await run.sleep(10)
        with run.answer("broker-b", BUSY):
            await run.sleep(3)
        await run.sleep(50)
    run.expect(metric("send_unfairness") <= 0.1)


@scenario(issue="apache/rocketmq#7779")
async def all_brokers_were_slow_once(run: Run, release: str = "4.9.7") -> None:
    """Both brokers are slow for a while, one slower, and the producer avoids slow brokers.

    When all brokers are avoided, it still sends to the better half of them.  Up to 4.9.7, and from
    5.0.0 to 5.1.3, this choice is written into the producer's list of queues.  In the end the list
    names only one broker, and the other gets no more messages until the route changes.
    """
    await run.cluster(brokers=2, topics={"orders": 4}, release=release)
    with run.load("orders", rate=20, settings=AVOIDS):
        await run.sleep(5)
        slower = run.slow_link(between=("broker-b", "clients"), ms=250)
        with slower, run.slow_link(between=("brokers", "clients"), ms=300):
            await run.sleep(5)
        await run.sleep(75)
    run.expect(metric("send_unfairness") <= 0.1)


@scenario(issue="apache/rocketmq#5672")
async def one_queue_gets_the_share_of_a_broker(run: Run, release: str = "4.9.7") -> None:
    """One of two brokers cannot be reached for 1 s, and is avoided: for 600 s, or 10 s.

    Up to 5.1.3 each send is one step of the producer's round robin; from there it searches for a
    queue that is not avoided.  So the first queue after those of the avoided broker gets the share
    of all of them, 25 of 48 messages.  Since 5.1.4 each skipped queue is a step too.
    """
    await run.cluster(brokers=2, topics={"orders": 24}, release=release)
    with run.load("orders", rate=50, settings=AVOIDS):
        await run.sleep(10)
        with run.cut(between=("broker-b", "clients")):
            await run.sleep(1)
        await run.sleep(15)
    run.expect(metric("send_crowding") <= 2)


@scenario(issue="apache/rocketmq#2358")
async def a_retry_goes_to_the_broker_that_failed(run: Run, release: str = "4.7.1") -> None:
    """Producers start while one of two brokers refuses connections, and avoid slow brokers.

    Up to 4.7.1 a retry takes an available queue only of the broker that has just failed, which
    is avoided now.  So it takes a broker of the latency table, and in a new producer this table
    has only the failed broker: all attempts go there.  Since 4.8.0 a retry takes any available
    queue.
    """
    await run.cluster(brokers=2, topics={"orders": 4}, release=release)
    with run.cut(between=("broker-b", "clients")):
        await run.sleep(1)
        with run.load("orders", rate=16, producers=16, settings=AVOIDS):
            await run.sleep(10)
    run.expect(failed_sends() == 0)


@scenario(issue="apache/rocketmq#6272")
async def a_retry_stays_at_a_slow_disk(run: Run, release: str = "5.1.0") -> None:
    """A broker's disk is slow, and producers retry unflushed messages at another broker.

    The answer FLUSH_DISK_TIMEOUT comes in time, so the broker is not avoided: a retry goes to
    another broker only if it excludes the broker of the last attempt.  Up to 4.7.1 a retry must go
    to that broker, up to 5.1.0 it may, and sends end with FLUSH_DISK_TIMEOUT; since 5.1.1 it goes
    to another broker.
    """
    await run.cluster(
        brokers=2,
        topics={"orders": 4},
        release=release,
        broker_settings={
            "store": "drive",
            "flush_disk_type": "SYNC_FLUSH",
            "sync_flush_ms_max": 200,
        },
    )
    settings = {**AVOIDS, "retry_another_broker_when_not_store_ok": True}
    with run.load("orders", rate=10, settings=settings):
        await run.sleep(5)
        with run.slow_disk("broker-b", flush_ms=2_000):
            await run.sleep(10)
    run.expect(metric("unsafe_sends") == 0)
