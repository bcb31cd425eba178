"""Who owns which queue: too many members, members that die, queues that are added."""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, scenario, unowned_s


@scenario(issue="alibaba/RocketMQ#147")
async def more_members_than_queues(run: Run, members: int = 8) -> None:
    """Eight consumers share four queues.

    A queue has one owner in a group: members above the number of queues get none, with every
    strategy.
    """
    await run.cluster(brokers=1, topics={"orders": 4})
    await run.consumers("billing", members=members, topic="orders")
    with run.load("orders", rate=10):
        await run.sleep(60)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("queueless_members", "billing") == max(0, members - 4))


@scenario(issue="alibaba/RocketMQ#322")
async def a_member_dies(run: Run) -> None:
    """One of two consumers of a group is killed.

    Its connections close, so the brokers tell the other one at once, which takes all queues in
    its next pass, and pulls them a second later at most.
    """
    await run.cluster(brokers=2, topics={"orders": 4})
    await run.consumers("billing", members=2, topic="orders")
    with run.load("orders", rate=10):
        await run.sleep(60)
        with run.kill("billing-2"):
            await run.sleep(60)
    await run.until_quiet()
    run.expect(nothing_lost(), unowned_s() <= 1, metric("delivery_gap_s") <= 3)


@scenario(issue="apache/rocketmq-client-go#1056")
async def a_topic_gets_more_queues(run: Run) -> None:
    """A topic of four queues gets eight while it is consumed.

    The broker registers at once; consumers learn it with their next route poll (30 s) and take
    the new queues with the pass after it (20 s).  Producers send there after their own poll.
    """
    await run.cluster(brokers=1, topics={"orders": 4})
    await run.consumers("billing", members=2, topic="orders")
    with run.load("orders", rate=10):
        await run.sleep(40)
        run.grow_topic("orders", queues=8)
        await run.sleep(90)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("backlog") == 0, unowned_s() <= 51)


@scenario(issue="apache/rocketmq#1945")
async def ten_topics_tilt(run: Run, topics: int = 10, strategy: str = "averagely") -> None:
    """Two consumers share ten topics of five queues each.

    Every topic is shared out by itself, and the first member gets the odd queue of each: thirty
    queues against twenty.  No strategy of RocketMQ looks at the other topics.
    """
    names = [f"orders-{number}" for number in range(topics)]
    await run.cluster(brokers=1, topics=dict.fromkeys(names, 5))
    await run.consumers("billing", members=2, topics=dict.fromkeys(names, "*"), strategy=strategy)
    with run.load(names[0], rate=5):
        await run.sleep(60)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("skew_queues") == topics)


@scenario(issue="apache/rocketmq#1095")
async def a_member_is_cut_off_from_one_broker(run: Run) -> None:
    """The network between one consumer and one of two brokers fails, and queues get two owners.

    That broker forgets the member, the other one does not.  Who asks the first gets a list
    without it, and takes queues of the other broker which the member still consumes.  Each time
    that lasts until the next pass, 20 s, and it begins again until the network is back.  An
    orderly group claims as much, but only one of two has the lock.
    """
    await run.cluster(brokers=2, topics={"orders": 4})
    await run.consumers("billing", members=2, topic="orders")
    with run.load("orders", rate=4):
        await run.sleep(60)
        with run.partition(between=("billing-2", "broker-b")):
            await run.sleep(180)
        await run.sleep(40)
    await run.until_quiet()
    run.expect(
        nothing_lost(),
        metric("backlog") == 0,
        metric("overlap_s") >= 15,
        metric("overlap_s") <= 21,
    )
