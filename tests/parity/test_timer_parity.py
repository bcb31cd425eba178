"""Timer messages and recalls at a real broker: are its answers still the recorded ones?

``RECORD=1`` writes the recording anew.
"""

from __future__ import annotations

import os
import sys
import time

import pytest
import trio
from parity.broker_connection import BrokerConnection
from parity.differences import agree
from parity.timer_story import SETTINGS, answers_of, record, recorded

from benchmarks.clusters import ROOT, ClusterNotUp, running

INDEXED_S = 0.05


@pytest.mark.parity
@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_a_real_broker_keeps_its_time_as_it_was_recorded(release: str) -> None:
    script = str(ROOT / "benchmarks" / "real_cluster.py")
    command = [sys.executable, script, "--version", release, "--brokers", "1"]
    for name, value in SETTINGS.items():
        command += ["--set", f"{name}={value}"]
    try:
        with running(command) as cluster:
            connection = BrokerConnection(cluster.brokers["broker-a"])
            answers = trio.run(
                answers_of,
                connection.invoke,
                lambda: int(time.time() * 1_000),
                trio.sleep,
                INDEXED_S,
            )
            connection.close()
    except ClusterNotUp as error:
        if os.environ.get("REQUIRE_PARTS") == "1":
            pytest.fail(f"REQUIRE_PARTS=1, but {error}")
        pytest.skip(str(error))
    if os.environ.get("RECORD") == "1":
        record(release, answers)
    before = recorded(release)
    assert answers.keys() == before.keys()
    assert {t: (before[t], a) for t, a in answers.items() if not agree(before[t], a)} == {}
