"""Spark finds the format ``rocketmq`` by this package's name, without a registration.

PySpark imports every installed module whose name begins with ``pyspark_`` when a Python data
source is first asked for, and takes its ``DefaultSource``.
"""

from __future__ import annotations

from rocketmq_emulator.pipeline.source.data_source import RocketMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
