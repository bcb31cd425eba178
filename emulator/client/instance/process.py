"""One operating-system process that runs clients, real or virtual; and its main function.

Upstream's process-wide state is kept in attributes here: the table of client instances, the
counter of unique keys, the process id.  So each virtual machine has its own ``ClientProcess``,
tests make their own, and so does a single producer.

``run(main)`` is ``trio.run`` with an orderly end after Ctrl-C.  With ``trio.run`` a
KeyboardInterrupt may be raised in any task, also inside the client.  With ``run`` it is raised
only where ``main`` waits: blocks end as after any exception, so offsets are written and members
unregister, and there is no traceback.

Upstream: MQClientManager, MessageClientIDSetter, UtilAll.getPid.
"""

from __future__ import annotations

import ipaddress
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Self, TypeAlias, TypeVar, TypeVarTuple

import msgspec
import trio

from rocketmq_emulator.client.instance import interfaces
from rocketmq_emulator.client.instance.instance import ClientInstance, ProcessResources
from rocketmq_emulator.client.instance.plain_functions import WorkerThreads
from rocketmq_emulator.client.settings.config import NO_INSTANCE_NAME, ClientConfig
from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.errors.call_errors import BadArgument, NotRunning, NotUnderTrio
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.facts.logs import log_to_application
from rocketmq_emulator.net.lookups import ThreadedHttpFetcher
from rocketmq_emulator.net.tasks import cancelling_nursery
from rocketmq_emulator.protocol.messages.message_ids import UniqKeys
from rocketmq_emulator.protocol.messages.validation import type_error_text

if TYPE_CHECKING:
    from types import TracebackType

    from rocketmq_emulator.client.instance.interfaces import Documents, MakeInnerProducer
    from rocketmq_emulator.client.instance.plain_functions import PlainFunctions
    from rocketmq_emulator.facts import Fact, Note
    from rocketmq_emulator.net.address_server import HttpFetcher
    from rocketmq_emulator.net.transport import Network


# Called with the NameServers and the journal of each client that starts in this program and has
# no journal of its own; in the client's thread.  Tests collect the facts of their clients so.
ClientObserver: TypeAlias = Callable[[Sequence[str], Journal], object]
CLIENT_OBSERVERS: list[ClientObserver] = []

LEFT_AT = "_rocketmq_left_at_us"


def note_left(error: BaseException | None) -> None:
    """*error* ends a client's block: set its attribute ``LEFT_AT``, if it has none.

    It is the monotonic time in µs, before the client is closed.  A report of the error shows the
    state of the client at that time.
    """
    if error is not None and not hasattr(error, LEFT_AT):
        with suppress(AttributeError, TypeError):  # an error without a __dict__
            setattr(error, LEFT_AT, time.monotonic_ns() // 1_000)


class ClientProcess:
    """``async with ClientProcess() as process:``; clients with this *process* share instances.

    All dependencies are arguments: *network* (default TCP), *clock* (default this machine's),
    *rng*, *note* and *wants* (of a journal; default: warnings and errors go to the program's
    logger ``rocketmq_emulator``), *ip* and *pid*.
    *http* queries an address server (default: in worker threads); *default_namesrv* is used
    before one (default: NAMESRV_ADDR of the environment).  *open_folder* opens the documents of
    an ``offset_folder`` (default: files of this machine).
    *plain_functions* runs listeners that are plain functions (default: in worker threads).
    *inner_producer* makes the inner producer of each instance.  With *lists_topics* a client
    requests the names of all topics before an error about an unknown one, for its text; official
    clients do not send this request, so runs of scenarios do without.
    """

    def __init__(
        self,
        *,
        network: Network | None = None,
        clock: WallClock | None = None,
        rng: random.Random | None = None,
        note: Note | None = None,
        wants: Callable[[type[Fact]], bool] | None = None,
        ip: str = "127.0.0.1",
        pid: int | None = None,
        plain_functions: PlainFunctions | None = None,
        inner_producer: MakeInnerProducer | None = None,
        http: HttpFetcher | None = None,
        default_namesrv: str | None = None,
        open_folder: Callable[[str], Documents] | None = None,
        lists_topics: bool = True,
    ) -> None:
        self.network = network
        self.lists_topics = lists_topics
        self.http: HttpFetcher = http or ThreadedHttpFetcher()
        if default_namesrv is None:
            default_namesrv = os.environ.get("NAMESRV_ADDR", "")
        self.default_namesrv = default_namesrv
        if clock is None:
            _check_trio()
        self.clock = clock or WallClock.of_this_machine()
        self.rng = rng or random.Random()
        self._own_journal: Journal | None = None
        if note is None:
            journal = self._own_journal = Journal("client", self.clock)
            log_to_application(journal)
            note, wants = journal.note, journal.wants
        self.note: Note = note
        self.wants = wants or (lambda kind: not kind.on_demand)
        self.plain_functions: PlainFunctions = plain_functions or WorkerThreads()
        self.open_folder = open_folder
        self.ip = ip
        self.pid = os.getpid() if pid is None else pid
        self.instances: dict[str, ClientInstance] = {}
        loader_hash = self.rng.getrandbits(31)
        self.uniq_keys = UniqKeys(ipaddress.ip_address(ip).packed, self.pid, loader_hash)
        self._make_inner_producer = inner_producer or interfaces.make_inner_producer
        self._starting: dict[str, trio.Event] = {}
        self._named = 0
        self.trace_producers = 0  # made so far; their number is in their group's name
        self._nursery: trio.Nursery | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start; instances can be made now.  Raises ``NotUnderTrio``."""
        _check_trio()
        self._nursery = await self._stack.enter_async_context(cancelling_nursery())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Stop all remaining instances, without unregistering their members."""
        for instance in self.instances.values():
            instance.stop()
        self._nursery = None
        return await self._stack.__aexit__(kind, error, traceback)

    async def instance(
        self, config: ClientConfig, *, may_share_default: bool = False
    ) -> ClientInstance:
        """The instance with the configured name; it is started if there is none.

        The default name is replaced by a new name for each caller, except for broadcasting
        consumers (*may_share_default*), whose client id must stay the same after a restart.
        Raises ``NotRunning`` outside of the block.  Upstream: getOrCreateMQClientInstance.
        """
        name = config.instance_name
        if name == NO_INSTANCE_NAME and not may_share_default:
            name = self._new_name()
        client_id = client_id_of(config.client_ip or self.ip, name, config.unit_name)
        if config.marks_streams:
            client_id += "@STREAM"
        while client_id in self._starting:
            await self._starting[client_id].wait()
        if (known := self.instances.get(client_id)) is not None:
            return known
        return await self._start(client_id, config)

    def release(self, instance: ClientInstance) -> None:
        """Stop *instance* if it has no users.  Upstream: MQClientInstance.shutdown."""
        if not instance.is_used:
            self.instances.pop(instance.client_id, None)
            instance.stop()

    async def _start(self, client_id: str, config: ClientConfig) -> ClientInstance:
        if self._nursery is None:
            raise NotRunning("a ClientProcess is used inside its ``async with`` only")
        over = self._starting[client_id] = trio.Event()
        try:
            instance: ClientInstance = await self._nursery.start(
                self._run_instance, client_id, config
            )
            return instance
        finally:
            del self._starting[client_id]
            over.set()

    async def _run_instance(
        self,
        client_id: str,
        config: ClientConfig,
        task_status: trio.TaskStatus[ClientInstance] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        resources = ProcessResources(
            self.network,
            self.clock,
            self.rng,
            self.note,
            self.wants,
            self.uniq_keys,
            self.http,
            self.open_folder,
            self.lists_topics,
        )
        if not config.namesrv_addresses:
            config = msgspec.structs.replace(config, namesrv=self.default_namesrv)
        if self._own_journal is not None:
            for observe in [*CLIENT_OBSERVERS]:
                observe(config.namesrv_addresses, self._own_journal)
        async with trio.open_nursery() as nursery:
            instance = ClientInstance(client_id, config, resources, nursery)
            assert self._make_inner_producer is not None, "rocketmq_emulator.client provides one"
            instance.inner_producer = self._make_inner_producer(instance)
            instance.register_producer(instance.inner_producer)
            await instance.find_name_servers()
            self.instances[client_id] = instance
            task_status.started(instance)

    def _new_name(self) -> str:
        """A new name, ``pid#nanoseconds``.  Upstream: ClientConfig.changeInstanceNameToPID."""
        self._named += 1
        return f"{self.pid}#{self.clock.now_ms() * 1_000_000 + self._named}"


def check_process(process: object) -> None:
    """Raise ``BadArgument`` unless *process* is a ``ClientProcess`` or None."""
    if process is not None and not isinstance(process, ClientProcess):
        raise BadArgument(type_error_text("process", "a ClientProcess", process))


def _check_trio() -> None:
    """Raise ``NotUnderTrio`` outside of trio; its text names the module to use instead."""
    if trio.lowlevel.in_trio_task():
        return
    if _asyncio_runs():
        raise NotUnderTrio(
            "this client is written for trio, and asyncio runs here: "
            "use the one of rocketmq_emulator.aio"
        )
    raise NotUnderTrio(
        "this client runs under trio: rocketmq_emulator.run(main). "
        "Without async use the one of rocketmq_emulator.sync"
    )


def _asyncio_runs() -> bool:
    if "asyncio" not in sys.modules:
        return False
    try:
        sys.modules["asyncio"].get_running_loop()
    except RuntimeError:
        return False
    return True


def client_id_of(ip: str, instance_name: str, unit_name: str = "") -> str:
    """``ip@instance_name``, and ``@unit_name`` if there is one.

    Upstream: ClientConfig.buildMQClientId.
    """
    unit = f"@{unit_name}" if unit_name.strip() else ""
    return f"{ip}@{instance_name}{unit}"


# The main function --------------------------------------------------------------------


INTERRUPTED = 130  # as in shells: 128 plus the signal's number

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


def run(main: Callable[[*Arguments], Awaitable[T]], *arguments: *Arguments) -> T:
    """Run ``main(*arguments)`` and return its result.  Ctrl-C ends with exit code 130."""
    try:
        return trio.run(main, *arguments, restrict_keyboard_interrupt_to_checkpoints=True)
    except BaseException as error:
        if not _is_interrupt(error):
            raise
    raise SystemExit(INTERRUPTED)


def _is_interrupt(error: BaseException) -> bool:
    """Whether *error* is a KeyboardInterrupt, also in an exception group of nurseries."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_interrupt, error.exceptions))
    return isinstance(error, KeyboardInterrupt)
