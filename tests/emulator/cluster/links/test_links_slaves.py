"""The link between a master and its slave over TCP: behind a proxy port of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from rocketmq_emulator.client import Message, SendStatus
from rocketmq_emulator.cluster.fault_values import CutLink, Lag, Pause
from rocketmq_emulator.cluster.faults.register import CannotBegin
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.cluster.worlds.real_world import RealWorld
from rocketmq_emulator.sync import Producer

MASTER, SLAVE = "broker-a", "broker-a-1"
SETTINGS = {
    "broker_role": "SYNC_MASTER",
    "in_sync_replicas": 2,
    "ha_heartbeat_interval_ms": 100,
    "ha_connect_interval_ms": 50,
    "slave_ack_ms_max": 1_000,
}
LATE_MS = 300
SENDS_MAX = 100


@pytest.fixture(params=[EmbeddedCluster, ProcessCluster])
def cluster(request: pytest.FixtureRequest) -> Iterator[RealWorld]:
    with request.param(
        brokers=1, slaves=1, release="5.3.3", settings=SETTINGS, with_links=True
    ) as world:
        yield world


def test_a_lag_makes_sends_that_wait_for_the_slave_as_late(cluster: RealWorld) -> None:
    with Producer(namesrv=cluster.namesrv, group="shop") as producer:
        send_until(producer, SendStatus.SEND_OK)
        with cluster.under(Lag(node=SLAVE, ms=LATE_MS)):
            began_s = time.monotonic()
            assert producer.send(Message("orders", b"late")).status is SendStatus.SEND_OK
            assert time.monotonic() - began_s >= LATE_MS / 1_000
            (state,) = cluster.faults()
            assert state.nodes == (SLAVE,)
            assert state.acted_count


def test_a_cut_link_leaves_the_master_without_a_slave_until_it_ends(cluster: RealWorld) -> None:
    with Producer(namesrv=cluster.namesrv, group="shop") as producer:
        send_until(producer, SendStatus.SEND_OK)
        with cluster.under(CutLink(between=(MASTER, SLAVE))):
            sent = producer.send(Message("orders", b"alone"))
            assert sent.status is SendStatus.FLUSH_SLAVE_TIMEOUT
        send_until(producer, SendStatus.SEND_OK)


def test_a_master_is_paused_without_its_slave(cluster: RealWorld) -> None:
    with cluster.under(Pause(node=MASTER)):
        assert cluster.is_paused(MASTER)
        assert not cluster.is_paused(SLAVE)


def test_only_slaves_lag() -> None:
    with EmbeddedCluster(brokers=1, with_links=True) as world:
        refused = pytest.raises(CannotBegin, match="the cluster has no slaves")
        with refused:
            world.begin_fault(Lag(node=MASTER, ms=1))
    with EmbeddedCluster(brokers=1, slaves=1) as world:
        refused = pytest.raises(CannotBegin, match="needs proxies")
        with refused:
            world.begin_fault(Lag(node=SLAVE, ms=1))


def send_until(producer: Producer, status: SendStatus) -> None:
    """Send until a send ends with *status*; each waits for the slave for a second at most."""
    found = (producer.send(Message("orders", b"one")).status for _ in range(SENDS_MAX))
    assert status in found
