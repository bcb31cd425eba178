"""A plan as a picture of its timeline."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketmq_emulator.scenarios import Run, duplicates, fact, nothing_lost, scenario
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.report.timeline_picture import timeline_picture
from tests.support.scenarios.random_plans import PLANS


@scenario(issue="apache/rocketmq#1")
async def two_troubles(run: Run) -> None:
    """Two troubles."""
    cluster = await run.cluster(topics={"orders": 4})
    billing = await run.consumers("billing", topic="orders", members=3)
    with run.load("orders", rate=200):
        await run.sleep(30)
        with cluster.slow_link(("broker-a", "billing"), ms=200):
            await run.sleep(10)
        billing.grow(2)
        await run.sleep(20)
    await run.until(fact("QueuesClaimed", node="billing-5"))
    await run.sleep(2)
    with cluster.kill("broker-a"):
        await run.sleep(5)
    await run.until_quiet()
    run.expect(nothing_lost(), duplicates() <= 64)


PICTURE = """\
Two troubles
apache/rocketmq#1
2 brokers, 1 NameServer, release 4.9.7
orders: 4 queues on each broker

                               0s     10s     20s     30s     40s     50s     1m
                               ┊      ┊       ┊       ┊       ┊       ┊       ┊
load orders 200/s              ███████████████████████████████████████████████
billing: 3 members             ───────────────────────────────────────────────→
slow_link broker-a, billing, …                        ▒▒▒▒▒▒▒▒
join billing 2                                                ◆

2s after QueuesClaimed of billing-5: kill broker-a for 5s
5s after that: mark until it is quiet

expected: lost == 0, duplicates <= 64
"""


def test_the_picture_shows_who_is_there_and_what_happens_when() -> None:
    assert timeline_picture(two_troubles.plan()) == PICTURE


@scenario
async def restarts(run: Run) -> None:
    """Two rolling restarts."""
    await run.cluster(brokers=2, topics={"orders": 4})
    await run.consumers("billing", topic="orders", members=9)
    await run.sleep(10)
    run.rolling_restart(["brokers"], down_ms=5_000, between_ms=10_000)
    await run.sleep(20)
    run.rolling_restart("billing", down_ms=2_000, between_ms=2_000)
    await run.sleep(40)


RESTARTS = """\
restart broker-a               ▒▒▒▒
restart broker-b                           ▒▒▒▒
restart client 1 of 9                          ▒
restart client 2 of 9                             ▒
restart client 3 of 9                                ▒
restart client 4 of 9                                   ▒
restart client 5 of 9                                      ▒▒
restart client 6 of 9                                         ▒▒
restart client 7 of 9                                            ▒▒
restart 2 more, in turn                                             ▒▒▒▒▒
"""


def test_a_rolling_restart_has_a_row_for_each_node_while_it_is_down() -> None:
    assert RESTARTS in timeline_picture(restarts.plan())


@given(PLANS, st.integers(80, 120))
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_line_is_wider_than_the_terminal(plan: Plan, width: int) -> None:
    for line in timeline_picture(plan, width).split("\n"):
        assert len(line) <= width or " " not in line.strip()
