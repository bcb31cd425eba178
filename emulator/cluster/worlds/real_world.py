"""The base of the worlds in real time: their verbs block, their nodes listen on real ports.

Several threads may use one world: verbs on the same node wait for each other.  ``kill`` and
``stop`` do not wait for a start, they end it.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar

import msgspec

from rocketmq_emulator.cluster.faults.real_time_faults import RealTimeFaults
from rocketmq_emulator.cluster.node_view import (
    SILENT,
    NodeCondition,
    NodeView,
    StateTimes,
    TopicMade,
)
from rocketmq_emulator.cluster.world import MisusesFound, World
from rocketmq_emulator.net.transport import AddressInUse
from rocketmq_emulator.settings.setting_rules import BadField
from rocketmq_emulator.text.values import check_connect_address

if TYPE_CHECKING:
    from types import TracebackType

    from rocketmq_emulator.clocks.clock import ClockError
    from rocketmq_emulator.cluster.control.server import ControlServer
    from rocketmq_emulator.cluster.fault_values import AnyFault, FaultState, Reason
    from rocketmq_emulator.cluster.links.tcp_links import TcpLinks
    from rocketmq_emulator.cluster.reply_rules import ServerCall
    from rocketmq_emulator.cluster.spec import ClusterSpec
    from rocketmq_emulator.facts import Fact
    from rocketmq_emulator.facts.journal import Listener
    from rocketmq_emulator.processes.node_process import NodeDied
    from rocketmq_emulator.processes.roles import RoleConfig
    from rocketmq_emulator.protocol.bodies.extensions import (
        MisuseView,
        ReplyRule,
        ReplyRuleState,
    )
    from rocketmq_emulator.protocol.bodies.topics import TopicConfig


R = TypeVar("R")


class RealWorld(World):
    """A cluster on real ports.  ``ready_s`` is the duration of its start in seconds."""

    blocks = True

    def __init__(
        self,
        spec: ClusterSpec,
        control: int | None = None,
        *,
        journal: str = "",
        with_links: bool = False,
        strict: bool = False,
    ) -> None:
        self.spec = spec
        self.strict = strict  # likely mistakes of clients are errors
        self.ready_s = 0.0
        self._control_port = control  # opened at the start; None: no control address
        self._control: ControlServer | None = None
        self._with_links = with_links
        self.links: TcpLinks | None = None  # while it runs
        self._state_times = StateTimes()
        self._advertised: dict[str, str] = {}  # addresses for clients, by broker
        self._skews_ms: dict[str, int] = {}  # errors set by skew_clock, also before a start
        self._clock_faults: dict[str, ClockError] = {}  # what faults add to that
        self._faults = RealTimeFaults(self, journal)
        self._locks = {name: threading.RLock() for name in self.node_names}
        self._group: dict[str, str] = {}  # addresses of controllers, chosen before they start

    @abstractmethod
    def __enter__(self) -> Self:
        """Start all nodes.  Raises the error of the start, with no node left running."""

    @abstractmethod
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop all nodes, end all faults, close the control address."""

    @property
    @abstractmethod
    def pids(self) -> dict[str, int]:
        """Process ids by node; several nodes may share one."""

    @property
    def facts_left_out(self) -> dict[str, int]:
        """Facts that a full disk left out, by journal: of nodes, and of the cluster (``world``).

        Of a process that runs it is 1 after the first; it is exact once the process has stopped.
        """
        from rocketmq_emulator.facts.journal import WORLD_NODE  # noqa: PLC0415  # not needed by all

        counts = {**self._nodes_left_out(), WORLD_NODE: self._faults.facts_left_out}
        return {name: count for name, count in counts.items() if count}

    @abstractmethod
    def _nodes_left_out(self) -> dict[str, int]:
        """The counts of nodes, zeros included."""

    @property
    def control(self) -> str:
        """The URL of the control address (docs/control.md), ``http://…``; empty without one."""
        return self._control.url if self._control is not None else ""

    def open_control(
        self, port: int = 0, *, host: str = "127.0.0.1", or_any: bool = False
    ) -> None:
        """Open the control address at *port* of *host*; port 0 means any, 0.0.0.0 all addresses.

        *or_any*: use any port if *port* is in use; without it raises ``AddressInUse``.
        ``announce_control`` writes the address to the NameServers.
        """
        from rocketmq_emulator.cluster.control.server import ControlServer  # noqa: PLC0415  # not needed by all

        try:
            self._control = ControlServer(self, port, host)
        except AddressInUse:
            if not or_any:
                raise
            self._control = ControlServer(self, 0, host)

    def announce_control(self) -> None:
        """Write the control address, if there is one, to the KV config of every NameServer."""
        self._announce_control(self.spec.name_server_names)

    def client_settings(self, *, quick: bool = False, **unknown: Never) -> dict[str, Any]:
        """The settings of a client of this cluster: ``Producer(**cluster.client_settings())``.

        With *quick* they have ``QUICK_TIMERS``: a client notices within a second that a broker
        was started again, a topic changed or a member came, instead of up to 30 s later.  Clients
        of a strict cluster are ``strict``, too.  Raises ``TypeError`` for another argument.
        """
        for name in unknown:
            raise TypeError(
                f"client_settings has no {name}=: did you mean quick=True?  Settings of a client "
                "are arguments of the client, beside **client_settings()"
            )
        wanted = {"strict": self.strict, "quick": quick}
        return {"namesrv": self.namesrv, **{name: True for name, on in wanted.items() if on}}

    @property
    def nodes(self) -> tuple[NodeView, ...]:
        """Every node of the spec as it is now, in start order."""
        return tuple(map(self.node, self.node_names))

    def node(self, name: str) -> NodeView:
        """Node *name* as it is now.  Raises ``UnknownNode``."""
        self._named(name)
        seen = self._condition(name)
        code = seen.code
        return NodeView(
            name=name,
            role=self.spec.role_of(name),
            address=self.addresses.get(name, ""),
            pid=seen.pid,
            state=seen.state,
            since_ms=self._state_times.since_ms(name, seen),
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            facts_left_out=self._nodes_left_out().get(name, 0),
        )

    @abstractmethod
    def check_alive(self) -> None:
        """Raises the error of a node that ended without a verb, if there is one."""

    @abstractmethod
    def deaths(self) -> list[NodeDied]:
        """Nodes that ended without a verb since the last call; the others go on."""

    @abstractmethod
    def log_lines(self) -> list[str]:
        """The lines of the nodes' logs since the last call."""

    def advertise(self, name: str, address: str) -> None:
        """Let broker *name* register *address* (``host:port``) for clients; done when it has.

        For ports that are mapped after the start, as a container's.  Later starts and resets
        keep it; a broker that does not run registers it when it starts.  Raises ``BadField`` for
        a NameServer or a wrong address, ``HostUnknown``, and ``ReplyRuleRefused``.
        """
        from rocketmq_emulator.cluster import reply_rules  # noqa: PLC0415  # see there
        from rocketmq_emulator.net.lookups import resolve_blocking  # noqa: PLC0415  # loads trio

        for known in self._named(name):
            if known not in self.spec.broker_names:
                raise BadField(f"{known} registers no address: only brokers do")
            try:
                check_connect_address(address)
            except ValueError as error:
                raise BadField(f"address: {error}") from error
            with self._locked([known]):
                if self.is_running(known):
                    store_host = resolve_blocking(address)
                    self.call_server(known, reply_rules.advertise_address(address, store_host))
                self._advertised[known] = address

    def restart(self, name: str) -> None:
        with self._locked(self._named(name)):
            self.kill(name)
            self.start(name)

    def reset(self) -> None:
        """Reset the cluster, as ``World.reset``.  Raises the error of a node's start.

        NameServers are reset first: the brokers then register again with them.  Slaves are
        the last, by the roles that controllers have given: then they copy the empty logs of
        their masters.
        """
        from rocketmq_emulator.cluster import reply_rules  # noqa: PLC0415  # see there

        self.end_faults()
        with self._locked(self.node_names):
            for name in self.node_names:
                if self._condition(name).state == "paused":
                    self.resume(name)
            self.start()
            self._reset_clocks()
            masters = self._masters()
            slaves = tuple(name for name in self.spec.broker_names if name not in masters)
            for names in (self.spec.name_server_names, masters, slaves):
                addresses = {name: self._address_of(name) for name in names}
                reply_rules.call_servers_blocking(addresses, reply_rules.reset_server())
            self.announce_control()

    def _masters(self) -> tuple[str, ...]:
        """The masters; with controllers the brokers that are masters now, all of them running."""
        from rocketmq_emulator.cluster import reply_rules  # noqa: PLC0415  # see there

        if not self.spec.controllers:
            return self.spec.master_names
        addresses = {name: self._address_of(name) for name in self.spec.broker_names}
        founds = reply_rules.call_servers_blocking(addresses, reply_rules.overview())
        return tuple(
            name
            for name, found in zip(addresses, founds, strict=True)
            if found.replica is not None and found.replica.role == "master"
        )

    def advance(self, time: str | int) -> int:
        """Advance all running masters at the same time; returns how many messages fell due."""
        from rocketmq_emulator.cluster import reply_rules  # noqa: PLC0415  # see there

        running = [n for n in self.spec.possible_masters if self._condition(n).state == "running"]
        addresses = {name: self._address_of(name) for name in running}
        answers = reply_rules.call_servers_blocking(addresses, reply_rules.advance_time(time))
        return sum(answer.due_count for answer in answers)

    def make_topic(self, config: TopicConfig) -> TopicMade:
        """Create or change a topic on every master that runs; the result names the others.

        With controllers each broker is asked: slaves take their master's topics soon after.

        After ``ReplyRuleRefused`` (a name that a broker refuses) it is on no broker, or on all
        before the one that refuses.
        """
        from rocketmq_emulator.cluster import reply_rules  # noqa: PLC0415  # see there

        call, missing = reply_rules.put_topic(config), dict[str, str]()
        names = self.spec.possible_masters
        with self._locked(names):  # a broker that is being started is ready then
            for name in names:
                state = self._condition(name).state
                if state != "running":
                    missing[name] = state
                    continue
                try:
                    self.call_server(name, call)
                except OSError:  # it has just died, or a fault keeps it from answering
                    state = self._condition(name).state
                    missing[name] = SILENT if state == "running" else state
        made = [name for name in names if name not in missing]
        return TopicMade.of(config.topic_name or "", made, missing)

    # Likely mistakes of clients; see docs/pytest.md ------------------------------------

    def misuses(self) -> tuple[MisuseView, ...]:
        """What the brokers that run have noticed since their start, or the last reset."""
        from rocketmq_emulator.cluster import reply_rules  # noqa: PLC0415  # see there
        from rocketmq_emulator.protocol.bodies.extensions import misuses_of  # noqa: PLC0415  # the same

        running = [n for n in self.spec.broker_names if self._condition(n).state == "running"]
        addresses = {name: self._address_of(name) for name in running}
        return misuses_of(reply_rules.call_servers_blocking(addresses, reply_rules.overview()))

    def check_misuses(self) -> None:
        """Raises ``MisusesFound`` if the brokers have noticed any misuse."""
        if found := self.misuses():
            raise MisusesFound("\n".join(f"{each.misuse}: {each.text}" for each in found))

    def _check_if_strict(self, kind: type[BaseException] | None) -> None:
        """At the end of the block, unless it ends by an error."""
        if self.strict and kind is None:
            self.check_misuses()

    # Reply rules: they raise ReplyRuleRefused, and OSError without a reply. --------------

    def set_reply_rule(self, node: str, rule: ReplyRule) -> int:
        from rocketmq_emulator.cluster import reply_rules  # noqa: PLC0415  # see there

        return self.call_server(node, reply_rules.set_rule(rule))

    def reply_rules(self, node: str) -> tuple[ReplyRuleState, ...]:
        from rocketmq_emulator.cluster import reply_rules  # noqa: PLC0415  # see there

        return self.call_server(node, reply_rules.list_rules())

    def remove_reply_rule(self, node: str, rule_id: int | None = None) -> tuple[int, ...]:
        from rocketmq_emulator.cluster import reply_rules  # noqa: PLC0415  # see there

        return self.call_server(node, reply_rules.remove_rule(rule_id))

    def call_server(self, node: str, call: ServerCall[R]) -> R:
        """Carry out *call* over its own connection."""
        from rocketmq_emulator.cluster import reply_rules  # noqa: PLC0415  # see there

        return reply_rules.call_server_blocking(node, self._address_of(node), call)

    # Faults ---------------------------------------------------------------------------

    @property
    def has_links(self) -> bool:
        """Whether its nodes are behind proxies."""
        return self._with_links

    def begin_fault(self, fault: AnyFault, for_ms: int | None = None) -> int:
        """Begin *fault*; it ends at the latest with the cluster."""
        return self._faults.begin(fault, for_ms)

    def end_fault(self, fault_id: int) -> bool:
        """End a fault; done when its changes are undone and a node it kept down is ready."""
        return self._faults.end(fault_id, "removed")

    def end_faults(self, reason: Reason = "removed") -> tuple[int, ...]:
        return self._faults.end_all(reason)

    def faults(self) -> tuple[FaultState, ...]:
        """The faults that hold; asks nodes for the counts of their reply rules."""
        return self._faults.states()

    @contextmanager
    def under(self, fault: AnyFault) -> Iterator[int]:
        """Inside the ``with`` *fault* holds."""
        fault_id = self.begin_fault(fault)
        try:
            yield fault_id
        finally:
            self._faults.end(fault_id, "healed")

    def note(self, fact: Fact) -> None:
        """Write *fact* to ``world.jsonl`` and to the clients of the control address."""
        self._faults.note(fact)

    def listen(self, listener: Listener) -> None:
        """Call *listener* with later entries of the node ``world``, in any thread."""
        self._faults.listen(listener)

    def unlisten(self, listener: Listener) -> None:
        """Stop calling *listener*."""
        self._faults.unlisten(listener)

    def is_paused(self, name: str) -> bool:
        return self._condition(name).state == "paused"

    def add_clock_error(self, name: str, error: ClockError) -> None:
        """Set the error at a running node, or as soon as it runs."""
        self._clock_faults[name] = error
        self._set_clock(name)

    @abstractmethod
    def _reset_clocks(self) -> None:
        """Remove the errors of all nodes' clocks; all nodes run."""

    # For the worlds -------------------------------------------------------------------

    def _controllers_of_group(self) -> Mapping[str, str]:
        """The address of each controller: each must know those of the others before it starts.

        Free ports are chosen now; another program may take one until its controller starts.
        """
        if not self._group:
            from rocketmq_emulator.net.tcp import with_free_ports  # noqa: PLC0415  # loads trio

            names = self.spec.controller_names
            addresses = with_free_ports([self.spec.controller_address(name) for name in names])
            self._group = dict(zip(names, addresses, strict=True))
        return self._group

    @abstractmethod
    def _set_clock(self, name: str) -> None:
        """Apply the node's clock error, of ``skew_clock`` and faults together."""

    def _open_links(self) -> None:
        """Bind the proxy ports, before any node starts.  Raises ``AddressInUse``."""
        if self._with_links:
            from rocketmq_emulator.cluster.links.tcp_links import TcpLinks  # noqa: PLC0415  # not needed by all

            self.links = TcpLinks(self.spec)

    def _close_links(self) -> None:
        links, self.links = self.links, None
        if links is not None:
            links.close()

    def _behind_proxies(self, name: str, config: RoleConfig) -> RoleConfig:
        return config if self.links is None else self.links.fitted(name, config)

    def _as_advertised(self, name: str, config: RoleConfig) -> RoleConfig:
        """*config* for the next start, with the address of ``advertise``."""
        address = self._advertised.get(name)
        if address is None:
            return config
        return msgspec.structs.replace(config, advertised_address=address)

    def _node_is_up(self, name: str) -> None:
        if self.links is not None:
            self.links.node_is_up(name, self.addresses[name])

    def _node_is_down(self, name: str) -> None:
        if self.links is not None:
            self.links.node_is_down(name)

    def _reached_at(self, name: str) -> str:
        if name in self._advertised:
            return self._advertised[name]
        return super()._reached_at(name) if self.links is None else self.links.address(name)

    def _open_wanted_control(self) -> None:
        if self._control_port is not None:
            self.open_control(self._control_port)
            self.announce_control()

    def _close_control(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()

    def _announce_control(self, servers: Iterable[str]) -> None:
        """Write the control address to NameServers that have just started."""
        if self._control is not None:
            self._control.announce(self.addresses[name] for name in servers)

    @abstractmethod
    def _condition(self, name: str) -> NodeCondition:
        """The present condition of node *name*."""

    @contextmanager
    def _locked(self, names: Iterable[str]) -> Iterator[None]:
        """Inside the block verbs of other threads on these nodes wait."""
        wanted = set(names)
        with ExitStack() as held:
            for name, lock in self._locks.items():  # always in this order: no deadlock
                if name in wanted:
                    held.enter_context(lock)
            yield
