"""Members of one group that share its queues by different rules, and the queues nobody gets."""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, scenario, unowned_s

OLD, NEW = "4.9.7", "5.3.3"
HOSTS = ("10.1.0.1", "10.1.0.2", "10.1.0.3")


@scenario(issue="apache/rocketmq#3465")
async def a_group_mixes_two_strategies(run: Run, auto: bool = False) -> None:
    """One member shares the queues averagely, the other one by circle.

    Each believes that both compute as itself: some queues have two owners, some none, and what
    is sent to these waits for ever.  With AveragelyAuto (auto) both go averagely while one of
    them is of an old release.
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

    New members that go by circle beside old ones that go averagely leave queues without an
    owner until the last old one has gone.  With AveragelyAuto (auto) on all of them they change
    together, when the last old one has gone, so that nobody idles when a broker turns read-only.
    If the new release is not above the threshold they never change.
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

    The chosen ones still divide by all three members, so the third part of the queues has no
    owner.  The strategy must take the others out of the list before it shares (pinned).
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
