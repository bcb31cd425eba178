"""The verbs of a running cluster, with one meaning in every world.

A world runs a ``ClusterSpec``: as operating-system processes, embedded in one thread, or on
virtual machines.  ``World`` defines each verb; ``CAPABILITIES`` lists the worlds that have it,
so that a scenario is refused when it is loaded and not during its run.  A verb that a world
does not have raises ``CannotDo``.

The real worlds block their caller, because users call them from plain code.  Virtual time
moves only while the caller waits, so in the virtual world the verbs that take time are
coroutines.  Hence such a verb returns its result or an awaitable of it, and each world narrows
the type to its own case.  ``perform`` hides the difference from code that runs under trio.

Verbs are idempotent: starting a running node, or killing a dead one, does nothing.  A verb that
has an opposite can be the beginning of a ``with``, whose end undoes it (``undone_by``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, ParamSpec, TypeAlias, TypeVar, get_args

from rocketmq_emulator.protocol.error_families import CannotDoHere, Misuse, NobodyAnswered, public
from rocketmq_emulator.text.values import in_natural_order

if TYPE_CHECKING:
    from rocketmq_emulator.clocks.clock import ClockError
    from rocketmq_emulator.cluster.fault_values import AnyFault, FaultState, Proxies, Reason
    from rocketmq_emulator.cluster.reply_rules import ServerCall
    from rocketmq_emulator.cluster.spec import ClusterSpec
    from rocketmq_emulator.facts import Fact
    from rocketmq_emulator.faults.links_and_drives import DriveFault, Rule
    from rocketmq_emulator.protocol.bodies.extensions import ReplyRule, ReplyRuleState

Verb: TypeAlias = Literal[
    "start",
    "stop",
    "kill",
    "restart",
    "pause",
    "resume",
    "power_off",
    "power_on",
    "link",
    "drive",
    "skew_clock",
    "reset",
    "set_reply_rule",
    "reply_rules",
    "remove_reply_rule",
    "advance",
    "begin_fault",
    "end_fault",
    "end_faults",
    "faults",
]
WorldKind: TypeAlias = Literal["processes", "embedded", "virtual"]
VERBS: tuple[Verb, ...] = get_args(Verb)

_EVERYWHERE: tuple[WorldKind, ...] = get_args(WorldKind)
CAPABILITIES: Mapping[Verb, tuple[WorldKind, ...]] = {
    "start": _EVERYWHERE,
    "stop": _EVERYWHERE,
    "kill": _EVERYWHERE,
    "restart": _EVERYWHERE,
    "pause": _EVERYWHERE,
    "resume": _EVERYWHERE,
    "power_off": ("virtual",),
    "power_on": ("virtual",),
    "link": ("virtual",),
    "drive": ("virtual",),
    "skew_clock": _EVERYWHERE,
    "reset": ("embedded", "processes"),
    "set_reply_rule": _EVERYWHERE,
    "reply_rules": _EVERYWHERE,
    "remove_reply_rule": _EVERYWHERE,
    "advance": _EVERYWHERE,
    "begin_fault": _EVERYWHERE,
    "end_fault": _EVERYWHERE,
    "end_faults": _EVERYWHERE,
    "faults": _EVERYWHERE,
}
assert set(CAPABILITIES) == set(VERBS)

START_S_MAX = 30.0  # from the start of a node until it is ready, without progress
STOP_S_MAX = 8.0  # an orderly stop that takes longer ends with a kill

P = ParamSpec("P")
T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]  # the result, or an awaitable of it


@public
class CannotDo(CannotDoHere):
    """A verb that this world does not have; ``instead`` names the worlds that have it."""

    def __init__(self, world: WorldKind, verb: Verb, what: str, text: str = "") -> None:
        self.world = world
        self.verb = verb
        self.instead = CAPABILITIES[verb]
        use = " or ".join(self.instead)
        super().__init__(
            text or f"the {world} world has no verb {verb} (asked for {what}): use {use}"
        )


@public
class UnknownNode(Misuse):
    """A verb was given an unknown node name; *near* is the known name most like it."""

    def __init__(self, name: str, known: Iterable[str], near: str = "") -> None:
        advice = f"; did you mean {near}?" if near else ""
        names = ", ".join(in_natural_order(known))
        text = f"there is no node named {name!r}; there are {names}{advice}"
        super().__init__(text)
        self.name = name


@public
class MisusesFound(Misuse):
    """Clients of a strict cluster made likely mistakes; the text has each with its cure."""


@public
class NotReady(NobodyAnswered):
    """Nodes run, but are not ready and made no progress for *after_s*."""

    def __init__(self, after_s: float, names: Iterable[str]) -> None:
        super().__init__(f"not ready after {after_s:g} s: {', '.join(names)}")


@public
class ClusterEnded(CannotDoHere):
    """A node cannot be started, because its cluster is ending or has ended."""


@public
class NotStarted(Misuse):
    """A cluster is used outside of its ``with``; the text shows how to start it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: start it first, `with Cluster(…) as cluster:`")


class World(ABC):
    """A running cluster and the verbs that act on its nodes, by name.

    ``kind`` is the kind of world.  ``blocks``: its verbs return when they are done; otherwise
    those that take time return an awaitable.  ``keeps_memory``: without a ``store`` in the spec
    a node keeps its data through a restart; otherwise such a node restarts empty, because
    its memory is lost with its process.
    """

    kind: ClassVar[WorldKind]
    blocks: ClassVar[bool]
    keeps_memory: ClassVar[bool]
    spec: ClusterSpec
    links: Proxies | None = None  # the proxies in front of its nodes, if it has any

    @classmethod
    def can(cls, verb: Verb) -> bool:
        """Whether this world has *verb*; it need not be started."""
        return cls.kind in CAPABILITIES[verb]

    # Its nodes ------------------------------------------------------------------------

    @property
    def namesrv(self) -> str:
        """The NameServers' addresses as client settings need them: ``host:port;host:port``.

        Raises ``NotStarted`` before the first start.
        """
        addresses = self.addresses
        if missing := [name for name in self.spec.name_server_names if name not in addresses]:
            raise NotStarted(f"{missing[0]} has no address yet")
        return ";".join(map(self._reached_at, self.spec.name_server_names))

    @property
    def brokers(self) -> dict[str, str]:
        """The brokers' addresses for clients, ``host:port`` by name."""
        return {name: self._reached_at(name) for name in self.spec.broker_names}

    @property
    @abstractmethod
    def addresses(self) -> Mapping[str, str]:
        """Where every node listens, or listened in its last run; ``host:port`` by name."""

    @property
    def node_names(self) -> tuple[str, ...]:
        """The spec's nodes, in their start order."""
        return self.spec.node_names

    @property
    def client_names(self) -> tuple[str, ...]:
        """The names of clients that run in this world, so that its verbs accept them."""
        return ()

    @abstractmethod
    def is_running(self, name: str) -> bool:
        """Whether the node has a process, paused or not."""

    @abstractmethod
    def is_paused(self, name: str) -> bool:
        """Whether the node's process is paused."""

    @abstractmethod
    def add_clock_error(self, name: str, error: ClockError) -> None:
        """Add *error*, that of faults, to the node's clock error of ``skew_clock``."""

    @property
    def has_links(self) -> bool:
        """Whether faults of links can be begun in this cluster."""
        return self.can("link")

    # Verbs ----------------------------------------------------------------------------

    @abstractmethod
    def start(self, *names: str) -> MaybeAwaitable[None]:
        """Start those that do not run; without names all nodes.  Done when they are ready.

        A node that ran before uses the same address and store.  A machine without power is
        switched on.  Raises the error of a node's start, or ``NotReady``.
        """

    @abstractmethod
    def stop(self, *names: str) -> MaybeAwaitable[None]:
        """Stop these nodes, or all, in order: brokers first, and they unregister.

        A paused node is resumed first.  A node that has not ended after 8 s is killed.
        """

    @abstractmethod
    def kill(self, name: str) -> MaybeAwaitable[None]:
        """End the process at once, without unregistering, as by ``kill -9``.

        Messages stay; tables that it saves every few seconds, as committed offsets, are kept as
        saved last.  The connections of its peers close.
        """

    @abstractmethod
    def restart(self, name: str) -> MaybeAwaitable[None]:
        """Kill it if it runs, then start it.  For an orderly restart ``stop`` it first."""

    @abstractmethod
    def pause(self, name: str) -> AbstractContextManager[None]:
        """Pause the process, as by SIGSTOP: its connections stay open, it answers nothing.

        Bytes sent to it wait, its timers fall due meanwhile, its clock goes on.  ``with`` resumes
        it at the end of its block.
        """

    @abstractmethod
    def resume(self, name: str) -> MaybeAwaitable[None]:
        """Resume a paused process; it then handles all that arrived meanwhile."""

    def power_off(self, name: str) -> MaybeAwaitable[None]:
        """Cut the machine's power: data not flushed is lost, and its peers are not notified.

        Its peers' connections stay open until they time out.
        """
        raise CannotDo(self.kind, "power_off", name)

    def power_on(self, name: str) -> MaybeAwaitable[None]:
        """Boot a machine without power and start its node.  Done when the node is ready."""
        raise CannotDo(self.kind, "power_on", name)

    def link(self, rule: Rule) -> AbstractContextManager[None]:
        """Inside the ``with``, *rule* holds between machines: slow, stalled, refusing or cut."""
        raise CannotDo(self.kind, "link", str(rule.verdict))

    def drive(self, name: str, fault: DriveFault) -> AbstractContextManager[None]:
        """Inside the ``with``, *fault* holds at the node's drive: full, slow or failing."""
        raise CannotDo(self.kind, "drive", f"{fault.condition} of {name}")

    @abstractmethod
    def skew_clock(self, name: str, ms: int) -> AbstractContextManager[None]:
        """Set the node's wall clock *ms* ahead of the true time (behind if negative).

        The error outlasts restarts; 0 corrects the clock.  ``with`` sets the former error at the
        end of its block.
        """

    def reset(self) -> MaybeAwaitable[None]:
        """Reset the cluster to its state after a start; docs/pytest.md lists what stays.

        Messages, topics, groups, offsets, queue locks, changed settings, faults and reply rules
        are removed, clocks are corrected, stopped and paused nodes run.  Connections stay, and
        what controllers have decided: brokers keep the epochs of their roles.
        """
        raise CannotDo(self.kind, "reset", "a reset")

    @abstractmethod
    def advance(self, time: str | int) -> MaybeAwaitable[int]:
        """Deliver now the messages that fall due at the brokers in the next *time* ("10m", or ms).

        Messages of delay levels, retries among them, and timer messages; no other timeout is
        affected.  Returns how many messages fell due.  Brokers that are paused or do not run are
        left out.  Raises ``ReplyRuleRefused``.
        """

    # Reply rules; see docs/reply-rules.md ----------------------------------------------

    @abstractmethod
    def set_reply_rule(self, node: str, rule: ReplyRule) -> MaybeAwaitable[int]:
        """Add *rule* at *node*, after the rules it has; returns the rule's id at that node.

        A restart removes a node's rules.  Raises ``ReplyRuleRefused``.
        """

    @abstractmethod
    def reply_rules(self, node: str) -> MaybeAwaitable[tuple[ReplyRuleState, ...]]:
        """The rules that hold at *node* and their counts, in the order they are applied."""

    @abstractmethod
    def remove_reply_rule(
        self, node: str, rule_id: int | None = None
    ) -> MaybeAwaitable[tuple[int, ...]]:
        """Remove one rule, or all (None); returns the ids of the rules removed."""

    @abstractmethod
    def call_server(self, node: str, call: ServerCall[T]) -> MaybeAwaitable[T]:
        """Carry out *call* at *node*.  Raises ``ReplyRuleRefused`` if the node refuses it."""

    # Faults: verbs with a lifetime; see docs/faults.md ------------------------------------

    @abstractmethod
    def begin_fault(self, fault: AnyFault, for_ms: int | None = None) -> MaybeAwaitable[int]:
        """Begin *fault*, for *for_ms* or until it is ended; returns its id.

        Raises ``CannotDo`` if this world cannot do it; then nothing has changed.
        """

    @abstractmethod
    def end_fault(self, fault_id: int) -> MaybeAwaitable[bool]:
        """End a fault and undo its changes; returns whether it held until now.

        A node is started again when the last fault that keeps it down has ended.
        """

    @abstractmethod
    def end_faults(self, reason: Reason = "removed") -> MaybeAwaitable[tuple[int, ...]]:
        """End all faults, the latest first; returns the ids of those that held.

        *reason* is written to the journal.
        """

    @abstractmethod
    def faults(self) -> tuple[FaultState, ...]:
        """The faults that hold, in the order in which they began."""

    @abstractmethod
    def under(
        self, fault: AnyFault
    ) -> AbstractContextManager[int] | AbstractAsyncContextManager[int]:
        """Inside the block *fault* holds; it ends with the block, even on error.

        ``as`` gives the fault's id; in the virtual world it is an ``async with``.
        """

    @abstractmethod
    def note(self, fact: Fact) -> None:
        """Write *fact* to the journal under the node name ``world``."""

    # For the worlds -------------------------------------------------------------------

    @property
    def _name_servers(self) -> tuple[str, ...]:
        """Where the NameServers listen: brokers of this cluster use these addresses."""
        return tuple(self.addresses[name] for name in self.spec.name_server_names)

    @property
    def _controllers(self) -> tuple[str, ...]:
        """Where the controllers listen: brokers of this cluster use these addresses."""
        return tuple(self.addresses[name] for name in self.spec.controller_names)

    def _reached_at(self, name: str) -> str:
        """The address that clients use for node *name*."""
        return self.spec.reached_at(self.addresses[name])

    @property
    def known_names(self) -> tuple[str, ...]:
        """The names that verbs accept: nodes, and clients that were started here."""
        return (*self.node_names, *self.client_names)

    def _address_of(self, name: str) -> str:
        """Where server *name* listens.  Raises ``UnknownNode``, also for a client's name."""
        if name not in self.node_names:
            raise UnknownNode(name, self.node_names)
        if name not in self.addresses:
            raise ConnectionRefusedError(f"{name} was never started")
        return self.addresses[name]

    def _named(self, *names: str) -> tuple[str, ...]:
        """*names* in start order; without any, all nodes.  Raises ``UnknownNode``."""
        known = self.known_names
        for name in names:
            if name not in known:
                raise UnknownNode(name, known)
        wanted = names or self.node_names
        return tuple(name for name in known if name in wanted)


@contextmanager
def undone_by(undo: Callable[P, object], *given: P.args, **named: P.kwargs) -> Iterator[None]:
    """The result of a verb that has taken effect: *undo* is called at the end of its ``with``.

    Without ``with`` nothing is undone.
    """
    try:
        yield
    finally:
        undo(*given, **named)


async def perform(
    world: World,
    verb: Callable[P, MaybeAwaitable[T]],
    *arguments: P.args,
    **options: P.kwargs,
) -> T:
    """Carry out *verb*, a method of *world*, from a trio task; returns its result.

    The verb of a world that blocks runs in a thread, so that other tasks go on.
    """
    call = partial(verb, *arguments, **options)
    if world.blocks:
        import trio  # noqa: PLC0415  # `up` starts processes before it loads trio

        return await maybe_await(await trio.to_thread.run_sync(call))
    return await maybe_await(call())


async def maybe_await(result: MaybeAwaitable[T]) -> T:
    """The result of a verb, awaited if it is an awaitable."""
    return await result if isinstance(result, Awaitable) else result
