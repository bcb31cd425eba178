"""What tests of the pipeline share: one Spark, as its start takes seconds, and files to sweep."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sweeping import QUESTIONS, SHORT

from rocketmq_emulator.pipeline.session import SparkUnavailable, check_spark, spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator:
    """Two cores of this machine, and settings for small data."""
    try:
        check_spark()
    except SparkUnavailable as error:
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


@pytest.fixture
def short(tmp_path) -> Path:
    """A scenario that is over in a moment."""
    file = tmp_path / "short.toml"
    file.write_text(SHORT)
    return file


@pytest.fixture
def questions(tmp_path) -> Path:
    """A file of questions."""
    file = tmp_path / "some_questions.py"
    file.write_text(QUESTIONS)
    return file
