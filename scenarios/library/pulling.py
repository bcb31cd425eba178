"""Lite pull consumers: what they commit, and where they begin."""

from __future__ import annotations

from rocketmq_emulator import RequestCode, ResponseCode
from rocketmq_emulator.scenarios import ReplyRule, Run, duplicates, metric, nothing_lost, scenario

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
