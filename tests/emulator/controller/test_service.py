"""A controller over TCP: role changes reach the brokers' own addresses, and nothing is lost."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.controller.service import serve_controller
from rocketmq_emulator.disk.files import FileDisk
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.net.dispatch import Row, table_of
from rocketmq_emulator.net.remoting_client import RemotingClient
from rocketmq_emulator.net.remoting_server import RemotingServer
from rocketmq_emulator.net.results import NO_REPLY, Call, Result
from rocketmq_emulator.net.tcp import TcpNetwork
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.controller import SyncStateSet
from rocketmq_emulator.protocol.requests import controller as requests
from rocketmq_emulator.protocol.requests.nameserver import BrokerHeartbeatRequest
from rocketmq_emulator.protocol.versions import R_5_3_3
from rocketmq_emulator.settings.config import ControllerConfig, NetConfig

PATIENCE_S = 20
CALL_MS_MAX = 10_000


class BrokerSide:
    """One broker's port, the notices that reach it, and its connection to the controller."""

    def __init__(self, nursery: trio.Nursery, controller: str, broker_id: int) -> None:
        self._nursery, self._controller, self.broker_id = nursery, controller, broker_id
        self.address = ""
        clock, network = WallClock.of_this_machine(), TcpNetwork(nursery)
        self._sender, self._notices = trio.open_memory_channel[requests.MasterReply](10)
        handlers = table_of((Row(catalog.NOTIFY_BROKER_ROLE_CHANGED, self._noticed),), R_5_3_3)
        self._network = network
        self._server = RemotingServer(clock, NetConfig(), R_5_3_3, lambda _: None, handlers)
        self._client = RemotingClient(
            network,
            nursery,
            clock=clock,
            config=NetConfig(),
            release=R_5_3_3,
            note=lambda _: None,
            handlers={},
        )

    def _noticed(self, call: Call[requests.NotifyBrokerRoleChangedRequest]) -> Result:
        self._sender.send_nowait(call.request)
        return NO_REPLY

    async def wait_noticed(self) -> requests.MasterReply:
        return await self._notices.receive()

    async def start(self) -> None:
        """Listen, apply for the id, be alive, register."""
        listener = await self._server.serve(self._network, "127.0.0.1:0", self._nursery)
        self.address = listener.address
        names = {"cluster_name": "C", "broker_name": "broker-a"}
        applied = requests.ApplyBrokerIdRequest(
            **names, applied_broker_id=self.broker_id, register_check_code=f"{self.address};1"
        )
        await self.invoke(catalog.CONTROLLER_APPLY_BROKER_ID, applied)
        beat = BrokerHeartbeatRequest(
            **names,
            broker_addr=self.address,
            broker_id=self.broker_id,
            heartbeat_timeout_mills=600_000,
        )
        await self.invoke(catalog.BROKER_HEARTBEAT, beat)

    async def invoke(self, rpc, header=None, body: bytes = b""):
        return await self._client.invoke(
            self._controller, rpc, header, body, timeout_ms=CALL_MS_MAX
        )

    async def elect(self):
        request = requests.ElectMasterRequest(
            cluster_name="C",
            broker_name="broker-a",
            broker_id=self.broker_id,
            designate_elect=False,
        )
        return await self.invoke(catalog.CONTROLLER_ELECT_MASTER, request)

    def disconnect(self) -> None:
        self._client.close_all()


@asynccontextmanager
async def a_controller(store: Path) -> AsyncIterator[tuple[trio.Nursery, str]]:
    """The nursery of everything, and the controller's address."""
    clock, stop, ended = WallClock.of_this_machine(), trio.Event(), trio.Event()
    disk = FileDisk(store)
    try:
        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:

                async def serve(task_status: trio.TaskStatus[str]) -> None:
                    await serve_controller(
                        ControllerConfig(listen_address="127.0.0.1:0"),
                        network=TcpNetwork(nursery),
                        disk=disk,
                        clock=clock,
                        rng=random.Random(0),
                        journal=Journal("controller", clock),
                        stop=stop,
                        task_status=task_status,
                    )
                    ended.set()

                yield nursery, await nursery.start(serve)
                stop.set()
                await ended.wait()  # brokers close after it, as they do not end with it
                nursery.cancel_scope.cancel()
    finally:
        disk.close()


async def test_a_closed_connection_elects_the_slave_and_notifies_its_port(tmp_path) -> None:
    async with a_controller(tmp_path) as (nursery, address):
        one, two = (BrokerSide(nursery, address, number) for number in (1, 2))
        await one.start()
        await two.start()
        assert (await one.elect()).code == 0
        assert (await two.wait_noticed()).master_broker_id == 1
        report = requests.AlterSyncStateSetRequest(
            broker_name="broker-a", master_broker_id=1, master_epoch=1
        )
        body = encode_body(SyncStateSet(sync_state_set=[1, 2], sync_state_set_epoch=1), R_5_3_3)
        reply = await one.invoke(catalog.CONTROLLER_ALTER_SYNC_STATE_SET, report, body)
        assert reply.code == 0
        one.disconnect()
        notice = await two.wait_noticed()
        assert (notice.master_broker_id, notice.master_epoch) == (2, 2)
        assert notice.master_address == two.address


async def test_a_controller_that_stops_elects_nobody_and_knows_its_master_again(tmp_path) -> None:
    async with a_controller(tmp_path) as (nursery, address):
        broker = BrokerSide(nursery, address, 1)
        await broker.start()
        await broker.elect()
    async with a_controller(tmp_path) as (nursery, address):
        broker = BrokerSide(nursery, address, 1)
        request = requests.GetReplicaInfoRequest(broker_name="broker-a")
        reply = await broker.invoke(catalog.CONTROLLER_GET_REPLICA_INFO, request)
        assert reply.decode(requests.GetReplicaInfoReply).master_epoch == 1
        metadata = await broker.invoke(catalog.CONTROLLER_GET_METADATA_INFO)
        found = metadata.decode(requests.GetMetaDataReply)
        assert (found.controller_leader_address, found.peers) == (address, f"n0:{address};")
