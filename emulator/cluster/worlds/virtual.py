"""The same roles and clients in the virtual world: one machine a node, one a client.

The code and the defaults are those of nodes on TCP; only the network, the disk, the clock and
the random numbers are the virtual world's.  Journals of all machines go to one list of lines,
in the order of their events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Generator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec
import trio

from rocketmq_emulator.client import ClientProcess
from rocketmq_emulator.client.instance.plain_functions import InlineWithDuration
from rocketmq_emulator.clocks.clock import ClockError, WallClock
from rocketmq_emulator.cluster.faults.effects import OPERATOR
from rocketmq_emulator.cluster.faults.register import FaultRegister
from rocketmq_emulator.cluster.reply_rules import (
    ServerCall,
    advance_time,
    call_from,
    list_rules,
    remove_rule,
    set_rule,
)
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.world import START_S_MAX, STOP_S_MAX, NotReady, World
from rocketmq_emulator.facts import (
    Fact,
    NodeKilled,
    NodePaused,
    NodeResumed,
    PowerLost,
    ReplyRuleApplied,
    kinds_on_demand,
)
from rocketmq_emulator.facts.journal import WORLD_NODE, Entry, Journal, Listener
from rocketmq_emulator.net.address_server import HttpFetcher, NoHttp
from rocketmq_emulator.processes.roles import RoleConfig, serve_role
from rocketmq_emulator.sim.drive import VirtualFolder

if TYPE_CHECKING:
    from rocketmq_emulator.cluster.fault_values import AnyFault, FaultState, Reason
    from rocketmq_emulator.faults.links_and_drives import DriveFault, Rule
    from rocketmq_emulator.protocol.bodies.extensions import ReplyRule, ReplyRuleState
    from rocketmq_emulator.sim.machines import Machine, Program
    from rocketmq_emulator.sim.world import VirtualWorld

R = TypeVar("R")
ClientProgram: TypeAlias = Callable[[ClientProcess], Awaitable[object]]

# One machine per node: all use upstream's default ports.
NAMESRV_PORT, CONTROLLER_PORT, BROKER_PORT = 9876, 9878, 10911


class Done(Awaitable[None]):
    """What a verb returns that takes no time: ``await`` has nothing to wait for.

    So every verb of a virtual cluster may be awaited, and a test need not know which takes time.
    """

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


class DoneUntil(Done, AbstractContextManager[None]):
    """The same; the end of its ``with`` calls *undo*."""

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo = undo

    def __exit__(self, *error: object) -> None:
        self._undo()


class VirtualCluster(World):
    """A spec in a virtual *world*; *lines* takes the journal, *facts_on_demand* included.

    *listener* is called with the same lines as entries, for checks during the run.
    Machines have the names of the nodes, and the verbs accept clients' machines too.  Every
    machine has a drive, so a node's data outlasts its process without a ``store``.
    """

    kind = "virtual"
    blocks = False
    keeps_memory = True

    def __init__(
        self,
        world: VirtualWorld,
        spec: ClusterSpec,
        lines: Callable[[bytes], object] | None = None,
        *,
        listener: Listener | None = None,
        facts_on_demand: Collection[str] = (),
    ) -> None:
        spec.check()
        self.world = world
        self.spec = spec
        self.http: HttpFetcher = NoHttp()  # fetches from address servers
        self._machines = world.machines
        self._write = lines
        self._listener = listener
        self._facts_on_demand = kinds_on_demand(facts_on_demand)
        self._clients = 0
        self._programs: dict[str, Program] = dict.fromkeys(self.node_names, self._node)
        self._stops: dict[str, Callable[[], None]] = {}  # requests an orderly end, by name
        clock = WallClock(world.epoch_ms, 0.0, mono_ns=world.clock.passed_ns)
        self._own_journal = Journal(
            WORLD_NODE, clock, lines, listeners=() if listener is None else (listener,)
        )
        self._faults = FaultRegister(self, self.note)
        self._fault_times: dict[int, trio.CancelScope] = {}
        self._skews_ms: dict[str, int] = {}  # errors set by skew_clock
        self._clock_faults: dict[str, ClockError] = {}

    # Its nodes ------------------------------------------------------------------------

    @property
    def addresses(self) -> Mapping[str, str]:
        """Every node's address, also before its start: a machine's address never changes."""
        ports = dict.fromkeys(self.spec.name_server_names, NAMESRV_PORT)
        ports |= dict.fromkeys(self.spec.controller_names, CONTROLLER_PORT)
        ports |= dict.fromkeys(self.spec.broker_names, BROKER_PORT)
        return {name: f"{self._ip(name)}:{port}" for name, port in ports.items()}

    def is_running(self, name: str) -> bool:
        """Whether the machine *name* has a process, paused or not."""
        return self._machines.machine(name).is_running

    def is_paused(self, name: str) -> bool:
        """Whether the process on the machine *name* is paused."""
        return self._machines.machine(name).is_paused

    def add_clock_error(self, name: str, error: ClockError) -> None:
        self._clock_faults[name] = error
        self._set_clock(name)

    # Verbs ----------------------------------------------------------------------------

    async def start(self, *names: str) -> None:
        """Start the NameServers, then the brokers.  Clients are started by name only."""
        wanted = self._named(*names)
        of_spec = [[n for n in group if n in wanted] for group in self.spec.start_groups]
        for group in (*of_spec, [name for name in wanted if name not in self.node_names]):
            new = [name for name in group if not self.is_running(name)]
            machines = [self._started(name) for name in group]
            with trio.move_on_after(START_S_MAX):
                for machine in machines:
                    # A restart meanwhile gives the machine another process to wait for.
                    while machine.is_running and not machine.is_ready:
                        await machine.wait_ready()
            if late := [m.name for m in machines if m.is_running and not m.is_ready]:
                raise NotReady(START_S_MAX, late)
            await self._faults.started(new)

    def start_client(self, name: str, program: ClientProgram) -> Machine:
        """Start a machine whose process runs *program* with a ``ClientProcess``."""
        self._clients += 1
        self._programs[name] = self._client(program, pid=1000 + self._clients)
        self._stops.pop(name, None)
        return self._machines.start(name, self._programs[name])

    async def stop(self, *names: str) -> None:
        """Stop nodes in order; a client's program is cancelled, and its blocks end."""
        running = [name for name in self._named(*names) if self.is_running(name)]
        first = (*self.spec.name_server_names, *self.spec.controller_names)
        servers = [name for name in running if name in first]
        for group in ([name for name in running if name not in servers], servers):
            for name in group:
                self._machines.resume(name)
                if (ask := self._stops.get(name)) is None:
                    self.kill(name)  # it has not begun, so it cannot end in order
                else:
                    ask()
            with trio.move_on_after(STOP_S_MAX):
                for name in group:
                    await self._machines.machine(name).wait_ended()
            for name in group:
                self.kill(name)

    def kill(self, name: str) -> Done:
        """Kill the process; its peers' connections are reset."""
        self._named(name)
        if self.is_running(name):
            self.note(NodeKilled(name))
            self._machines.kill(name)
        return Done()

    async def restart(self, name: str) -> None:
        self.kill(name)
        await self.start(name)

    def pause(self, name: str) -> DoneUntil:
        """Stop running its tasks; bytes sent to it wait in its kernel."""
        self._named(name)
        was_paused = self.is_paused(name)
        self._machines.pause(name)
        if self.is_paused(name) and not was_paused:
            self.note(NodePaused(name))
        return DoneUntil(partial(self.resume, name) if not was_paused else _nothing)

    def resume(self, name: str) -> Done:
        self._named(name)
        if self.is_paused(name):
            self.note(NodeResumed(name))
        self._machines.resume(name)
        if self._faults:
            self.world.nursery.start_soon(self._faults.resumed, name)
        return Done()

    def power_off(self, name: str) -> Done:
        """Cut the power: the drive loses unflushed data; the journal gets ``PowerLost``."""
        self._named(name)
        if self._machines.machine(name).has_power:
            loss = self._machines.power_off(name)
            fact = PowerLost(loss.flushed_to, loss.kept_to, loss.written_to, loss.reverted)
            self._journal(self._machines.machine(name)).note(fact)
        return Done()

    async def power_on(self, name: str) -> None:
        self._named(name)
        if not self._machines.machine(name).has_power:
            await self.start(name)

    def link(self, rule: Rule) -> AbstractContextManager[None]:
        """Inside the ``with`` *rule* holds; see ``faults.links_and_drives``."""
        return self.world.network.under(rule)

    def drive(self, name: str, fault: DriveFault) -> AbstractContextManager[None]:
        """Inside the ``with`` *fault* holds at the drive of machine *name*."""
        self._named(name)
        return self._machines.machine(name).drive.under(fault)

    def skew_clock(self, name: str, ms: int) -> DoneUntil:
        self._named(name)
        before_ms = self._skews_ms.get(name, 0)
        self._skews_ms[name] = ms
        self._set_clock(name)
        return DoneUntil(partial(self.skew_clock, name, before_ms))

    def _set_clock(self, name: str) -> None:
        error = ClockError(self._skews_ms.get(name, 0))
        error = error.plus(self._clock_faults.get(name, ClockError()))
        self._machines.machine(name).clock.error = error

    async def advance(self, time: str | int) -> int:
        """Advance messages only: the virtual clock does not move.  ``sleep`` moves it."""
        call, due = advance_time(time), 0
        for name in self.spec.possible_masters:
            if self.is_running(name) and not self.is_paused(name):
                due += (await self.call_server(name, call)).due_count
        return due

    # Reply rules: they raise ReplyRuleRefused, and RemoteError without a reply. -----------

    async def set_reply_rule(self, node: str, rule: ReplyRule) -> int:
        return await self.call_server(node, set_rule(rule))

    async def reply_rules(self, node: str) -> tuple[ReplyRuleState, ...]:
        return await self.call_server(node, list_rules())

    async def remove_reply_rule(self, node: str, rule_id: int | None = None) -> tuple[int, ...]:
        return await self.call_server(node, remove_rule(rule_id))

    async def call_server(self, node: str, call: ServerCall[R]) -> R:
        """Carry out *call* from the machine ``operator``."""
        address, operator = self._address_of(node), self._machines.machine(OPERATOR)
        return await call_from(operator, node, address, call, self.spec.release)

    # Faults ---------------------------------------------------------------------------

    async def begin_fault(self, fault: AnyFault, for_ms: int | None = None) -> int:
        """Begin *fault*, which may name clients too; takes the time of calls to servers."""
        now_ms = self.world.now_ms()
        until_s = trio.current_time() + (for_ms or 0) / 1_000
        fault_id = await _whole(self._faults.begin(fault, self.known_names, now_ms, for_ms))
        if for_ms is not None:
            self.world.nursery.start_soon(self._end_at, fault_id, until_s)
        return fault_id

    async def end_fault(self, fault_id: int) -> bool:
        """End a fault; done when its changes are undone and a node it kept down is ready."""
        return await self._end_fault(fault_id, "removed")

    async def end_faults(self, reason: Reason = "removed") -> tuple[int, ...]:
        return await _whole(self._faults.end_all(reason))

    def faults(self) -> tuple[FaultState, ...]:
        """The faults that hold; this takes no virtual time."""
        return self._faults.states(self.world.now_ms())

    @asynccontextmanager
    async def under(self, fault: AnyFault) -> AsyncIterator[int]:
        """Inside the ``async with`` *fault* holds."""
        fault_id = await self.begin_fault(fault)
        try:
            yield fault_id
        finally:
            await self._end_fault(fault_id, "healed")

    def note(self, fact: Fact) -> None:
        """Write *fact* under the node name ``world``, at the true time."""
        self._own_journal.note(fact)

    async def _end_at(self, fault_id: int, until_s: float) -> None:
        with trio.CancelScope() as scope:
            self._fault_times[fault_id] = scope
            await trio.sleep_until(until_s)
        if self._fault_times.pop(fault_id, None) is not None:
            await self._end_fault(fault_id, "time is up")

    async def _end_fault(self, fault_id: int, reason: Reason) -> bool:
        if (time := self._fault_times.pop(fault_id, None)) is not None:
            time.cancel()
        if self.world.nursery.cancel_scope.cancel_called:
            self._faults.drop_all()  # no machine has power any more
        return await _whole(self._faults.end(fault_id, reason))

    # Programs -------------------------------------------------------------------------

    def _started(self, name: str) -> Machine:
        """Start the program of machine *name* unless it runs; returns the machine."""
        if self.is_running(name):
            return self._machines.machine(name)
        self._stops.pop(name, None)  # of the process that ended
        return self._machines.start(name, self._programs[name])

    async def _node(self, machine: Machine) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(self._serve, machine)
            machine.ready()

    async def _serve(self, machine: Machine, task_status: trio.TaskStatus[str]) -> None:
        stop = trio.Event()
        self._stops[machine.name] = stop.set
        await serve_role(
            self._config(machine),
            network=machine.network,
            disk=machine.disk,
            clock=machine.clock,
            rng=machine.rng("node"),
            journal=self._journal(machine),
            stop=stop,
            http=self.http,
            task_status=task_status,
        )

    def _client(self, program: ClientProgram, pid: int) -> Program:
        async def run(machine: Machine) -> None:
            journal = self._journal(machine)
            process = ClientProcess(
                network=machine.network,
                clock=machine.clock,
                rng=machine.rng("clients"),
                note=journal.note,
                wants=journal.wants,
                ip=machine.network.ip,
                pid=pid,
                plain_functions=InlineWithDuration(),
                http=self.http,
                default_namesrv="",
                open_folder=lambda folder: VirtualFolder(machine.disk, folder),
                lists_topics=False,
            )
            async with process:
                machine.ready()
                with trio.CancelScope() as scope:
                    self._stops[machine.name] = scope.cancel
                    await program(process)

        return run

    @property
    def known_names(self) -> tuple[str, ...]:
        return tuple(self._programs)

    # Settings -------------------------------------------------------------------------

    def _config(self, machine: Machine) -> RoleConfig:
        namesrv = tuple(self.addresses[name] for name in self.spec.name_server_names)
        config: RoleConfig
        if machine.name in self.spec.broker_names:
            config = self.spec.broker_config(machine.name, namesrv, self._controllers)
        elif machine.name in self.spec.controller_names:
            config = self.spec.controller_config(machine.name, self.addresses)
        else:
            config = self.spec.name_server_config(machine.name)
        return msgspec.structs.replace(config, listen_address=self.addresses[machine.name])

    def _ip(self, name: str) -> str:
        return self._machines.machine(name).network.ip

    def _journal(self, machine: Machine) -> Journal:
        """A journal for the machine's process; once killed, the process writes nothing to it."""
        process, write, listener = machine.process, self._write, self._listener

        def write_alive(line: bytes) -> None:
            if machine.process is process and write is not None:
                write(line)

        def listen_alive(entry: Entry) -> None:
            if machine.process is process and listener is not None:
                listener(entry)

        journal = Journal(
            machine.name,
            machine.clock,
            write and write_alive,
            listeners=() if listener is None else (listen_alive,),
        )
        journal.enable_on_demand(self._facts_on_demand)
        journal.listen(self._rule_applied, (ReplyRuleApplied,))
        return journal

    def _rule_applied(self, entry: Entry) -> None:
        assert isinstance(entry.fact, ReplyRuleApplied)
        self._faults.rule_applied(entry.node, entry.fact.rule_id)


def _nothing() -> None:
    """What undoes a verb that changed nothing."""


async def _whole(work: Awaitable[R]) -> R:
    """Await *work* even if the caller is cancelled, so that no fault is left half begun."""
    results: list[R] = []
    with trio.CancelScope(shield=True):
        results.append(await work)
    return results[0]
