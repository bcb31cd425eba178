"""Hundreds of questions to a real broker: its answers are still the recorded ones.

Our own broker is compared with the recording on every machine; this test needs Java and Maven.
``RECORD=1`` overwrites the recording.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import NoReturn

import pytest

from benchmarks.clusters import ROOT, ClusterNotUp, running
from tests.parity.broker_connection import answers_of
from tests.parity.differences import agree
from tests.parity.recording import record, recorded
from tests.parity.steps import STEPS_OF


@pytest.fixture(params=["4.9.7", "5.3.3"])
def real_broker(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Release and address of a broker that has not received any request."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    script = str(ROOT / "benchmarks" / "real_cluster.py")
    command = (sys.executable, script, "--version", request.param, "--brokers", "1")
    if missing:
        _give_up(f"no {' and no '.join(missing)} on this machine")
    try:
        with running(command) as cluster:
            yield request.param, cluster.brokers["broker-a"]
    except ClusterNotUp as error:
        _give_up(str(error))


def _give_up(reason: str) -> NoReturn:
    if os.environ.get("REQUIRE_PARTS") == "1":
        pytest.fail(f"REQUIRE_PARTS=1, but {reason}")
    pytest.skip(reason)


@pytest.mark.real
@pytest.mark.parametrize(
    "name",
    [
        "parity",
        pytest.param("administration", marks=pytest.mark.parity),
        pytest.param("transactions", marks=pytest.mark.parity),
    ],
)
def test_a_real_broker_answers_as_it_was_recorded(real_broker: tuple[str, str], name: str) -> None:
    release, address = real_broker
    answers = list(answers_of(STEPS_OF[name], address))
    if os.environ.get("RECORD") == "1":
        record(release, answers, name)
    before = recorded(release, name)
    assert {q.title for q, _ in answers} == set(before)
    changed = {q.title: (before[q.title], a) for q, a in answers if not agree(before[q.title], a)}
    assert changed == {}
