"""A part of the cluster fails: a broker hangs, NameServers disagree, power is lost.

Clients of a cluster that is half dead wait for it, one service after another.  NameServers cannot
be reached, or disagree.  A loss of power takes messages along, with and without SYNC_FLUSH.
"""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, overlap_s, scenario, unowned_s


@scenario(issue="apache/rocketmq#3138")
async def passes_come_late(run: Run, topics: int = 50) -> None:
    """One of two brokers hangs, and members take their passes 90 s apart instead of 20 s.

    A pass goes through the topics one by one, and asks one of each topic's brokers, by chance,
    who is in the group.  The one that hangs costs 3 s each time, and the topic its turn: with 50
    topics a pass takes 70 s and more.  With 3 topics some miss three turns at most.  No release
    does it in another way.
    """
    names = [f"orders-{number}" for number in range(topics)]
    await run.cluster(brokers=2, topics=dict.fromkeys(names, 1))
    await run.consumers("billing", members=2, topics=dict.fromkeys(names, "*"))
    with run.load(names[0], rate=1):
        await run.sleep(35)
        with run.pause("broker-b"):
            await run.sleep(110)
        await run.sleep(20)
    run.expect(nothing_lost(), metric("rebalance_gap_s") <= 90)


@scenario(issue="apache/rocketmq#2763")
async def routes_wait_for_offsets(run: Run, in_series: bool = True) -> None:
    """One of two brokers cannot be reached, and the client learns nothing new for minutes.

    One task of a client does all that is periodic, and upstream's waits for each queue's broker
    when it writes offsets (in_series, a quirk): 3 s a queue, every 5 s, so the next poll of routes
    comes late, and a topic of the healthy broker that got more queues is not noticed.  In the
    report 50 consumers of one client waited for 5 minutes.  Our client does not wait there.
    """
    if in_series:
        run.quirks("persist_in_series")
    on_a = {"queues": 2, "brokers": ["broker-a"]}
    await run.cluster(brokers=2, topics={"orders": 8, "bills": on_a})
    await run.consumers("billing", topics={"orders": "*", "bills": "*"})
    with run.load("bills", rate=4):
        await run.sleep(35)
        with run.partition(between=("billing", "broker-b")):
            await run.sleep(6)
            run.grow_topic("bills", queues=4)
            await run.sleep(100)
        await run.sleep(30)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("unowned_s") <= 51)


@scenario(issue="apache/rocketmq#1918")
async def a_member_is_without_network_for_two_minutes(run: Run, release: str = "4.9.7") -> None:
    """The network of one of two members fails for two minutes and comes back.

    In the report (4.4.0) that member consumed nothing more for a day, and took one pass after the
    other.  Likely an Error had ended its pull thread: PullMessageService.run catches Exception up
    to 5.3.2, and since 5.3.3 Throwable, by a change that names the report (#9278).  Here no thread
    ends, and brokers give its queues to the other one; within a pass after its next heartbeat it
    has its share again.
    """
    await run.cluster(brokers=2, topics={"orders": 2}, release=release)
    await run.consumers("billing", members=2, topic="orders")
    with run.load("orders", rate=4):
        await run.sleep(35)
        with run.partition(around="billing-1"):
            await run.sleep(130)
        await run.sleep(60)
    await run.until_quiet()
    run.expect(
        nothing_lost(),
        metric("backlog") == 0,
        metric("queueless_members") == 0,
        metric("delivery_gap_s") <= 150,
    )


# NameServers that cannot be reached, or that disagree ---------------------------------


@scenario(issue="apache/rocketmq#7870")
async def a_new_group_is_counted_twice(
    run: Run, release: str = "5.3.3", waits: bool = True
) -> None:
    """A group is new while its broker cannot reach one of two NameServers.

    A broker registers the retry topic of a new group while it handles the first heartbeat.  Since
    5.1.4 (TopicConfigManager.registerBrokerData) it waits there until every NameServer has
    answered, or for 24 s (waits, a quirk: brokers here do not); up to 5.1.3 it registered one way,
    and waited only where it had to connect first.  The client gives up after 3 s, closes the
    connection and comes again; then the old heartbeat counts too.  A member that is listed twice
    takes the share of one place: half of the queues wait until the broker forgets the other,
    120 s later.
    """
    await run.cluster(brokers=1, name_servers=2, topics={"orders": 8}, release=release)
    if waits:
        run.quirks("wait_for_name_servers")
    with run.partition(between=("broker-a", "namesrv-b")):
        await run.sleep(1)
        await run.consumers("billing", topic="orders")
        with run.load("orders", rate=8):
            await run.sleep(60)
    await run.until_quiet()
    run.expect(nothing_lost(), unowned_s() <= 5)


@scenario(issue="apache/rocketmq#4807")
async def name_servers_disagree(run: Run, both: bool = False, release: str = "4.9.7") -> None:
    """One of two NameServers, or both, lose one of two brokers for a minute.

    Who asks the one that lost it sees half of the queues, who asks the other sees all.  Members
    share out different lists: some queues have two owners, some none.  If both lose it the lists
    are the same, and no queue has two owners; those of the lost broker wait.
    """
    await run.cluster(brokers=2, name_servers=2, topics={"orders": 4}, release=release)
    await run.consumers("billing", members=6, topic="orders")
    with run.load("orders", rate=5):
        await run.sleep(20)
        with run.unregistered("broker-b", name_server="namesrv-b"):
            if both:
                run.unregistered("broker-b", name_server="namesrv-a", for_ms=60_000)
            await run.sleep(60)
        await run.sleep(20)
    await run.until_quiet()
    run.expect(nothing_lost(), overlap_s() <= 1)


# Loss of power ------------------------------------------------------------------------


@scenario
async def a_power_loss_hides_new_messages(run: Run, flush: str = "ASYNC_FLUSH") -> None:
    """A broker loses power, and with it the messages that were not flushed.

    After its restart it gives their offsets again.  Consumers that were beyond go on from where
    they were, so the new messages in those places are stored, acknowledged, and never seen by
    them.  With SYNC_FLUSH nothing acknowledged is gone, and no place is used twice.
    """
    settings = {"flush_disk_type": flush, "flush_interval_ms": 5_000, "store": "drive"}
    await run.cluster(brokers=1, topics={"orders": 2}, broker_settings=settings)
    await run.consumers("billing", topic="orders")
    with run.load("orders", rate=20):
        await run.sleep(23)
        with run.power_off("broker-a"):
            await run.sleep(5)
        await run.sleep(60)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("lost_with_power") == 0, metric("hidden") == 0)


@scenario
async def a_retry_is_lost_with_the_power(
    run: Run, release: str = "4.9.7", flush_ms: int = 800
) -> None:
    """A message fails, and its broker with SYNC_FLUSH loses power before the retry is flushed.

    Who sends a message waits for its flush; a member that sends one back does not, in no release
    (setWaitStoreMsgOK(false)): the broker answers at once, the member commits beyond the message,
    and with a slow disk the retry is gone.  A disk that takes 5 ms keeps it.
    """
    settings = {"flush_disk_type": "SYNC_FLUSH", "store": "drive"}
    await run.cluster(brokers=1, topics={"orders": 1}, release=release, broker_settings=settings)
    await run.consumers("billing", topic="orders", listener={"fails": 1.0, "until_ms": 10_000})
    await run.sleep(5)
    with run.slow_disk("broker-a", flush_ms=flush_ms):
        with run.load("orders", rate=1, count_max=1):
            await run.sleep(1.2)
        with run.power_off("broker-a"):
            await run.sleep(3)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("lost_with_power") == 0)
