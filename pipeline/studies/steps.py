"""The steps from a sweep's rows to the numbers of a study: each is DataFrame → DataFrame.

A *cell* is one combination of the varied parameters, a struct column of that name; its rows differ
by seed alone.  Spark reduces the rows here: a cell of a million seeds has as many quantiles as
one of a hundred.  A quantile is the value of an actual run, so it has a seed.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as W  # noqa: N817  # as PySpark's own pages name them
from pyspark.sql import functions as F  # noqa: N812

SEEDS_NAMED_MAX = 20  # of a cell's runs that did not pass


def cells_of(rows: DataFrame, varied: Sequence[str]) -> DataFrame:
    """One row per run: its *cell*, seed, verdict, reason, metrics and ``took_s``."""
    named = [F.col(f"`{name}`").alias(name) for name in varied]
    everything = F.lit(True).alias("all")  # a struct needs a field
    return rows.select(
        F.struct(*(named or [everything])).alias("cell"),
        "seed",
        "verdict",
        "reason",
        "metrics",
        "took_s",
    )


def measured(cells: DataFrame, names: Sequence[str] | None = None) -> DataFrame:
    """One row per run and metric: ``metric``, ``value``; only of *names*, if given."""
    found = cells.select("cell", "seed", F.explode("metrics").alias("metric", "value"))
    return found if names is None else found.where(F.col("metric").isin(*names))


def verdicts(cells: DataFrame) -> DataFrame:
    """One row per cell: how many runs passed, failed and had no answer, and their times."""

    def count_of(verdict: str) -> Column:
        return F.count_if(F.col("verdict") == verdict).alias(verdict)

    return cells.groupBy("cell").agg(
        F.count("*").alias("runs"),
        count_of("passed"),
        count_of("failed"),
        count_of("error"),
        F.min("seed").alias("first_seed"),
        F.max("seed").alias("last_seed"),
        F.sum("took_s").alias("took_s"),
    )


def not_passed(cells: DataFrame) -> DataFrame:
    """The first seeds of each cell that did not pass, with the reasons."""
    in_order = W.partitionBy("cell").orderBy("seed")
    is_named = F.col("place") <= SEEDS_NAMED_MAX
    return (
        cells.where(F.col("verdict") != "passed")
        .withColumn("place", F.row_number().over(in_order))
        .where(is_named)
        .select("cell", "seed", "verdict", "reason")
    )


def overview(values: DataFrame) -> DataFrame:
    """One row per metric: its range, and the share of its variance that is between cells.

    ``between`` is 1 when cells differ and runs of one cell do not, 0 when cells are alike, and
    null for a constant.
    """
    by_cell = values.groupBy("cell", "metric").agg(
        F.count("*").alias("count"),
        F.mean("value").alias("mean"),
        F.var_pop("value").alias("variance"),
        F.min("value").alias("least"),
        F.max("value").alias("most"),
    )
    runs = F.sum("count")
    mean = F.sum(F.col("count") * F.col("mean")) / runs
    within = F.sum(F.col("count") * F.col("variance")) / runs
    square = F.sum(F.col("count") * F.col("mean") * F.col("mean")) / runs
    return by_cell.groupBy("metric").agg(
        runs.alias("count"),
        F.min("least").alias("least"),
        F.max("most").alias("most"),
        mean.alias("mean"),
        ((square - mean * mean) / F.nullif(square - mean * mean + within, F.lit(0.0))).alias(
            "between"
        ),
    )


def statistics(values: DataFrame) -> DataFrame:
    """One row per cell and metric: count, mean and the sample's standard deviation."""
    return values.groupBy("cell", "metric").agg(
        F.count("*").alias("count"),
        F.mean("value").alias("mean"),
        F.stddev_samp("value").alias("deviation"),
    )


def quantiles(values: DataFrame, parts: int) -> DataFrame:
    """*parts* + 1 rows per cell and metric: ``part`` i is the quantile i / *parts*.

    Of n runs ordered by value it is number ceil(n i / parts), the first for i = 0: the smallest
    value such that at least this share of the runs has that value or less.
    """
    of_cell = W.partitionBy("cell", "metric")
    in_order = of_cell.orderBy("value", "seed")
    ranked = values.select(
        "cell",
        "metric",
        "value",
        "seed",
        F.row_number().over(in_order).alias("rank"),
        F.count("*").over(of_cell).alias("count"),
    )
    # The parts whose run has this rank: those i with rank - 1 < n i / parts <= rank.
    least = F.floor((F.col("rank") - 1) * parts / F.col("count")) + 1
    most = F.floor(F.col("rank") * parts / F.col("count"))
    is_first = F.col("rank") == 1
    first = F.when(is_first, F.lit(0)).otherwise(least)
    has_parts = F.col("first") <= F.col("last")
    return (
        ranked.withColumn("first", first)
        .withColumn("last", most)
        .where(has_parts)
        .select(
            "cell",
            "metric",
            F.explode(F.sequence("first", "last")).alias("part"),
            "value",
            "seed",
        )
    )
