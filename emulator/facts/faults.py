"""Facts of faults injected into a cluster, and of the run of the scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

from rocketmq_emulator.facts.fact import SCHEMA_VERSION, Fact, Severity

# Faults -----------------------------------------------------------------------------------


class FaultBegan(Fact, frozen=True):
    """A fault holds from now on."""

    fault_id: int  # given by the world, from 1
    fault: str  # the fault as JSON; its kind is the member "fault"
    nodes: tuple[str, ...]  # that it affects, clients included


class FaultActed(Fact, frozen=True):
    """A fault had its first effect since it began.

    FaultEnded has the number of effects.  Kills, clock jumps and the like take effect at once.
    """

    severity: ClassVar[Severity] = "debug"

    fault_id: int  # as in FaultBegan
    what: str  # the effect: "held bytes", "refused a connection", "refused a flush" …


class FaultEnded(Fact, frozen=True):
    """A fault no longer holds: everything that it changed is as before."""

    fault_id: int  # as in FaultBegan
    reason: Literal["healed", "time is up", "removed", "run ended"]
    acted_count: int  # how often it had an effect


class NodeKilled(Fact, frozen=True):
    """A process was ended at once (kill -9), by a fault or by hand; it writes nothing more."""

    node: str  # its name: a node of the cluster, or a client


class NodePaused(Fact, frozen=True):
    """A process was paused (SIGSTOP), by a fault or by hand: its connections stay open."""

    node: str  # its name: a node of the cluster, or a client


class NodeResumed(Fact, frozen=True):
    """A paused process goes on, by hand or at the end of a fault; it was not restarted."""

    node: str  # its name: a node of the cluster, or a client


FACT_OF_VERB: Mapping[str, Callable[[str], Fact]] = {  # of a world
    "kill": NodeKilled,
    "pause": NodePaused,
    "resume": NodeResumed,
}


# Timelines of scenarios -------------------------------------------------------------------


class ActionBegan(Fact, frozen=True):
    """A step of a scenario's timeline that is no fault began: a join, a grown topic, a mark."""

    action: str  # its word: "join", "leave", "rolling_restart", "grow_topic", "mark" …
    text: str  # its fields, as in the timeline; of a mark: its text

    def sentence(self) -> str:
        """The action in the words of the timeline."""
        return f"the timeline: {self.what()}"

    def what(self) -> str:
        """The word and the fields; of a mark: its text."""
        return self.text if self.action == "mark" else f"{self.action} {self.text}".rstrip()


# Runs -------------------------------------------------------------------------------------


class RunStarted(Fact, frozen=True):
    """A scenario begins; the first line of its journal."""

    scenario: str  # its name
    plan: str  # the whole plan as JSON: enough to run it again
    parameters: str  # of the scenario, as JSON
    seed: int  # of all random choices
    world: Literal["virtual", "embedded", "processes"]  # where it runs
    release: str  # the RocketMQ release of its cluster
    code_version: str  # of the emulator: another version may run differently
    schema: int = SCHEMA_VERSION  # of this journal's facts


class RunEnded(Fact, frozen=True):
    """A scenario has ended; checkers and metrics read its journal up to this line."""

    reason: Literal["finished", "limit", "error", "interrupted"]  # how it ended
    detail: str  # the limit or the error; when finished: why it did not become quiet, or empty


class ActionRefused(Fact, frozen=True):
    """A server refused an action of the timeline, and nothing changed: an election by hand."""

    severity: ClassVar[Severity] = "warning"

    action: str  # its word: "elect"
    text: str  # its fields, as in the timeline
    reason: str

    def sentence(self) -> str:
        """The action in the words of the timeline, and why it was not done."""
        return f"the timeline: {self.action} {self.text} was refused: {self.reason}"
