"""Three controllers without a network: ``carry`` brings their messages until there are none."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from rocketmq_emulator.controller.request_processor import handler_table
from rocketmq_emulator.controller.state.controller import Controller
from rocketmq_emulator.controller.state.group import GroupRequest
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.net.held_calls import UpTo
from rocketmq_emulator.net.results import Reply, Wait
from rocketmq_emulator.settings.config import ControllerConfig
from tests.support.controller.controllers import ControllerBench
from tests.support.controller.groups import IDS

PEERS = ";".join(f"{each}-10.0.9.{number}:9878" for number, each in enumerate(IDS))


class OneOfThree(ControllerBench):
    """One controller of the trio: requests may be answered later."""

    def __init__(self, self_id: str, disk: MemoryDisk | None = None, **settings: Any) -> None:
        self.settings = {"self_id": self_id, "peers": PEERS, **settings}
        self.disk = disk or MemoryDisk()
        self.facts = []
        self.pushed = []
        self.peers = {}
        self.now_ms = 0
        self.committed_to = 0
        self.waits: list[Wait] = []
        self.controller = Controller(
            ControllerConfig(**self.settings),
            disk=self.disk,
            note=self.facts.append,
            push=lambda address, header, body: self.pushed.append((address, header, body)),
            rng=random.Random(self_id),
        )
        assert self.controller.group is not None
        self.group = self.controller.group
        self.controller.on_committed = self._committed
        self.handlers = handler_table(self.controller)

    def _committed(self, index: int) -> None:
        self.committed_to = index

    def answer(self, result: Reply | Wait, *, expired: bool = False) -> Any:
        """The reply of a call that waits, now."""
        if isinstance(result, Reply):
            return result
        assert isinstance(result.on, UpTo)
        assert expired or self.committed_to >= result.on.position
        return result.resume(self.now_ms, expired)


class Trio:
    """The controllers n0, n1, n2; ``lead(n)`` lets one win an election."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.benches: dict[str, OneOfThree] = {}
        self.away: set[str] = set()
        self._messages: list[Callable[[], None]] = []
        for each in IDS:
            self.restart(each)

    def __getitem__(self, member_id: str) -> OneOfThree:
        return self.benches[member_id]

    def restart(self, member_id: str) -> None:
        old = self.benches.get(member_id)
        bench = OneOfThree(member_id, None if old is None else old.disk, **self.settings)
        bench.now_ms = 0 if old is None else old.now_ms
        bench.group.send = partial(self._send, bench)
        self.benches[member_id] = bench

    def lead(self, member_id: str, *, carried: bool = True) -> OneOfThree:
        """Let *member_id* stand for election; with *carried* it has won, and may decide."""
        bench = self[member_id]
        for each in self.benches.values():
            each.now_ms += 20_000
        bench.group.tick(bench.now_ms)
        if carried:
            self.carry()
            assert bench.group.may_decide
        return bench

    def carry(self, messages_max: int = 10_000) -> None:
        """Bring messages and their answers until there are none, or so many were brought."""
        for _ in range(messages_max):
            if not self._messages:
                return
            self._messages.pop(0)()

    def _send(self, sender: OneOfThree, target: str, request: GroupRequest) -> None:
        def bring() -> None:
            other = self.benches[target]
            if target in self.away or sender.group.self_id in self.away:
                sender.group.failed(target, request)
                return
            reply = other.group.handle(request, other.now_ms)
            sender.group.answered(target, request, reply, sender.now_ms)

        self._messages.append(bring)
