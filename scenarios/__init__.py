"""The names for scenarios that are written in Python.  See docs/scenarios.md.

from rocketmq_emulator.scenarios import Run, nothing_lost, scenario

Each name is imported at its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if __name__ != "rocketmq_emulator.scenarios":
    raise ImportError(f"import rocketmq_emulator.scenarios instead of {__name__}", name=__name__)

if TYPE_CHECKING:
    from rocketmq_emulator.cluster.fault_values import (
        Answer,
        Bandwidth,
        Busy,
        ClockDrift,
        ClockJump,
        CutLink,
        FailingFlush,
        FullDisk,
        Kill,
        Lag,
        Partition,
        Pause,
        PowerOff,
        ReadOnly,
        RefuseConnections,
        SlowDisk,
        SlowLink,
        StallLink,
        Stop,
        Unregistered,
    )
    from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
    from rocketmq_emulator.scenarios.catalog.finding import load
    from rocketmq_emulator.scenarios.catalog.questions import Question, question
    from rocketmq_emulator.scenarios.plan.plan import Expectation, ListenerPlan, Plan
    from rocketmq_emulator.scenarios.plan.problems import BadScenario
    from rocketmq_emulator.scenarios.recording.expectations import (
        Measured,
        backlog,
        duplicates,
        failed_sends,
        idle_members,
        metric,
        nothing_lost,
        overlap_s,
        unowned_s,
    )
    from rocketmq_emulator.scenarios.recording.run import (
        RecordedCluster,
        RecordedGroup,
        Run,
        fact,
    )
    from rocketmq_emulator.scenarios.recording.scenario import Scenario, scenario
    from rocketmq_emulator.scenarios.recording.timeline import NotRecordable

AVERAGELY = "averagely"
BY_CIRCLE = "by_circle"
CONSISTENT_HASH = "consistent_hash"

_NAMES_OF = {  # by the module that has them
    "rocketmq_emulator.cluster.fault_values": (
        "Answer",
        "Bandwidth",
        "Busy",
        "ClockDrift",
        "ClockJump",
        "CutLink",
        "FailingFlush",
        "FullDisk",
        "Kill",
        "Lag",
        "Partition",
        "Pause",
        "PowerOff",
        "ReadOnly",
        "RefuseConnections",
        "SlowDisk",
        "SlowLink",
        "StallLink",
        "Stop",
        "Unregistered",
    ),
    "rocketmq_emulator.protocol.bodies.extensions": ("ReplyRule",),
    "rocketmq_emulator.scenarios.catalog.finding": ("load",),
    "rocketmq_emulator.scenarios.plan.plan": (
        "Expectation",
        "ListenerPlan",
        "Plan",
    ),
    "rocketmq_emulator.scenarios.plan.problems": ("BadScenario",),
    "rocketmq_emulator.scenarios.catalog.questions": (
        "Question",
        "question",
    ),
    "rocketmq_emulator.scenarios.recording.timeline": ("NotRecordable",),
    "rocketmq_emulator.scenarios.recording.run": (
        "RecordedCluster",
        "RecordedGroup",
        "Run",
        "fact",
    ),
    "rocketmq_emulator.scenarios.recording.expectations": (
        "Measured",
        "backlog",
        "duplicates",
        "failed_sends",
        "idle_members",
        "metric",
        "nothing_lost",
        "overlap_s",
        "unowned_s",
    ),
    "rocketmq_emulator.scenarios.recording.scenario": (
        "Scenario",
        "scenario",
    ),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}

__all__ = [
    "AVERAGELY",
    "BY_CIRCLE",
    "CONSISTENT_HASH",
    "Answer",
    "BadScenario",
    "Bandwidth",
    "Busy",
    "ClockDrift",
    "ClockJump",
    "CutLink",
    "Expectation",
    "FailingFlush",
    "FullDisk",
    "Kill",
    "Lag",
    "ListenerPlan",
    "Measured",
    "NotRecordable",
    "Partition",
    "Pause",
    "Plan",
    "PowerOff",
    "Question",
    "ReadOnly",
    "RecordedCluster",
    "RecordedGroup",
    "RefuseConnections",
    "ReplyRule",
    "Run",
    "Scenario",
    "SlowDisk",
    "SlowLink",
    "StallLink",
    "Stop",
    "Unregistered",
    "backlog",
    "duplicates",
    "fact",
    "failed_sends",
    "idle_members",
    "load",
    "metric",
    "nothing_lost",
    "overlap_s",
    "question",
    "scenario",
    "unowned_s",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"rocketmq_emulator.scenarios has no {name}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value  # later uses do not call this function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
