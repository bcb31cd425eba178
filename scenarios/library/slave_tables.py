"""What a slave's copies of tables lack: a topic, and what groups committed to it meanwhile."""

from __future__ import annotations

from typing import Any

from rocketmq_emulator.scenarios import Run, metric, nothing_lost, scenario
from rocketmq_emulator.scenarios.library.slaves import REPORTED_S

FIVE_AT_ONCE = {"queue_messages_max": 5, "pull_batch_max": 5, "consume_threads_max": 1}


@scenario(issue="apache/rocketmq#1094")
async def offsets_of_a_slave_are_replaced(
    run: Run,
    release: str = "4.9.7",
    stays: bool = False,
    acting: bool = False,
    busy: bool = False,
) -> None:
    """A master is killed for a minute, and the only member consumes from its slave, and leaves.

    It commits its offsets to the slave.  The master comes back with those from before, and the
    slave replaces its own by them: a member that starts later consumes everything again that was
    consumed at the slave.  Nothing copies them back, in 4.x and 5.x.  A member that stays until
    the master is back (stays) commits there again.  With enableSlaveActingMaster (acting; 5.x) a
    master takes the offsets back before it registers, unless its data version is higher.  That
    counts every 500th commit: a master with so many since the slave's last copy (busy: another
    group) keeps its own, and the slave's are lost as before.
    """
    settings: dict[str, Any] = {"slave_read": True}
    name_server_settings: dict[str, Any] = {}
    if acting:
        settings |= {"slave_acting_master": True, "total_replicas": 2}
        name_server_settings |= {"support_acting_master": True}
    await run.cluster(
        brokers=1,
        slaves=1,
        topics={"orders": 1},
        release=release,
        broker_settings=settings,
        name_server_settings=name_server_settings,
    )
    await run.sleep(REPORTED_S)
    billing = await run.consumers(
        "billing", topic="orders", settings=FIVE_AT_ONCE, listener={"takes_ms": 100}
    )
    if busy:
        await run.consumers("audit", topic="orders")
    await run.sleep(28)
    with run.load("orders", rate=20):
        await run.sleep(30)
    with run.kill("broker-a"):
        await run.sleep(50)
        if not stays:
            run.leave(billing.members[0])
        await run.sleep(10)
    await run.sleep(20)
    if stays:
        run.leave(billing.members[0])
    await run.sleep(10)
    billing.grow()
    await run.until_quiet()
    run.expect(nothing_lost(), metric("read_from_slaves") >= 100, metric("duplicates") <= 10)


@scenario(issue="apache/rocketmq#9403")
async def a_topic_with_attributes_is_not_copied(
    run: Run, release: str = "5.3.3", typed: bool = True
) -> None:
    """A topic has a message type, and its master is killed: its slave does not know the topic.

    Since 5.3.2 a slave adds the topics of its master one by one, as new ones, and the names of
    attributes lack the sign that a new topic needs: the first topic with attributes ends the step,
    in every round, and those after it are missing, too.  Pulls are answered with TOPIC_NOT_EXIST,
    although the slave has the messages.  Up to 5.3.1, and without attributes (typed=False), the
    members go on at the slave.  Upstream mended it after 5.3.3 (#9404).
    """
    await run.cluster(brokers=1, slaves=1, release=release, broker_settings={"slave_read": True})
    run.topic("orders", queues=1, attributes={"message.type": "FIFO"} if typed else {})
    await run.consumers("billing", topic="orders", settings={"pull_batch_max": 1})
    with run.load("orders", rate=5):
        await run.sleep(80)
        with run.kill("broker-a"):
            await run.sleep(60)
        await run.sleep(40)
    await run.until_quiet()
    run.expect(nothing_lost(), metric("read_from_slaves") >= 1)
