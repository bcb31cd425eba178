"""Offsets that are wrong: requested in vain, beyond the log, or committed too early or too late.

Lite pull consumers come last: what they commit, and where they begin.
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
    """An orderly member takes queues over, and some of its questions for offsets get no answer.

    It asks once more at the first pull under the lock.  Up to 4.9.8 a question without an answer
    comes to -1 there, and is pulled from: the broker corrects that to its first message, and
    the group consumes everything again.  Since 5.0.0 the member asks again later.
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

    The root is that of #2708: the pass has learned each offset, the first pull under the lock asks
    for it once more, and the broker is gone.  Up to 4.9.8 that comes to -1, which is pulled from
    when the broker is back: it corrects that to its first message, and the group consumes
    everything again.  Since 5.0.0 the member asks for the offset again.  Up to 4.9.4 a first pull
    comes with the next round of renewals only, up to 20 s later: the broker must die then.
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
    """A broker loses the end of its log, and a broadcasting member keeps asking beyond it.

    The member is corrected, gives the queue up, and finds the old offset again: its file of
    offsets was written only for queues that it held.  Until the log has grown past that, it
    consumes nothing.  Since 4.9.8 (5.2.0) the corrected offset is written.
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
    """A consumer is restarted in order while its listener works, and the message is there twice.

    A Java client that is shut down does not wait for its listeners, unless
    awaitTerminationMillisWhenShutdown says so: since 4.7.1 it interrupts them, then it writes the
    offsets.  A listener that fails at that (interrupts, a quirk) has its message sent back too
    late for that offset: the next process consumes the message and its copy, and each restart that
    hits all copies doubles them: 1, 2, 4, 8.  Here a listener that is cancelled does nothing more,
    and the message comes again once.
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
    """A queue goes to another lite pull consumer, and comes back while its first pull is held.

    The broker answers the old pull with a new message, which the consumer drops: it is no
    longer of this assignment.  Up to 4.8.0 the next pull goes on behind it all the same, and the
    message is lost.  One thread here, as with more queues than threads: the new pull has to wait.
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
    """One of two lite pull consumers, with work waiting in its memory, is killed.

    The report is older than the first release that has this consumer, 4.6.0: what was pulled
    counted as consumed (counts_pulled, a quirk), and was committed, so what the application had
    not polled yet was lost.  It was mended two months before that release (#1461): in each of
    them a commit stores what was polled.
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
    """A lite pull consumer is restarted while its broker refuses to say where the group is.

    Up to 4.9.8 an error counts as "no offset is stored", and the group begins anew at its first
    message.  Since 5.0.0 it asks again.  The issue, of 5.x, also fears a pull at an unknown
    offset: no release sends one, a pull below 0 is refused in the client.
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
