"""Offsets that are wrong: asked for in vain, beyond the log, or not moved in time."""

from __future__ import annotations

from rocketmq_emulator.scenarios import ReplyRule, Run, metric, nothing_lost, scenario

QUERY_OFFSET = 14
SILENT_AT_TIMES = ReplyRule(code=QUERY_OFFSET, no_answer=True, probability=0.5)
SLOW_FLUSHES = {
    "store": "drive",
    "flush_interval_ms": 30_000,
    "flush_thorough_interval_ms": 60_000,
}


@scenario(issue="apache/rocketmq#2708")
async def an_offset_is_asked_for_in_vain(run: Run, before: bool = False) -> None:
    """An orderly member takes queues over, and some of its questions for offsets get no answer.

    It asks once more when it has the lock.  Up to 4.9.0 a question without an answer there meant
    -1 (before, a quirk): the broker corrects that to its first message, and the group consumes
    everything again.  Since 4.9.1 the member asks again later.
    """
    if before:
        run.quirks("begin_at_minus_one")
    await run.cluster(brokers=1, topics={"orders": 8})
    await run.consumers("billing", members=2, topic="orders", orderly=True)
    with run.load("orders", rate=8):
        await run.sleep(40)
        run.leave("billing-2")
        with run.answer("broker-a", SILENT_AT_TIMES):
            await run.sleep(30)
        await run.sleep(30)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("duplicates") == 0)


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
async def a_retry_doubles_at_a_restart(run: Run, killed: bool = True) -> None:
    """A consumer is restarted just after it has sent a failed message back.

    Offsets are written every 5 s, so the next process may begin with that message again, and
    send it back again: it is there twice, and each restart that hits all of its copies doubles
    them: 1, 2, 4, 8.  One that ends in order has written its offset.  In the report it did not
    help: a listener that is interrupted there may fail, and then its message is sent back after
    the offsets were written.  Here listeners that are interrupted do nothing more.
    """
    await run.cluster(brokers=1, topics={"orders": 1})
    works = {"takes_ms": 3_000, "fails": 1.0}
    await run.consumers("billing", topic="orders", listener=works)
    with run.load("orders", rate=1, count_max=1), run.slow_link(around="clients", ms=200):
        await run.sleep(8)
        if killed:
            with run.kill("billing-1"):
                await run.sleep(0.5)
        else:
            run.rolling_restart(["billing-1"], down_ms=500)
            await run.sleep(0.5)
        await run.sleep(8)
    run.expect(metric("lost") == 0, metric("sent_back") == 1)
