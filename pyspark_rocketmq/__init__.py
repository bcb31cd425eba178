"""Spark finds the format ``rocketmq`` by the name of this package, without a registration.

When a program first uses a Python data source, PySpark imports all installed modules whose names
begin with ``pyspark_``, and uses their ``DefaultSource``.
"""

from __future__ import annotations

from rocketmq_emulator.pipeline.source.data_source import RocketMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
