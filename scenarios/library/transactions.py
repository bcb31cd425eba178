"""Transactions that are checked back: commits that come twice, producers that cannot answer.

A broker that hears of no end asks a producer of the same group, at fixed intervals, at most 15
times.  It compares no end with the ends before it, and knows of producers only what their
heartbeats say.
"""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, scenario


@scenario(issue="apache/rocketmq#8158")
async def a_slow_local_transaction_is_committed_twice(run: Run, decides_s: int = 70) -> None:
    """A local transaction takes 70 s; meanwhile its broker asks, and the message is stored twice.

    The answer to the check commits the message.  Then the local transaction ends, and commits it
    again: the broker still finds the first record of the half message, and does not compare the
    two ends.  A transaction that takes 2 s has ended before anybody asks.  All releases do this.
    """
    await run.cluster(brokers=1, topics={"orders": 2})
    await run.consumers("billing", topic="orders")
    with run.transactions("orders", rate=1, decides_ms=decides_s * 1_000):
        await run.sleep(10)
    await run.sleep(80)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("committed_again") == 0)


@scenario(issue="apache/rocketmq#9791")
async def two_applications_share_a_producer_group(run: Run, shared: bool = True) -> None:
    """Two applications have one producer group, and each is asked about the other's orders.

    A broker asks any producer of the group, in turn.  One that has never heard of the order says
    that there was none, and the message is rolled back.  With a group each nothing is lost.
    """
    await run.cluster(brokers=1, topics={"orders": 2, "refunds": 2})
    await run.consumers("billing", topics={"orders": "*", "refunds": "*"})
    for topic in ("orders", "refunds"):
        group = {"group": "shop"} if shared else {}
        run.transactions(topic, rate=1, unknowns=1.0, count_max=10, settings=group)
    await run.sleep(15)
    await run.until_quiet()
    run.expect(metric("rolled_back") == 0, metric("open_transactions") == 0)


@scenario(issue="apache/rocketmq#475")
async def a_producer_dies_before_it_ends_its_transaction(run: Run, producers: int = 1) -> None:
    """The only producer of a group dies between the half messages and their ends.

    Its broker has nobody to ask, counts each check as one, and gives the messages up after 15 of
    them.  A second producer of the same group is asked instead, and knows the outcome.
    """
    await run.cluster(brokers=1, topics={"orders": 2})
    await run.consumers("billing", topic="orders")
    run.transactions(
        "orders",
        rate=2,
        crashes=1.0,
        count_max=10,
        producers=producers,
        settings={"group": "shop"},
    )
    await run.sleep(8)
    run.leave("producer-1", kill=True)
    await run.sleep(150)
    run.expect(metric("unasked_checks") == 0, metric("open_transactions") == 0)


@scenario(issue="apache/rocketmq#8311")
async def a_long_immunity_uses_up_the_checks(run: Run, immunity_s: int = 1_800) -> None:
    """Half messages are immune for 30 minutes, and their broker gives them up without asking.

    A check that finds a half message immune asks nobody, but stores it again and counts.  After 15
    of them the broker gives it up: 15 minutes after the send, 7.5 minutes since 5.1.1, whose
    checks come every 30 s.  If the immunity (CHECK_IMMUNITY_TIME_IN_SECONDS) ends before that, the
    remaining checks ask.
    """
    await run.cluster(brokers=1, topics={"orders": 2})
    await run.consumers("billing", topic="orders")
    immune = {"CHECK_IMMUNITY_TIME_IN_SECONDS": str(immunity_s)}
    run.transactions("orders", rate=1, unknowns=1.0, count_max=5, properties=immune)
    await run.sleep(1_000)
    run.expect(metric("given_up") == 0, metric("open_transactions") == 0)


@scenario(issue="apache/rocketmq#386")
async def a_restarted_producer_is_not_asked(run: Run, sends_on: bool = False) -> None:
    """A producer that was started again, and has not sent yet, is asked about nothing.

    A client sends heartbeats to the brokers of the topics that it has used.  A process that has
    only started has used none, so no broker knows it: its old transactions wait, check by check.
    With its first message it is known, and asked.  Where brokers create topics by themselves, it
    is known at once, by the topic TBW102 that they have for that.
    """
    settings = {"auto_create_topic": False}
    await run.cluster(brokers=1, topics={"orders": 2}, broker_settings=settings)
    await run.consumers("billing", topic="orders")
    until_ms = 60_000 if sends_on else 8_000
    run.transactions("orders", rate=1, crashes=0.5, until_ms=until_ms)
    await run.sleep(9)
    with run.kill("producer-1"):
        await run.sleep(3)
    await run.sleep(150)
    run.expect(metric("unasked_checks") == 0, metric("open_transactions") == 0)
