"""Members of one group that differ, or that a broker cannot distinguish.

They have the same client id, different subscriptions, or different allocation strategies; then
some queues have no owner, or messages are skipped.
"""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, scenario, unowned_s

IN_DOCKER = {"client_ip": "172.17.0.1", "instance_name": "170"}


@scenario(issue="apache/rocketmq#1547")
async def three_containers_have_one_client_id(run: Run, distinct: bool = False) -> None:
    """Three consumers in containers have the same client id.

    The broker lists the id once for each connection, and each member finds itself in the first
    place: all consume that share, and the queues of the other two places have no owner.  With
    distinct ids (distinct) every queue has an owner.
    """
    await run.cluster(brokers=1, topics={"orders": 9})
    names = {} if distinct else IN_DOCKER
    await run.consumers("billing", members=3, topic="orders", settings=names)
    with run.load("orders", rate=20):
        await run.sleep(60)
    run.lasts(100)
    run.expect(nothing_lost(), unowned_s() <= 21, metric("backlog") == 0)


@scenario(issue="apache/rocketmq#92")
async def members_subscribe_different_tags(run: Run, consistent: bool = False) -> None:
    """Two members of one group subscribe two different tags of a topic.

    The broker keeps only the newest subscription of a group.  Each queue goes to one member, which
    consumes only the messages of its own tag.  Half of all messages are never consumed.
    """
    await run.cluster(brokers=1, topics={"orders": 2})
    both = "TAG1 || TAG2"
    await run.consumers("billing", topic="orders", tags=both if consistent else "TAG1")
    await run.consumers("billing", topic="orders", tags=both if consistent else "TAG2")
    with run.load("orders", rate=20, tags=("TAG1", "TAG2")):
        await run.sleep(30)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("filtered") == 0)


@scenario(issue="apache/rocketmq#2954")
async def members_subscribe_by_tag_and_by_sql(run: Run, consistent: bool = False) -> None:
    """One member of a group subscribes by SQL92, a later one to a tag.

    The broker keeps only the newest subscription of a group, and a member's is the newest when its
    queues have changed.  It filters the queues of both members by that one.  So one member gets no
    message at all, or is given messages that its expression excludes, as clients do not compare
    expressions again; most messages are never consumed.
    """
    filtering = {"property_filter": True}
    await run.cluster(brokers=1, topics={"orders": 2}, broker_settings=filtering)
    both = "TAGS IN ('TAG1', 'TAG2')"
    await run.consumers("billing", topic="orders", sql=both if consistent else "TAGS = 'TAG2'")
    await run.sleep(1)
    later = {"sql": both} if consistent else {"tags": "TAG1"}
    await run.consumers("billing", topic="orders", **later)
    with run.load("orders", rate=20, tags=("TAG1", "TAG2")):
        await run.sleep(30)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("filtered") == 0)


# Different strategies in one group ----------------------------------------------------


OLD, NEW = "4.9.7", "5.3.3"
HOSTS = ("10.1.0.1", "10.1.0.2", "10.1.0.3")


@scenario(issue="apache/rocketmq#3465")
async def a_group_mixes_two_strategies(run: Run, auto: bool = False) -> None:
    """One member allocates the queues averagely, the other one by circle.

    Each member assumes that the other uses the same strategy: some queues have two owners, some
    none, and messages in queues without an owner are never consumed.  With AveragelyAuto (auto)
    both allocate averagely while one of them has an old release.
    """
    await run.cluster(brokers=2, topics={"orders": 2})
    old, new = ("averagely", "by_circle") if not auto else (f"averagely_auto({OLD})",) * 2
    await run.consumers("billing", topic="orders", strategy=old)
    await run.consumers("billing", topic="orders", strategy=new, settings={"release": NEW})
    with run.load("orders", rate=5):
        await run.sleep(60)
    run.lasts(70)
    run.expect(nothing_lost(), metric("starved_queues", "billing") == 0, metric("backlog") <= 5)


@scenario(issue="apache/rocketmq#3465")
async def a_group_is_upgraded_while_it_works(
    run: Run, auto: bool = True, release: str = NEW
) -> None:
    """Three members are replaced by newer ones, one every twenty seconds.

    While new members allocate by circle and old ones averagely, queues are left without an owner,
    until the last old member has left.  With AveragelyAuto (auto) on all of them they change
    together when the last old member has left, so that no member idles when a broker turns
    read-only.  If the new release is not above the threshold they never change.
    """
    cluster = await run.cluster(brokers=2, topics={"orders": 4})
    old, new = (f"averagely_auto({OLD})",) * 2 if auto else ("averagely", "by_circle")
    await run.consumers("billing", members=3, topic="orders", strategy=old)
    with run.load("orders", rate=5):
        for number in (1, 2, 3):
            await run.sleep(15)
            await run.consumers(
                "billing", topic="orders", strategy=new, settings={"release": release}
            )
            await run.sleep(5)
            run.leave(f"billing-{number}")
        await run.sleep(20)
        with cluster.read_only("broker-b"):
            await run.sleep(10)
    await run.until_quiet()
    run.expect(nothing_lost(), unowned_s("billing") <= 5, metric("backlog") == 0)
    run.expect(metric("no_load_members", "billing") == 0)


@scenario(issue="apache/rocketmq#3465")
async def only_chosen_machines_consume(run: Run, strategy: str = "refusing") -> None:
    """A strategy gives an empty list to members that are not on two chosen machines.

    The chosen members still divide by all three members, so one third of the queues has no owner.
    The strategy must remove the others from the list before it divides (pinned).
    """
    chosen = f"{strategy}({', '.join(HOSTS[:2])})"
    await run.cluster(brokers=2, topics={"orders": 3})
    await run.consumers(
        "billing",
        members=3,
        topic="orders",
        strategy=chosen,
        settings_of={f"billing-{at}": {"client_ip": ip} for at, ip in enumerate(HOSTS, 1)},
    )
    with run.load("orders", rate=5):
        await run.sleep(60)
    run.lasts(70)
    run.expect(nothing_lost(), metric("starved_queues", "billing") == 0, metric("backlog") <= 5)
