"""Three controllers as processes: the slave takes over from a killed master."""

from __future__ import annotations

import time

from rocketmq_emulator.client import Message
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.protocol.error_families import NobodyAnswered, RefusedByServer
from rocketmq_emulator.sync import Producer

PATIENCE_S = 40


def sends(producer: Producer) -> bool:
    try:
        return producer.send(Message("orders", b"one")).status.name == "SEND_OK"
    except (NobodyAnswered, RefusedByServer):
        return False


def wait_for_a_send(producer: Producer) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not sends(producer):
        assert time.monotonic() < until_s, "no send was acknowledged"
        time.sleep(0.1)


def test_a_producer_goes_on_after_a_kill_of_the_master_and_of_a_controller(tmp_path) -> None:
    with ProcessCluster(
        brokers=1, slaves=1, controllers=3, release="5.3.3", store=tmp_path
    ) as cluster:
        roles = [cluster.node(name).role for name in cluster.spec.controller_names]
        assert roles == ["controller"] * 3
        with Producer(**cluster.client_settings(quick=True), group="shop") as producer:
            wait_for_a_send(producer)
            time.sleep(7)  # the slave joins the sync-state set 5 to 6 s after it connected
            cluster.kill("controller-b")
            cluster.kill("broker-a")
            wait_for_a_send(producer)
            cluster.start("controller-b", "broker-a")
            wait_for_a_send(producer)
