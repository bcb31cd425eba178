"""One operating-system process that runs clients, real or virtual.

What upstream keeps process-wide lives here: the table of client instances, the counter
of unique keys, the process id.  So a virtual machine has one, a test makes one, and a
lone producer makes its own.

Upstream: MQClientManager, MessageClientIDSetter, UtilAll.getPid.
"""

from __future__ import annotations

import ipaddress
import os
import random
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

import trio

from emulator.client.config import NO_INSTANCE_NAME, ClientConfig, ProducerConfig
from emulator.client.errors import NotRunning
from emulator.client.instance.instance import ClientInstance
from emulator.client.producer.send_pipeline import SendPipeline
from emulator.clock import WallClock
from emulator.journal import silent
from emulator.net.plain_nursery import plain_nursery
from protocol.message_ids import UniqKeys
from protocol.names import CLIENT_INNER_PRODUCER_GROUP

if TYPE_CHECKING:
    from types import TracebackType

    from emulator.facts import Note
    from emulator.net.transport import Network


class ClientProcess:
    """``async with ClientProcess() as process:`` clients given it may share instances.

    Everything that comes from outside can be given: *network* (default TCP), *clock*
    (default this machine's), *rng*, *note*, *ip* and *pid*.
    """

    def __init__(
        self,
        *,
        network: Network | None = None,
        clock: WallClock | None = None,
        rng: random.Random | None = None,
        note: Note = silent,
        ip: str = "127.0.0.1",
        pid: int | None = None,
    ) -> None:
        self.network = network
        self.clock = clock or WallClock.of_this_machine()
        self.rng = rng or random.Random()
        self.note = note
        self.ip = ip
        self.pid = os.getpid() if pid is None else pid
        self.instances: dict[str, ClientInstance] = {}
        loader_hash = self.rng.getrandbits(31)
        self.uniq_keys = UniqKeys(ipaddress.ip_address(ip).packed, self.pid, loader_hash)
        self._named = 0
        self._nursery: trio.Nursery | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._nursery = await self._stack.enter_async_context(plain_nursery())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        for instance in self.instances.values():
            instance.stop()
        self._nursery = None
        return await self._stack.__aexit__(kind, error, traceback)

    async def instance(
        self, config: ClientConfig, *, may_share_default: bool = False
    ) -> ClientInstance:
        """The instance of that name, started if need be.

        The default name stands for one of its own, except for broadcasting consumers,
        whose id must outlive the process.  Upstream: getOrCreateMQClientInstance.
        """
        name = config.instance_name
        if name == NO_INSTANCE_NAME and not may_share_default:
            name = self._new_name()
        client_id = client_id_of(config.client_ip or self.ip, name, config.unit_name)
        if (known := self.instances.get(client_id)) is not None:
            return known
        if self._nursery is None:
            raise NotRunning("a ClientProcess is used inside its ``async with`` only")
        instance: ClientInstance = await self._nursery.start(self._host, client_id, config)
        return instance

    def release(self, instance: ClientInstance) -> None:
        """Stop it if its last user has left.  Upstream: MQClientInstance.shutdown."""
        if not instance.is_used:
            self.instances.pop(instance.client_id, None)
            instance.stop()

    async def _host(
        self,
        client_id: str,
        config: ClientConfig,
        task_status: trio.TaskStatus[ClientInstance] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        async with trio.open_nursery() as nursery:
            instance = ClientInstance(client_id, config, self, nursery)
            instance.inner_producer = SendPipeline(instance, _inner(config))
            instance.register_producer(instance.inner_producer)
            self.instances[client_id] = instance
            task_status.started(instance)

    def _new_name(self) -> str:
        """``pid#nanoseconds``.  Upstream: ClientConfig.changeInstanceNameToPID."""
        self._named += 1
        return f"{self.pid}#{self.clock.now_ms() * 1_000_000 + self._named}"


def client_id_of(ip: str, instance_name: str, unit_name: str = "", *, stream: bool = False) -> str:
    """Upstream: ClientConfig.buildMQClientId."""
    unit = f"@{unit_name}" if unit_name.strip() else ""
    return f"{ip}@{instance_name}{unit}{'@STREAM' if stream else ''}"


def _inner(config: ClientConfig) -> ProducerConfig:
    shared = {name: getattr(config, name) for name in ClientConfig.__struct_fields__}
    return ProducerConfig(**{**shared, "group": CLIENT_INNER_PRODUCER_GROUP})
