"""A fault that holds: what it is, whom it touches, and what its end will need.

``Grip`` is what the faults of one world share: which nodes they hold down, still or with a
wrong clock.  Faults of one node may begin and end in any order; what becomes of the node
follows from those that hold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from emulator.facts import FaultActed
from emulator.sim.tally import Tally

if TYPE_CHECKING:
    from emulator.clock import ClockError
    from emulator.cluster.faults.values import AnyFault
    from emulator.cluster.world import Verb, World
    from emulator.facts import Fact

T = TypeVar("T")


class Held:
    """One fault, from its beginning to its end.

    ``until_ms`` is when its time is up, if it has one.  ``tally`` counts what it did; rules
    of links share it.  ``placed`` has what it left at which node, as a rule's id; ``blocks`` ends
    what holds in a block of the world: rules of links, troubles of drives.
    """

    def __init__(
        self,
        fault_id: int,
        fault: AnyFault,
        nodes: tuple[str, ...],
        *,
        since_ms: int,
        until_ms: int | None,
        note: Callable[[Fact], object],
    ) -> None:
        self.fault_id = fault_id
        self.fault: Any = fault  # its effect knows which one it is
        self.nodes = nodes
        self.since_ms = since_ms
        self.until_ms = until_ms
        self.tally = Tally(lambda what: note(FaultActed(fault_id, what)))
        self.is_over = False
        self.placed: dict[str, Any] = {}
        self.blocks = ExitStack()

    def acted(self, what: str, times: int = 1) -> None:
        """It changed what happened; the first time is a fact."""
        self.tally.add(what, times)

    @property
    def acted_count(self) -> int:
        """How often it did."""
        return self.tally.count


class Leftover(NamedTuple):
    """What is left of a fault that ended while its node could not be asked."""

    undo: Callable[[], Awaitable[None]]
    of_process: bool  # it is gone when that process ends


class Grip:
    """What the faults of *world* do to its nodes together."""

    def __init__(self, world: World[Any]) -> None:
        self.world = world
        self.down: dict[str, list[Held]] = {}  # by node, those that keep it down
        self.comes_back: set[str] = set()  # it ran when the first of those began
        self.still: dict[str, list[Held]] = {}
        self.stays_still: set[str] = set()  # it was paused before the first of those began
        self.clocks: dict[str, dict[int, ClockError]] = {}  # by node, then by fault
        self.busy: dict[tuple[str, str], list[Held]] = {}  # by broker and pool
        self.read_only: dict[tuple[str, str], list[Held]] = {}  # by broker and topic
        self.perms: dict[tuple[str, str], int] = {}  # of those, as they were before
        self.leftovers: dict[str, list[Leftover]] = {}  # to be done when the node can answer
        self.lives: dict[str, int] = {}  # how often a node was started

    def can_answer(self, name: str) -> bool:
        """Does the node run, and does nobody hold it still?"""
        return self.world.is_running(name) and not self.world.is_paused(name)

    async def ask(self, name: str, verb: Verb | Literal["ask_server"], *arguments: Any) -> Any:
        """What *verb* returns for the node; None if that process is gone, or stands still."""
        life = self.lives.get(name)
        try:
            result = await settled(getattr(self.world, verb)(name, *arguments))
        except Exception:
            if self.can_answer(name) and self.lives.get(name) == life:
                raise
            return None
        return result if self.lives.get(name) == life else None


class Effect(ABC):
    """What a kind of fault does in every world that can do it; it waits as its world does."""

    @abstractmethod
    async def begin(self, grip: Grip, held: Held) -> None:
        """From now on it holds; what it did before an error is undone by ``end``."""

    @abstractmethod
    async def end(self, grip: Grip, held: Held) -> None:
        """What it changed is as before."""

    async def end_with_world(self, grip: Grip, held: Held) -> None:
        """As ``end``, while the nodes are about to end: nothing that ends with them matters."""
        await self.end(grip, held)

    async def renew(self, grip: Grip, held: Held, name: str) -> None:  # noqa: B027  # most need not
        """The node has been started, and *held* holds still."""

    async def go_on(self, grip: Grip, held: Held, name: str) -> None:  # noqa: B027  # most need not
        """The node stood still and goes on."""

    async def recount(self, grip: Grip, held: Held) -> None:  # noqa: B027  # most know it
        """Bring ``acted_count`` up to date where only the nodes know it."""


def let_go(holds: dict[T, list[Held]], what: T, held: Held) -> bool:
    """Is *held* the last that held *what*?"""
    holding = holds.get(what, [])
    if held not in holding:
        return False  # it did not come so far when it began
    holding.remove(held)
    if holding:
        return False
    del holds[what]
    return True


async def settled(result: Awaitable[T] | T) -> T:
    """What a verb returned, in a world that blocks, or returns once it is awaited."""
    return await result if isinstance(result, Awaitable) else result
