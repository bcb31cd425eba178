"""NameServers that cannot be reached, or that disagree."""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, nothing_lost, overlap_s, scenario, unowned_s


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
