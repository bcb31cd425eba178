"""What every test may use."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool
    from tests.support.headless import Browser

# An example may take as long as it takes: how busy the machine is says nothing about the code.
hypothesis.settings.register_profile(
    "any_machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any_machine")

# A shell lets what it runs in the background ignore Ctrl-C, and so would every program that is
# started, and interrupted, by a test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all tests of pages; they are skipped where it cannot be had."""
    from tests.sdk.toolchains import PartMissing  # noqa: PLC0415
    from tests.support.headless import Browser  # noqa: PLC0415  # most tests have no page

    try:
        browser = Browser()
    except PartMissing as reason:
        if os.environ.get("REQUIRE_PARTS") == "1":
            pytest.fail(f"REQUIRE_PARTS=1, but {reason}")
        pytest.skip(str(reason))
    yield browser
    browser.stop()


@pytest.fixture(scope="session")
def run_pool() -> Iterator[RunPool]:
    """Processes that run plans, as each takes half a second to load; for runs that end well."""
    from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool  # noqa: PLC0415  # see above

    with RunPool() as running:
        yield running


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One for all tests, as its start takes seconds: two cores, and settings for small data."""
    from rocketmq_emulator.pipeline.session import (  # noqa: PLC0415  # most tests need no Spark
        SparkUnavailable,
        check_spark,
        spark_session,
    )

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


@pytest.fixture(scope="module", autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """The thread of the clients ends with each module: other tests want to be alone with trio."""
    yield
    if "rocketmq_emulator.portal.portal" in sys.modules:
        from rocketmq_emulator.portal import portal  # noqa: PLC0415  # see above

        portal.end()
