"""One Spark for all tests of the pipeline: it takes seconds to start."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pipeline.session import SparkNotHere, check_spark, spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator:
    """Two cores of this machine, and settings for small data."""
    try:
        check_spark()
    except SparkNotHere as error:
        if os.environ.get("REQUIRE_PARTS") == "1":
            raise
        pytest.skip(str(error))
    session = spark_session(
        "tests",
        cores=2,
        settings={
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    yield session
    session.stop()
