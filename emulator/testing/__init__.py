"""The pytest plugin, and the types of its fixtures, for annotations.

    from rocketmq_emulator.testing import RocketMQ

    def test_an_order_is_billed(rocketmq: RocketMQ) -> None: …

A name is imported at its first use: every pytest run loads this package with the plugin.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketmq_emulator.admin.calls import AdminRefused, ClusterUnreachable
    from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
    from rocketmq_emulator.testing.clusters import RocketMQFactory
    from rocketmq_emulator.testing.group_waits import NotBalanced, NotConsumed
    from rocketmq_emulator.testing.replica_waits import NotCopied, NotTakenOver
    from rocketmq_emulator.testing.rocketmq import AsyncCluster, RocketMQ
    from rocketmq_emulator.testing.scenario_tests import ScenarioRuns
    from rocketmq_emulator.testing.virtual_rocketmq import VirtualRocketMQ

__all__ = [
    "AdminRefused",
    "AsyncCluster",
    "ClusterUnreachable",
    "NotBalanced",
    "NotConsumed",
    "NotCopied",
    "NotTakenOver",
    "RocketMQ",
    "RocketMQFactory",
    "ScenarioRuns",
    "VirtualCluster",
    "VirtualRocketMQ",
]

_MODULE_OF = {
    "AdminRefused": "rocketmq_emulator.admin.calls",
    "AsyncCluster": "rocketmq_emulator.testing.rocketmq",
    "ClusterUnreachable": "rocketmq_emulator.admin.calls",
    "NotBalanced": "rocketmq_emulator.testing.group_waits",
    "NotConsumed": "rocketmq_emulator.testing.group_waits",
    "NotCopied": "rocketmq_emulator.testing.replica_waits",
    "NotTakenOver": "rocketmq_emulator.testing.replica_waits",
    "RocketMQ": "rocketmq_emulator.testing.rocketmq",
    "RocketMQFactory": "rocketmq_emulator.testing.clusters",
    "ScenarioRuns": "rocketmq_emulator.testing.scenario_tests",
    "VirtualCluster": "rocketmq_emulator.cluster.worlds.virtual",
    "VirtualRocketMQ": "rocketmq_emulator.testing.virtual_rocketmq",
}
assert set(_MODULE_OF) == set(__all__)


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"rocketmq_emulator.testing has no {name}")
    value = globals()[name] = getattr(importlib.import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
