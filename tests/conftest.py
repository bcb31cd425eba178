"""Settings and fixtures for all tests."""

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

# No deadline for an example: a slow one shows only that the machine is busy.
hypothesis.settings.register_profile(
    "any_machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any_machine")

# In the background of a shell this process ignores Ctrl-C, and programs that tests start would
# inherit that.  But tests interrupt such programs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


SLOW_FILES = (  # begun first: at the end one of two workers would wait for the other
    "test_wheel.py",
    "test_tables_agree.py",
    "test_source_of_a_killed_query.py",
    "test_live_example.py",
    "test_library_same_bytes.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of ``SLOW_FILES`` first; the others keep their order."""
    place = {name: number for number, name in enumerate(SLOW_FILES)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of pages; they are skipped if there is none."""
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
    """One pool for all tests, because a process needs half a second to load; no run may crash."""
    from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool  # noqa: PLC0415  # see above

    with RunPool() as running:
        yield running


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests, because its start takes seconds; skipped if there is no Spark."""
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
    from rocketmq_emulator.pipeline.tables.folder import INTERPRETED, SMALL  # noqa: PLC0415

    settings = {"spark.default.parallelism": "2", "spark.sql.shuffle.partitions": "2"}
    session = spark_session("tests", cores=2, settings=SMALL | INTERPRETED | settings)
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """End the thread of the clients after each module: other tests need trio without it."""
    yield
    if "rocketmq_emulator.portal.portal" in sys.modules:
        from rocketmq_emulator.portal import portal  # noqa: PLC0415  # see above

        portal.end()
