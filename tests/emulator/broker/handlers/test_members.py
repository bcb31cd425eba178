"""Requests between the brokers of one name: 905, 906 and 908."""

from __future__ import annotations

from rocketmq_emulator.broker.replication.member_group import MinBrokerChange
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.stats import HARuntimeInfo
from rocketmq_emulator.protocol.requests.nameserver import (
    ExchangeHAInfo,
    NotifyMinBrokerIdChangeRequest,
    ResetMasterFlushOffsetRequest,
)
from tests.support.broker.bench import Bench
from tests.support.broker.slave_benches import a_master, a_slave
from tests.support.broker.store_makers import LAST_4, LAST_5

OFFERED = ExchangeHAInfo(
    master_ha_address="9.9.9.9:2", master_flush_offset=77, master_address="9.9.9.9:1"
)


def flush_offset(slave: Bench) -> int:
    answer = slave.client().must(catalog.GET_BROKER_HA_STATUS)
    return decode_body(answer.body, HARuntimeInfo).ha_client_runtime_info.master_flush_offset


async def test_a_notice_of_another_smallest_id_reaches_the_task_of_the_slave_once() -> None:
    slave = a_slave(LAST_5, slave_acting_master=True)
    seen: list[MinBrokerChange] = []
    slave.broker.on_min_broker_changed = seen.append
    header = NotifyMinBrokerIdChangeRequest(
        min_broker_id=1, min_broker_addr="2:1", offline_broker_addr="1:1"
    )
    for _ in range(2):
        slave.client().ask(catalog.NOTIFY_MIN_BROKER_ID_CHANGE, header)
    slave.client().ask(catalog.NOTIFY_MIN_BROKER_ID_CHANGE, NotifyMinBrokerIdChangeRequest())
    assert seen == [MinBrokerChange(1, "2:1", "1:1")]
    slave.no_bugs()


async def test_a_master_answers_its_ha_address_and_where_its_log_ended_at_its_start() -> None:
    master = a_master(LAST_5, b"stored after its start")
    answer = master.client().must(catalog.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfo())
    info = answer.decode(ExchangeHAInfo)
    assert info == ExchangeHAInfo(
        master_ha_address="127.0.0.1:10912",
        master_flush_offset=0,
        master_address="127.0.0.1:10911",
    )


async def test_a_slave_copies_from_the_ha_address_that_it_is_given_and_answers_none() -> None:
    slave = a_slave(LAST_5)
    answer = slave.client().must(catalog.EXCHANGE_BROKER_HA_INFO, OFFERED)
    assert answer.decode(ExchangeHAInfo) == ExchangeHAInfo()
    assert slave.broker.ha_client is not None
    assert slave.broker.ha_client.master_address == "9.9.9.9:2"
    assert flush_offset(slave) == 0  # without syncMasterFlushOffsetWhenStartup
    asked = slave.client().must(catalog.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfo())
    assert asked.decode(ExchangeHAInfo) == ExchangeHAInfo()


async def test_a_slave_takes_the_flush_offset_of_its_master_once_if_it_is_to() -> None:
    slave = a_slave(LAST_5, sync_master_flush_offset=True)
    slave.client().must(catalog.EXCHANGE_BROKER_HA_INFO, OFFERED)
    other = ExchangeHAInfo(master_ha_address="9.9.9.9:2", master_flush_offset=99)
    slave.client().must(catalog.EXCHANGE_BROKER_HA_INFO, other)
    assert flush_offset(slave) == 77


async def test_tools_set_the_flush_offset_of_a_slave_and_a_master_ignores_it() -> None:
    header = ResetMasterFlushOffsetRequest(master_flush_offset=42)
    slave, master = a_slave(LAST_5), a_master(LAST_5)
    for bench in (slave, master):
        answer = bench.client().must(catalog.RESET_MASTER_FLUSH_OFFSET, header)
        assert (answer.code, answer.remark or "") == (0, "")
    assert flush_offset(slave) == 42
    assert master.broker.master_flush_offset == 0


async def test_brokers_of_4_know_none_of_them() -> None:
    client = Bench(release=LAST_4).client()
    for rpc in (catalog.EXCHANGE_BROKER_HA_INFO, catalog.RESET_MASTER_FLUSH_OFFSET):
        assert client.must(rpc).code == 3
