"""Uses of Apache Spark: topics as a source, sweeps over seeds, journals as tables.

    from rocketmq_emulator.spark import TableFolder, register, sweep

Needs the extra ``spark`` (``pip install 'rocketmq-emulator[spark]'``) and Java 17 or later.  A
name is imported at its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketmq_emulator.pipeline.session import SparkUnavailable, spark_session
    from rocketmq_emulator.pipeline.source.data_source import RocketMQDataSource, register
    from rocketmq_emulator.pipeline.sweep.driving import SparkStopped, sweep
    from rocketmq_emulator.pipeline.sweep.folder import BadFolder, sweep_rows
    from rocketmq_emulator.pipeline.sweep.grid import BadGrid
    from rocketmq_emulator.pipeline.tables.facts import facts_of
    from rocketmq_emulator.pipeline.tables.folder import (
        Added,
        TableFolder,
        TableFolderBusy,
        UnknownTable,
    )
    from rocketmq_emulator.pipeline.tables.journal_files import NoJournals, run_id
    from rocketmq_emulator.pipeline.tables.run_rows import AddedRun

_NAMES_OF = {  # by module
    "rocketmq_emulator.pipeline.session": (
        "SparkUnavailable",
        "spark_session",
    ),
    "rocketmq_emulator.pipeline.source.data_source": (
        "RocketMQDataSource",
        "register",
    ),
    "rocketmq_emulator.pipeline.sweep.driving": (
        "SparkStopped",
        "sweep",
    ),
    "rocketmq_emulator.pipeline.sweep.folder": (
        "BadFolder",
        "sweep_rows",
    ),
    "rocketmq_emulator.pipeline.sweep.grid": ("BadGrid",),
    "rocketmq_emulator.pipeline.tables.facts": ("facts_of",),
    "rocketmq_emulator.pipeline.tables.folder": (
        "Added",
        "TableFolder",
        "TableFolderBusy",
        "UnknownTable",
    ),
    "rocketmq_emulator.pipeline.tables.journal_files": (
        "NoJournals",
        "run_id",
    ),
    "rocketmq_emulator.pipeline.tables.run_rows": ("AddedRun",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}

__all__ = [
    "Added",
    "AddedRun",
    "BadFolder",
    "BadGrid",
    "NoJournals",
    "RocketMQDataSource",
    "SparkStopped",
    "SparkUnavailable",
    "TableFolder",
    "TableFolderBusy",
    "UnknownTable",
    "facts_of",
    "register",
    "run_id",
    "spark_session",
    "sweep",
    "sweep_rows",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"rocketmq_emulator.spark has no {name}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
