"""How a broker prepares before it registers, if its name has several replicas.

Such a broker starts isolated: its ports are open, but no NameServer has it, and it runs no special
services.  Once a second it tries the whole preparation again, until it succeeds.  The master shows
every registered member its HA address, waits until the member copies from it, and takes back the
progress that the member made meanwhile: delay offsets, consumer offsets and the progress of
timers, each if the member's version is not older than its own.  A slave waits until it copies from
the master, if there is one.  A broker without others begins at once.

A connection for copies counts by the host of the member only, as upstream's does: of brokers on
one host, any.

Upstream: BrokerPreOnlineService, HAConnectionStateNotificationService.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import trio

from rocketmq_emulator.broker.failover.acting_master import wait_ha_info
from rocketmq_emulator.broker.store.timer_wheel import decode_sent_checkpoint
from rocketmq_emulator.errors.call_errors import RemoteError
from rocketmq_emulator.facts import (
    MetadataTakenBack,
    PreOnlineBegan,
    PreOnlineEnded,
    PreOnlineWaiting,
)
from rocketmq_emulator.facts.replication import (
    CONSUMER_OFFSETS_TABLE,
    DELAY_OFFSETS_TABLE,
    TIMER_CHECKPOINT_TABLE,
)
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body
from rocketmq_emulator.protocol.bodies.offsets import ConsumerOffsetSerializeWrapper
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.messages.names import MASTER_ID
from rocketmq_emulator.protocol.requests.nameserver import ExchangeHAInfo
from rocketmq_emulator.text.values import vip_channel

if TYPE_CHECKING:
    from rocketmq_emulator.broker.failover.acting_master import NameServerAsking
    from rocketmq_emulator.broker.state.broker import Broker
    from rocketmq_emulator.net.remoting_client import RemotingClient
    from rocketmq_emulator.protocol.command import RemotingCommand
    from rocketmq_emulator.protocol.rpc import AnyRpc

ROUND_MS = 1_000  # BrokerPreOnlineService.run: between two tries
LOOK_MS = 1_000  # HAConnectionStateNotificationService.run: between two looks for a connection
CONNECTED_MS_MAX = 10_000  # HAConnectionStateNotificationService.CONNECTION_ESTABLISH_TIMEOUT
CALL_MS_MAX = 3_000  # BrokerOuterAPI.sendBrokerHaInfo, getAllDelayOffset and the others


class _Table(NamedTuple):
    """A table that a returning master may take from a slave."""

    name: str
    rpc: AnyRpc
    is_on_vip_port: bool
    take: Callable[[Broker, bytes, int], bool | None]  # None: this broker has no such table


class PreOnline:
    """Prepares *broker*; ``serve(min id, address)`` lets it begin."""

    def __init__(
        self,
        broker: Broker,
        client: RemotingClient,
        *,
        asking: NameServerAsking,
        serve: Callable[[int, str | None], object],
    ) -> None:
        self._broker = broker
        self._client = client
        self._asking = asking
        self._serve = serve
        self._now_ms = client.clock.now_ms
        self._began_ms = self._now_ms()
        self._next_member = 0  # of those in the order of ids: the first that is not prepared
        self._failing: PreOnlineWaiting | None = None

    async def run(self) -> None:
        """Return when the broker serves, or a controller has given it a role."""
        broker_id = self._broker.config.broker_id
        self._broker.note(PreOnlineBegan(broker_id))
        while isinstance(prepared := await self._wait_prepared(), PreOnlineWaiting):
            if prepared != self._failing:
                self._broker.note(prepared)
            self._failing = prepared
            await trio.sleep(ROUND_MS / 1_000)
            if not self._broker.members.is_isolated:
                return
        took_ms = self._now_ms() - self._began_ms
        smallest, address = prepared
        self._broker.note(PreOnlineEnded(broker_id, smallest, took_ms))
        self._serve(smallest, address)

    async def _wait_prepared(self) -> tuple[int, str | None] | PreOnlineWaiting:
        """The smallest id and its address, or the step that failed."""
        members = await self._asking.wait_members()
        own_id = self._broker.config.broker_id
        if members is None:
            where = ", ".join(self._asking.name_servers())
            return PreOnlineWaiting(where, "the members of the name", "no NameServer answers")
        if not members:
            return own_id, self._broker.address
        if own_id == MASTER_ID:
            return await self._prepare_master(members) or (MASTER_ID, self._broker.address)
        smallest = min((number for number in members if number != own_id), default=own_id)
        failed = None
        if smallest == MASTER_ID:
            failed = await self._prepare_slave(members[MASTER_ID])
        return failed or (smallest, members.get(smallest))

    # A master -------------------------------------------------------------------------

    async def _prepare_master(self, members: Mapping[int, str]) -> PreOnlineWaiting | None:
        """Prepare with each member that is not prepared yet.  Upstream: prepareForMasterOnline."""
        numbers = sorted(members)
        while self._next_member < len(numbers):
            address = members[numbers[self._next_member]]
            failed = await self._show_ha_address(address) or await self._wait_copied_by(address)
            if failed:
                return failed
            for table in TABLES:
                if failed := await self._take_back(table, address):
                    return failed
            self._next_member += 1
        return None

    async def _show_ha_address(self, address: str) -> PreOnlineWaiting | None:
        broker = self._broker
        header = ExchangeHAInfo(
            master_ha_address=broker.ha_address,
            master_flush_offset=broker.init_max_offset,
            master_address=broker.address,
        )
        rpc = catalog.EXCHANGE_BROKER_HA_INFO
        reply = await self._wait_answer(address, rpc, "HA address", header)
        return reply if isinstance(reply, PreOnlineWaiting) else None

    async def _wait_copied_by(self, address: str) -> PreOnlineWaiting | None:
        host = address.rpartition(":")[0]

        def is_copied() -> bool:
            connections = [] if self._broker.ha is None else self._broker.ha.connections
            return any(each.transport.remote.rpartition(":")[0] == host for each in connections)

        return await self._wait_connection(is_copied, address)

    async def _take_back(self, table: _Table, address: str) -> PreOnlineWaiting | None:
        """Take a table of the slave at *address* if its version is not older.

        Upstream: BrokerPreOnlineService.syncMetadataReverse.
        """
        asked = vip_channel(address) if table.is_on_vip_port else address
        reply = await self._wait_answer(asked, table.rpc, table.name, None)
        if isinstance(reply, PreOnlineWaiting):
            return reply
        try:
            is_taken = table.take(self._broker, reply.body, self._now_ms())
        except BadFields as error:
            return PreOnlineWaiting(asked, table.name, str(error))
        if is_taken is not None:
            self._broker.note(MetadataTakenBack(address, table.name, is_taken))
        return None

    # A slave --------------------------------------------------------------------------

    async def _prepare_slave(self, address: str) -> PreOnlineWaiting | None:
        """Copy from the master at *address*.  Upstream: prepareForSlaveOnline."""
        found = await wait_ha_info(self._client, address)
        if isinstance(found, str):
            return PreOnlineWaiting(address, "HA address", found)
        if found.master_ha_address is None:
            return None
        self._broker.take_ha_info(found)

        def is_copying() -> bool:
            client = self._broker.ha_client
            return client is not None and client.transport is not None

        return await self._wait_connection(is_copying, found.master_ha_address)

    # Both -----------------------------------------------------------------------------

    async def _wait_connection(
        self, is_there: Callable[[], bool], address: str
    ) -> PreOnlineWaiting | None:
        until_s = trio.current_time() + CONNECTED_MS_MAX / 1_000
        while trio.current_time() <= until_s:
            await trio.sleep(LOOK_MS / 1_000)
            if is_there():
                return None
        return PreOnlineWaiting(address, "HA connection", f"none in {CONNECTED_MS_MAX} ms")

    async def _wait_answer(
        self, address: str, rpc: AnyRpc, step: str, header: ExchangeHAInfo | None
    ) -> RemotingCommand | PreOnlineWaiting:
        try:
            reply = await self._client.invoke(address, rpc, header, timeout_ms=CALL_MS_MAX)
        except RemoteError as error:
            return PreOnlineWaiting(address, step, str(error))
        if reply.code != ResponseCode.SUCCESS:
            return PreOnlineWaiting(address, step, f"code {reply.code}: {reply.remark or ''}")
        return reply


# Tables that are taken back -----------------------------------------------------------


def _take_delays(broker: Broker, body: bytes, _now_ms: int) -> bool:
    return broker.delays.take_back(body)


def _take_offsets(broker: Broker, body: bytes, _now_ms: int) -> bool:
    slaves = decode_unlimited_body(body, ConsumerOffsetSerializeWrapper)
    return broker.offsets.take_back(slaves)


def _take_timers(broker: Broker, body: bytes, _now_ms: int) -> bool | None:
    timers = broker.timers
    return None if timers is None else timers.take_back(decode_sent_checkpoint(body))


TABLES = (
    _Table(DELAY_OFFSETS_TABLE, catalog.GET_ALL_DELAY_OFFSET, False, _take_delays),
    _Table(CONSUMER_OFFSETS_TABLE, catalog.GET_ALL_CONSUMER_OFFSET, False, _take_offsets),
    _Table(TIMER_CHECKPOINT_TABLE, catalog.GET_TIMER_CHECK_POINT, True, _take_timers),
)
