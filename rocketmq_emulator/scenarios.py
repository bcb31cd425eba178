"""Script a failure: what a scenario written in Python needs.  See docs/scenarios.md.

from rocketmq_emulator.scenarios import Run, nothing_lost, scenario

A name is loaded at its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emulator.cluster.faults.values import (
        Answer,
        Bandwidth,
        Busy,
        ClockDrift,
        ClockJump,
        CutLink,
        FailingFlush,
        FullDisk,
        Kill,
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
    from protocol.bodies.reply_rules import ReplyRule
    from scenarios.finding import load
    from scenarios.plan import Expectation, ListenerPlan, Plan
    from scenarios.problems import BadScenario
    from scenarios.questions import Question, question
    from scenarios.recording.clock import NotRecordable
    from scenarios.recording.expectations import (
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
    from scenarios.recording.run import RecordedCluster, RecordedGroup, Run, fact
    from scenarios.recording.scenario import Scenario, scenario

AVERAGELY = "averagely"
BY_CIRCLE = "by_circle"
CONSISTENT_HASH = "consistent_hash"

_NAMES_OF = {  # by the module that has them
    "emulator.cluster.faults.values": (
        "Answer",
        "Bandwidth",
        "Busy",
        "ClockDrift",
        "ClockJump",
        "CutLink",
        "FailingFlush",
        "FullDisk",
        "Kill",
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
    "protocol.bodies.reply_rules": ("ReplyRule",),
    "scenarios.finding": ("load",),
    "scenarios.plan": ("Expectation", "ListenerPlan", "Plan"),
    "scenarios.problems": ("BadScenario",),
    "scenarios.questions": ("Question", "question"),
    "scenarios.recording.clock": ("NotRecordable",),
    "scenarios.recording.expectations": (
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
    "scenarios.recording.run": ("RecordedCluster", "RecordedGroup", "Run", "fact"),
    "scenarios.recording.scenario": ("Scenario", "scenario"),
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


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"rocketmq_emulator.scenarios has no {name}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
