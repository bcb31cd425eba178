"""Wrong offsets: queried without an answer, beyond the log, or committed too early or too late.

The last scenarios are about lite pull consumers: the offsets that they commit and start from.
"""

from __future__ import annotations

from rocketmq_emulator import RequestCode, ResponseCode
from rocketmq_emulator.scenarios import (
    ReplyRule,
    Run,
    duplicates,
    fact,
    metric,
    nothing_lost,
    scenario,
)

QUERY_OFFSET = 14
SILENT_AT_TIMES = ReplyRule(code=QUERY_OFFSET, no_answer=True, probability=0.5)
SLOW_FLUSHES = {
    "store": "drive",
    "flush_interval_ms": 30_000,
    "flush_thorough_interval_ms": 60_000,
}


@scenario(issue="apache/rocketmq#2708")
async def an_offset_is_asked_for_in_vain(run: Run, release: str = "4.9.7") -> None:
    """An orderly member takes over queues, and some of its queries for offsets get no answer.

    It queries the offset once more at the first pull under the lock.  Up to 4.9.8 a query without
    an answer gives -1 there, and the member pulls from -1: the broker corrects it to its first
    message, and the group consumes everything again.  Since 5.0.0 the member queries again later.
    """
    await run.cluster(brokers=1, topics={"orders": 8}, release=release)
    await run.consumers("billing", members=2, topic="orders", orderly=True)
    with run.load("orders", rate=8):
        await run.sleep(40)
        run.leave("billing-2")
        with run.answer("broker-a", SILENT_AT_TIMES):
            await run.sleep(30)
        await run.sleep(30)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("duplicates") == 0)


@scenario(issue="apache/rocketmq#1825")
async def a_broker_dies_between_lock_and_first_pull(run: Run, release: str = "4.9.7") -> None:
    """A broker is killed just when an orderly member has locked its new queues, and comes back.

    The cause is that of #2708: the rebalance has queried each offset, the first pull under the
    lock queries it once more, and the broker is down.  Up to 4.9.8 that gives -1, and the member
    pulls from -1 when the broker is back: the broker corrects it to its first message, and the
    group consumes everything again.  Since 5.0.0 the member queries the offset again.  Up to 4.9.4
    the first pull comes only with the next round of renewals, up to 20 s later: to see this, the
    broker must be killed then.
    """
    await run.cluster(brokers=1, topics={"orders": 8}, release=release)
    await run.consumers("billing", members=2, topic="orders", orderly=True)
    with run.load("orders", rate=8):
        await run.sleep(40)
        run.leave("billing-2")
        await run.until(fact("QueuesClaimed", node="billing-1"))
        with run.kill("broker-a"):
            await run.sleep(3)
        await run.sleep(60)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("duplicates") <= 64)


@scenario(issue="apache/rocketmq#7740")
async def a_broadcasting_member_asks_beyond_the_log(run: Run, release: str = "4.9.7") -> None:
    """A broker loses the end of its log, and a broadcasting member keeps pulling beyond it.

    The broker corrects the offset, the member releases the queue, and reads the old offset again:
    its offset file was written only for queues that it owned.  Until the log has grown past that
    offset, it consumes nothing.  Since 4.9.8 (5.2.0) the corrected offset is written.
    """
    await run.cluster(
        brokers=1, topics={"orders": 1}, release=release, broker_settings=SLOW_FLUSHES
    )
    await run.consumers("billing", topic="orders", broadcast=True)
    with run.load("orders", rate=10):
        await run.sleep(56)
    with run.power_off("broker-a"):
        await run.sleep(2)
    with run.load("orders", rate=1):
        await run.sleep(150)
    run.expect(metric("lost") == 0, metric("delivery_gap_s") <= 60)


@scenario(issue="apache/rocketmq#7182")
async def a_retry_doubles_at_a_restart(run: Run, interrupts: bool = True) -> None:
    """A consumer is restarted while its listener works, and its message is duplicated.

    A Java client that shuts down does not wait for its listeners, unless
    awaitTerminationMillisWhenShutdown is set: since 4.7.1 it interrupts them, then it commits the
    offsets.  If the interrupted listener fails (interrupts, a quirk), its message is sent back too
    late for that commit: the next process consumes the message and its copy, and each restart
    during all copies doubles them: 1, 2, 4, 8.  In this emulator a cancelled listener sends
    nothing back, and the message is delivered again once.
    """
    if interrupts:
        run.quirks("fail_when_interrupted")
    await run.cluster(brokers=1, topics={"orders": 1})
    await run.consumers("billing", topic="orders", listener={"takes_ms": 3_000})
    with run.load("orders", rate=1, count_max=1):
        await run.sleep(2)
        run.rolling_restart(["billing-1"], down_ms=500)
        await run.sleep(20)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("sent_back") == 0, metric("duplicates") == 0)


# Lite pull consumers ------------------------------------------------------------------


FIRST = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
NO_OFFSET = ReplyRule(code=RequestCode.QUERY_CONSUMER_OFFSET, error_code=ResponseCode.SYSTEM_ERROR)


@scenario(issue="apache/rocketmq#2732")
async def a_queue_goes_away_and_comes_back(run: Run, release: str = "4.8.0") -> None:
    """A queue moves to another lite pull consumer, and back while its first pull is still held.

    The broker answers the old pull with a new message.  The consumer drops it, since the pull is
    of an earlier assignment.  Up to 4.8.0 the next pull still continues after that message, which
    is lost.  The consumer has one thread here, so the new pull has to wait, as it does with more
    queues than threads.
    """
    await run.cluster(brokers=1, topics={"orders": 1}, release=release)
    one_thread = {**FIRST, "pull_threads_max": 1, "client_ip": "10.0.9.2"}
    await run.consumers("billing", kind="lite_pull", topic="orders", settings=one_thread)
    with run.load("orders", rate=5):
        await run.sleep(8)
    await run.sleep(2)
    sooner = {**FIRST, "client_ip": "10.0.9.1"}  # its id comes first, so it gets the queue
    await run.consumers("billing", kind="lite_pull", topic="orders", settings=sooner)
    await run.sleep(4)
    run.leave("billing-2")
    await run.sleep(1)
    with run.load("orders", rate=5):
        await run.sleep(20)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("early_commits") == 0)


@scenario(issue="apache/rocketmq#1470")
async def a_lite_pull_consumer_dies(run: Run, counts_pulled: bool = True) -> None:
    """One of two lite pull consumers is killed, with messages in memory that were not polled.

    The report is older than the first release with this consumer, 4.6.0: pulled messages counted
    as consumed (counts_pulled, a quirk) and were committed, so messages that the application had
    not polled yet were lost.  It was fixed two months before that release (#1461): in all releases
    a commit stores the offset of polled messages.
    """
    await run.cluster(brokers=1, topics={"orders": 4})
    if counts_pulled:
        run.quirks("count_pulled_as_consumed")
    await run.consumers(
        "billing",
        kind="lite_pull",
        members=2,
        topic="orders",
        settings=FIRST,
        listener={"takes_ms": 300},
    )
    with run.load("orders", rate=10):
        await run.sleep(30)
        run.leave("billing-2", kill=True)
        await run.sleep(5)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("early_commits") == 0)


@scenario(issue="apache/rocketmq#10176")
async def an_offset_cannot_be_learned(run: Run, release: str = "4.9.7") -> None:
    """A lite pull consumer is restarted while its broker refuses queries for the group's offset.

    Up to 4.9.8 an error counts as "no offset is stored", and the group starts again at its first
    message.  Since 5.0.0 the consumer queries again.  The issue, of 5.x, also warns of a pull at
    an unknown offset: no release sends it, a pull below 0 is refused in the client.
    """
    await run.cluster(brokers=1, topics={"orders": 2}, release=release)
    await run.consumers("billing", kind="lite_pull", topic="orders", settings=FIRST)
    with run.load("orders", rate=10):
        await run.sleep(20)
        with run.answer("broker-a", NO_OFFSET):
            run.rolling_restart("billing-1", down_ms=1_000)
            await run.sleep(6)
        await run.sleep(10)
    await run.until_quiet()
    run.expect(nothing_lost(), duplicates() <= 60)
