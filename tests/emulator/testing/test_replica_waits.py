"""``wait_until_copied`` and ``wait_for_master``: missing data, and fail-over after a kill."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_emulator import Cluster, NotCopied, NotTakenOver, UnknownNode
from rocketmq_emulator.admin.overview import BrokerReport
from rocketmq_emulator.protocol.bodies.extensions import (
    BrokerOverview,
    GroupRow,
    QueueRow,
    ReplicaRow,
    TopicRow,
)
from rocketmq_emulator.sync import Message, Producer
from rocketmq_emulator.testing.replica_waits import what_it_lacks

QUICK = {"slave_sync_interval_ms": 100}
ORDERS = TopicRow("orders", 4, 0, 7)
BILLING = GroupRow("billing", queues=(QueueRow("orders", 0, 7, 5),))


def a_broker(
    broker_id: int,
    topics: tuple[TopicRow, ...] = (ORDERS,),
    groups: tuple[GroupRow, ...] = (BILLING,),
    **replica: Any,
) -> BrokerReport:
    role = replica.pop("role", "slave" if broker_id else "master")
    row = ReplicaRow("broker-a", broker_id, role, **{"log_end": 700, **replica})
    found = BrokerOverview(topics, groups, replica=row)
    return BrokerReport("broker-a", f"x:{broker_id}", "c", found, broker_id=broker_id)


@pytest.mark.parametrize(
    ("slave", "lacks"),
    [
        (a_broker(1), ""),
        (a_broker(1, (ORDERS, TopicRow("more", 1, 0, 0))), ""),
        (a_broker(1, log_end=600), "lacks 100 bytes of the log"),
        (a_broker(1, role="none"), "has no role yet"),
        (a_broker(2), "is not in the sync-state set"),
        (a_broker(1, ()), "lacks the topic orders"),
        (a_broker(1, (TopicRow("orders", 8, 0, 7),)), "lacks the topic orders"),
        (a_broker(1, groups=()), "lacks offsets of billing"),
        (
            a_broker(1, groups=(GroupRow("billing", queues=(QueueRow("orders", 0, 7, 4),)),)),
            "lacks offsets of billing",
        ),
        (BrokerReport("broker-a", "x:1", "c", problem="does not answer"), "does not answer"),
    ],
)
def test_what_a_slave_lacks_is_named(slave, lacks) -> None:
    master = a_broker(0, sync_state_set=(1,))
    text = what_it_lacks(slave, master, master.found)
    assert text.startswith(lacks)
    assert bool(text) == bool(lacks)


def test_what_a_slave_has_though_its_master_knows_no_sync_state_set_is_complete() -> None:
    master = a_broker(0, sync_state_set=None)
    assert what_it_lacks(a_broker(2), master, master.found) == ""


def test_a_master_that_is_killed_when_all_is_copied_loses_nothing() -> None:
    with Cluster(
        brokers=1, slaves=1, controllers=1, release="5.3.3", topics=["orders"], settings=QUICK
    ) as cluster:
        settings = cluster.client_settings(quick=True)
        with Producer(group="shop", **settings) as producer:
            for number in range(20):
                producer.send(Message("orders", b"%d" % number))
        cluster.wait_until_copied()
        assert cluster.wait_for_master("broker-a") == "broker-a"
        cluster.kill("broker-a")
        assert cluster.wait_for_master("broker-a") == "broker-a-1"
        assert len(cluster.sent_to("orders")) == 20


def test_a_slave_that_acts_is_found_and_one_that_does_not_is_named_with_the_cure() -> None:
    with Cluster(
        brokers=1, slaves=1, acting_master=True, release="5.3.3", topics=["orders"], settings=QUICK
    ) as cluster:
        cluster.wait_until_copied()
        cluster.kill("broker-a")
        assert cluster.wait_for_master("broker-a") == "broker-a-1"
    with Cluster(brokers=1, slaves=1) as cluster:
        cluster.kill("broker-a")
        with pytest.raises(NotTakenOver, match=r"broker-a-1 is slave.*controllers=1.*5\.x"):
            cluster.wait_for_master("broker-a", timeout=0.1)


def test_a_wait_that_cannot_end_says_so_at_once() -> None:
    with Cluster(brokers=1) as cluster:
        with pytest.raises(NotCopied, match="no slaves that could copy: slaves=1"):
            cluster.wait_until_copied()
        with pytest.raises(UnknownNode, match="did you mean broker-a"):
            cluster.wait_for_master("broker-aa")


async def test_a_slave_that_is_paused_holds_the_wait_and_a_loop_is_not_blocked() -> None:
    with Cluster(brokers=1, slaves=1) as cluster:
        await cluster.awaited.wait_until_copied()
        assert await cluster.awaited.wait_for_master("broker-a") == "broker-a"
        with pytest.raises(RuntimeError, match=r"await cluster\.awaited.wait_until_copied"):
            cluster.wait_until_copied()
        with pytest.raises(RuntimeError, match=r"await cluster\.awaited.wait_for_master"):
            cluster.wait_for_master("broker-a")
        await cluster.awaited.call(cluster.kill, "namesrv")
        with pytest.raises(NotCopied, match="not all is copied after"):
            await cluster.awaited.wait_until_copied(timeout=0.1)


@pytest.mark.rocketmq(brokers=1, slaves=1, controllers=1, release="5.3.3", topics=["orders"])
async def test_in_virtual_time_the_waits_are_the_same(virtual_cluster) -> None:
    await virtual_cluster.wait_until_copied()
    await virtual_cluster.kill("broker-a")
    assert await virtual_cluster.wait_for_master("broker-a") == "broker-a-1"
    await virtual_cluster.start("broker-a")
    with pytest.raises(NotCopied, match=r"a NameServer lists|lacks|not in the sync-state set"):
        await virtual_cluster.wait_until_copied(timeout=0.01)
    await virtual_cluster.wait_until_copied()
