"""A controller without a network: commands go in, replies come out."""

from __future__ import annotations

import itertools
from typing import Any

from rocketmq_emulator.controller.request_processor import handler_table
from rocketmq_emulator.controller.state.controller import Controller
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.net.results import Call, Peer, Refusal, Reply, Wait
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.controller import SyncStateSet
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.command import RemotingCommand, ext_of
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.versions import R_5_3_3
from rocketmq_emulator.settings.config import ControllerConfig

_numbers = itertools.count(1)
SET = "broker-a"


def a_peer() -> Peer:
    return Peer("127.0.0.1:50000", next(_numbers))


def address_of(broker_id: int) -> str:
    return f"10.0.0.{broker_id}:10911"


class ControllerBench:
    """One controller, its facts and role-change notices, and its disk; ``now_ms`` is its time."""

    def __init__(self, disk: MemoryDisk | None = None, **settings) -> None:
        self.settings = settings
        self.disk = disk or MemoryDisk()
        self.facts: list = []
        self.pushed: list = []
        self.peers: dict[int, Peer] = {}
        self.now_ms = 0
        self.controller = Controller(
            ControllerConfig(**settings),
            disk=self.disk,
            note=self.facts.append,
            push=lambda address, header, body: self.pushed.append((address, header, body)),
        )
        self.handlers = handler_table(self.controller)

    def restarted(self) -> ControllerBench:
        bench = ControllerBench(self.disk, **self.settings)
        bench.now_ms = self.now_ms
        return bench

    def noted(self, kind: type) -> list:
        return [fact for fact in self.facts if type(fact) is kind]

    def invoke(self, code: int, *, body: bytes = b"", peer: Peer | None = None, **fields) -> Any:
        """The reply that the shell would send; in a group perhaps what it would wait for."""
        entry = self.handlers.get(code)
        if entry is None:
            return Reply(code=3)
        rpc, handler = entry
        command = RemotingCommand(
            code=code, version=R_5_3_3.version, ext=ext_of(None, fields), body=body
        )
        try:
            call = Call(command, command.decode(rpc.request), peer or a_peer(), self.now_ms)
            result = handler(call)
        except Refusal as refusal:
            return Reply(refusal.header, code=refusal.code, remark=refusal.remark)
        except BadFields as error:
            return Reply(code=1, remark=str(error))
        assert isinstance(result, Reply | Wait)
        return result

    # Requests of a broker ---------------------------------------------------------------

    def next_id(self, name: str = SET) -> int:
        code = RequestCode.CONTROLLER_GET_NEXT_BROKER_ID
        return self.invoke(code, clusterName="C", brokerName=name).header.next_broker_id

    def apply(self, number: int, check_code: str | None = None, name: str = SET) -> Reply:
        return self.invoke(
            RequestCode.CONTROLLER_APPLY_BROKER_ID,
            clusterName="C",
            brokerName=name,
            appliedBrokerId=number,
            registerCheckCode=check_code or f"{address_of(number)};1700",
        )

    def register(self, number: int, address: str | None = None, name: str = SET) -> Reply:
        return self.invoke(
            RequestCode.CONTROLLER_REGISTER_BROKER,
            clusterName="C",
            brokerName=name,
            brokerId=number,
            brokerAddress=address or address_of(number),
        )

    def heartbeat(self, number: int, peer: Peer | None = None, **changes) -> Reply:
        """Over the connection of this broker, unless *peer* is given."""
        connection = peer or self.peers.setdefault(number, a_peer())
        fields: dict[str, Any] = {
            "clusterName": "C",
            "brokerName": SET,
            "brokerAddr": address_of(number),
            "brokerId": number,
            "epoch": 1,
            "maxOffset": 100,
            "confirmOffset": 100,
            "heartbeatTimeoutMills": 10_000,
            "electionPriority": 2**31 - 1,
        }
        given = {k: v for k, v in (fields | changes).items() if v is not None}
        return self.invoke(RequestCode.BROKER_HEARTBEAT, peer=connection, **given)

    def elect(self, number: int, name: str = SET, *, designate: bool = False) -> Reply:
        return self.invoke(
            RequestCode.CONTROLLER_ELECT_MASTER,
            clusterName="C",
            brokerName=name,
            brokerId=number,
            designateElect=str(designate).lower(),
        )

    def alter(
        self,
        ids: list[int],
        *,
        master: int = 1,
        epoch: int = 1,
        set_epoch: int = 1,
        name: str = SET,
    ) -> Reply:
        wanted = SyncStateSet(sync_state_set=ids, sync_state_set_epoch=set_epoch)
        return self.invoke(
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
            brokerName=name,
            masterBrokerId=master,
            masterEpoch=epoch,
            body=encode_body(wanted, R_5_3_3),
        )

    # What it knows ------------------------------------------------------------------------

    def replica_info(self, name: str = SET) -> tuple[int | None, int, list[int], int]:
        """The master, its epoch, the sync-state set and its epoch."""
        reply = self.invoke(RequestCode.CONTROLLER_GET_REPLICA_INFO, brokerName=name)
        assert reply.code == 0
        found = decode_body(reply.body, SyncStateSet)
        header = reply.header
        return (
            header.master_broker_id,
            header.master_epoch,
            found.sync_state_set,
            found.sync_state_set_epoch,
        )

    def close(self, number: int) -> None:
        self.controller.closed(self.peers.pop(number), self.now_ms)

    def run_to(self, until_ms: int, beating: tuple[int, ...] = ()) -> None:
        """Pass the time as the shell does: heartbeats each second, and both scans."""
        while self.now_ms < until_ms:
            self.now_ms += 1_000
            for number in beating:
                self.heartbeat(number)
            if self.now_ms % 5_000 == 2_000:
                self.controller.scan_brokers(self.now_ms)
            if self.now_ms % 5_000 == 0:
                self.controller.scan_masters(self.now_ms)


def a_set(*numbers: int, in_sync: tuple[int, ...] = (1,), **settings) -> ControllerBench:
    """A controller with the brokers *numbers*, all alive, whose master is 1."""
    bench = ControllerBench(**settings)
    for number in numbers:
        assert bench.apply(number).code == 0
        bench.heartbeat(number)
        assert bench.register(number).code == 0
    assert bench.elect(1).code == 0
    if in_sync != (1,):
        assert bench.alter(list(in_sync)).code == 0
    bench.pushed.clear()
    bench.facts.clear()
    return bench
