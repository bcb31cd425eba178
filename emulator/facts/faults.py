"""What was done to a cluster on purpose, and the run in which it was done."""

from __future__ import annotations

from typing import ClassVar, Literal

from rocketmq_emulator.facts.fact import SCHEMA_VERSION, Fact, Severity

# Faults -----------------------------------------------------------------------------------


class FaultBegan(Fact, frozen=True):
    """A fault holds from now on."""

    fault_id: int  # given by the world, from 1
    fault: str  # the fault as JSON; its word is the member "fault"
    nodes: tuple[str, ...]  # whom it touches, clients included


class FaultActed(Fact, frozen=True):
    """A fault changed what happened, for the first time since it began.

    FaultEnded says how often it did.  Kills, jumps and the like act when they begin.
    """

    severity: ClassVar[Severity] = "debug"

    fault_id: int  # as in FaultBegan
    what: str  # "held bytes", "refused a connection", "refused a flush" …


class FaultEnded(Fact, frozen=True):
    """A fault holds no more: what it had changed is as before."""

    fault_id: int  # as in FaultBegan
    reason: Literal["healed", "time is up", "removed", "run ended"]
    acted_count: int  # how often it changed what happened


class NodeKilled(Fact, frozen=True):
    """A process was ended at once (kill -9), by a fault or by hand; it writes nothing more."""

    node: str  # its name: a node of the cluster, or a client


# Runs -------------------------------------------------------------------------------------


class RunStarted(Fact, frozen=True):
    """A scenario begins; the first line of its journal."""

    scenario: str  # its name
    plan: str  # the whole plan as JSON: enough to run it again
    parameters: str  # of the scenario, as JSON
    seed: int  # what chance follows from
    world: Literal["virtual", "embedded", "processes"]  # where it runs
    release: str  # the RocketMQ release of its cluster
    code_version: str  # of the emulator: another one may run another way
    schema: int = SCHEMA_VERSION  # of this journal's facts


class RunEnded(Fact, frozen=True):
    """A scenario is over; what is judged is what the journal says up to here."""

    reason: Literal["finished", "limit", "error", "interrupted"]  # how it ended
    detail: str  # which limit, which error; when finished: what did not become quiet, or empty
