"""How far a group has come, as tests of applications are told."""

from __future__ import annotations

from emulator.client import Message, MessageQueue, Producer
from emulator.cluster.admin import Admin, admin_over_tcp
from emulator.cluster.embedded import EmbeddedCluster
from emulator.cluster.observing import create_topics, is_done, progress_of
from emulator.releases import R_4_9_7
from protocol import catalog
from protocol.bodies.body import encode_body
from protocol.bodies.groups import ConsumerData, HeartbeatData
from protocol.subscription import build_subscription


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
