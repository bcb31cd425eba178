"""The HA status of a broker: of a master without and with slaves, and of a slave."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.broker.replication.auto_switch import AutoSwitchHaService
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.controller import EpochEntry, EpochEntryCache
from rocketmq_emulator.protocol.bodies.routes import KVTable
from rocketmq_emulator.protocol.bodies.stats import (
    HAClientRuntimeInfo,
    HAConnectionRuntimeInfo,
    HARuntimeInfo,
)
from tests.support.broker.bench import Bench
from tests.support.broker.replica_rigs import ListTransport, ManualTime
from tests.support.broker.slave_benches import TOPIC, SlaveStream, a_master, a_slave
from tests.support.broker.store_makers import LAST_4, LAST_5

STATUS = catalog.GET_BROKER_HA_STATUS


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


async def test_the_status_of_a_master_names_its_slaves_and_how_far_they_are() -> None:
    bench = Bench(release=LAST_5, ha_behind_bytes_max=200)
    client = bench.client()
    client.sent("t", b"x" * 300)
    end = bench.broker.store.log.end_position
    first, second = SlaveStream(bench), SlaveStream(bench, "127.0.0.1:4712")
    SlaveStream(bench, "127.0.0.1:4713").close()
    first.report(end)
    second.report(100)
    silent = SlaveStream(bench, "127.0.0.1:4714")
    status = decode_body(client.must(catalog.GET_BROKER_HA_STATUS).body, HARuntimeInfo)
    assert status.in_sync_slave_nums == 1
    assert status.ha_connection_info == [
        HAConnectionRuntimeInfo(first.remote, end, 0, in_sync=True, transfer_from_where=end),
        HAConnectionRuntimeInfo(second.remote, 100, end - 100, transfer_from_where=end),
        HAConnectionRuntimeInfo(silent.remote, -1, end + 1, transfer_from_where=-1),
    ]


async def test_bytes_in_a_second_are_those_of_headers_at_a_master_and_all_at_a_slave(
    autojump_clock: MockClock,
) -> None:
    master, slave = a_master(LAST_5), a_slave(LAST_5)
    at_master, at_slave = master.client(), slave.client()
    async with trio.open_nursery() as nursery:
        for bench in (master, slave):
            bench.start(nursery)
        stream = SlaveStream(master)
        stream.report(0)
        ha_client = slave.broker.ha_client
        assert ha_client is not None
        ha_client.master_address = "127.0.0.1:10912"
        transport = ListTransport(ManualTime())
        transport.endpoint = ha_client.connected(transport)
        await trio.sleep(0.5)
        at_master.sent(TOPIC, b"x" * 300)
        await trio.sleep(0.2)
        for data in stream.sent:
            ha_client.feed(data)
        end, sent_ms = master.broker.store.log.end_position, master.now_ms()
        await trio.sleep(0.5)
        of_master = decode_body(at_master.must(STATUS).body, HARuntimeInfo)
        of_slave = decode_body(at_slave.must(STATUS).body, HARuntimeInfo)
        assert of_master.ha_connection_info[0].transferred_byte_in_second == 12
        assert of_slave.ha_client_runtime_info == HAClientRuntimeInfo(
            master_addr="127.0.0.1:10912",
            transferred_byte_in_second=12 + end,
            max_offset=end,
            last_read_timestamp=sent_ms,
            last_write_timestamp=sent_ms,
        )
        assert (of_slave.master, of_slave.ha_connection_info) == (False, [])
        await trio.sleep(2)
        later = decode_body(at_slave.must(STATUS).body, HARuntimeInfo)
        assert later.ha_client_runtime_info.transferred_byte_in_second == 0
        ha_client.close()
        gone = decode_body(at_slave.must(STATUS).body, HARuntimeInfo)
        assert gone.ha_client_runtime_info.last_read_timestamp == 0
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("role", "broker_id", "active"), [("SLAVE", 1, "false"), ("SYNC_MASTER", 0, "true")]
)
async def test_a_slave_of_5_says_that_its_special_services_do_not_run(
    role: str, broker_id: int, active: str
) -> None:
    client = Bench(release=LAST_5, broker_role=role, broker_id=broker_id).client()
    figures = decode_body(client.must(catalog.GET_BROKER_RUNTIME_INFO).body, KVTable).table
    assert figures["brokerActive"] == active


async def test_without_a_controller_there_are_no_epochs() -> None:
    answer = Bench(release=LAST_5).client().ask(catalog.GET_BROKER_EPOCH_CACHE)
    assert answer is not None
    assert (answer.code, answer.remark) == (1, "this request only for controllerMode ")


async def test_with_a_controller_epochs_and_slaves_are_shown() -> None:
    bench = Bench(release=LAST_5, name="a", cluster="c")
    broker = bench.broker
    broker.ha = ha = AutoSwitchHaService(
        broker.store,
        MemoryDisk(),
        broker.config,
        ManualTime().scheduling,
        note=broker.note,
        wants=broker.wants,
    )
    ha.set_sync_state_set({1})
    ha.change_to_master(3)
    end = broker.store.log.end_position
    found = decode_body(bench.client().must(catalog.GET_BROKER_EPOCH_CACHE).body, EpochEntryCache)
    assert found == EpochEntryCache(
        cluster_name="c",
        broker_name="a",
        broker_id=0,
        epoch_list=[EpochEntry(epoch=3, start_offset=end, end_offset=2**63 - 1)],
        max_offset=end,
    )
    status = decode_body(bench.client().must(STATUS).body, HARuntimeInfo)
    assert (status.master, status.in_sync_slave_nums) == (True, 0)


async def test_a_broker_of_4_9_knows_neither() -> None:
    for rpc in (catalog.GET_BROKER_HA_STATUS, catalog.GET_BROKER_EPOCH_CACHE):
        answer = Bench(release=LAST_4).client().ask(rpc)
        assert answer is not None
        assert answer.code == 3
