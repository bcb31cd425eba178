"""Brokers list our clients with the language Python."""

from __future__ import annotations

import pytest

from rocketmq_emulator import (
    Cluster,
    LitePullConsumer,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
)
from rocketmq_emulator.admin.calls import admin_over_tcp


@pytest.mark.parametrize("kind", [PushConsumer, PullConsumer, LitePullConsumer])
async def test_a_member_of_our_clients_says_python(kind) -> None:
    listener = (print,) if kind is PushConsumer else ()
    with Cluster(brokers=1) as cluster:
        settings = {"namesrv": cluster.namesrv, "group": "billing"}
        async with Producer(**settings) as producer:
            await producer.send(Message("orders", b"x"))
        consumer = kind(*listener, {"orders": "*"}, **settings)
        async with consumer, admin_over_tcp(cluster.namesrv) as admin:
            await consumer.instance.routes.refresh("orders")  # now it knows a broker
            await consumer.instance.heartbeats.send_round()
            online = await admin.connections(cluster.addresses["broker-a"], "billing")
            assert [member.language for member in online.connection_set] == ["PYTHON"]
