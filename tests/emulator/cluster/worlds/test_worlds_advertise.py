"""Brokers register the address of a port that is mapped to theirs, as a container engine does."""

from __future__ import annotations

import http.client
import json

import pytest

from rocketmq_emulator.admin.calls import AdminRefused
from rocketmq_emulator.cli.options.shared import read_cluster
from rocketmq_emulator.cluster.control.client import ControlClient
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.settings.setting_rules import BadField
from rocketmq_emulator.sync import Message, Producer
from tests.support.net.mapped_ports import mapped

WORLDS = {"embedded": EmbeddedCluster, "processes": ProcessCluster}


def registered(cluster) -> dict[str, str]:
    return {broker.name: broker.address for broker in read_cluster(cluster.namesrv).brokers}


def send(cluster) -> str:
    """Send a message; returns the id that has the broker's address."""
    with Producer(namesrv=cluster.namesrv, group="shop") as producer:
        return producer.send(Message("orders", b"two cups")).offset_msg_id


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
@pytest.mark.parametrize("kind", WORLDS)
def test_clients_reach_a_broker_through_its_mapped_port_alone(kind, release) -> None:
    with (
        WORLDS[kind](brokers=1, release=release) as cluster,
        mapped(cluster.addresses["broker-a"]) as port,
    ):
        before = send(cluster)
        cluster.advertise("broker-a", port.address)
        assert registered(cluster) == cluster.brokers == {"broker-a": port.address}
        count = port.connection_count
        assert f"{int(port.address.rpartition(':')[2]):08X}" in send(cluster)[:16] != before[:16]
        assert port.connection_count > count
        assert cluster.node("broker-a").address == cluster.addresses["broker-a"] != port.address
        if kind == "embedded":
            return
        cluster.reset()
        cluster.restart("broker-a")
        assert registered(cluster) == {"broker-a": port.address}
        port.close()
        with pytest.raises(Exception, match=r"orders|broker-a"):
            send(cluster)


def test_a_broker_that_does_not_run_registers_the_address_when_it_starts() -> None:
    with EmbeddedCluster(brokers=2) as cluster, mapped(cluster.addresses["broker-b"]) as port:
        cluster.kill("broker-b")
        cluster.advertise("broker-b", port.address)
        cluster.start("broker-b")
        assert registered(cluster)["broker-b"] == port.address


def test_a_wrong_address_is_refused_and_changes_nothing() -> None:
    with EmbeddedCluster(brokers=1, control=0) as cluster:
        before = registered(cluster)
        control = ControlClient(cluster.control.removeprefix("http://"))
        for name, address, reason in (
            ("broker-a", "here", "address"),
            ("broker-a", "no-such-host.invalid:1", "cannot be resolved"),
            ("namesrv", "127.0.0.1:1", "namesrv registers no address: only brokers do"),
        ):
            with pytest.raises(AdminRefused, match=reason):
                control.advertise(name, address)
        with pytest.raises(BadField, match="address"):
            cluster.advertise("broker-a", "here:0")
        assert registered(cluster) == cluster.brokers == before


def test_a_server_that_allows_no_rules_keeps_its_address() -> None:
    settings = {"reply_rules_allowed": False}
    with EmbeddedCluster(brokers=1, control=0, broker_settings=settings) as cluster:
        control = ControlClient(cluster.control.removeprefix("http://"))
        with pytest.raises(AdminRefused, match="reply_rules_allowed=true"):
            control.advertise("broker-a", "127.0.0.1:1")
        assert cluster.brokers == {"broker-a": cluster.addresses["broker-a"]}


def test_the_control_address_is_reached_through_a_mapped_port_but_not_by_other_names() -> None:
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.open_control(host="0.0.0.0")
        assert cluster.control.startswith("http://127.0.0.1:")
        with mapped(cluster.control.removeprefix("http://")) as port:
            statuses = {}
            for host in (port.address, port.address.replace("127.0.0.1", "localhost"), "a.com"):
                connection = http.client.HTTPConnection(port.address)
                connection.request("GET", "/nodes", headers={"Host": host})
                answer = connection.getresponse()
                statuses[host.partition(":")[0]] = answer.status, list(json.load(answer))
                connection.close()
        assert statuses == {
            "127.0.0.1": (200, ["nodes"]),
            "localhost": (200, ["nodes"]),
            "a.com": (403, ["error"]),
        }
