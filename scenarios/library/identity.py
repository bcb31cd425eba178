"""Clients that a broker cannot tell apart, and members that want different things."""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, scenario, unowned_s

IN_DOCKER = {"client_ip": "172.17.0.1", "instance_name": "170"}


@scenario(issue="apache/rocketmq#1547")
async def three_containers_have_one_client_id(run: Run, distinct: bool = False) -> None:
    """Three consumers in containers call themselves by the same client id.

    The broker lists the id once for each connection, and each member finds itself in the first
    place: all consume that share, and the queues of the other two places have no owner.  With
    ids of their own (distinct) every queue has one.
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

    The broker keeps one subscription a group, the newest; each queue goes to one member, which
    takes the messages of its own tag only.  Half of all messages are passed over for good.
    """
    await run.cluster(brokers=1, topics={"orders": 2})
    both = "TAG1 || TAG2"
    await run.consumers("billing", topic="orders", tags=both if consistent else "TAG1")
    await run.consumers("billing", topic="orders", tags=both if consistent else "TAG2")
    with run.load("orders", rate=20, tags=("TAG1", "TAG2")):
        await run.sleep(30)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("filtered") == 0)
