"""The pytest plugin: fixtures ``rocketmq``, ``rocketmq_factory``, ``virtual_cluster`` and more.

Every pytest run on a machine loads this file, so it imports nothing of the emulator before a test
uses a fixture.  The fixtures are implemented in ``clusters``, ``virtual_tests`` and
``scenario_tests``.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from types import FunctionType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rocketmq_emulator.testing.clusters import Clusters, RocketMQFactory
    from rocketmq_emulator.testing.rocketmq import RocketMQ
    from rocketmq_emulator.testing.scenario_tests import ScenarioRuns
    from rocketmq_emulator.testing.virtual_tests import VirtualRuns

MARKER = (
    "rocketmq(brokers=2, slaves=…, release=…, topics=…, settings=…, strict=…, seed=…, seeds=…): "
    "the cluster of this test, see `rmqemu docs pytest`"
)
FAILED = "rocketmq_emulator.testing.clusters"
CLUSTERS = pytest.StashKey["Clusters"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; each has an ini value of the same name, which the option overrides."""
    group = parser.getgroup("rocketmq", "RocketMQ emulator")
    for name, metavar, text in (
        ("release", "RELEASE", "the RocketMQ release of clusters, as 5.3.3; 4.9.7 by default"),
        ("journals", "DIR", "folder for journals of failed tests; .pytest_cache by default"),
        ("seed", "SEED", "run tests of virtual_cluster with this seed only"),
        ("strict", "yes|no", "likely mistakes of clients are errors of the test; no by default"),
    ):
        group.addoption(f"--rocketmq-{name}", metavar=metavar, default=None, help=text)
        parser.addini(f"rocketmq_{name}", text, default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, so that ``--strict-markers`` accepts it."""
    config.addinivalue_line("markers", MARKER)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the clusters of this run."""
    if CLUSTERS in config.stash:
        config.stash[CLUSTERS].close()


@pytest.fixture
def rocketmq(request: pytest.FixtureRequest) -> Iterator[RocketMQ]:
    """A cluster over TCP, reset for this test; its options are those of the marker."""
    clusters = _clusters(request.config)
    with clusters.of_test(request.node) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def rocketmq_session(request: pytest.FixtureRequest) -> RocketMQ:
    """The cluster that ``rocketmq`` gives to tests without a marker, and resets for each.

    For fixtures of a wider scope: an application that runs through many tests.
    """
    return _clusters(request.config).shared({})


@pytest.fixture
def rocketmq_factory(request: pytest.FixtureRequest) -> Iterator[RocketMQFactory]:
    """``rocketmq_factory(brokers=…, release=…, topics=…, settings=…)`` starts another cluster.

    It ends with the test.
    """
    with _clusters(request.config).factory_of_test(request.node) as make:
        yield make


@pytest.fixture
def virtual_cluster(request: pytest.FixtureRequest) -> VirtualRuns:
    """A cluster in virtual time, for an async test written for trio; a process for each seed.

    The test function gets a ``VirtualRocketMQ``; other fixtures cannot use this one.
    """
    from rocketmq_emulator.testing.virtual_tests import VirtualRuns  # noqa: PLC0415  # see above

    return VirtualRuns(request.node)


@pytest.fixture
def run_scenario(request: pytest.FixtureRequest) -> ScenarioRuns:
    """``run_scenario("name", seeds=100, members=5)``: each seed must pass, in virtual time."""
    from rocketmq_emulator.testing.scenario_tests import ScenarioRuns  # noqa: PLC0415  # see above

    return ScenarioRuns(request.node)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Function] | None:
    """Collect async tests of ``virtual_cluster`` before plugins for async tests do."""
    if not isinstance(obj, FunctionType):
        return None
    code = obj.__code__
    if "virtual_cluster" not in code.co_varnames[: code.co_argcount]:
        return None
    if not collector.funcnamefilter(name):
        return None
    from rocketmq_emulator.testing.virtual_tests import in_virtual_time  # noqa: PLC0415  # see above

    test = in_virtual_time(obj)
    setattr(collector.obj, name, test)  # pytest runs the attribute of this name
    return list(collector._genfunctions(name, test))  # noqa: SLF001  # as other plugins do


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add history and page of a failed test: a section, files, and properties for JUnit XML."""
    clusters = sys.modules.get(FAILED)
    if clusters is None:  # no test has used a cluster
        return (yield)
    clusters.hide_frames(clusters.error_of(call))
    report = yield
    if report.failed:
        clusters.shorten(item, report, call)
        clusters.attach(item, report, call, item.config.stash.get(CLUSTERS, None))
    return report


def _clusters(config: pytest.Config) -> Clusters:
    if CLUSTERS not in config.stash:
        from rocketmq_emulator.testing.clusters import Clusters  # noqa: PLC0415  # see above

        config.stash[CLUSTERS] = Clusters(config)
    return config.stash[CLUSTERS]
