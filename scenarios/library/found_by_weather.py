"""Small scenarios of RocketMQ's own behaviour that weather runs found: no bugs of the emulator."""

from __future__ import annotations

from typing import Any

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, overlap_s, scenario


@scenario
async def a_broker_forgets_its_locks(run: Run, release: str = "4.9.7", joins: bool = True) -> None:
    """A broker is restarted, and a new member of an orderly group takes its queues.

    A broker keeps locks in memory only, but a member trusts its lock for 30 s after the last
    renewal.  A member that joins soon after the restart gets the lock of the same queue, and
    until the first member notices, two members consume the queue at the same time: up to 20 s.
    Since 5.2.0 a member whose rebalance failed rebalances again after 1 s, and notices soon.
    """
    await run.cluster(brokers=1, topics={"orders": 4}, release=release)
    billing = await run.consumers("billing", topic="orders", orderly=True)
    with run.load("orders", rate=10):
        await run.sleep(25)
        with run.kill("broker-a"):
            await run.sleep(3)
        if joins:
            billing.grow(1)
        await run.sleep(40)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("forgotten_locks", "billing") == 0)


@scenario(issue="apache/rocketmq#4522")
async def a_topic_grows_while_a_name_server_lacks_a_broker(
    run: Run, release: str = "4.9.7", grows: bool = True
) -> None:
    """One of two NameServers loses one of two brokers, and a topic grows before it is back.

    A broker announces a changed topic by a registration with this topic alone.  Up to 4.9.8 the
    NameServer takes it for a complete and current registration: the complete registrations every
    30 s have the same version and change nothing.  Clients that ask this NameServer find no queue
    of the other topics on that broker: members rebalance different lists, queues have two owners
    or none, and messages in queues without an owner wait.
    It ends with the first complete registration of a version that the NameServer does not have,
    after a topic was created by a send or a heartbeat (at once) or deleted (within 30 s), or with
    the first complete one after the NameServer has lost the broker again.  Another changed topic
    does not end it.  Since 5.0.0 a first registration with one topic is refused.
    """
    topics = {"orders": 4, "invoices": 1}
    await run.cluster(brokers=2, name_servers=2, topics=topics, release=release)
    await run.consumers("billing", members=6, topic="orders")
    with run.load("orders", rate=5):
        await run.sleep(15)
        with run.unregistered("broker-b", name_server="namesrv-b"):
            await run.sleep(5)
        if grows:
            run.grow_topic("invoices", queues=2)
        await run.sleep(80)
    run.expect(nothing_lost(), overlap_s() <= 21)


@scenario
async def a_broadcasting_member_forgets_a_queue(run: Run, release: str = "4.9.7") -> None:
    """A broker is down for 22 s, and a broadcasting member misses messages sent after that.

    The member releases the queues of a broker that is missing in a route.  It writes its offset
    file every 5 s, with only the queues that it owns at that time.  When it claims the queues
    again, here 19 s after producers use them again, it has no offset and begins at their end.
    Since 4.9.8 and 5.2.0 the file keeps the offsets of released queues.
    """
    await run.cluster(brokers=2, topics={"orders": 4}, release=release)
    await run.consumers("news", topic="orders", broadcast=True, starts_ms=15_000)
    with run.load("orders", rate=10):
        await run.sleep(35)
        with run.kill("broker-b"):
            await run.sleep(22)
        await run.sleep(25)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("excused", "news") == 0)


@scenario
async def a_new_group_begins_behind_the_first_message(
    run: Run, release: str = "5.1.0", round_trip_ms: int = 400
) -> None:
    """A new group joins while the first messages are stored, and never gets the first of them.

    The member queries the group's offset in an empty queue.  Up to 5.0.0 the answer is 0.  Since
    5.1.0 there is no offset, and the member then queries the queue's max offset: the group never
    gets messages stored between the two queries.  With a round trip of 400 ms these are the
    messages of 400 ms; a weather run found it with 4 ms.
    """
    await run.cluster(brokers=1, topics={"orders": 1}, release=release)
    with run.slow_link(around="broker-a", ms=round_trip_ms / 2):
        await run.consumers("billing", topic="orders")
        await run.sleep(1.1)  # until the member asks
        with run.load("orders", rate=20):
            await run.sleep(20)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("excused", "billing") == 0)


@scenario
async def a_queue_comes_back_before_it_is_unlocked(run: Run, release: str = "4.9.7") -> None:
    """An orderly member releases a queue, claims it again, and then its late unlock is sent.

    Up to 5.1.4 a member that releases a queue with messages left unlocks it 20 s later.  Here the
    new owner leaves before that, so the first member claims the queue again.  The unlock is still
    sent, and the member consumes without its lock until it renews it, for up to 20 s.  Meanwhile
    another member joins and gets the lock; the first one is not notified, since its link stalls
    for 10 s.  So two members consume the queue.  Since 5.2.0 there is no delayed unlock.
    """
    await run.cluster(brokers=1, topics={"orders": 1}, release=release)
    slow: dict[str, Any] = {"topic": "orders", "orderly": True, "listener": {"takes_ms": 150}}
    await run.consumers("billing", **slow, settings={"client_ip": "10.0.9.2"})
    sooner = {"client_ip": "10.0.9.1"}  # its id comes first, so it gets the queue
    with run.load("orders", rate=10):
        await run.sleep(25)
        await run.consumers("billing", **slow, settings=sooner)
        await run.sleep(5)
        run.leave("billing-2")
        await run.sleep(15.5)  # 0.5 s after the unlock
        with run.stall(between=["broker-a", "billing-1"]):
            await run.consumers("billing", **slow, settings=sooner)
            await run.sleep(10)
        await run.sleep(20)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("late_unlocks", "billing") == 0)


@scenario
async def a_lite_pull_member_has_more_queues_than_threads(
    run: Run, release: str = "5.3.3", hold_ms: int = 20_000
) -> None:
    """One lite pull member has 30 queues, one of which has messages.

    Each pull occupies one of 20 threads for as long as the broker holds it.  So the queue with
    messages waits for a thread that an empty queue occupies: it gets its 400 messages ten at a
    time, up to 20 s apart.  With a hold of 1 s all are consumed in a minute.
    """
    await run.cluster(brokers=1, topics={"orders": 1, "others": 29}, release=release)
    await run.consumers(
        "billing",
        kind="lite_pull",
        topics={"orders": "*", "others": "*"},
        settings={"consume_from": "CONSUME_FROM_FIRST_OFFSET", "pull_hold_ms_max": hold_ms},
    )
    with run.load("orders", rate=40):
        await run.sleep(10)
    await run.sleep(180)
    run.expect(nothing_lost(), metric("backlog", "billing") == 0)
