"""A part of the cluster fails: a broker hangs, NameServers disagree, power is lost.

Services of clients wait for a broker that hangs or cannot be reached.  NameServers cannot be
reached, or disagree.  A power loss loses messages, with and without SYNC_FLUSH.
"""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, overlap_s, scenario, unowned_s


@scenario(issue="apache/rocketmq#3138")
async def passes_come_late(run: Run, topics: int = 50) -> None:
    """One of two brokers hangs, and members rebalance every 90 s instead of every 20 s.

    A rebalance handles the topics one by one, and queries the members of the group at a random
    broker of each topic.  The broker that hangs costs 3 s each time, and the topic is skipped:
    with 50 topics a rebalance takes 70 s and more.  With 3 topics some are skipped three times at
    most.  All releases do this.
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
    """One of two brokers cannot be reached, and the client gets no new routes for minutes.

    One task of a client does all periodic work.  Upstream's task waits for each queue's broker
    when it commits offsets (in_series, a quirk): 3 s for each queue, every 5 s.  So the next poll
    of routes comes late, and the client does not notice that a topic of the healthy broker got
    more queues.  In the report 50 consumers of one client waited for 5 minutes.  The emulator's
    client does not wait there.
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

    In the report (4.4.0) that member rebalanced as usual, but consumed nothing more for a day.
    Likely an Error had ended its pull thread: PullMessageService.run catches Exception up to
    5.3.2, and since 5.3.3 Throwable, by a change that names the report (#9278).  In this emulator
    no thread ends.  Brokers remove the member, and the other one claims its queues; within one
    rebalance after its next heartbeat the member has its share again.
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
    """A new group starts while its broker cannot reach one of two NameServers.

    A broker registers the retry topic of a new group while it handles the first heartbeat.  Since
    5.1.4 (TopicConfigManager.registerBrokerData) it waits there until every NameServer has
    answered, or for 24 s (waits, a quirk: the emulator's brokers do not wait); up to 5.1.3 it
    registered one-way, and waited only if it had to connect first.  The client's heartbeat times
    out after 3 s, the client closes the connection and connects again; then the broker still
    handles the old heartbeat too.  A member that is listed twice claims the share of one place:
    half of the queues wait until the broker removes the other entry, 120 s later.
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

    Clients of the NameServer that lost it get half of the queues, clients of the other get all.
    Members rebalance different lists: some queues have two owners, some none.  If both lose it the
    lists are the same, and no queue has two owners; messages of the lost broker wait.
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

    After its restart it uses their offsets again.  Consumers that were beyond these offsets
    continue from where they were, so the new messages there are stored and acknowledged, and never
    consumed.  With SYNC_FLUSH no acknowledged message is lost, and no offset is used twice.
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

    A send waits for the flush of its message; a message that is sent back does not, in any release
    (setWaitStoreMsgOK(false)): the broker answers at once, the member commits beyond the message,
    and with a slow disk the retry is lost.  With a disk that takes 5 ms it is not lost.
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
