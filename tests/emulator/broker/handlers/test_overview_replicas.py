"""The HA status of a broker: a master without slaves."""

from __future__ import annotations

from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.stats import HARuntimeInfo
from tests.support.broker.bench import Bench
from tests.support.broker.store_makers import LAST_4, LAST_5


async def test_the_status_of_a_master_without_slaves_has_the_end_of_its_log() -> None:
    bench = Bench(release=LAST_5)
    client = bench.client()
    client.sent("t")
    reply = client.must(catalog.GET_BROKER_HA_STATUS)
    status = decode_body(reply.body, HARuntimeInfo)
    end = bench.broker.store.log.end_position
    assert (status.master, status.master_commit_log_max_offset) == (True, end)
    assert (status.in_sync_slave_nums, status.ha_connection_info) == (0, [])
    assert b'"masterAddr"' not in reply.body  # fastjson omits nulls


async def test_without_a_controller_there_are_no_epochs() -> None:
    answer = Bench(release=LAST_5).client().ask(catalog.GET_BROKER_EPOCH_CACHE)
    assert answer is not None
    assert (answer.code, answer.remark) == (1, "this request only for controllerMode ")


async def test_a_broker_of_4_9_knows_neither() -> None:
    for rpc in (catalog.GET_BROKER_HA_STATUS, catalog.GET_BROKER_EPOCH_CACHE):
        answer = Bench(release=LAST_4).client().ask(rpc)
        assert answer is not None
        assert answer.code == 3
