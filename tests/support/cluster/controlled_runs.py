"""Runs in virtual time of a cluster whose masters are elected, with one producer that goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import trio

from rocketmq_emulator.client import Message, Producer
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.errors.call_errors import RemoteError
from rocketmq_emulator.net.remoting_client import tool_connections
from rocketmq_emulator.protocol.error_families import NobodyAnswered, RefusedByServer
from rocketmq_emulator.protocol.versions import R_5_3_3
from rocketmq_emulator.sim.world import VirtualWorld, run_virtual


class ControlledRun:
    """A cluster in virtual time: its facts, and the sends of one producer.

    ``now_s`` is the time since the start of the cluster.
    """

    def __init__(
        self, world: VirtualWorld, cluster: VirtualCluster, entries: list[dict[str, Any]]
    ) -> None:
        self._began_ms = world.now_ms()
        self._world = world
        self.cluster = cluster
        self._entries = entries
        self.sends: list[tuple[float, str]] = []  # when it was answered, and how
        self.bodies: list[str] = []  # those that were acknowledged

    @property
    def now_s(self) -> float:
        return (self._world.now_ms() - self._began_ms) / 1_000

    def facts(self, kind: str, node: str = "") -> list[tuple[float, dict[str, Any]]]:
        """When each fact of *kind* was noted, and the fact."""
        return [
            ((entry["at_ms"] - self._began_ms) / 1_000, entry["fact"])
            for entry in self._entries
            if entry["fact"]["kind"] == kind and node in ("", entry["node"])
        ]

    def roles(self, node: str) -> list[tuple[str, int]]:
        """The roles that *node* took, with their epochs."""
        found = self.facts("BrokerRoleChanged", node)
        return [(fact["role"], fact["master_epoch"]) for _, fact in found]

    def start_producer(self, *, every_s: float = 0.1) -> None:
        """Send a message, wait, and so on until the end."""

        async def program(process: Any) -> None:
            namesrv = self.cluster.namesrv
            async with Producer(process=process, namesrv=namesrv, group="shop") as producer:
                number = 0
                while True:
                    body = str(number)
                    self.sends.append((self.now_s, await self._send(producer, body)))
                    number += 1
                    await trio.sleep(every_s)

        self.cluster.start_client("client", program)

    async def _send(self, producer: Producer, body: str) -> str:
        try:
            result = await producer.send(Message("orders", body.encode()))
        except (NobodyAnswered, RefusedByServer) as error:
            return type(error).__name__
        self.bodies.append(body)
        return result.status.name

    def first_ok_after(self, after_s: float) -> float:
        """When the first send after *after_s* was acknowledged."""
        return next(at for at, how in self.sends if at > after_s and how == "SEND_OK")

    async def invoke(
        self, node: str, rpc: Any, header: Any = None, body: bytes = b"", *, timeout_s: float = 3
    ) -> Any:
        """Ask *node* as a tool does.  Raises ``RemoteError``."""
        operator = self.cluster._machines.machine("operator")
        async with tool_connections(operator.network, operator.clock, R_5_3_3) as client:
            address = self.cluster.addresses[node]
            timeout_ms = round(timeout_s * 1_000)
            return await client.invoke(address, rpc, header, body, timeout_ms=timeout_ms)

    async def code(self, node: str, rpc: Any, header: Any = None, body: bytes = b"") -> int | str:
        """The code of the reply, or the name of the error."""
        try:
            reply = await self.invoke(node, rpc, header, body)
        except RemoteError as error:
            return type(error).__name__
        code: int = reply.code
        return code


def run_controlled(
    script: Callable[[ControlledRun], Awaitable[None]], *, seed: int = 1, **fields: Any
) -> ControlledRun:
    """Run *script* with one broker name, one slave and one controller, or with *fields*."""
    runs: list[ControlledRun] = []
    entries: list[dict[str, Any]] = []
    given: dict[str, Any] = {"brokers": 1, "slaves": 1, "controllers": 1, "release": "5.3.3"}

    async def main(world: VirtualWorld) -> None:
        spec = ClusterSpec(**(given | fields))
        cluster = VirtualCluster(
            world, spec, lambda line: entries.append(msgspec.json.decode(line))
        )
        runs.append(ControlledRun(world, cluster, entries))
        await cluster.start()
        await script(runs[0])

    run_virtual(main, seed=seed)
    return runs[0]
