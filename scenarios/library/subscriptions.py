"""Subscriptions by SQL92: brokers evaluate them only if they filter by properties.

A consumer has a broker check each expression of another type than tags before it joins its group,
and its start fails if the broker refuses it.
"""

from __future__ import annotations

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, scenario


@scenario(issue="apache/rocketmq#455")
async def a_broker_does_not_filter_by_sql(run: Run, enabled: bool = False) -> None:
    """A group subscribes by SQL92 at a broker that does not filter by properties.

    That is RocketMQ's default.  The start of each member fails: "The broker does not support
    consumer to filter message by SQL92".  Applications that start again fail again, and nothing
    is consumed.  With enablePropertyFilter=true (enabled) the group gets the messages whose
    property it wants.  All releases do this.
    """
    filtering = {"property_filter": enabled}
    await run.cluster(brokers=1, topics={"orders": 2}, broker_settings=filtering)
    await run.consumers("billing", members=2, topic="orders", sql="color = 'red'")
    with run.load("orders", rate=10, properties={"color": "red"}):
        await run.sleep(20)
    await run.sleep(10)  # a group without members never gets quiet
    run.expect(nothing_lost(), metric("backlog") == 0)
