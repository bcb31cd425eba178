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
    from xdist.scheduler import LoadFileScheduling

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


SPARK_FILES = (  # with the fixture ``spark``: one process runs them all, because a session is dear
    "tests/pipeline/tables/test_tables_agree.py",
    "tests/pipeline/tables/test_folder.py",
    "tests/pipeline/tables/test_gold_groups.py",
    "tests/pipeline/tables/test_gold_groups_shares.py",
    "tests/pipeline/tables/test_tables_command.py",
    "tests/pipeline/tables/test_tables_silver.py",
    "tests/pipeline/source/test_data_source.py",
    "tests/pipeline/studies/test_steps.py",
    "tests/pipeline/sweep/test_sweep_command.py",
    "tests/pipeline/sweep/test_sweep_of_skew.py",
    "tests/pipeline/sweep/test_sweep_on_spark.py",
    "tests/pipeline/test_session.py",
    "tests/docs/test_tables_page.py",
)
SLOW_FILES = (  # begun first: at the end one process would wait for the other
    *SPARK_FILES,
    "tests/failover/test_failovers.py",  # waits, while two others compute
    "tests/test_wheel.py",
    "tests/pipeline/source/test_source_of_a_killed_query.py",
    "tests/examples/test_live_example.py",
    "tests/scenarios/weather/test_weather_finds_bugs.py",
    "tests/scenarios/library/test_library_same_bytes.py",
    "tests/scenarios/library/test_library.py",
    "tests/sdk/test_examples.py",
    "tests/histories/test_histories.py",
    "tests/docs/test_docs.py",
    "tests/durability/test_pair_kills.py",
    "tests/durability/test_kill_nine.py",
    "tests/tools/test_power.py",
    "tests/parity/test_broker_parity.py",
    "tests/sdk/test_every_sdk.py",
    "tests/scenarios/weather/test_weather_slaves.py",
)


def file_of(nodeid: str) -> str:
    """The file of a test, as in ``SPARK_FILES``."""
    return nodeid.partition("::")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of ``SLOW_FILES`` first; the others keep their order."""
    with_session = {file_of(item.nodeid) for item in items if "spark" in item.fixturenames}
    if not with_session <= {*SPARK_FILES}:
        raise pytest.UsageError(f"SPARK_FILES lacks {with_session - {*SPARK_FILES}}")
    place = {name: number for number, name in enumerate(SLOW_FILES)}
    items.sort(key=lambda item: place.get(file_of(item.nodeid), len(place)))


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling:
    """A file's tests run in one process, and those of all ``SPARK_FILES`` in one."""
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415  # `make test` may do without

    class OneSparkSession(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = file_of(nodeid)
            return "Spark" if file in SPARK_FILES else file

    return OneSparkSession(config, log)  # type: ignore[arg-type]  # its Producer is not public


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
def spark_parts() -> None:
    """For programs that start Spark themselves: skipped if there is no Spark."""
    from rocketmq_emulator.pipeline.session import (  # noqa: PLC0415  # most tests need no Spark
        SparkUnavailable,
        check_spark,
    )

    try:
        check_spark()
    except SparkUnavailable as error:
        if os.environ.get("REQUIRE_PARTS") == "1":
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(spark_parts) -> Iterator[SparkSession]:
    """One session for all tests, because its start takes seconds; skipped if there is no Spark."""
    del spark_parts
    from rocketmq_emulator.pipeline.session import spark_session  # noqa: PLC0415  # see above
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
