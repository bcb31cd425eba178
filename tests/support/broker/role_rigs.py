"""A broker that follows a controller beside it: calls are made at once, pauses noted."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from rocketmq_emulator.broker.replication.replicas_manager import (
    ControlledReplica,
    ControllerCall,
    LogReport,
    PauseStep,
)
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.errors.call_errors import NoAnswer, RemoteError
from rocketmq_emulator.facts import Fact
from rocketmq_emulator.net.results import Reply
from rocketmq_emulator.protocol.command import RemotingCommand, ext_of
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.versions import R_5_3_3
from rocketmq_emulator.settings.config import BrokerConfig
from tests.support.controller.controllers import SET, ControllerBench, a_peer

CONTROLLER = "10.0.9.1:9878"


class RoleLog:
    """``BrokerRoles`` that keep what was done, and say what a test sets."""

    def __init__(self) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.is_fenced = False
        self.in_sync: set[int] = set()
        self.end = LogReport(-1, 0, 0)

    def set_fenced(self, *, is_fenced: bool) -> None:
        self.is_fenced = is_fenced

    def set_controller_id(self, broker_id: int) -> None:
        self.done.append(("id", broker_id))

    def use_sync_state_set(self, broker_ids: Collection[int]) -> None:
        self.done.append(("set", sorted(broker_ids)))

    def change_to_master(self, epoch: int) -> None:
        self.done.append(("to master", epoch))

    def remain_master(self, epoch: int) -> None:
        self.done.append(("still master", epoch))

    def change_to_slave(self, master_address: str, epoch: int, broker_id: int) -> None:
        self.done.append(("to slave", master_address, epoch, broker_id))

    def remain_slave(self, master_address: str, epoch: int) -> None:
        self.done.append(("still slave", master_address, epoch))

    def sync_state_set(self) -> set[int]:
        return set(self.in_sync)

    def log_report(self) -> LogReport:
        return self.end


class FollowingBroker:
    """A broker that follows *bench*; without it no controller answers."""

    def __init__(
        self,
        bench: ControllerBench | None,
        number: int = 1,
        disk: MemoryDisk | None = None,
        **settings: Any,
    ) -> None:
        self.bench = bench
        self.disk = disk or MemoryDisk()
        self.roles = RoleLog()
        self.facts: list[Fact] = []
        self.pauses_ms: list[int] = []
        self.asked: list[int] = []
        self.answer: Callable[[ControllerCall], Any] = self._of_bench
        self.peer = a_peer()
        given = {
            "release": "5.3.3",
            "cluster": "C",
            "name": SET,
            "enable_controller_mode": True,
            "controllers": (CONTROLLER,),
            **settings,
        }
        self.manager = ControlledReplica(
            BrokerConfig(**given),
            self.disk,
            self.roles,
            note=self.facts.append,
            rng=random.Random(1),
            now_ms=lambda: 0 if bench is None else bench.now_ms,
        )
        self.manager.address = f"10.0.0.{number}:10911"
        for address in self.manager._config.controllers:
            self.manager.looked_at(address, is_reachable=bench is not None)

    def carry_out(self, steps: Any) -> Any:
        """The result of *steps*, whose calls are answered at once."""
        answer = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as ended:
                return ended.value
            answer = None
            if isinstance(step, PauseStep):
                self.pauses_ms.append(step.ms)
            else:
                self.asked.append(step.rpc.code)
                answer = _command(self.answer(step))

    def start(self) -> bool:
        runs: bool = self.carry_out(self.manager.start())
        return runs

    def sync_role(self) -> None:
        self.carry_out(self.manager.sync_role())

    def heartbeat(self) -> None:
        assert self.bench is not None
        beat: Any = _fields(self.manager.heartbeat())
        self.bench.invoke(904, peer=self.peer, **beat)

    def _of_bench(self, call: ControllerCall) -> Any:
        if self.bench is None:
            return NoAnswer(call.address, "nobody")
        header: Any = {} if call.header is None else _fields(call.header)
        return self.bench.invoke(call.rpc.code, peer=self.peer, body=call.body, **header)


def _fields(header: Header) -> dict[str, str]:
    return msgspec.json.decode(ext_of(header, {}), type=dict[str, str])


def _command(answer: Reply | RemoteError) -> RemotingCommand | RemoteError:
    if isinstance(answer, RemoteError):
        return answer
    return RemotingCommand(
        code=answer.code,
        version=R_5_3_3.version,
        ext=ext_of(answer.header, {}),
        body=answer.body,
        remark=answer.remark,
    )
