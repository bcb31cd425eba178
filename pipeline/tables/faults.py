"""Faults as intervals: what began, whom it touched, when it ended and why."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from emulator.facts import FaultBegan, FaultEnded
from pipeline.tables.facts import RUN, at, facts_of

ENDING = ("kill", "stop", "power_off")  # words of faults that end a process


def faults(facts: DataFrame) -> DataFrame:
    """One row a fault; ``ended_us`` is null if it held to the end."""
    began = facts_of(facts, FaultBegan).select(
        *RUN,
        "fault_id",
        F.get_json_object("fault", "$.fault").alias("word"),
        "fault",
        "nodes",
        F.col("mono_us").alias("began_us"),
        at().alias("began_at"),
    )
    ended = facts_of(facts, FaultEnded).select(
        *RUN,
        "fault_id",
        F.col("mono_us").alias("ended_us"),
        at().alias("ended_at"),
        "reason",
        "acted_count",
    )
    return began.join(ended, on=[*RUN, "fault_id"], how="left").select(
        *RUN,
        "fault_id",
        "word",
        "fault",
        "nodes",
        "began_us",
        "ended_us",
        "reason",
        "acted_count",
        "began_at",
        "ended_at",
    )
