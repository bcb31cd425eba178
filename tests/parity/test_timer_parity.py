"""Timer messages and recalls at a real broker: its answers are still the recorded ones.

A broker on a busy machine indexes and delivers late: a pull is repeated until it returns as many
messages as were recorded.  ``RECORD=1`` overwrites the recording; it needs an idle machine.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
import trio

from benchmarks.clusters import ROOT, ClusterNotUp, running
from tests.parity.broker_connection import BrokerConnection
from tests.parity.differences import agree
from tests.parity.timer_steps import LATE_MS_MAX, SETTINGS, answers_of, record, recorded

INDEXED_S = 0.05
BUSY_S_MAX = 120.0  # for one answer
BUSY_LATE_MS_MAX = 3_600_000


@pytest.mark.parity
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_a_real_broker_keeps_its_time_as_it_was_recorded(release: str) -> None:
    script = str(ROOT / "benchmarks" / "real_cluster.py")
    command = [sys.executable, script, "--version", release, "--brokers", "1"]
    for name, value in SETTINGS.items():
        command += ["--set", f"{name}={value}"]
    is_recording = os.environ.get("RECORD") == "1"
    before = {} if is_recording else recorded(release)
    try:
        with running(command) as cluster:
            connection = BrokerConnection(cluster.brokers["broker-a"])
            answers = trio.run(
                functools.partial(
                    answers_of,
                    is_whole=brings_as_many_as(before),
                    late_ms_max=LATE_MS_MAX if is_recording else BUSY_LATE_MS_MAX,
                ),
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
    if is_recording:
        record(release, answers)
        before = recorded(release)
    assert answers.keys() == before.keys()
    assert {t: (before[t], a) for t, a in answers.items() if not agree(before[t], a)} == {}


def brings_as_many_as(before: dict[str, Any]) -> Callable[[str, Any], bool]:
    """A function: whether an answer has as many messages as in *before*, or time has run out."""
    asked_s: dict[str, float] = {}

    def is_whole(title: str, answer: Any) -> bool:
        since_s = asked_s.setdefault(title, time.monotonic())
        missing = messages_in(before.get(title)) - messages_in(answer)
        return missing <= 0 or time.monotonic() - since_s > BUSY_S_MAX

    return is_whole


def messages_in(answer: Any) -> int:
    body = None if answer is None else answer["body"]
    return len(body) if isinstance(body, list) else 0


def test_a_pull_is_repeated_until_it_brings_as_many_messages_as_were_recorded() -> None:
    is_whole = brings_as_many_as({"a pull": {"body": ["m1", "m2"]}, "a send": {"body": None}})
    assert not is_whole("a pull", {"body": None})
    assert not is_whole("a pull", {"body": ["m1"]})
    assert is_whole("a pull", {"body": ["m1", "m2"]})
    assert is_whole("a send", {"body": None})
    assert is_whole("another", None)
