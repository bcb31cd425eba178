"""When a master in controller mode answers puts: the sync-state set decides."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.broker.replication.auto_switch import AutoSwitchHaService
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.protocol.auto_switch import (
    SlaveHandshake,
    encode_slave_handshake,
    encode_slave_report,
)
from tests.support.broker.bench import Bench, Client
from tests.support.broker.replica_rigs import ListTransport, ManualTime
from tests.support.broker.slave_benches import TOPIC
from tests.support.broker.store_makers import LAST_5

SUCCESS, SYSTEM_ERROR, FLUSH_SLAVE_TIMEOUT = 0, 1, 12
ALL = {"all_ack_in_sync_state_set": True}


class InSync:
    """A master with slaves that report what the test says; by id."""

    def __init__(self, *slaves: int, **settings: Any) -> None:
        self.bench = Bench(release=LAST_5, broker_role="SYNC_MASTER", **settings)
        broker, before = self.bench.broker, self.bench.ha
        self.ha = AutoSwitchHaService(
            broker.store,
            MemoryDisk(),
            broker.config,
            before.scheduling,
            note=broker.note,
            wants=broker.wants,
        )
        self.ha.on_acknowledged = before.on_acknowledged
        self.ha.run_at_turn_end = before.run_at_turn_end
        broker.ha = self.bench.ha = self.ha
        self.ha.local_broker_id = 1
        self.ha.set_sync_state_set({1})
        self.ha.change_to_master(1)
        self.slaves = {slave_id: self._slave(slave_id) for slave_id in slaves}
        self.ha.set_sync_state_set({1, *slaves})

    def _slave(self, slave_id: int) -> ListTransport:
        transport = ListTransport(ManualTime())
        transport.endpoint = self.ha.accept(transport)
        transport.endpoint.feed(encode_slave_handshake(SlaveHandshake(slave_id)))
        return transport

    def report(self, slave_id: int, end: int | None = None) -> None:
        endpoint = self.slaves[slave_id].endpoint
        assert endpoint is not None
        endpoint.feed(encode_slave_report(self.ha.log.end_position if end is None else end))


def code_of(client: Client) -> int | None:
    answer = client.answer_to(client.last_opaque)
    return None if answer is None else answer.code


async def test_a_put_is_answered_when_all_in_sync_have_it_and_read_then() -> None:
    group = InSync(2, 3, **ALL)
    client = group.bench.client()
    for number in range(2):
        assert client.post(TOPIC) is None
        group.report(2)
        assert code_of(client) is None
        # Upstream ignores a member that has not reported anything yet.
        assert number == 0 or group.bench.broker.store.max_offset(TOPIC, 0) == 1
        group.report(3)
        assert code_of(client) == SUCCESS
        assert group.bench.broker.store.max_offset(TOPIC, 0) == number + 1
    group.bench.no_bugs()


async def test_settings_of_the_set_may_change_while_it_runs() -> None:
    group = InSync(2)
    client, broker = group.bench.client(), group.bench.broker
    group.report(2)
    assert client.send_message(TOPIC).code == SUCCESS
    broker.reconfigure(msgspec.structs.replace(broker.config, all_ack_in_sync_state_set=True))
    assert client.post(TOPIC) is None
    broker.reconfigure(
        msgspec.structs.replace(broker.config, in_sync_replicas=3, min_in_sync_replicas=3)
    )
    assert client.send_message(TOPIC).code == SYSTEM_ERROR


async def test_a_put_is_answered_when_the_slave_that_it_waits_for_leaves_the_set() -> None:
    group = InSync(2, 3, **ALL)
    client = group.bench.client()
    group.report(3, 0)
    assert client.post(TOPIC) is None
    group.report(2)
    assert code_of(client) is None
    group.ha.set_sync_state_set({1, 2})
    assert code_of(client) == SUCCESS


async def test_a_master_alone_in_sync_answers_at_once() -> None:
    group = InSync(**ALL)
    assert group.bench.client().send_message(TOPIC).code == SUCCESS


async def test_a_put_that_not_all_in_sync_have_is_answered_12_after_3_s(
    autojump_clock: MockClock,
) -> None:
    group = InSync(2, 3, **ALL)
    async with trio.open_nursery() as nursery:
        group.bench.start(nursery)
        client = group.bench.client()
        assert client.post(TOPIC) is None
        group.report(2)
        await trio.sleep(2.99)
        assert code_of(client) is None
        await trio.sleep(0.02)
        assert code_of(client) == FLUSH_SLAVE_TIMEOUT
        nursery.cancel_scope.cancel()


async def test_without_that_setting_puts_wait_for_connections_in_sync_or_not() -> None:
    group = InSync(2, in_sync_replicas=2)
    group.ha.set_sync_state_set({1})
    client = group.bench.client()
    assert client.post(TOPIC) is None
    group.report(2)
    assert code_of(client) == SUCCESS


async def test_a_delayed_message_is_delivered_although_it_was_confirmed_late(
    autojump_clock: MockClock,
) -> None:
    group = InSync(2, **ALL)
    async with trio.open_nursery() as nursery:
        group.bench.start(nursery)
        client = group.bench.client()
        assert client.post(TOPIC, properties="DELAY\x011") is None
        await trio.sleep(0.5)
        group.report(2)
        assert code_of(client) == SUCCESS
        await trio.sleep(0.7)
        group.report(2)
        assert group.bench.broker.store.max_offset(TOPIC, 0) == 1
        nursery.cancel_scope.cancel()
    group.bench.no_bugs()


@pytest.mark.parametrize("wait", ["", "WAIT\x01true"])
async def test_too_few_replicas_in_sync_refuse_a_put_before_it_is_stored(wait: str) -> None:
    group = InSync(2, in_sync_replicas=3, min_in_sync_replicas=3)
    client = group.bench.client()
    answer = client.send_message(TOPIC, properties=wait)
    assert (answer.code, answer.remark) == (SYSTEM_ERROR, "in-sync replicas not enough")
    assert group.bench.broker.store.log.end_position == 0
    assert client.send_message(TOPIC, properties="WAIT\x01false").code == SUCCESS
