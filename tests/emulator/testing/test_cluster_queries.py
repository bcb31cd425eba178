"""The progress of a group, as tests of applications read it."""

from __future__ import annotations

from rocketmq_emulator.admin.calls import Admin, admin_over_tcp
from rocketmq_emulator.client import Message, MessageQueue, Producer
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.groups import ConsumerData, HeartbeatData
from rocketmq_emulator.protocol.messages.subscription import build_subscription
from rocketmq_emulator.settings.releases import R_4_9_7
from rocketmq_emulator.testing.cluster_queries import create_topics, is_done, progress_of


async def beat(admin: Admin, broker: str) -> None:
    consumer = ConsumerData(
        group_name="billing", subscription_data_set=[build_subscription("orders", "*")]
    )
    body = encode_body(HeartbeatData(client_id="c1", consumer_data_set=[consumer]), R_4_9_7)
    await admin.call(broker, catalog.HEART_BEAT, body=body)


async def test_what_a_broker_holds_that_no_member_has_told_of_itself_is_not_consumed() -> None:
    with EmbeddedCluster(brokers=2) as cluster:
        async with (
            admin_over_tcp(cluster.namesrv) as admin,
            Producer(namesrv=cluster.namesrv, group="shop") as producer,
        ):
            await create_topics({"orders": 1}, admin)
            one_cup = Message("orders", b"one cup")
            await producer.send(one_cup, queue=MessageQueue("orders", "broker-a", 0))
            masters = await admin.masters()
            await beat(admin, masters["broker-b"])
            progress = await progress_of("billing", admin)
            assert progress.members == ("c1",)
            assert (progress.lag, is_done(progress, ("orders",))) == (1, False)
