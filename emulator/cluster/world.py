"""The verbs of a running cluster, with one meaning in every world.

A world runs a ``ClusterSpec``: as operating-system processes, embedded in one thread, or on
virtual machines.  ``World`` says what each verb means; ``CAPABILITIES`` says which world has
which verb, so that a scenario is refused when it is loaded and not in its middle.  A verb
that a world does not have raises ``CannotDo``.

The real worlds block their caller, because users call them from plain code.  Virtual time
moves only while its caller waits, so there the verbs that take time are coroutines.  Hence
such a verb returns its result or an awaitable of it, and each world narrows that to the one
that it has.  ``perform`` hides the difference from code that runs under trio in every world.

Verbs say what state is wanted: to start what runs, or to kill what is dead, does nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, ParamSpec, TypeAlias, TypeVar, get_args

from rocketmq_emulator.protocol.error_families import CannotDoHere, Misuse, NobodyAnswered, public

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

START_S_MAX = 30.0  # without a sign of progress, from the start of a node to its being ready
STOP_S_MAX = 8.0  # an orderly stop that takes longer ends with a kill

P = ParamSpec("P")
T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]  # the result, or what gives it when it is awaited


@public
class CannotDo(CannotDoHere):
    """A verb was called that this world does not have; ``instead`` names the worlds that do."""

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
    """A verb names a node that is not there; *near* is the one that was probably meant."""

    def __init__(self, name: str, known: Iterable[str], near: str = "") -> None:
        advice = f"; did you mean {near}?" if near else ""
        text = f"there is no node named {name!r}; there are {', '.join(known)}{advice}"
        super().__init__(text)
        self.name = name


@public
class NotReady(NobodyAnswered):
    """Nodes run, are not ready, and have shown no progress for *after_s*."""

    def __init__(self, after_s: float, names: Iterable[str]) -> None:
        super().__init__(f"not ready after {after_s:g} s: {', '.join(names)}")


@public
class ClusterEnded(CannotDoHere):
    """A node was to be started while its cluster ends, or after that."""


@public
class NotStarted(Misuse):
    """A cluster is used outside of its ``with``; the text says how to start it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: start it first, `with Cluster(…) as cluster:`")


class World(ABC):
    """A cluster and what can be done to its nodes, by name.

    ``kind`` says which world it is.  ``blocks``: its verbs return None when they are done;
    otherwise those that take time return an awaitable.  ``keeps_memory``: what a node stored
    is there after a restart although the spec has no ``store``; otherwise such a node begins
    empty, because its memory went with its process.
    """

    kind: ClassVar[WorldKind]
    blocks: ClassVar[bool]
    keeps_memory: ClassVar[bool]
    spec: ClusterSpec
    links: Proxies | None = None  # the proxies before its nodes, where there are any

    @classmethod
    def can(cls, verb: Verb) -> bool:
        """Does this world have *verb*?  Known without starting anything."""
        return cls.kind in CAPABILITIES[verb]

    # What it is -----------------------------------------------------------------------

    @property
    def namesrv(self) -> str:
        """The NameServers' addresses as clients take them: ``host:port;host:port``.

        Raises ``NotStarted`` before the first start.
        """
        addresses = self.addresses
        if missing := [name for name in self.spec.name_server_names if name not in addresses]:
            raise NotStarted(f"{missing[0]} has no address yet")
        return ";".join(map(self._reached_at, self.spec.name_server_names))

    @property
    def brokers(self) -> dict[str, str]:
        """Brokers' addresses, ``host:port`` by name."""
        return {name: self._reached_at(name) for name in self.spec.broker_names}

    @property
    @abstractmethod
    def addresses(self) -> Mapping[str, str]:
        """Where every node listens, or listened when it ran last; ``host:port`` by name."""

    @property
    def node_names(self) -> tuple[str, ...]:
        """The spec's nodes, in the order of starting."""
        return (*self.spec.name_server_names, *self.spec.broker_names)

    @property
    def client_names(self) -> tuple[str, ...]:
        """Clients that are processes of this world, so that its verbs take them."""
        return ()

    @abstractmethod
    def is_running(self, name: str) -> bool:
        """Is there a process, paused or not?"""

    @abstractmethod
    def is_paused(self, name: str) -> bool:
        """Does its process stand still?"""

    @abstractmethod
    def add_clock_error(self, name: str, error: ClockError) -> None:
        """What faults add to the error of its wall clock, beside ``skew_clock``."""

    @property
    def has_links(self) -> bool:
        """Does it carry out faults of links?"""
        return self.can("link")

    # What can be done to it -----------------------------------------------------------

    @abstractmethod
    def start(self, *names: str) -> MaybeAwaitable[None]:
        """Start those that do not run; with no name all of them.  Done when they are ready.

        A node that ran before listens where it listened, on what it stored.  A machine
        without power is switched on.  Raises what the node could not do, or ``NotReady``.
        """

    @abstractmethod
    def stop(self, *names: str) -> MaybeAwaitable[None]:
        """An orderly end of these, or of all: brokers first, and they unregister.

        A paused node is resumed for it.  One that has not ended after 8 s is killed.
        """

    @abstractmethod
    def kill(self, name: str) -> None:
        """The process ends at once, unregistering nowhere, as by ``kill -9``.

        Messages stay; tables that it saves every few seconds, as committed offsets, are as they
        were saved last.  Its peers see their connections close.
        """

    @abstractmethod
    def restart(self, name: str) -> MaybeAwaitable[None]:
        """Kill it if it runs, then start it.  For an orderly restart ``stop`` it first."""

    @abstractmethod
    def pause(self, name: str) -> None:
        """The process stands still, as by SIGSTOP: its connections stay open, it answers nothing.

        What is sent to it waits, its timers fall due meanwhile, its clock goes on.
        """

    @abstractmethod
    def resume(self, name: str) -> None:
        """A paused process goes on with all that came meanwhile."""

    def power_off(self, name: str) -> None:
        """The machine loses power: what was not flushed is lost, and no peer is told.

        Connections stay open on the other side until that side gives up.
        """
        raise CannotDo(self.kind, "power_off", name)

    def power_on(self, name: str) -> MaybeAwaitable[None]:
        """A machine without power boots, and its node starts.  Done when the node is ready."""
        raise CannotDo(self.kind, "power_on", name)

    def link(self, rule: Rule) -> AbstractContextManager[None]:
        """Inside the ``with``, *rule* holds between machines: slow, stalled, refusing or cut."""
        raise CannotDo(self.kind, "link", str(rule.verdict))

    def drive(self, name: str, fault: DriveFault) -> AbstractContextManager[None]:
        """Inside the ``with``, *fault* holds at the node's drive: full, slow or failing."""
        raise CannotDo(self.kind, "drive", f"{fault.condition} of {name}")

    @abstractmethod
    def skew_clock(self, name: str, ms: int) -> None:
        """The node's wall clock is *ms* ahead of the true time, or behind it; 0 is right again.

        It stays so through restarts.
        """

    def reset(self) -> MaybeAwaitable[None]:
        """As if it had just started, for the next test; see docs/pytest.md for what stays.

        Messages, topics, groups, offsets, queue locks, changed settings, faults and reply rules
        are gone, wrong clocks are right, nodes that are away or paused run.  Connections stay.
        """
        raise CannotDo(self.kind, "reset", "a reset")

    @abstractmethod
    def advance(self, time: str | int) -> MaybeAwaitable[int]:
        """What falls due at its brokers in the next *time* ("10m", or ms) falls due now.

        Delay levels, retries among them, and timer messages; nothing else grows older by it.
        Returns how many messages came.  Brokers that do not run, or stand still, are left out.
        Raises ``ReplyRuleRefused``.
        """

    # What its servers answer, by rules; see docs/reply-rules.md -------------------------

    @abstractmethod
    def set_reply_rule(self, node: str, rule: ReplyRule) -> MaybeAwaitable[int]:
        """Let *node* obey *rule* after those it has; returns the rule's id at that node.

        A node that restarts has no rules.  Raises ``ReplyRuleRefused``.
        """

    @abstractmethod
    def reply_rules(self, node: str) -> MaybeAwaitable[tuple[ReplyRuleState, ...]]:
        """The rules that hold at *node* with what they did, in the order they are asked."""

    @abstractmethod
    def remove_reply_rule(
        self, node: str, rule_id: int | None = None
    ) -> MaybeAwaitable[tuple[int, ...]]:
        """Remove one rule, or all; returns the ids of those that held until now."""

    @abstractmethod
    def call_server(self, node: str, call: ServerCall[T]) -> MaybeAwaitable[T]:
        """Carry out *call* at *node*.  Raises ``ReplyRuleRefused`` for what is not granted."""

    # Faults: verbs with a lifetime; see docs/faults.md ------------------------------------

    @abstractmethod
    def begin_fault(self, fault: AnyFault, for_ms: int | None = None) -> MaybeAwaitable[int]:
        """Let *fault* hold for *for_ms*, or until it is ended; returns its id.

        Raises ``CannotDo`` for what this world cannot do; then nothing has happened.
        """

    @abstractmethod
    def end_fault(self, fault_id: int) -> MaybeAwaitable[bool]:
        """What the fault changed is as before; returns whether it held until now.

        A node comes back when the last fault that keeps it down has ended.
        """

    @abstractmethod
    def end_faults(self, reason: Reason = "removed") -> MaybeAwaitable[tuple[int, ...]]:
        """End all faults, the last one first; returns the ids of those that held.

        *reason* is for the journal.
        """

    @abstractmethod
    def faults(self) -> tuple[FaultState, ...]:
        """The faults that hold, in the order in which they began."""

    @abstractmethod
    def under(
        self, fault: AnyFault
    ) -> AbstractContextManager[int] | AbstractAsyncContextManager[int]:
        """Inside the block *fault* holds, and it is healed after it, even on error.

        Gives the fault's id; in the virtual world it is an ``async with``.
        """

    @abstractmethod
    def note(self, fact: Fact) -> None:
        """Write *fact* in the name of the world itself: the node ``world`` of the journal."""

    # For the worlds -------------------------------------------------------------------

    @property
    def _name_servers(self) -> tuple[str, ...]:
        """Where they listen: so brokers beside them reach them."""
        return tuple(self.addresses[name] for name in self.spec.name_server_names)

    def _reached_at(self, name: str) -> str:
        """Where clients reach a node."""
        return self.spec.reached_at(self.addresses[name])

    def _known_names(self) -> tuple[str, ...]:
        return self.node_names

    def _address_of(self, name: str) -> str:
        """Where a server listens.  Raises ``UnknownNode``, for clients too."""
        if name not in self.node_names:
            raise UnknownNode(name, self.node_names)
        if name not in self.addresses:
            raise ConnectionRefusedError(f"{name} was never started")
        return self.addresses[name]

    def _named(self, *names: str) -> tuple[str, ...]:
        """*names*, or the spec's nodes for none, in order.  Raises ``UnknownNode``."""
        known = self._known_names()
        for name in names:
            if name not in known:
                raise UnknownNode(name, known)
        wanted = names or self.node_names
        return tuple(name for name in known if name in wanted)


async def perform(
    world: World,
    verb: Callable[P, MaybeAwaitable[T]],
    *arguments: P.args,
    **options: P.kwargs,
) -> T:
    """Carry out *verb*, a method of *world*, from a trio task; returns its result.

    A world that blocks does so in a thread, and the other tasks go on.
    """
    call = partial(verb, *arguments, **options)
    if world.blocks:
        import trio  # noqa: PLC0415  # `up` starts processes before it loads trio

        return await maybe_await(await trio.to_thread.run_sync(call))
    return await maybe_await(call())


async def maybe_await(result: MaybeAwaitable[T]) -> T:
    """The result of a verb, awaited where it has to be."""
    return await result if isinstance(result, Awaitable) else result
