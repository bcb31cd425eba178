"""A node as tools show it: its role, its address, its state, and since when."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

NodeState: TypeAlias = Literal["starting", "running", "paused", "stopped", "dead"]
SILENT = "silent"  # in place of a state: it runs, or is in the route, and did not answer
RUNNING_STATES: tuple[NodeState, ...] = ("starting", "running", "paused")  # there is a process


class NodeView(msgspec.Struct, frozen=True):
    """One node now.

    ``starting``: it is not ready yet.  ``stopped``: it was never started, or it stopped in
    order.  ``dead``: it was killed, or it failed.
    """

    name: str
    role: str  # nameserver, controller or broker
    address: str  # where it listens, or listened in its last run; empty before its first
    pid: int | None  # None: it has no process
    state: NodeState
    since_ms: int  # wall time at which it was first seen in this state
    exit_code: int | None = None  # of a process that exited by itself
    signal: int | None = None  # the signal that ended it
    facts_left_out: int = 0  # of its journal, by a full disk; 1 while it runs: at least one


class TopicMade(msgspec.Struct, frozen=True):
    """The brokers on which a topic was created or changed, and those that lack the change.

    ``missing`` has their states; ``silent`` is that of a broker that runs and does not answer.
    ``warning`` is a sentence about them with the cure, empty if there are none.
    """

    topic: str
    brokers: tuple[str, ...]
    missing: dict[str, str]
    warning: str

    @classmethod
    def of(cls, topic: str, brokers: Sequence[str], missing: Mapping[str, str]) -> TopicMade:
        """The same, with its warning."""
        warning = ""
        if missing:
            again = "make it again when " + ("they run" if len(missing) > 1 else "it runs")
            warning = f"{topic} was not made on {named_states(missing)}: {again}"
        return cls(topic, tuple(brokers), dict(missing), warning)


def named_states(states: Mapping[str, str]) -> str:
    """``broker-b, which is dead, and broker-c, which does not answer``, from states by name."""
    return ", and ".join(
        f"{name}, which {'does not answer' if state == SILENT else f'is {state}'}"
        for name, state in states.items()
    )


class NodeCondition(NamedTuple):
    """The state of a node in its world: ``code`` is its exit code, or minus a signal."""

    state: NodeState
    pid: int | None = None
    code: int | None = None


class StateTimes:
    """Since when each node has been in its present condition."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._seen: dict[str, tuple[NodeCondition, int]] = {}

    def since_ms(self, name: str, condition: NodeCondition) -> int:
        """Wall time in ms since when *name* has been in *condition*, which was observed now."""
        seen = self._seen.get(name)
        if seen is None or seen[0] != condition:
            seen = self._seen[name] = condition, self._now_ms()
        return seen[1]


def is_stopped_by_signal(pid: int) -> bool | None:
    """Whether process *pid* is stopped by SIGSTOP; None without ``/proc``."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return stat.rpartition(b")")[2].split()[0] in (b"T", b"t")
